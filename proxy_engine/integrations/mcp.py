"""Tools of servers of the Model Context Protocol (MCP).

::

    from mcp import StdioServerParameters
    from proxy_engine import InferenceEngine
    from proxy_engine.integrations.mcp import mcp_tools

    engine = InferenceEngine()
    server = StdioServerParameters(command="uvx", args=["mcp-server-time"])
    with mcp_tools(server) as tools:
        print(engine.run_tools("What time is it in Oslo?", tools).result.text)

``async with`` is for event loops, with ``await engine.arun_tools(...)``.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Self, overload

from ..errors import EventLoopBlockedError, InvalidOptionError, InvalidToolError
from ..runtime.extras import requires_extra
from ..tools import Tool
from ..tools.schema_repairs import repaired_schema
from .mcp_results import tool_result

with requires_extra("mcp", purpose="mcp_tools"):
    from anyio.from_thread import start_blocking_portal
    from mcp import Client, ClientSession, MCPError
    from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost, listen
    from mcp.types import CallToolResult, PaginatedRequestParams
    from mcp.types import Tool as ListedTool

_log = logging.getLogger(__name__)

_MAX_NAME = 128
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_.-]+")
_MAX_PAGES = 1000
_LIST_CHANGED = "notifications/tools/list_changed"


def mcp_tools(*servers: Any, prefix: bool = False, timeout: float | None = 60) -> McpTools:
    """Return the tools of MCP servers, as a context manager that gives a sequence of tools.

    ``with`` runs the connections on a thread, for ``run_tools``. ``async with`` uses the running
    event loop, for ``arun_tools``.

    Args:
        servers: Each is a ``ClientSession`` or a ``Client`` that is connected, or what ``Client``
            connects to: ``StdioServerParameters``, a URL, a transport. A mapping gives names to
            several of them. Connected servers belong to an event loop and need ``async with``.
        prefix: Whether the names of all tools begin with the name of their server. Without it, only
            names that several servers have do.
        timeout: Seconds within which a server has to answer; ``None``: no limit.

    Raises:
        InvalidOptionError: There is no server, or two have the same name.
    """
    named: dict[str, Any] = {}
    unnamed: list[Any] = []
    for server in servers:
        if not isinstance(server, Mapping):
            unnamed.append(server)
            continue
        if twice := named.keys() & server.keys():
            raise InvalidOptionError(f"two servers have the name {min(twice)!r}", option="servers")
        named |= server
    connections = [_McpServer(name, source) for name, source in named.items()]
    connections += [_McpServer(None, source) for source in unnamed]
    if not connections:
        raise InvalidOptionError("there is no MCP server", option="servers")
    return McpTools(connections, prefix=prefix, timeout=timeout)


@dataclass(eq=False)
class _McpServer:
    """A server and the tools that it lists.

    Attributes:
        label: The name that the caller gave to it, later the name in front of its tools.
        source: The argument of the caller: a session, a program, a URL or a server object.
        session: The session; ``None`` before it is connected.
        call: Calls a tool.
        listed: The tools that it lists.
    """

    label: str | None
    source: Any
    session: ClientSession | None = None
    call: Callable[..., Coroutine[Any, Any, Any]] | None = None
    listed: list[ListedTool] = field(default_factory=list)


class McpTools(Sequence[Tool]):
    """The tools of MCP servers. Each request reads the tools that the servers list at that time.

    A notification that a server's list has changed is followed. A call of a tool that is gone has
    an error as its result.

    Attributes:
        left_out: The tools that cannot be called, by name, with the reason.
    """

    def __init__(self, servers: list[_McpServer], *, prefix: bool, timeout: float | None) -> None:
        self._servers = servers
        self._prefix = prefix
        self._timeout = timeout
        self._names: dict[tuple[int, str], str] = {}
        self._tools: tuple[Tool, ...] = ()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._stack: AsyncExitStack | None = None
        self._portal: ExitStack | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.left_out: dict[str, InvalidToolError] = {}

    @overload
    def __getitem__(self, index: int) -> Tool: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Tool]: ...
    def __getitem__(self, index: int | slice) -> Tool | Sequence[Tool]:
        return self._tools[index]

    def __len__(self) -> int:
        return len(self._tools)

    def __iter__(self) -> Iterator[Tool]:
        # The list may change meanwhile.
        return iter(self._tools)

    def __enter__(self) -> Self:
        for server in self._servers:
            if isinstance(server.source, Client | ClientSession):
                raise InvalidOptionError(
                    "a connected session belongs to an event loop",
                    option="servers",
                    hint="Use async with, or give the server's StdioServerParameters or URL.",
                )
        with ExitStack() as stack:
            portal = stack.enter_context(start_blocking_portal("asyncio"))
            stack.enter_context(portal.wrap_async_context_manager(self))
            self._portal = stack.pop_all()
        return self

    def __exit__(self, *exception: Any) -> None:
        if self._portal is not None:
            self._portal.close()

    async def __aenter__(self) -> Self:
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        async with AsyncExitStack() as stack:
            for server in self._servers:
                await self._connect(server, stack)
            stack.push_async_callback(self._end_tasks)
            await self.refresh()
            for server in self._servers:
                self._follow(server, stack)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *exception: Any) -> None:
        if self._stack is not None:
            await self._stack.aclose()

    async def refresh(self) -> None:
        """List the tools of all servers again."""
        for server in self._servers:
            await self._list(server)
        self._rebuild()

    async def _connect(self, server: _McpServer, stack: AsyncExitStack) -> None:
        client = server.source
        if not isinstance(client, Client | ClientSession):
            client = Client(client, read_timeout_seconds=self._timeout)
            async with asyncio.timeout(self._timeout):
                await stack.enter_async_context(client)
            _accept_results(client.session)
        server.call = client.call_tool
        server.session = client.session if isinstance(client, Client) else client

    async def _list(self, server: _McpServer) -> None:
        assert server.session is not None
        listed: list[ListedTool] = []
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            params = None if cursor is None else PaginatedRequestParams(cursor=cursor)
            async with asyncio.timeout(self._timeout):
                page = await server.session.list_tools(params=params)
            listed += page.tools
            cursor = page.next_cursor
            if cursor is None:
                break
        server.listed = listed

    def _rebuild(self) -> None:
        """Make the tools out of the lists of the servers. A tool keeps its name."""
        self._name_servers()
        shared = Counter(
            name for server in self._servers for name in {t.name for t in server.listed}
        )
        left_out: dict[str, InvalidToolError] = {}
        tools = {}
        for index, server in enumerate(self._servers):
            for listed in server.listed:
                key = index, listed.name
                if key not in self._names:
                    has_prefix = self._prefix or shared[listed.name] > 1
                    self._names[key] = self._free_name(server, listed.name, has_prefix=has_prefix)
                name = self._names[key]
                try:
                    tools[name] = self._tool(server, name, listed)
                except InvalidToolError as error:
                    left_out[name] = error
                    if name not in self.left_out:
                        _log.warning("the tool %r of an MCP server is left out: %s", name, error)
        self.left_out = left_out
        self._tools = tuple(tools.values())

    def _name_servers(self) -> None:
        for number, server in enumerate(self._servers, 1):
            info = server.session.server_info if server.session is not None else None
            server.label = server.label or (info.name if info is not None else f"server{number}")

    def _free_name(self, server: _McpServer, name: str, *, has_prefix: bool) -> str:
        full = f"{server.label}__{name}" if has_prefix else name
        plain = _NOT_IN_NAMES.sub("_", full)[:_MAX_NAME] or "tool"
        taken = set(self._names.values())
        numbered = (f"{plain[: _MAX_NAME - 6]}_{number}" for number in count(2))
        return plain if plain not in taken else next(n for n in numbered if n not in taken)

    def _tool(self, server: _McpServer, name: str, listed: ListedTool) -> Tool:
        schema, places = repaired_schema(listed.input_schema)
        if places:
            _log.info("the schema of the tool %r is repaired at %s", name, ", ".join(places))
        call = _RemoteCall(self, server, listed.name)
        tool = Tool(name, listed.description or "", schema, function=call)
        tool.check_schema()
        return tool

    async def request(self, server: _McpServer, name: str, arguments: dict[str, Any]) -> Any:
        """Call a tool from any event loop, and return its result for the model."""
        assert self._loop is not None
        assert server.call is not None
        call = server.call(name, arguments, read_timeout_seconds=self._timeout)
        if asyncio.get_running_loop() is self._loop:
            result = await call
        else:
            result = await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call, self._loop))
        return tool_result(name, result)

    def check_thread(self) -> None:
        """Raise on the connections' own thread, which would wait for itself."""
        if self._thread == threading.get_ident():
            raise EventLoopBlockedError(
                "a tool of an MCP server was called on the thread of its event loop",
                hint="Use await engine.arun_tools(...), or with mcp_tools(...) in place of async "
                "with.",
            )

    def _follow(self, server: _McpServer, stack: AsyncExitStack) -> None:
        """List the tools again whenever the server says that its list has changed."""
        session = server.session
        assert session is not None
        handler = getattr(session, "_message_handler", None)
        if handler is None:
            _log.warning("changes of the tools of an MCP server are not followed; use refresh()")
            return

        async def handle(message: Any) -> None:
            if getattr(message, "method", None) == _LIST_CHANGED:
                # A handler that waits for an answer would block the answer.
                self._start(self._update(server))
            await handler(message)

        session._message_handler = handle
        stack.callback(setattr, session, "_message_handler", handler)
        capabilities = session.server_capabilities
        if capabilities is not None and capabilities.tools and capabilities.tools.list_changed:
            # Since 2026-07-28, a client has to ask for the notifications.
            self._start(self._listen(server))

    async def _listen(self, server: _McpServer) -> None:
        assert server.session is not None
        try:
            async with listen(server.session, tools_list_changed=True) as changes:
                async for _ in changes:
                    await self._update(server)
        except ListenNotSupportedError:
            pass
        except (SubscriptionLost, MCPError, TimeoutError) as error:
            _log.warning("changes of the tools of an MCP server are no longer followed: %s", error)

    async def _update(self, server: _McpServer) -> None:
        try:
            await self._list(server)
        except Exception as error:
            _log.warning("the changed tools of an MCP server cannot be listed: %s", error)
        else:
            self._rebuild()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _end_tasks(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _accept_results(session: ClientSession) -> None:
    """Log structured content that the tool's output schema refuses, in place of the client's error.

    The tool has run by then, and the model reads the result without the schema.
    """
    validate = session.validate_tool_result

    async def check(name: str, result: CallToolResult) -> None:
        try:
            await validate(name, result)
        except RuntimeError as error:
            reason, _, _ = str(error).partition("\n")
            _log.warning("the result of the tool %r is used as it is: %s", name, reason)

    session.validate_tool_result = check  # type: ignore[method-assign]


@dataclass(frozen=True, eq=False)
class _RemoteCall:
    """Calls a tool of a server, as the function of a :class:`Tool`."""

    tools: McpTools
    server: _McpServer
    name: str

    def __call__(self, /, **arguments: Any) -> Coroutine[Any, Any, Any]:
        self.tools.check_thread()
        return self.tools.request(self.server, self.name, arguments)
