#!/usr/bin/env bash
# Codex 0.171.0: a call of a tool in a namespace is not found by its joined name.
#
# Codex sends tools of the type "namespace", which contain functions, to any server of the provider
# "responses". The members of the list are functions, and a joined name such as
# "multi_agent_v1__close_agent" is how such members are named elsewhere. Codex runs a call only if the
# item has the function's bare name, and the namespace in a member of its own; a joined name is an
# "unsupported call" that the model gets as the result.
#
# Output seen:
#   joined name: unsupported call: multi_agent_v1__close_agent
#   name and namespace: invalid agent id x: …
set -euo pipefail

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
(cd "$directory" && npm install --silent --no-audit --no-fund --prefix . @openai/codex@0.171.0)

python3 - "$directory" <<'PYTHON'
import http.server
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

DIRECTORY = Path(sys.argv[1])
NAMES = {
    "joined name": {"name": "multi_agent_v1__close_agent"},
    "name and namespace": {"name": "close_agent", "namespace": "multi_agent_v1"},
}


def result_of_call(names):
    """Run Codex against a server that answers with a call; return what the call results in."""
    outputs = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            results = [i for i in body["input"] if i.get("type") == "function_call_output"]
            outputs.extend(str(item["output"]) for item in results)
            text = {"type": "output_text", "text": "Done.", "annotations": []}
            item = {"type": "message", "id": "m1", "role": "assistant", "content": [text]}
            if not results:
                call = {"call_id": "c1", "arguments": '{"target": "x"}', **names}
                item = {"type": "function_call", "id": "f1", **call}
            counts = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
            details = {"input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0}}
            details["output_tokens_details"] = {"reasoning_tokens": 0}
            response = {"id": "r1", "output": [item], "usage": {**counts, **details}}
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            for event in (
                {"type": "response.created", "response": {"id": "r1"}},
                {"type": "response.output_item.done", "output_index": 0, "item": item},
                {"type": "response.completed", "response": response},
            ):
                self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    home = DIRECTORY / f"home{len(names)}"
    home.mkdir()
    url = f"http://127.0.0.1:{server.server_port}/v1"
    provider = f'{{name="local",base_url="{url}",wire_api="responses",env_key="OPENAI_API_KEY"}}'
    options = ["-c", "model_provider=local", "-c", f"model_providers.local={provider}"]
    program = DIRECTORY / "node_modules" / ".bin" / "codex"
    subprocess.run(
        [program, "exec", "--skip-git-repo-check", *options, "-m", "local", "hello"],
        cwd=home,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "CODEX_HOME": str(home),
            "OPENAI_API_KEY": "none",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=180,
    )
    server.shutdown()
    return outputs[0] if outputs else "no result"


found = {how: result_of_call(names) for how, names in NAMES.items()}
for how, result in found.items():
    print(f"{how}: {result[:80]}")
joined, apart = found.values()
sys.exit(0 if "unsupported call" in joined and "unsupported" not in apart else 1)
PYTHON
