"""The rules of a tokenizer's chat template, found by rendering probes.

Templates are programs. Only rendering a message shows whether a template accepts it: otherwise the
template raises, or silently omits the message. A probe is a conversation with unique words. The
template writes it if the rendered text contains all words.

Some templates raise, or omit messages, unless the roles of user and assistant alternate, the user
begins, or the only system message is the first one. Some take no system message. Their forms of
calls differ: arguments as objects or as JSON text, one call per message or several, a string or
``null`` beside the calls, ids of nine characters.
"""

from __future__ import annotations

import hashlib
import json
import re
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any, Literal

from state_machines.tool_calls import EXAMPLE_CALLS

from .control_tokens import ControlTokens, unmarked

if TYPE_CHECKING:
    from mlx_lm.tokenizer_utils import TokenizerWrapper

_TOOL = {
    "type": "function",
    "function": {
        "name": "zqtool",
        "description": "A tool.",
        "parameters": {"type": "object", "properties": {"zqfield": {"type": "string"}}},
    },
}
QUESTION = "zquser"
"""The user's message before the calls of an example."""

ANSWER = "zqanswer"
"""An answer without calls."""

RESULT = "zqresult"
"""The text that the results of these calls begin with."""

_CALL_WORDS = [
    word
    for name, id, arguments in EXAMPLE_CALLS
    for word in (name, f"{RESULT}{id}", *arguments, *arguments.values())
]


_SHORT_ID = re.compile(r"[a-zA-Z0-9]{9}")

USER_PLACEHOLDER = "..."
"""The user's message before an assistant that begins. An empty one is omitted by some templates."""

ASSISTANT_PLACEHOLDER = "OK."
"""The answer between the result of a tool and a message of the user."""


@dataclass(frozen=True, slots=True)
class TurnRules:
    """The order of roles that a chat template accepts.

    Attributes:
        system: Where it accepts system messages: anywhere, one as the first message, or nowhere.
        user_first: The first message that is no system message must be the user's.
        alternating: The roles of user and assistant must alternate.
        omits_system: It omits the system message unless the last message is the user's.
    """

    system: Literal["anywhere", "first", "nowhere"] = "anywhere"
    user_first: bool = False
    alternating: bool = False
    omits_system: bool = False

    def allow(self, messages: Sequence[Mapping[str, Any]]) -> bool:
        """Return whether messages satisfy the rules.

        ``False`` is not certain, since a template's rules can be less strict than their
        description. Rendering the messages decides.
        """
        roles = [message["role"] for message in messages]
        systems = [index for index, role in enumerate(roles) if role == "system"]
        if systems and self.system != "anywhere" and (self.system == "nowhere" or systems != [0]):
            return False
        if systems and self.omits_system and roles[-1] != "user":
            return False
        turns = [role for role in roles if role != "system"]
        if "user" not in turns or (self.user_first and turns[0] != "user"):
            return False
        return not self.alternating or not any(
            after == before != "tool" or (before, after) == ("tool", "user")
            for before, after in pairwise(turns)
        )

    def adapt(self, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return messages that satisfy the rules and have the same content in the same order.

        * Leading system messages become one. If the template accepts or writes none, they become
          the beginning of the user's first message.
        * Later system messages become text of the user where they are, so that the prompt before
          them does not change.
        * Consecutive messages of a role become one, separated by a blank line.
        * A placeholder precedes an assistant that begins.
        """
        if self.omits_system and messages[-1]["role"] != "user":
            return replace(self, system="nowhere", omits_system=False).adapt(messages)
        written: list[dict[str, Any]] = []
        was_moved = False
        for message in messages:
            role = message["role"]
            is_moved = role == "system" and not self._keeps_system(written)
            if is_moved:
                role = "user"
            is_leading_system = role == "system" and self.system == "first"
            must_join = self.alternating or is_moved or was_moved or is_leading_system
            if written and must_join and _can_join(written[-1], {**message, "role": role}):
                written[-1] = _joined(written[-1], message)
                was_moved = is_moved
                continue
            written += self._placeholder(written, role)
            written.append({**message, "role": role})
            was_moved = is_moved
        if all(message["role"] == "system" for message in written):
            # Without a turn, the instructions are the question.
            written = [{**message, "role": "user"} for message in written]
        return written

    def _keeps_system(self, before: Sequence[Mapping[str, Any]]) -> bool:
        if self.system == "first":
            return all(message["role"] == "system" for message in before)
        return self.system == "anywhere"

    def _placeholder(self, before: Sequence[Mapping[str, Any]], role: str) -> list[dict[str, Any]]:
        """Return the message that has to stand between ``before`` and a message of ``role``."""
        is_first = all(message["role"] == "system" for message in before)
        if is_first and self.user_first and role not in ("system", "user"):
            return [{"role": "user", "content": USER_PLACEHOLDER}]
        if self.alternating and role == "user" and before and before[-1]["role"] == "tool":
            return [{"role": "assistant", "content": ASSISTANT_PLACEHOLDER}]
        return []


STRICTEST = TurnRules("nowhere", user_first=True, alternating=True, omits_system=True)
"""A conversation that these rules allow is accepted by every template."""


def _can_join(before: Mapping[str, Any], message: Mapping[str, Any]) -> bool:
    """Return whether two messages can become one: of one role, and text does not follow calls."""
    if before["role"] != message["role"] or message["role"] == "tool":
        return False
    return not before.get("tool_calls") or bool(message.get("tool_calls"))


def _joined(before: Mapping[str, Any], message: Mapping[str, Any]) -> dict[str, Any]:
    joined = {**before, "content": _paragraphs(before["content"], message["content"])}
    if reasoning := message.get("reasoning_content"):
        joined["reasoning_content"] = _paragraphs(before.get("reasoning_content", ""), reasoning)
    if calls := message.get("tool_calls"):
        joined["tool_calls"] = [*before.get("tool_calls", ()), *calls]
    return joined


def _paragraphs(*texts: str) -> str:
    return "\n\n".join(text for text in texts if text)


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


def _short(id: str) -> str:
    if _SHORT_ID.fullmatch(id):
        return id
    return hashlib.sha256(unmarked(id).encode("utf-8")).hexdigest()[:9]


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
        form = replace(form, short_ids=not works(form, words, ids="call_0123456789abcdef{}"))
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

    def written_calls(self) -> str:
        """Return its text of tools and of the calls of an example; empty if it writes none."""
        tools = {"tools": [_TOOL]} if self.describes_tools else {}
        calls = _calls() if self.calls is None else self.calls.rewrite(_calls())
        return self.rendered(calls, **tools) or ""

    def written_answer(self) -> str:
        """Return its text of tools and of an answer without calls."""
        tools = {"tools": [_TOOL]} if self.describes_tools else {}
        turns = [
            {"role": "user", "content": QUESTION},
            {"role": "assistant", "content": ANSWER},
        ]
        return self.rendered(turns, add_generation_prompt=False, **tools) or ""

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
        calls: CallForm | None,
        keywords: Mapping[str, Any],
    ) -> list[dict[str, Any]]:
        """Return messages that the template writes completely, if there is such a form of them.

        A conversation that it writes completely is never adapted.

        Args:
            messages: The messages.
            calls: The form of tool calls; ``None``: there are none.
            keywords: Other variables of the template.
        """
        # Fast path: most conversations satisfy the rules of every template. Some templates refuse
        # system messages with media.
        candidates = [messages]
        if not (
            STRICTEST.allow(messages)
            or (self.turn_rules.allow(messages) and "media_kinds" not in keywords)
        ):
            adapted = self.turn_rules.adapt(messages)
            candidates = [messages, adapted, STRICTEST.adapt(messages), adapted]
        for candidate in candidates[:-1]:
            form = candidate if calls is None else calls.rewrite(candidate)
            if self._writes_completely(form, keywords):
                return form
        return candidates[-1] if calls is None else calls.rewrite(candidates[-1])

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
    *, text: str = "", ids: str = "zqid0000{}", reasoning: str | None = None, ends: bool = False
) -> list[dict[str, Any]]:
    """Return a probe: a question, two calls and their results, and unless ``ends``, more turns."""
    calls = [
        {
            "id": ids.format(id[-1]),
            "type": "function",
            "function": {"name": name, "arguments": dict(arguments)},
        }
        for name, id, arguments in EXAMPLE_CALLS
    ]
    results = [
        {
            "role": "tool",
            "content": f"{RESULT}{id}",
            "tool_call_id": ids.format(id[-1]),
            "name": name,
        }
        for name, id, _ in EXAMPLE_CALLS
    ]
    thoughts = {} if reasoning is None else {"reasoning_content": reasoning}
    turns: list[dict[str, Any]] = [
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": text, "tool_calls": calls, **thoughts},
        *results,
    ]
    if not ends:
        turns.append({"role": "assistant", "content": "zqanswer"})
        turns.append({"role": "user", "content": "zqnext"})
    return turns
