"""The fields of a result that follow from the tokens and the text of an answer."""

from __future__ import annotations

import itertools
import logging
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jsonschema

from state_machines import GrammarBudgetError, GrammarStateMachine, InvalidArgumentError
from state_machines.budgets import step_budget
from state_machines.limits import LIMITS
from state_machines.root import Structured, repeated_part_names

from ..answers.reader import AnswerReader
from ..answers.response_format import ResponseFormat
from ..conversation.content import ToolCall
from ..errors import OutputValidationError
from ..generation import SequenceState, Token
from ..results.generation import Quotation, ScoredChoice, Usage
from ..tools import Tool
from ..validation import JsonValidator
from .request import Request

_log = logging.getLogger(__name__)


def parsed_value(reader: AnswerReader, response: ResponseFormat) -> Any:
    """Return the parsed value of a complete answer.

    That of a composition with several values is a ``dict`` of them by the names of their parts.

    Raises:
        OutputValidationError: A text cannot be parsed, or a validator rejects it.
    """
    values = reader.values
    if response.part is None:
        if response.is_free or reader.calls:
            return None
        return response.parse(values[0][1] if values else "")
    parsed: dict[str, Any] = {}
    repeated = repeated_part_names(response.part)
    for part, text in values:
        try:
            value = part.parse(text)
        except Exception as error:
            # The caller's own parser may raise errors of any type.
            raise OutputValidationError(
                f"the text of {part.name!r} cannot be parsed: {error}", text=text
            ) from error
        if part.name in repeated:
            parsed.setdefault(part.name, []).append(value)
        else:
            parsed[part.name] = value
    return next(iter(parsed.values())) if len(parsed) == 1 else parsed or None


def quotations(reader: AnswerReader, response: ResponseFormat) -> tuple[Quotation, ...]:
    """Return where the quotes of a complete answer stand.

    Raises:
        OutputValidationError: A string is no quote.
    """
    if response.quotes is None or reader.calls or not reader.values:
        return ()
    return response.quotes(reader.values[0][1])


def captured_texts(reader: AnswerReader) -> dict[str, str | list[str]]:
    """Return the texts that grammars captured, by name."""
    found: dict[str, list[str]] = {}
    for part, text in reader.values:
        machine = part.grammar if isinstance(part, Structured) else None
        if not isinstance(machine, GrammarStateMachine):
            continue
        try:
            with step_budget(LIMITS.mask_steps):
                captures = machine.captures(text)
        except (GrammarBudgetError, InvalidArgumentError) as error:
            _log.warning("the captures of %r are missing: %s", part.name, error)
            continue
        for name, texts in captures.items():
            found.setdefault(name, []).extend([texts] if isinstance(texts, str) else texts)
    return {name: texts[0] if len(texts) == 1 else texts for name, texts in found.items()}


def checked_calls(calls: Iterable[ToolCall], tools: Mapping[str, Tool]) -> Iterator[ToolCall]:
    """Validate tool calls, and add their arguments as Python values.

    Raises:
        OutputValidationError: A call does not match the schema of its tool.
    """
    for call in calls:
        tool = tools[call.name]
        try:
            JsonValidator(tool.arguments_schema).validate(call.arguments)
        except jsonschema.ValidationError as error:
            raise OutputValidationError(
                f"the call of {call.name!r} does not match its schema: {error.message}",
                text=call.raw,
            ) from error
        yield replace(call, parsed=tool.parse(call.arguments))


def token_origins(
    tokens: Iterable[Token], lengths: Sequence[int], choices: Iterable[ScoredChoice]
) -> str:
    """Return ``GenerationResult.token_origins``.

    Args:
        tokens: The tokens.
        lengths: Bytes that each token wrote.
        choices: The choices that were drawn exactly, in the order of the output.
    """
    letters = ["f" if token.is_forced else "d" if token.is_drafted else "s" for token in tokens]
    starts = [0, *itertools.accumulate(lengths)]
    for choice in choices:
        stop = choice.offset + len(choice.chosen.text.encode())
        first = bisect_right(starts, choice.offset) - 1
        # The last option of a cancelled answer may be cut off.
        for index in range(first, min(bisect_left(starts, stop), len(letters))):
            letters[index] = "c" if lengths[index] else letters[index]
    return "".join(letters)


def measured_usage(
    request: Request, sequence: SequenceState, tokens: Sequence[Token], cached_tokens: int
) -> Usage:
    """Return the token counts and times of a request.

    Args:
        request: The request.
        sequence: The sequence that answers it.
        tokens: The generated tokens.
        cached_tokens: Tokens of the prompt whose KV cache was reused.
    """
    timings, drafting, prompt = sequence.timings, sequence.drafting, request.prompt
    return Usage(
        prompt_tokens=len(prompt.token_ids),
        completion_tokens=len(tokens),
        cached_tokens=cached_tokens,
        fast_forwarded_tokens=[token.is_forced for token in tokens].count(True),
        prompt_seconds=timings.prompt,
        completion_seconds=timings.completion,
        mask_seconds=timings.of("mask", "advance"),
        draft_seconds=timings.of("draft"),
        sample_seconds=timings.of("sample"),
        forward_seconds=timings.of("dispatch", "wait"),
        preparation_seconds=request.preparation_seconds,
        queue_seconds=timings.started - request.created,
        drafted_tokens=0 if drafting is None else drafting.drafted_tokens,
        accepted_tokens=0 if drafting is None else drafting.accepted_tokens,
        forward_passes=sequence.forward_passes,
        image_tokens=prompt.image_tokens,
        audio_tokens=prompt.audio_tokens,
        inexact_choice_tokens=sequence.inexact_choice_tokens,
    )
