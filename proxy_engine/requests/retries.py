"""Further attempts after a validator of the caller has rejected an answer (``max_retries``).

The next attempt has the rejected answers and the reasons in its prompt, and its grammar excludes
their values, so that no attempt repeats another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeAlias

import pydantic

from ..checks import json_pointer
from ..conversation.content import JsonContent, TextContent
from ..conversation.interaction import Interaction, Role
from ..conversation.messages import Prompt, RawPrompt, to_interactions
from ..conversation.prompts import EncodedPrompt
from ..errors import OutputValidationError, ProxyError
from ..results.events import AnswerRejected
from ..results.generation import GenerationResult
from ..results.parts import RejectedAnswer
from ..tools.choice import EXACT_JSON, exact_arguments
from .request import Emit, Finish, Request, ignore

_OTHER_CALL = "This call was not run, since another one has invalid arguments."


class Attempts:
    """The consecutive attempts to answer a request.

    Args:
        request: The request of the first attempt.
        submit: Queues a request; the second argument receives its events.

    Attributes:
        request: The request of the latest attempt.
    """

    def __init__(self, request: Request, submit: Callable[[Request, Emit], Future[Finish]]) -> None:
        self.request = request
        self._submit = submit

    def submit(self, emit: Emit = ignore) -> Future[Finish]:
        """Queue the latest attempt."""
        return self._submit(self.request, emit)

    def finish(self, finish: Finish) -> GenerationResult[Any] | None:
        """Finish the latest attempt, or prepare the next one. Not for the model thread.

        Returns:
            The result; ``None`` if a validator rejects the answer and :meth:`submit` has another
            attempt.

        Raises:
            OutputValidationError: The last attempt is rejected.
        """
        try:
            return finish()
        except OutputValidationError as error:
            self.request = _next_request(self.request, error)
            return None

    def rejection(self) -> AnswerRejected:
        """Return the event after which the events of the latest attempt follow."""
        answer = self.request.rejected[-1]
        return AnswerRejected(text=answer.text, reason=answer.reason)

    def cancel(self) -> None:
        """Stop the request at its next token. For any thread."""
        # All attempts share the event.
        self.request.cancelled.set()

    def run(self) -> GenerationResult[Any]:
        """Submit and finish attempts until an answer is accepted."""
        while (result := self.finish(self.submit().result())) is None:
            pass
        return result


def _next_request(request: Request, error: OutputValidationError) -> Request:
    """Return the request of the next attempt; raise ``error`` if there is none."""
    attempts = error.attempts
    # Incomplete output, and output that is not JSON, adds no attempt.
    is_rejected = len(attempts) > len(request.rejected)
    options = request.options
    if not (is_rejected and options.n == 1) or len(attempts) > options.max_retries:
        raise error
    try:
        following = request.repeat(attempts)
    except ProxyError as reason:
        # No other value satisfies the schema, or the prompt has become too long.
        error.hint = f"{error.hint} No further attempt is possible: {reason}".strip()
        raise error from error.__cause__
    following.watches = request.watches
    following.counts_waiting = request.counts_waiting
    return following


def reason_of(error: BaseException) -> str:
    """Return why a validator rejects a value, as a text for the model."""
    cause = error.__cause__
    if not isinstance(cause, pydantic.ValidationError):
        return str(cause or error)
    facts = cause.errors(include_url=False, include_context=False, include_input=False)
    return "\n".join(f"{json_pointer(fact['loc'])} {fact['msg']}".strip() for fact in facts)


Excluded: TypeAlias = Sequence[Any]
"""JSON values that an answer, or the arguments of a call, must not have."""


def excluded_values(rejected: Sequence[RejectedAnswer]) -> Excluded:
    """Return the values of the rejected answers without calls."""
    return [EXACT_JSON.decode(answer.text) for answer in rejected if not answer.tool_calls]


def excluded_arguments(rejected: Sequence[RejectedAnswer]) -> Mapping[str, Excluded]:
    """Return the arguments of the rejected calls by the names of the tools."""
    excluded: dict[str, list[Any]] = {}
    for answer in rejected:
        for index in answer.reasons:
            call = answer.tool_calls[index]
            excluded.setdefault(call.name, []).append(exact_arguments(call))
    return excluded


def with_rejected(
    prompt: Prompt | EncodedPrompt, rejected: Sequence[RejectedAnswer], *, continues: bool
) -> Prompt | EncodedPrompt:
    """Return a prompt with the rejected answers, and the reasons for the model.

    A raw prompt stays as it is: its form is the caller's.

    Args:
        prompt: The prompt.
        rejected: The rejected answers.
        continues: Whether a last message of the assistant is the beginning of the answers.
    """
    if not rejected or isinstance(prompt, RawPrompt | EncodedPrompt):
        return prompt
    turns = to_interactions(prompt)
    begin = [turns.pop()] if continues and turns[-1].role is Role.ASSISTANT else []
    for answer in rejected:
        turns += _turns(answer, begin)
    return [*turns, *begin]


def _turns(answer: RejectedAnswer, begin: Sequence[Interaction]) -> Iterator[Interaction]:
    content = [part for turn in begin for part in turn.content]
    if answer.text:
        content.append(TextContent(answer.text))
    calls = answer.tool_calls
    yield Interaction(Role.ASSISTANT, content, tool_calls=calls, reasoning=answer.reasoning or None)
    if not calls:
        text = f"The answer is invalid:\n{answer.reason}\nGive another answer."
        yield Interaction(Role.USER, text)
    for index, call in enumerate(calls):
        result = JsonContent({"error": answer.reasons.get(index, _OTHER_CALL)})
        yield Interaction(Role.TOOL, result, tool_call_id=call.id, name=call.name)
