"""Convert a prompt to token ids, and find the prefixes that other prompts share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from mlx_lm.tokenizer_utils import TokenizerWrapper

from ..errors import PromptError
from .chat_template import chat_template
from .control_tokens import ControlTokens, has_own_renderer, unmarked
from .messages import Message, Prompt, template_messages
from .schema_text import with_schema_text
from .tool_text import PLAIN_TOOL_TEXT, ToolText

_INSTRUCTIONS = ("system", "developer")

__all__ = ["Message", "Prompt", "PromptStyle", "template_messages"]


@dataclass(frozen=True, slots=True)
class PromptStyle:
    """How the messages of a request are rendered by a chat template.

    Messages that the template refuses or omits are adapted to its rules, see ``TurnRules``. Tools,
    calls and results that it cannot write become plain text: tools in a system message, results in
    messages of the user. A tokenizer without a chat template gets lines ``role: text``, and
    ``assistant:`` as the last line.

    Attributes:
        thinking: Value of the template's switch for reasoning, if it has one.
        tools: OpenAI-style definitions.
        tool_text: Writes tools as plain text.
        native_tools: Whether to let the template write tools.
        schema_text: Describes the response format, see :func:`with_schema_text`.
        variables: Further variables of the template.
        continues: Whether a last message of the assistant is continued. Otherwise an answer follows
            it.
    """

    thinking: bool = True
    tools: Sequence[Mapping[str, Any]] = ()
    tool_text: ToolText = PLAIN_TOOL_TEXT
    native_tools: bool = True
    schema_text: str = ""
    variables: Mapping[str, Any] = field(default_factory=dict)
    continues: bool = True

    def encode(
        self,
        messages: Sequence[Mapping[str, Any]],
        tokenizer: TokenizerWrapper,
        media_kinds: Sequence[str] = (),
        *,
        context_length: int | None = None,
        lock: AbstractContextManager[Any] | None = None,
    ) -> list[int]:
        """Return the token ids of messages of :func:`template_messages`.

        Args:
            messages: The messages.
            tokenizer: The tokenizer.
            media_kinds: The kinds of their media, which the tokenizer's chat template takes.
            context_length: Tokens of the model's context. The work ends once the prompt exceeds it.
            lock: Held while the tokenizer is used.

        Raises:
            PromptTooLongError: The prompt leaves no room in the context.
            PromptError: The prompt is malformed or empty, or the template raises.
        """
        lock = lock or nullcontext()
        with lock:
            control = chat_template(tokenizer).control_tokens
            if has_own_renderer(tokenizer):
                literal, marked = (
                    self._rendered(messages, tokenizer, media_kinds, control=marks, tokenize=True)
                    for marks in (None, control)
                )
                control.check(control.count(literal), control.count(marked))
                return [int(token_id) for token_id in literal]
            text = self.render(messages, tokenizer, media_kinds)
        ids = control.encode(
            text,
            add_special_tokens=not tokenizer.has_chat_template,
            context_length=context_length,
            lock=lock,
        )
        if not ids:
            raise PromptError("the prompt is empty")
        return ids

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tokenizer: TokenizerWrapper,
        media_kinds: Sequence[str] = (),
    ) -> str:
        """Return the text of messages, for ``ControlTokens.encode``.

        The arguments are those of :meth:`encode`.
        """
        control = chat_template(tokenizer).control_tokens
        return str(self._rendered(messages, tokenizer, media_kinds, control=control))

    def _rendered(
        self,
        messages: Sequence[Mapping[str, Any]],
        tokenizer: TokenizerWrapper,
        media_kinds: Sequence[str],
        *,
        control: ControlTokens | None = None,
        tokenize: bool = False,
    ) -> Any:
        """Return the text or the token ids of messages; with ``control``, the texts are marked."""
        tools, schema_text, variables = self.tools, self.schema_text, self.variables
        if control is None:
            turns = list(map(dict, messages))
        else:
            turns = control.messages(messages)
            tools, schema_text, variables = control.data([tools, schema_text, variables])
        if not any(turn["content"] or len(turn) > 2 for turn in turns):
            raise PromptError("the prompt is empty")
        if turns[-1].get("tool_calls"):
            raise PromptError(
                "the conversation ends with tool calls that have no results",
                hint="Add a message of role 'tool' for each of them.",
            )
        if schema_text:
            turns = with_schema_text(turns, schema_text)
        is_continued = self.continues and turns[-1]["role"] == "assistant"
        if not tokenizer.has_chat_template:
            turns = _described(_as_text(turns, self.tool_text), tools, self.tool_text)
            lines = [f"{turn['role']}:{turn['content'] and ' '}{turn['content']}" for turn in turns]
            return "\n".join(lines if is_continued else [*lines, "assistant:"])
        keywords = {**variables, "add_generation_prompt": not is_continued}
        if not self.thinking:
            keywords["enable_thinking"] = False
        if media_kinds:
            keywords["media_kinds"] = media_kinds
        template, calls = chat_template(tokenizer), None
        if any(turn.get("tool_calls") or turn["role"] == "tool" for turn in turns):
            calls = template.calls if self.native_tools else None
            if calls is None:
                turns = _as_text(turns, self.tool_text)
        if tools and self.native_tools and template.describes_tools:
            keywords["tools"] = list(map(dict, tools))
        elif tools:
            turns = _described(turns, tools, self.tool_text)
        turns = template.adapted(turns, calls, keywords)
        keywords["continue_final_message"] = is_continued
        try:
            return tokenizer.apply_chat_template(turns, tokenize=tokenize, **keywords)
        except Exception as error:
            # Templates are programs and may raise anything.
            what = unmarked(f"the model's chat template refuses the messages: {error}")
            raise PromptError(what) from error


def _described(
    messages: list[dict[str, Any]], tools: Sequence[Mapping[str, Any]], tool_text: ToolText
) -> list[dict[str, Any]]:
    """Add a description of the tools to the system message at the start."""
    if not tools:
        return messages
    text = tool_text.describe(tools)
    first, rest = messages[0], messages[1:]
    if first["role"] != "system":
        return [{"role": "system", "content": text}, *messages]
    return [{**first, "content": f"{first['content']}\n\n{text}".lstrip("\n")}, *rest]


def _as_text(messages: list[dict[str, Any]], tool_text: ToolText) -> list[dict[str, Any]]:
    """Replace tool calls by text of the assistant, and results by text of the user.

    Results and the user's next message become one message, since many templates require
    alternating roles.
    """
    written: list[dict[str, Any]] = []
    after_result = False
    for message in messages:
        role, content = message["role"], message["content"]
        is_result = role == "tool"
        if is_result:
            role, content = "user", tool_text.write_result(content)
        functions = [call["function"] for call in message.get("tool_calls", ())]
        if functions:
            calls = tool_text.write_calls([(f["name"], f["arguments"]) for f in functions])
            content = f"{content}\n{calls}" if content else calls
        if role == "user" and after_result:
            written[-1]["content"] += f"\n{content}"
        else:
            kept = {k: v for k, v in message.items() if k == "reasoning_content"}
            written.append({"role": role, "content": content, **kept})
        after_result = is_result or (role == "user" and after_result)
    return written


def message_boundaries(
    messages: Sequence[Mapping[str, Any]],
    prompt_ids: Sequence[int],
    encode: Callable[[Sequence[Mapping[str, Any]]], Sequence[int]],
) -> tuple[int, ...]:
    """Return the lengths of prefixes that other conversations share with a prompt, in ascending
    order.

    Three other conversations are encoded: the same instructions with another first message, the
    same conversation with another last message, and its continuation after an answer. The common
    prefixes of their tokens and the prompt's are independent of how a template writes messages. A
    conversation that ``encode`` refuses is left out. Needed only if a cache cannot be cut; needs
    the tokenizer, but no model.

    Args:
        messages: The conversation.
        prompt_ids: Its token ids.
        encode: Encodes a conversation in the same way; called up to three times.

    Returns:
        Lengths from 1 to below ``len(prompt_ids)``.
    """
    if not messages:
        return ()
    count = len(messages)
    instructions = 0
    while instructions < count - 1 and messages[instructions]["role"] in _INSTRUCTIONS:
        instructions += 1
    others = [[*messages[:k], _other(messages[k])] for k in {instructions, count - 1}]
    answered = messages[-1]["role"] == "assistant"
    continuation = [{"role": "user", "content": "?"}]
    if not answered:
        continuation.insert(0, {"role": "assistant", "content": "?"})
    others.append([*messages, *continuation])
    found = set()
    for other in others:
        try:
            pairs = zip(prompt_ids, encode(other), strict=False)
        except PromptError:
            continue
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        # The last token always needs a forward pass, for its logits.
        found.add(min(shared, len(prompt_ids) - 1))
    return tuple(sorted(length for length in found if length > 0))


def _other(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message of the same role that differs from its first character on."""
    said = str(message.get("content") or "")
    rest = {key: value for key, value in message.items() if key != "tool_calls"}
    return {**rest, "content": "!" if said.lstrip().startswith("?") else "?"}
