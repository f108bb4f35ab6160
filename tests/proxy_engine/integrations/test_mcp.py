"""Tools of MCP servers, in the same process and over standard input and output."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from typing import Any

import pytest
from mcp import Client, ClientSession, StdioServerParameters
from mcp.server import MCPServer
from mcp.types import (
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ListToolsResult,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from mcp.types import Tool as ListedTool
from mcp_servers import PNG, everything_server, growing_server, time_server
from pydantic import BaseModel, Field

from proxy_engine import InferenceEngine, Interaction, InvalidOptionError, ToolCall
from proxy_engine.errors import EventLoopBlockedError, ToolFailedError
from proxy_engine.integrations.mcp import McpTools, mcp_tools
from proxy_engine.integrations.mcp_results import tool_result
from proxy_engine.tools import resolve_tool, tool_from_dict
from proxy_engine.tools.tool_loop import ToolLoop

SECONDS = 60
IMAGE = ImageContent(data=PNG, mime_type="image/png")
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


class Answer:
    """An answer that is written beforehand."""

    finish_reason = "stop"

    def __init__(self, text: str = "", *calls: tuple[str, dict[str, Any]]) -> None:
        self.text = text
        self.calls = [ToolCall(str(n), name, args) for n, (name, args) in enumerate(calls)]

    def to_interaction(self) -> Interaction:
        return Interaction("assistant", self.text or (), tool_calls=self.calls)


async def arun(tools: McpTools, *answers: Answer, **options: Any) -> list[Interaction]:
    loop: ToolLoop[Any] = ToolLoop("Go.", tools, **options)
    waiting = list(answers)

    async def later(*_: Any) -> Any:
        return waiting.pop(0)

    run = await asyncio.wait_for(loop.arun(later), SECONDS)
    return [turn for turn in run.conversation if turn.role == "tool"]


async def eventually(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not holds():
            await asyncio.sleep(0.01)


async def test_tools_are_listed_and_called() -> None:
    async with mcp_tools(growing_server(), timeout=SECONDS) as tools:
        assert [tool.name for tool in tools] == ["echo", "grow", "shrink", "picture", "fail"]
        assert tools[0].description == "Say it again."
        said, shown, failed = await arun(
            tools,
            Answer("", ("echo", {"text": "hi"}), ("picture", {}), ("fail", {})),
            Answer("Done."),
        )
    assert said.text == '{"result": "growing: hi"}'
    assert [part.kind for part in shown.content] == ["text", "image"]
    assert shown.content[1].data == base64.b64decode(PNG)
    assert failed.text == '{"error": "out of milk"}'
    assert failed.metadata["is_error"] is True


class Offer(BaseModel):
    price: int = Field(serialization_alias="cost")


def shop() -> MCPServer:
    """Return a server whose output schema has another name than its results."""
    server = MCPServer("shop")

    @server.tool()
    def offer() -> Offer:
        return Offer(price=2)

    return server


async def test_result_that_its_output_schema_refuses_is_used(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with mcp_tools(shop(), timeout=SECONDS) as tools:
        (offered,) = await arun(tools, Answer("", ("offer", {})), Answer("Done."))
    assert offered.text == '{"cost": 2}'
    assert "is_error" not in offered.metadata
    assert "'price' is a required property" in caplog.text


async def test_connected_client_keeps_its_validation() -> None:
    async with Client(shop()) as client, mcp_tools(client) as tools:
        (offered,) = await arun(tools, Answer("", ("offer", {})), Answer("Done."))
        assert offered.metadata["is_error"] is True
        with pytest.raises(RuntimeError, match="required property"):
            await client.call_tool("offer", {})


async def test_media_that_the_model_does_not_read_are_placeholders() -> None:
    async with mcp_tools(growing_server(), timeout=SECONDS) as tools:
        (shown,) = await arun(tools, Answer("", ("picture", {})), Answer("Done."), media=())
    assert [part.text for part in shown.content] == ["Here it is.", "[1 image]"]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_changes_of_the_list_are_followed(mode: Any) -> None:
    async with Client(growing_server(), mode=mode) as client, mcp_tools(client) as tools:
        (grown,) = await arun(tools, Answer("", ("grow", {})), Answer("Done."))
        await eventually(lambda: "grown" in [tool.name for tool in tools])
    assert grown.text == '{"result": "grown"}'


async def test_tool_that_a_call_adds_is_called_in_the_same_run() -> None:
    async with mcp_tools(growing_server(), timeout=SECONDS) as tools:
        loop: ToolLoop[Any] = ToolLoop("Go.", tools)
        waiting = [
            Answer("", ("grow", {})),
            Answer("", ("echo", {"text": "x"})),
            Answer("", ("grown", {})),
            Answer("Done."),
        ]

        async def later(*_: Any) -> Any:
            if len(waiting) == 3:
                await eventually(lambda: "grown" in [tool.name for tool in tools])
            return waiting.pop(0)

        run = await asyncio.wait_for(loop.arun(later), SECONDS)
        assert "grown" in [tool.name for tool in loop.tools]
    assert [turn.text for turn in run.conversation if turn.role == "tool"][2] == '{"result": 7}'


async def test_tool_that_is_gone_gives_an_error() -> None:
    async with mcp_tools(growing_server(), timeout=SECONDS) as tools:
        await tools[2].ainvoke({})
        _, gone = await arun(
            tools, Answer("", ("shrink", {}), ("echo", {"text": "x"})), Answer("Done.")
        )
        assert gone.metadata["is_error"] is True
        await tools.refresh()
        assert "echo" not in [tool.name for tool in tools]


async def test_equal_names_of_servers_have_prefixes() -> None:
    servers = {"left one": growing_server("left"), "right": growing_server("right")}
    async with mcp_tools(servers, timeout=SECONDS) as tools:
        names = [tool.name for tool in tools]
        assert names[0] == "left_one__echo"
        assert names[5] == "right__echo"
        said = await tools[5].ainvoke({"text": "hi"})
        assert said[0].value == {"result": "right: hi"}
        await tools.refresh()
        assert names == [tool.name for tool in tools]
    async with mcp_tools(growing_server("solo"), prefix=True, timeout=SECONDS) as tools:
        assert tools[0].name == "solo__echo"


async def test_names_and_schemas_that_are_no_tools_are_mended_or_left_out() -> None:
    server = MCPServer("odd")
    odd = [
        ListedTool(name="a/b c", input_schema={"type": "object", "required": None}),
        ListedTool(name="x" * 200, input_schema={"type": "object"}),
        ListedTool(name="x" * 201, input_schema={"type": "object"}),
        ListedTool(name="bad", input_schema={"type": "object", "properties": {"a": {"type": 5}}}),
    ]
    server.list_tools = _constant(odd)  # type: ignore[method-assign]
    async with mcp_tools(server, timeout=SECONDS) as tools:
        assert tools[0].name == "a_b_c"
        assert all(len(tool.name) <= 128 for tool in tools)
        assert len({tool.name for tool in tools}) == 3
        assert list(tools.left_out) == ["bad"]
        assert "/properties/a" in str(tools.left_out["bad"])


def _constant(value: Any) -> Any:
    async def listed(*_: Any, **__: Any) -> Any:
        return value

    return listed


async def test_pages_of_a_list_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = [ListedTool(name=f"t{n}", input_schema=SCHEMA) for n in range(5)]

    async def page(_: Any, *, params: Any = None) -> ListToolsResult:
        start = 0 if params is None else int(params.cursor)
        following = str(start + 2) if start + 2 < len(listed) else None
        return ListToolsResult(tools=listed[start : start + 2], next_cursor=following)

    # The package's own servers list all tools in one page.
    monkeypatch.setattr(ClientSession, "list_tools", page)
    async with mcp_tools(growing_server(), timeout=SECONDS) as tools:
        assert [tool.name for tool in tools] == ["t0", "t1", "t2", "t3", "t4"]


async def test_synchronous_call_on_the_event_loop_raises() -> None:
    async with mcp_tools(growing_server(), timeout=SECONDS) as tools:
        waiting = [Answer("", ("echo", {"text": "hi"})), Answer("Done.")]
        loop: ToolLoop[Any] = ToolLoop("Go.", tools)
        with pytest.raises(EventLoopBlockedError, match="arun_tools"):
            loop.run(lambda *_: waiting.pop(0))  # type: ignore[arg-type, return-value]
        said = await asyncio.to_thread(tools[0].invoke, {"text": "hi"})
        assert said[0].value == {"result": "growing: hi"}


def test_tools_without_an_event_loop() -> None:
    with mcp_tools(growing_server(), timeout=SECONDS) as tools:
        assert tools[0].invoke({"text": "hi"})[0].value == {"result": "growing: hi"}
        with pytest.raises(ToolFailedError, match="out of milk"):
            tools[4].invoke({})


async def test_connected_sessions_need_async_with() -> None:
    async with Client(growing_server()) as client:
        with pytest.raises(InvalidOptionError, match="event loop"), mcp_tools(client):
            pass


def test_servers_that_are_refused() -> None:
    with pytest.raises(InvalidOptionError, match="no MCP server"):
        mcp_tools()
    with pytest.raises(InvalidOptionError, match="two servers"):
        mcp_tools({"a": growing_server()}, {"a": growing_server()})


def test_engine_calls_a_tool_of_a_server(roomy_engine: InferenceEngine) -> None:
    options: Any = {"tool_choice": "shrink", "max_rounds": 1, "max_tokens": 60}
    with mcp_tools(growing_server(), timeout=SECONDS) as tools:
        run = roomy_engine.run_tools("Go.", tools, **options)
        assert [turn.text for turn in run.conversation if turn.role == "tool"] == [
            '{"result": "shrunk"}'
        ]

    async def later() -> str:
        async with mcp_tools(growing_server(), timeout=SECONDS) as tools:
            run = await roomy_engine.arun_tools("Go.", tools, **options)
            return next(turn.text for turn in run.conversation if turn.role == "tool")

    assert asyncio.run(later()) == '{"result": "shrunk"}'


@pytest.mark.parametrize("spelling", ["object", "by alias", "by name"])
def test_tools_of_the_package_are_tools(spelling: str) -> None:
    listed = ListedTool(
        name="f" * 128,
        title="F",
        description="Does f.",
        input_schema=SCHEMA,
        output_schema={"type": "object"},
        _meta={"a": 1},
    )
    source: Any = listed
    if spelling != "object":
        source = listed.model_dump(by_alias=spelling == "by alias")
        source["execution"] = {"taskSupport": "optional"}
    tool = resolve_tool(source)
    assert (tool.name, tool.description, tool.parameters) == ("f" * 128, "Does f.", SCHEMA)


def test_unknown_members_of_tools_are_ignored() -> None:
    tool = tool_from_dict({"name": "f", "inputSchema": SCHEMA, "futureMember": {"a": 1}})
    assert tool.parameters == SCHEMA


def a_result(*blocks: Any, **more: Any) -> list[Any]:
    return tool_result("f", CallToolResult(content=list(blocks), **more))


def test_structured_content_is_added_unless_a_text_says_it() -> None:
    value = {"n": 1}
    (part,) = a_result(TextContent(text='{"n": 1}'), structured_content=value)
    assert part.value == value
    text, part = a_result(TextContent(text="one"), structured_content=value)
    assert (text.text, part.value) == ("one", value)
    (part,) = a_result(structured_content=value)
    assert part.value == value
    (part,) = a_result(TextContent(text="5"), structured_content={"result": 5})
    assert part.value == {"result": 5}
    (part,) = a_result(
        TextContent(text="a"), TextContent(text="b"), structured_content={"result": ["a", "b"]}
    )
    assert part.value == {"result": ["a", "b"]}
    said, shown = a_result(TextContent(text='{"n": 1}'), IMAGE, structured_content=value)
    assert (said.text, shown.kind) == ('{"n": 1}', "image")


def test_resources_and_links_are_text() -> None:
    contents = TextResourceContents(uri="file:///a.txt", text="hello", mime_type="text/plain")
    file, link = a_result(
        EmbeddedResource(resource=contents), ResourceLink(uri="file:///b", name="b")
    )
    assert file.to_text() == "file:///a.txt:\nhello\n"
    assert link.value == {"type": "resource_link", "uri": "file:///b", "name": "b"}
    assert [part.text for part in a_result()] == [""]


@pytest.fixture
def clock() -> StdioServerParameters:
    server = time_server()
    if server is None:
        pytest.skip("mcp-server-time cannot be installed")
    return server


@pytest.fixture
def everything() -> StdioServerParameters:
    server = everything_server()
    if server is None:
        pytest.skip("node is missing, or server-everything cannot be installed")
    return server


def test_public_server_in_python(clock: StdioServerParameters) -> None:
    with mcp_tools(clock, timeout=SECONDS) as tools:
        known = {tool.name: tool for tool in tools}
        (now,) = known["get_current_time"].invoke({"timezone": "Europe/Oslo"})
        assert now.value["timezone"] == "Europe/Oslo"
        with pytest.raises(ToolFailedError):
            known["get_current_time"].invoke({"timezone": "Nowhere"})


def test_reference_server_over_stdio(everything: StdioServerParameters) -> None:
    with mcp_tools({"all": everything}, timeout=SECONDS) as tools:
        known = {tool.name: tool for tool in tools}
        assert not tools.left_out
        assert known["echo"].invoke({"message": "hi"})[0].text == "Echo: hi"
        kinds = [part.kind for part in known["get-tiny-image"].invoke({})]
        assert kinds == ["text", "image", "text"]
        (structured,) = known["get-structured-content"].invoke({"location": "Chicago"})
        assert structured.value["temperature"] == 36
        links = known["get-resource-links"].invoke({"count": 2})
        assert [part.kind for part in links] == ["text", "json", "json"]
