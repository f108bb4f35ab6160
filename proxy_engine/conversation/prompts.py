"""Prompts as a model reads them: token ids, the inputs beside them such as pixels, and the prefixes
that other prompts share.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from state_machines.tool_calls import CallNames, Delimiters, ToolFormat

from ..errors import PromptError
from .chat_template import chat_template
from .control_tokens import ControlTokens, has_own_renderer, unmarked
from .messages import Message, Prompt, template_messages
from .schema_text import with_schema_text
from .tool_text import PLAIN_FORMAT, with_calls_as_text, with_tool_text

if TYPE_CHECKING:
    from mlx_lm.tokenizer_utils import TokenizerWrapper

_INSTRUCTIONS = ("system", "developer")

# Letters and digits, which no template escapes or trims.
_ANSWER = f"answer{secrets.token_hex(16)}"

__all__ = ["Message", "Prompt", "PromptStyle", "template_messages"]


class PromptInputs(Protocol):
    """Inputs of one prompt beside its token ids, such as the pixels of its images.

    Created on any thread, used on the thread that runs the model.

    Attributes:
        media_end: Tokens from this one on are text: the model needs nothing beside them but their
            positions. Less than the length of the prompt.
        single_pass_end: The model processes the tokens before this one in one pass from the first
            token on, for instance because tokens of an image attend to later tokens; 0 if passes
            may begin and end anywhere.
        rope_delta: Position of each token from ``media_end`` on minus its index, for models with
            multimodal rotary position embeddings; 0 for others. Known after :meth:`prepare`.
    """

    @property
    def media_end(self) -> int: ...

    @property
    def single_pass_end(self) -> int: ...

    @property
    def rope_delta(self) -> int: ...

    def prepare(self, cache: list[Any], cached_tokens: int) -> None:
        """Begin a prefill, before its first pass.

        Args:
            cache: The sequence's cache, one entry per layer; changed in place.
            cached_tokens: Leading tokens of the prompt that the cache holds.
        """

    def arguments(self, start: int, end: int) -> Mapping[str, Any]:
        """Return the keyword arguments of the model's call over the prompt's tokens [start, end).

        Called for passes that begin before ``media_end``.
        """

    def release(self) -> None:
        """Drop the arrays of the prefill, which has ended. It may be prepared again."""


@dataclass(frozen=True, slots=True, eq=False)
class EncodedPrompt:
    """Token ids, and the further inputs of the model.

    Attributes:
        token_ids: Token ids. Each medium is a run of placeholder tokens, whose embeddings are
            computed from the medium.
        cache_key: The identity of each token in prompt caches, shape (tokens,): the token id, or a
            negative number that is derived from the content of the medium. ``None``: the token ids.
        inputs: The further inputs of the model; ``None`` for text.
        media_spans: Start and end of each run of placeholder tokens, in ascending order.
        image_tokens: Placeholder tokens of images.
        audio_tokens: Placeholder tokens of audio recordings.
        media_bytes: Memory of ``inputs`` before the prefill, in bytes.
        boundaries: Lengths at which other prompts may diverge from it, see
            :func:`message_boundaries`.
    """

    token_ids: list[int]
    cache_key: npt.NDArray[np.int64] | None = None
    inputs: PromptInputs | None = None
    media_spans: tuple[tuple[int, int], ...] = ()
    image_tokens: int = 0
    audio_tokens: int = 0
    media_bytes: int = 0
    boundaries: tuple[int, ...] = ()


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
        tool_format: The format of tools, calls and results that become plain text.
        names: The names of the tools as the format writes them; ``None``: as they are.
        native_tools: Whether to let the template write tools.
        schema_text: Describes the response format, see :func:`with_schema_text`.
        variables: Further variables of the template.
        continues: Whether a last message of the assistant is continued. Otherwise an answer follows
            it.
    """

    thinking: bool = True
    tools: Sequence[Mapping[str, Any]] = ()
    tool_format: ToolFormat = PLAIN_FORMAT
    names: CallNames | None = None
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

    def next_turn(self, message: str, tokenizer: TokenizerWrapper) -> Delimiters:
        """Return the texts around an answer that is followed by a message and another answer.

        Args:
            message: The message of the user behind the first answer.
            tokenizer: The tokenizer.

        Returns:
            The text between a prompt and the first answer, which most templates leave empty; and
            the text between the answers.

        Raises:
            PromptError: The template refuses the message or omits the first answer, or the message
                spells a control token.
        """
        style = replace(self, tools=(), schema_text="", continues=False)
        question = {"role": "user", "content": "?"}
        answer = {"role": "assistant", "content": _ANSWER}
        prompt = style.render([question], tokenizer)
        text = style.render([question, answer, {"role": "user", "content": message}], tokenizer)
        before, _, between = text.partition(_ANSWER)
        if not between.strip() or between != unmarked(between):
            what = "the model's chat template omits the answer before a message"
            if between:
                what = "the message behind the freeform answer spells a control token"
            raise PromptError(what)
        if tokenizer.has_chat_template:
            # Models end a turn with its end token, where some templates write a space before it.
            between = between.lstrip()
        begin = before.removeprefix(prompt) if before.startswith(prompt) else ""
        return Delimiters(begin if begin.strip() else "", between)

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
        if self.names is not None:
            tools = list(map(self.names.definition, tools))
            messages = self.names.messages(messages)
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
            turns = with_calls_as_text(turns, self.tool_format)
            turns = with_tool_text(turns, tools, self.tool_format)
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
                turns = with_calls_as_text(turns, self.tool_format)
        if tools and self.native_tools and template.describes_tools:
            keywords["tools"] = list(map(dict, tools))
        elif tools:
            turns = with_tool_text(turns, tools, self.tool_format)
        turns = template.adapted(turns, calls, keywords)
        keywords["continue_final_message"] = is_continued
        try:
            return tokenizer.apply_chat_template(turns, tokenize=tokenize, **keywords)
        except Exception as error:
            # Templates are programs and may raise anything.
            what = unmarked(f"the model's chat template refuses the messages: {error}")
            raise PromptError(what) from error


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
