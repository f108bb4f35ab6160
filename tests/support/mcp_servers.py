"""MCP servers: one in this process, and two public ones that run as programs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

from mcp import StdioServerParameters
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.types import CallToolResult, ImageContent, TextContent

from proxy_engine.runtime.cache_directory import build_once
from state_machines.compiled_library import cache_directory

__all__ = ["PNG", "everything_server", "growing_server", "time_server"]

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""An image of one pixel, in base64."""

_EVERYTHING = "@modelcontextprotocol/server-everything@2026.8.31"
_TIME = "mcp-server-time==2026.10.19"
_SECONDS = 240


def growing_server(name: str = "growing") -> MCPServer:
    """Return a server whose tool ``grow`` adds the tool ``grown``."""
    server = MCPServer(name)

    @server.tool()
    def echo(text: str) -> str:
        """Say it again."""
        return f"{name}: {text}"

    @server.tool()
    async def grow(ctx: Context) -> str:
        def grown() -> int:
            return 7

        server.add_tool(grown)
        await ctx.notify_tools_changed()
        await ctx.session.send_tool_list_changed()
        return "grown"

    @server.tool()
    def shrink() -> str:
        server.remove_tool("echo")
        return "shrunk"

    @server.tool()
    def picture() -> CallToolResult:
        image = ImageContent(data=PNG, mime_type="image/png")
        return CallToolResult(content=[TextContent(text="Here it is."), image])

    @server.tool()
    def fail() -> CallToolResult:
        return CallToolResult(content=[TextContent(text="out of milk")], is_error=True)

    return server


@cache
def everything_server() -> StdioServerParameters | None:
    """Return the reference server of the protocol; ``None`` if it cannot be installed."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        return None

    def install(directory: Path) -> None:
        command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix"]
        _run([*command, str(directory), _EVERYTHING])

    directory = _installed("mcp-server-everything-2026.8.31", install)
    if directory is None:
        return None
    return StdioServerParameters(
        command=str(directory / "node_modules" / ".bin" / "mcp-server-everything")
    )


@cache
def time_server() -> StdioServerParameters | None:
    """Return a public server in Python; ``None`` if it cannot be installed."""

    def install(directory: Path) -> None:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--target"]
        _run([*command, str(directory), _TIME])

    directory = _installed(_TIME.replace("==", "-"), install)
    if directory is None:
        return None
    return StdioServerParameters(
        command=sys.executable, args=["-m", "mcp_server_time"], env={"PYTHONPATH": str(directory)}
    )


def _installed(name: str, install: Callable[[Path], None]) -> Path | None:
    try:
        return build_once(cache_directory() / "test-data" / name, install)
    except (OSError, subprocess.SubprocessError):
        return None


def _run(command: list[str]) -> None:
    subprocess.run(
        command, check=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS
    )
