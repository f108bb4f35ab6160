"""Runs arms on records."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Annotated, Any

from pydantic import AfterValidator, WithJsonSchema
from quality_arms import Arm
from quality_llguidance import BatchedLLGuidance
from quality_parsing import coerced, is_valid, parsed_strictly, repaired
from quality_prompts import ENGINE_FORMS, prompt_of, question_of
from quality_tasks import Json, Record
from stacks import RefusedRequestError, Setting

from proxy_engine import (
    BatchRequest,
    GenerationResult,
    InferenceEngine,
    OutputValidationError,
)
from proxy_engine.models.loading import load_model
from state_machines import JsonSchemaStateMachine, ProxyError

__all__ = ["Answer", "ArmRunner", "value_of"]

_MAX_TRIES = 3
_RETRY_TEMPERATURE = 0.7
_BATCH_SIZE = 16
_SEEDS_APART = 100_000
"""Distance of the seeds of tries; more than there are records."""


@dataclass(frozen=True)
class Answer:
    """An answer to a record.

    Attributes:
        record: The record.
        text: The output.
        parsed: The value to be scored; ``None`` if the output has none.
        is_valid: Whether the value matches the schema.
        result: The engine's result of the last try; ``None`` for llguidance and after an error.
        tries: Number of requests.
        tokens: Tokens of the outputs of all tries.
        prompt_tokens: Tokens of the prompt.
        seconds: Time of the batch divided by the number of its records.
        error: The error's message.
    """

    record: Record
    text: str
    parsed: Json
    is_valid: bool
    result: GenerationResult[Any] | None = None
    tries: int = 1
    tokens: int = 0
    prompt_tokens: int = 0
    seconds: float = 0.0
    error: str = ""


class ArmRunner:
    """A model with all arms. Requests of a call run in batches and share prompts with other arms.

    Args:
        model: A directory or repo id; ``None`` for the embedded model.
        seed: Seed of all sampling; record ``i`` adds ``i``.
    """

    def __init__(self, model: str | None = None, seed: int = 0) -> None:
        loaded = load_model(model)
        # A known checkpoint has a tokenizer of this engine, which knows mlx-lm's.
        tokenizer = getattr(loaded.tokenizer, "wrapper", loaded.tokenizer)
        self._setting = Setting(loaded.model, tokenizer)
        self._engine = InferenceEngine(
            loaded.model, loaded.tokenizer, on_progress=None, batch_size=_BATCH_SIZE
        )
        self._llguidance: BatchedLLGuidance | None = None
        self._seed = seed
        self._free_texts: dict[Any, GenerationResult[Any] | Exception] = {}
        self.model_name = loaded.name

    @property
    def engine(self) -> InferenceEngine:
        """The engine."""
        return self._engine

    def answers(self, arm: Arm, records: Sequence[Record]) -> list[Answer]:
        """Return the answers of an arm in the order of the records."""
        started = perf_counter()
        match arm.method:
            case "constrained":
                answers = self._constrained(arm, records)
            case "repair":
                answers = self._repair(arm, records)
            case "retry":
                answers = self._retry(arm, records)
            case "llguidance":
                answers = self._by_llguidance(arm, records)
        seconds = (perf_counter() - started) / len(records)
        return [dataclasses.replace(answer, seconds=seconds) for answer in answers]

    def close(self) -> None:
        """Free all resources."""
        if self._llguidance is not None:
            self._llguidance.close()
        self._engine.close()

    def request(self, arm: Arm, record: Record) -> BatchRequest:
        """Return the constrained request of an arm."""
        options = self._options(arm, record, schema_in_prompt=ENGINE_FORMS[arm.prompt])
        if arm.tool_choice:
            return BatchRequest(
                record.request, tools=record.tools, tool_choice=arm.tool_choice, options=options
            )
        schema = {key: value for key, value in record.schema.items() if key not in arm.without}
        machine: Any = schema
        if arm.options.get("max_retries"):
            machine = _checked(schema, record)
        if arm.machine:
            machine = JsonSchemaStateMachine(schema, **arm.machine)
        return BatchRequest(question_of(record, arm.prompt), machine, options=options)

    def _options(self, arm: Arm, record: Record, *, seed_step: int = 0, **changes: Any) -> Any:
        base = {
            "temperature": 0.0,
            "seed": self._seed + record.number + seed_step,
            "max_tokens": record.max_tokens + arm.more_tokens,
        }
        return {**base, **changes, **arm.options}

    def _constrained(self, arm: Arm, records: Sequence[Record]) -> list[Answer]:
        requests = [self.request(arm, record) for record in records]
        results = self._engine.generate_batch(requests, return_exceptions=True)
        return [
            _of_error(record, result)
            if isinstance(result, Exception)
            else _of_result(record, result, value_of(result))
            for record, result in zip(records, results, strict=True)
        ]

    def _repair(self, arm: Arm, records: Sequence[Record]) -> list[Answer]:
        return [
            _of_error(record, result)
            if isinstance(result, Exception)
            else _of_result(record, result, coerced(repaired(result.text), record.schema))
            for record, result in zip(records, self._free(arm, records), strict=True)
        ]

    def _retry(self, arm: Arm, records: Sequence[Record]) -> list[Answer]:
        answers: dict[int, Answer] = {}
        pending = list(range(len(records)))
        for attempt in range(1, _MAX_TRIES + 1):
            chosen = [records[index] for index in pending]
            results = self._free(arm, chosen, attempt)
            for index, result in zip(pending, results, strict=True):
                record = records[index]
                if isinstance(result, Exception):
                    answers[index] = _of_error(record, result)
                    continue
                value = parsed_strictly(result.text)
                value = None if value is None else coerced(value, record.schema)
                before = answers.get(index)
                spent = before.tokens if before else 0
                answers[index] = _of_result(record, result, value, tries=attempt, spent=spent)
            pending = [index for index in pending if not answers[index].is_valid]
            if not pending:
                break
        return [answers[index] for index in range(len(records))]

    def _free(
        self, arm: Arm, records: Sequence[Record], attempt: int = 1
    ) -> list[GenerationResult[Any] | Exception]:
        """Return free texts. Attempts after the first are sampled, with other seeds."""
        changes: dict[str, Any] = {}
        if attempt > 1:
            seed_step = (attempt - 1) * _SEEDS_APART
            changes = {"temperature": _RETRY_TEMPERATURE, "seed_step": seed_step}
        keys = [(record.task, record.number, arm.prompt, attempt) for record in records]
        requests = [
            BatchRequest(
                prompt_of(record, arm.prompt), options=self._options(arm, record, **changes)
            )
            for record in records
        ]
        # Two arms begin with the same greedy text.
        known = self._free_texts
        missing = [index for index, key in enumerate(keys) if key not in known]
        new = self._engine.generate_batch(
            [requests[index] for index in missing], return_exceptions=True
        )
        results = {key: known[key] for key in keys if key in known}
        results |= {keys[index]: result for index, result in zip(missing, new, strict=True)}
        self._free_texts = results
        return [results[key] for key in keys]

    def _by_llguidance(self, arm: Arm, records: Sequence[Record]) -> list[Answer]:
        if self._llguidance is None:
            self._llguidance = BatchedLLGuidance(self._setting)
        try:
            written = self._llguidance.texts(records, arm.prompt)
        except RefusedRequestError as error:
            return [_of_error(record, error) for record in records]
        answers = []
        for record, (text, tokens, prompt_tokens) in zip(records, written, strict=True):
            value = _json_or_none(text)
            answers.append(
                Answer(
                    record,
                    text,
                    value,
                    is_valid(value, record.schema),
                    tokens=tokens,
                    prompt_tokens=prompt_tokens,
                )
            )
        return answers


def _checked(schema: Mapping[str, Any], record: Record) -> Any:
    """Return a type of the values of a schema that the record's check accepts."""

    def validate(value: Json) -> Json:
        if record.check is not None:
            record.check(value)
        return value

    return Annotated[Any, WithJsonSchema(dict(schema)), AfterValidator(validate)]


def _of_result(
    record: Record, result: GenerationResult[Any], value: Json, *, tries: int = 1, spent: int = 0
) -> Answer:
    usage = result.usage
    return Answer(
        record,
        "".join(part.text for part in result.parts) or result.text,
        value,
        value is not None and is_valid(value, record.schema),
        result,
        tries + usage.retries,
        spent + usage.completion_tokens,
        usage.prompt_tokens,
    )


def _of_error(record: Record, error: Exception) -> Answer:
    """Return the answer of a failed request, which is wrong in every field.

    Raises:
        Exception: The error is neither one of the request nor of its output.
    """
    if not isinstance(error, ProxyError | RefusedRequestError):
        raise error
    text, tries = "", 1
    if isinstance(error, OutputValidationError):
        text, tries = error.text, max(1, len(error.attempts))
    return Answer(record, text, None, False, tries=tries, error=str(error))


def value_of(result: GenerationResult[Any]) -> Json:
    """Return the value of a constrained result: the parsed value, or its calls."""
    if result.parsed is not None:
        return result.parsed
    return [{"name": call.name, "arguments": dict(call.arguments)} for call in result.tool_calls]


def _json_or_none(text: str) -> Json:
    try:
        return json.loads(text)
    except ValueError:
        return None
