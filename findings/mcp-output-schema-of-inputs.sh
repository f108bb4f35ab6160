#!/usr/bin/env bash
# mcp 2.3.0 (Python): a tool's output schema describes what its type reads, so the client refuses what the server sends.
#
# The server derives the output schema from the return type with pydantic's mode "validation", and sends the result as
# pydantic serializes it. The two differ for computed fields, for aliases of one direction, and for serializers. The
# client of the same package validates the result against the schema, so a call that succeeded ends in a RuntimeError.
# With FastMCP 4.2.3 the client reads the first two results.
#
# Output seen (Python 3.11):
#   RuntimeError: Invalid structured content returned by tool ...
#     computed:   Additional properties are not allowed ('area' was unexpected)
#     alias:      'price' is a required property
#     serializer: '2.50' is not of type 'integer'
#   plain         {'width': 2}
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
from typing import Annotated

from mcp import Client
from mcp.server.mcpserver import MCPServer
from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, computed_field


class Rectangle(BaseModel):
    model_config = ConfigDict(extra="forbid")
    width: int
    height: int

    @computed_field
    @property
    def area(self) -> int:
        return self.width * self.height


class Offer(BaseModel):
    price: int = Field(serialization_alias="cost")


class Bill(BaseModel):
    cents: Annotated[int, PlainSerializer(lambda cents: f"{cents / 100:.2f}")]


class Line(BaseModel):
    width: int


server = MCPServer("shapes")


@server.tool()
def computed() -> Rectangle:
    return Rectangle(width=2, height=3)


@server.tool()
def alias() -> Offer:
    return Offer(price=2)


@server.tool()
def serializer() -> Bill:
    return Bill(cents=250)


@server.tool()
def plain() -> Line:
    return Line(width=2)


async def main() -> bool:
    refused = {}
    async with Client(server) as client:
        for name in ("computed", "alias", "serializer", "plain"):
            try:
                result = await client.call_tool(name, {})
            except RuntimeError as error:
                refused[name] = str(error)
                print(f"{name:10} RuntimeError: {refused[name].splitlines()[0]}")
            else:
                print(f"{name:10} {result.structured_content}")
    return set(refused) == {"computed", "alias", "serializer"}


sys.exit(not asyncio.run(main()))
PYTHON
"$directory/venv/bin/python" "$directory/check.py"
