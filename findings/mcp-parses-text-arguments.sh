#!/usr/bin/env bash
# mcp 2.3.0 (Python): a text argument whose type is not `str` alone is parsed as JSON before it is validated.
#
# The server does this for clients that send lists and objects as texts. It spares an argument only if its annotation is
# `str` itself. For `str | None` the text "null" is None, and a text that is a JSON array or object is refused as no
# string: an editor's tool cannot write a JSON file. For `str | list[str]` such a text becomes a list. The tool's input
# schema admits these texts. FastMCP 4.2.3 passes them on as they are.
#
# Output seen (Python 3.11):
#                          str                   str | None             str | list[str]
#   null                   'null'                None                   refused
#   ["a"]                  '["a"]'               refused                ['a']
#   {"name": "demo"}       '{"name": "demo"}'    refused                refused
#   true                   'true'                'true'                 'true'
#
# Exit status: 0 if the behaviour is as described, 1 if it has changed.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
python3 -m venv "$directory/venv"
"$directory/venv/bin/pip" install --quiet --disable-pip-version-check mcp==2.3.0 pydantic==2.14.4

cat >"$directory/check.py" <<'PYTHON'
import asyncio
import sys

from mcp import Client
from mcp.server.mcpserver import MCPServer

server = MCPServer("files")


@server.tool()
def text(content: str) -> str:
    return repr(content)


@server.tool()
def optional(content: str | None = None) -> str:
    return repr(content)


@server.tool()
def lines(content: str | list[str]) -> str:
    return repr(content)


expected = {
    "null": ["'null'", "None", "refused"],
    '["a"]': ["'[\"a\"]'", "refused", "['a']"],
    '{"name": "demo"}': ["'{\"name\": \"demo\"}'", "refused", "refused"],
    "true": ["'true'", "'true'", "'true'"],
}


async def main() -> bool:
    found = {}
    async with Client(server) as client:
        for content in expected:
            found[content] = []
            for name in ("text", "optional", "lines"):
                result = await client.call_tool(name, {"content": content})
                found[content].append("refused" if result.is_error else result.content[0].text)
            print(f"{content:20}", *(f"{verdict:22}" for verdict in found[content]))
    return found == expected


sys.exit(not asyncio.run(main()))
PYTHON
"$directory/venv/bin/python" "$directory/check.py" 2>/dev/null
