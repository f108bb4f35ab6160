"""Chat templates that write tool calls in a format of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from family_tokenizers import family_tokenizer

from proxy_engine.conversation.prompts import PromptStyle
from proxy_engine.conversation.template_format import template_format
from proxy_engine.conversation.tool_format_detection import format_of
from state_machines.tool_calls import FORMATS

TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": "weather", "description": "", "parameters": {"type": "object"}},
}
MESSAGES = """{% for m in messages %}{{ m.role }}: {{ m.content }}
{% for c in m.tool_calls or [] %}OPEN{"name": "{{ c.function.name }}", "arguments": \
{{ c.function.arguments | tojson }}}CLOSE{% endfor %}
{% endfor %}"""
TOOLS = "{% for t in tools or [] %}{{ t | tojson }}{% endfor %}"


def template(begin: str, end: str) -> str:
    return TOOLS + MESSAGES.replace("OPEN", begin).replace("CLOSE", end)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (template("<TOOLCALL>[", "]</TOOLCALL>"), None),
        (template("CALL: ", ""), None),
        (template("<tool_" + "call>\n", "\n</tool_call>"), "hermes"),
        (TOOLS + "{{ messages[0].content }}", None),
        ("{{ messages[0].content }}", "hermes"),
        (template("[TOOL_CALLS][", "]"), "mistral"),
        ("", "hermes"),
    ],
)
def test_format_of_a_template_is_known_if_its_calls_have_the_start(
    text: str, name: str | None, tmp_path: Path
) -> None:
    found = template_format(family_tokenizer(tmp_path, template=text))
    assert (found and found.name) == name


def test_tools_of_an_unknown_template_are_described_in_plain_text(tmp_path: Path) -> None:
    tokenizer = family_tokenizer(tmp_path, template=template("<TOOLCALL>[", "]</TOOLCALL>"))
    chosen = format_of(tokenizer)
    style = PromptStyle(
        tools=[TOOL], tool_format=chosen, native_tools=chosen == template_format(tokenizer)
    )
    call = {"name": "weather", "arguments": {}}
    text = style.render(
        [
            {"role": "user", "content": "Hi"},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": "1", "type": "function", "function": call}],
            },
            {"role": "tool", "content": "sun", "tool_call_id": "1", "name": "weather"},
        ],
        tokenizer,
    )
    assert chosen is FORMATS["hermes"]
    assert "TOOLCALL" not in text
    assert text.count("<tool_call>") == 2
