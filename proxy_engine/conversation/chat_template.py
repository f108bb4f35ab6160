"""Detect the form of tools, calls, results and content parts that a chat template can write.

Templates differ: arguments as objects or as JSON text, one call per message or several, a string
or ``null`` beside the calls, ids of nine characters. A template that does not accept a form may
raise or silently omit it. Therefore a probe conversation with unique words is rendered in one form
after another, until the output contains all words.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from mlx_lm.tokenizer_utils import TokenizerWrapper

from .control_tokens import unmarked
from .template_probe import once_per_template, rendered, writes

_SHORT_ID = re.compile(r"[a-zA-Z0-9]{9}")
_PROBE_TOOL = {
    "type": "function",
    "function": {
        "name": "zqtool",
        "description": "A tool.",
        "parameters": {"type": "object", "properties": {"zqfield": {"type": "string"}}},
    },
}


@dataclass(frozen=True, slots=True)
class CallForm:
    """The form in which a template accepts tool calls and results.

    Attributes:
        arguments_as_text: Arguments are JSON text, not objects.
        content_if_empty: The content of a message with calls only.
        one_call: Each message has one call, and its result follows.
        text: Where text before calls goes: into the message of the calls, into its own message
            (``"apart"``), or nowhere.
        short_ids: Ids have nine letters and digits.
        reasoning: The key of the reasoning before a call; ``None`` if it is not written.
    """

    arguments_as_text: bool = False
    content_if_empty: str | None = ""
    one_call: bool = False
    text: Literal["beside", "apart", "nowhere"] = "beside"
    short_ids: bool = False
    reasoning: Literal["reasoning_content", "thinking"] | None = "reasoning_content"

    def rewrite(self, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Convert messages of ``template_messages`` to this form."""
        written: list[dict[str, Any]] = []
        rest = [dict(message) for message in messages]
        while rest:
            message = rest.pop(0)
            if not message.get("tool_calls"):
                written.append(self._shortened(message))
                continue
            results: list[dict[str, Any]] = []
            while rest and rest[0]["role"] == "tool":
                results.append(rest.pop(0))
            written += map(self._shortened, self._turn(message, results))
        return written

    def _turn(self, message: dict[str, Any], results: list[dict[str, Any]]) -> list[dict[str, Any]]:
        turn: list[dict[str, Any]] = []
        thoughts = message.pop("reasoning_content", None)
        # The only template with "thinking" refuses it in a message with text.
        refused = self.reasoning == "thinking" and message["content"]
        if thoughts is not None and self.reasoning is not None and not refused:
            message[self.reasoning] = thoughts
        if self.text == "apart" and message["content"]:
            turn.append({"role": "assistant", "content": message["content"]})
        if self.text != "beside":
            message["content"] = ""
        calls = message["tool_calls"]
        batches = [[call] for call in calls] if self.one_call else [calls]
        for batch in batches:
            turn.append({**message, "tool_calls": [self._call(call) for call in batch]})
            turn[-1]["content"] = message["content"] or self.content_if_empty
            ids = {call["id"] for call in batch}
            turn += [result for result in results if result.get("tool_call_id") in ids]
            results = [result for result in results if result.get("tool_call_id") not in ids]
            message = {"role": "assistant", "content": "", "tool_calls": []}
        return turn + results

    def _call(self, call: Mapping[str, Any]) -> dict[str, Any]:
        function = dict(call["function"])
        if self.arguments_as_text:
            function["arguments"] = json.dumps(function["arguments"], ensure_ascii=False)
        return {**call, "function": function}

    def _shortened(self, message: dict[str, Any]) -> dict[str, Any]:
        if not self.short_ids:
            return message
        if message.get("tool_call_id") is not None:
            message["tool_call_id"] = _short(message["tool_call_id"])
        if message.get("tool_calls"):
            message["tool_calls"] = [
                {**call, "id": _short(call["id"])} for call in message["tool_calls"]
            ]
        return message


@dataclass(frozen=True, slots=True)
class TemplateTraits:
    """The abilities of a chat template.

    Attributes:
        describes_tools: It writes the definitions of tools.
        calls: The form in which it writes calls and results; ``None`` if it cannot.
    """

    describes_tools: bool
    calls: CallForm | None


@once_per_template
def template_traits(tokenizer: TokenizerWrapper) -> TemplateTraits:
    """Return the traits of a tokenizer's chat template, detected once."""
    user = {"role": "user", "content": "zquser"}
    describes_tools = _writes(tokenizer, [user], ["zqtool", "zqfield", "zquser"], tools=True)
    return TemplateTraits(
        describes_tools=describes_tools,
        calls=_call_form(tokenizer, tools=describes_tools),
    )


@once_per_template
def part_separator(tokenizer: TokenizerWrapper) -> str:
    """Return the text that a chat template writes between two parts of text of a message.

    A template that takes no content in parts has no such text. Then it is a line feed.
    """
    if not tokenizer.has_chat_template:
        return "\n"
    parts = [{"type": "text", "text": text} for text in ("zqone", "zqtwo")]
    text = rendered(tokenizer, [{"role": "user", "content": parts}])
    between = re.search(r"zqone(\s*)zqtwo", text or "")
    return "\n" if between is None else between[1]


def _call_form(tokenizer: TokenizerWrapper, *, tools: bool) -> CallForm | None:
    words = [f"{word}{n}" for word in ("zqname", "zqkey", "zqvalue", "zqresult") for n in "ab"]
    words += ["zqanswer", "zqnext"]
    # The most common forms come first.
    choices = itertools.product((False, True), ("", None), (False, True))
    for one_call, content, as_text in choices:
        form = CallForm(as_text, content, one_call)
        if _writes(tokenizer, form.rewrite(_conversation()), words, tools=tools):
            break
    else:
        return None

    def works(form: CallForm, words: list[str], **given: Any) -> bool:
        return _writes(tokenizer, form.rewrite(_conversation(**given)), words, tools=tools)

    def changed(**changes: Any) -> CallForm:
        return CallForm(**({name: getattr(form, name) for name in CallForm.__slots__} | changes))

    form = changed(short_ids=not works(form, words, ids="call_0123456789abcdef"))
    places: tuple[Literal["beside", "apart"], ...] = ("beside", "apart")
    said = [*words, "zqtext"]
    form = changed(
        text=next((p for p in places if works(changed(text=p), said, text="zqtext")), "nowhere")
    )
    keys: tuple[Literal["reasoning_content", "thinking"], ...] = ("reasoning_content", "thinking")
    # Many templates omit reasoning before the last user message.
    thought = [*words[:-2], "zqthought"]
    form = changed(
        reasoning=next(
            (
                key
                for key in keys
                if works(changed(reasoning=key), thought, reasoning="zqthought", ends=True)
            ),
            None,
        )
    )
    return form


def _conversation(
    *, text: str = "", ids: str = "zqid0000", reasoning: str | None = None, ends: bool = False
) -> list[dict[str, Any]]:
    """Return a probe: a question, two calls and their results, and unless ``ends``, more turns."""
    calls = [
        {
            "id": f"{ids}{n}",
            "type": "function",
            "function": {"name": f"zqname{n}", "arguments": {f"zqkey{n}": f"zqvalue{n}"}},
        }
        for n in "ab"
    ]
    thoughts = {} if reasoning is None else {"reasoning_content": reasoning}
    results = [
        {
            "role": "tool",
            "content": f"zqresult{n}",
            "tool_call_id": f"{ids}{n}",
            "name": f"zqname{n}",
        }
        for n in "ab"
    ]
    return [
        {"role": "user", "content": "zquser"},
        {"role": "assistant", "content": text, "tool_calls": calls, **thoughts},
        *results,
        *([] if ends else [{"role": "assistant", "content": "zqanswer"}]),
        *([] if ends else [{"role": "user", "content": "zqnext"}]),
    ]


def _writes(
    tokenizer: TokenizerWrapper,
    messages: Sequence[Mapping[str, Any]],
    words: Sequence[str],
    *,
    tools: bool,
) -> bool:
    more = {"tools": [_PROBE_TOOL]} if tools else {}
    return writes(tokenizer, messages, words, **more)


def _short(id: str) -> str:
    if _SHORT_ID.fullmatch(id):
        return id
    return hashlib.sha256(unmarked(id).encode("utf-8")).hexdigest()[:9]
