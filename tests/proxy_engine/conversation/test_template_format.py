"""Chat templates that write tool calls in a format of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from family_tokenizers import family_tokenizer
from object_schemas import function_tool
from tiny_models import make_tiny_tokenizer

from proxy_engine import InferenceEngine
from proxy_engine.conversation.prompts import PromptStyle
from proxy_engine.conversation.tool_format_detection import detect
from state_machines.tool_calls import FORMATS

TOOL: dict[str, Any] = function_tool("weather", {"type": "object"}, description="")
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
        (template("<OWN_CALL>[", "]</OWN_CALL>"), None),
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
    found = detect(family_tokenizer(tmp_path, template=text))
    assert (found.format.name if found.is_native else None) == name


def test_tools_of_an_unknown_template_are_described_in_plain_text(tmp_path: Path) -> None:
    tokenizer = family_tokenizer(tmp_path, template=template("<OWN_CALL>[", "]</OWN_CALL>"))
    detected = detect(tokenizer)
    style = PromptStyle(tools=[TOOL], tool_format=detected.format, native_tools=detected.is_native)
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
    assert detected.format is FORMATS["hermes"]
    assert "OWN_CALL" not in text
    assert text.count("<tool_call>") == 2


def test_engine_warns_once_if_the_format_of_the_template_is_unknown(
    roomy_model: Any, caplog: pytest.LogCaptureFixture
) -> None:
    tokenizer = make_tiny_tokenizer()
    tokenizer.chat_template = template("<OWN_CALL>[", "]</OWN_CALL>")
    with InferenceEngine(roomy_model, tokenizer) as engine:
        engine.generate("Hi", max_tokens=1)
        assert "plain text" not in caplog.text
        for _ in range(2):
            engine.generate("Hi", tools=[TOOL], tool_choice="none", max_tokens=1)
    assert caplog.text.count("described in plain text") == 1
