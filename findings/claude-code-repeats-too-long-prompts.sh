#!/usr/bin/env bash
# Claude Code 2.1.332: a 400 for a prompt that is too long is repeated, unless it has one wording.
#
# ANTHROPIC_BASE_URL lets other servers answer. An error of the type invalid_request_error with the
# status 400 says that the same request fails again. Claude Code sends it six times all the same, each
# time with its whole prompt. It stops after the first answer only if the message is worded as
# "prompt is too long: N tokens > M maximum". Other servers have to use these words.
#
# Output seen:
#   the prompt has 9004 tokens, the context has 4096: 6 request(s)
#   prompt is too long: 9004 tokens > 4095 maximum: 1 request(s)
set -euo pipefail

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
(cd "$directory" && npm install --silent --no-audit --no-fund --prefix . @anthropic-ai/claude-code@2.1.332)

python3 - "$directory" <<'PYTHON'
import http.server
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

DIRECTORY = Path(sys.argv[1])
MESSAGES = (
    "the prompt has 9004 tokens, the context has 4096",
    "prompt is too long: 9004 tokens > 4095 maximum",
)


def requests_until_the_end(message):
    """Run Claude Code against a server that refuses every prompt; return the number of requests."""
    count = 0

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            nonlocal count
            count += 1
            self.rfile.read(int(self.headers.get("content-length") or 0))
            error = {"type": "invalid_request_error", "message": message}
            body = json.dumps({"type": "error", "error": error}).encode()
            self.send_response(400)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    home = DIRECTORY / f"home{MESSAGES.index(message)}"
    home.mkdir()
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{server.server_port}",
        "ANTHROPIC_API_KEY": "none",
        "ANTHROPIC_MODEL": "local",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    program = DIRECTORY / "node_modules" / ".bin" / "claude"
    subprocess.run(
        [program, "-p", "hello"],
        cwd=home,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=180,
    )
    server.shutdown()
    return count


found = [requests_until_the_end(message) for message in MESSAGES]
for message, number in zip(MESSAGES, found):
    print(f"{message}: {number} request(s)")
sys.exit(0 if found[0] > 1 and found[1] == 1 else 1)
PYTHON
