"""The rules of a tokenizer's chat template, found by rendering probes.

Templates are programs. Only rendering a message shows whether a template accepts it: otherwise the
template raises, or silently omits the message. A probe is a conversation with unique words. The
template writes it if the rendered text contains all words.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import product
from typing import Any, Literal

from mlx_lm.tokenizer_utils import TokenizerWrapper

from .control_tokens import ControlTokens
from .template_forms import STRICTEST, CallForm, TurnRules

_TOOL = {
    "type": "function",
    "function": {
        "name": "zqtool",
        "description": "A tool.",
        "parameters": {"type": "object", "properties": {"zqfield": {"type": "string"}}},
    },
}
_CALL_WORDS = [f"{word}{n}" for word in ("zqname", "zqkey", "zqvalue", "zqresult") for n in "ab"]


class ChatTemplate:
    """The chat template of a tokenizer. Each property is detected once, when it is first read.

    Args:
        tokenizer: Has the template. It must live as long as this object is used.
    """

    def __init__(self, tokenizer: TokenizerWrapper) -> None:
        # Not a reference, with which the cache would keep the tokenizer alive.
        self._tokenizer: TokenizerWrapper = weakref.proxy(tokenizer)

    @cached_property
    def control_tokens(self) -> ControlTokens:
        """The control tokens that the template and nothing else writes."""
        return ControlTokens(self._tokenizer)

    @cached_property
    def describes_tools(self) -> bool:
        """Whether it writes the definitions of tools."""
        user = {"role": "user", "content": "zquser"}
        return self.writes([user], ["zqtool", "zqfield", "zquser"], tools=[_TOOL])

    @cached_property
    def calls(self) -> CallForm | None:
        """The form in which it writes calls and results; ``None`` if it cannot."""
        tools = {"tools": [_TOOL]} if self.describes_tools else {}
        words = [*_CALL_WORDS, "zqanswer", "zqnext"]

        def works(form: CallForm, words: list[str], **probe: Any) -> bool:
            return self.writes(form.rewrite(_calls(**probe)), words, **tools)

        # The most common forms come first.
        choices = product((False, True), ("", None), (False, True))
        forms = (CallForm(as_text, content, one_call) for one_call, content, as_text in choices)
        form = next((form for form in forms if works(form, words)), None)
        if form is None:
            return None
        form = replace(form, short_ids=not works(form, words, ids="call_0123456789abcdef"))
        said = [*words, "zqtext"]
        texts = (form, replace(form, text="apart"))
        form = next(
            (form for form in texts if works(form, said, text="zqtext")),
            replace(form, text="nowhere"),
        )
        # Many templates omit reasoning before the last user message.
        thought = [*_CALL_WORDS, "zqthought"]
        keys = (form, replace(form, reasoning="thinking"))
        return next(
            (form for form in keys if works(form, thought, reasoning="zqthought", ends=True)),
            replace(form, reasoning=None),
        )

    @cached_property
    def turn_rules(self) -> TurnRules:
        """The order of roles that it accepts."""
        words = ("zqone", "zqtwo", "zqthree", "zqfour", "zqfive", "zqsix")

        def accepts(*roles: str) -> bool:
            said = words[: len(roles)]
            pairs = zip(roles, said, strict=True)
            return self.writes([{"role": role, "content": word} for role, word in pairs], said)

        system: Literal["anywhere", "first", "nowhere"] = "first"
        if not accepts("system", "user"):
            system = "nowhere"
        elif accepts("system", "system", "user", "assistant", "system", "user"):
            system = "anywhere"
        return TurnRules(
            system,
            user_first=not (accepts("assistant", "user") and accepts("system")),
            alternating=not (
                accepts("user", "user") and accepts("user", "assistant", "assistant", "user")
            ),
            omits_system=not accepts("system", "user", "assistant"),
        )

    @cached_property
    def part_separator(self) -> str:
        """The text between two parts of text of a message; a line feed if it takes no parts."""
        parts = [{"type": "text", "text": text} for text in ("zqone", "zqtwo")]
        text = self.rendered([{"role": "user", "content": parts}])
        between = re.search(r"zqone(\s*)zqtwo", text or "")
        return "\n" if between is None else between[1]

    def rendered(self, messages: Sequence[Mapping[str, Any]], **keywords: Any) -> str | None:
        """Return the text of messages; ``None`` if the template raises or there is none.

        Args:
            messages: The messages.
            **keywords: Other variables of the template. A generation prompt is added by default.
        """
        keywords = {"add_generation_prompt": True, **keywords, "tokenize": False}
        try:
            text = self._tokenizer.apply_chat_template(list(map(dict, messages)), **keywords)
        except Exception:
            # Templates may raise anything.
            return None
        return text if isinstance(text, str) else None

    def writes(
        self, messages: Sequence[Mapping[str, Any]], words: Sequence[str], **keywords: Any
    ) -> bool:
        """Return whether the template writes all ``words`` of ``messages``."""
        text = self.rendered(messages, **keywords)
        return text is not None and all(word in text for word in words)

    def adapted(
        self,
        messages: list[dict[str, Any]],
        written: Callable[[list[dict[str, Any]]], list[dict[str, Any]]],
        keywords: Mapping[str, Any],
    ) -> list[dict[str, Any]]:
        """Return messages that the template writes completely, if there is such a form of them.

        A conversation that it writes completely is never adapted.

        Args:
            messages: The messages.
            written: Converts the tool calls of messages to the template's form.
            keywords: Other variables of the template.
        """
        # Fast path: most conversations satisfy the rules of every template.
        if STRICTEST.allow(messages):
            return written(messages)
        # Some templates refuse system messages with media.
        if self.turn_rules.allow(messages) and "media_kinds" not in keywords:
            return written(messages)
        adapted = self.turn_rules.adapt(messages)
        for candidate in (messages, adapted, STRICTEST.adapt(messages)):
            form = written(candidate)
            if self._writes_completely(form, keywords):
                return form
        return written(adapted)

    def _writes_completely(
        self, messages: Sequence[Mapping[str, Any]], keywords: Mapping[str, Any]
    ) -> bool:
        """Return whether the template writes the content of all messages.

        Text beside tool calls is not checked, since some templates omit it on purpose.
        """
        words = []
        marked = []
        for index, message in enumerate(messages):
            if message["content"] and not message.get("tool_calls"):
                words.append(f"zq{index}zq")
                message = {**message, "content": f"{message['content']} {words[-1]}"}
            marked.append(message)
        return self.writes(marked, words, **keywords)


_templates: weakref.WeakKeyDictionary[TokenizerWrapper, tuple[Any, ChatTemplate]] = (
    weakref.WeakKeyDictionary()
)


def chat_template(tokenizer: TokenizerWrapper) -> ChatTemplate:
    """Return the chat template of a tokenizer, the same object until the template changes."""
    source = getattr(tokenizer, "chat_template", None)
    found = _templates.get(tokenizer)
    if found is None or found[0] != source:
        found = _templates[tokenizer] = (source, ChatTemplate(tokenizer))
    return found[1]


def _calls(
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
    results = [
        {
            "role": "tool",
            "content": f"zqresult{n}",
            "tool_call_id": f"{ids}{n}",
            "name": f"zqname{n}",
        }
        for n in "ab"
    ]
    thoughts = {} if reasoning is None else {"reasoning_content": reasoning}
    turns: list[dict[str, Any]] = [
        {"role": "user", "content": "zquser"},
        {"role": "assistant", "content": text, "tool_calls": calls, **thoughts},
        *results,
    ]
    if not ends:
        turns.append({"role": "assistant", "content": "zqanswer"})
        turns.append({"role": "user", "content": "zqnext"})
    return turns
