"""Outcomes: scored answers, one line of JSON each, so that runs can be continued and merged."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from quality_runner import Answer

__all__ = [
    "Key",
    "Outcome",
    "append_outcomes",
    "outcome_of",
    "read_outcomes",
]

Key: TypeAlias = tuple[str, int, str, str, int]
"""Model, seed, arm, task and number of the record."""


@dataclass(frozen=True)
class Outcome:
    """A scored answer.

    Attributes:
        model: The model's name.
        seed: The seed of records and sampling.
        arm: The arm's name.
        task: The record's task.
        number: The record's number.
        kind: The record's kind.
        fields: Whether each field is right.
        is_valid: Whether the value matches the schema.
        tries: Number of requests.
        tokens: Tokens of the outputs.
        prompt_tokens: Tokens of the prompt.
        seconds: Time of the batch divided by its records.
        text: The output.
        error: The error's message.
    """

    model: str
    seed: int
    arm: str
    task: str
    number: int
    kind: str
    fields: Mapping[str, bool]
    is_valid: bool
    tries: int
    tokens: int
    prompt_tokens: int
    seconds: float
    text: str
    error: str = ""

    @property
    def key(self) -> Key:
        """What identifies the outcome among those of all runs."""
        return self.model, self.seed, self.arm, self.task, self.number

    @property
    def exact(self) -> float:
        """Whether all fields are right (0 or 1)."""
        return float(all(self.fields.values()))

    @property
    def right_fields(self) -> float:
        """Number of right fields."""
        return float(sum(self.fields.values()))


def outcome_of(answer: Answer, *, model: str, seed: int, arm: str) -> Outcome:
    """Score an answer."""
    record = answer.record
    return Outcome(
        model,
        seed,
        arm,
        record.task,
        record.number,
        record.kind,
        record.matches(answer.parsed),
        answer.is_valid,
        answer.tries,
        answer.tokens,
        answer.prompt_tokens,
        round(answer.seconds, 3),
        answer.text,
        answer.error,
    )


def read_outcomes(*files: Path) -> dict[Key, Outcome]:
    """Return the outcomes in some files. Of outcomes with the same key the last one counts.

    An incomplete last line, as an interrupted run leaves it, is skipped.
    """
    outcomes = {}
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
            try:
                outcome = Outcome(**json.loads(line))
            except ValueError:
                continue
            outcomes[outcome.key] = outcome
    return outcomes


def append_outcomes(file: Path, outcomes: Iterable[Outcome]) -> None:
    """Append outcomes to a file, in lines of their own."""
    lines = [json.dumps(dataclasses.asdict(outcome), ensure_ascii=False) for outcome in outcomes]
    is_cut = file.exists() and not file.read_bytes().endswith(b"\n") and file.stat().st_size
    with file.open("a", encoding="utf-8") as opened:
        opened.write(("\n" if is_cut else "") + "".join(line + "\n" for line in lines))
