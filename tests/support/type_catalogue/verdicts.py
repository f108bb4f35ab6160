"""Verdicts on the masks of a type: what its reader says to texts that they admit."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from type_draws import Draws
from type_probes import admitted_probes

from state_machines import JsonSchemaStateMachine
from type_catalogue.entry import Entry
from type_catalogue.readers import machine_of, reader_of, refusal

__all__ = ["PROBES", "Verdict", "admitted_texts", "judge", "wrong_facts"]

PROBES = 10
"""Probes a random walk. Few of them are admitted."""
_MOST_PROBES = 4000


@dataclass(slots=True)
class Verdict:
    """The verdict on a type.

    Attributes:
        entry: The type.
        error: The error of its compilation; ``None`` if there is a machine.
        drawn: The number of texts that were drawn.
        unread: The texts that the type refuses, each with the message of the reader.
        left_out: The instances that the masks do not admit.
        failure: The failure of a draw; ``None`` if all texts are complete.
        seconds: Processor time.
    """

    entry: Entry
    error: str | None = None
    drawn: int = 0
    unread: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    failure: str | None = None
    seconds: float = 0.0


def judge(entry: Entry, count: int) -> Verdict:
    """Return the verdict on a type.

    Args:
        entry: The type.
        count: The number of texts to draw.
    """
    begin = time.process_time()
    verdict = Verdict(entry)
    try:
        read = reader_of(entry)
        machine = machine_of(entry)
    except Exception as error:
        # Errors of the type's own code are among them.
        verdict.error = " ".join(f"{type(error).__name__}: {error}".split())
        verdict.seconds = time.process_time() - begin
        return verdict
    verdict.left_out = [text for text in entry.instances if not machine.matches(text)]
    try:
        for text in admitted_texts(machine, entry, count):
            verdict.drawn += 1
            message = refusal(read, text)
            if message is not None:
                verdict.unread[text] = message
    except AssertionError as error:
        verdict.failure = str(error)
    verdict.seconds = time.process_time() - begin
    return verdict


def admitted_texts(machine: JsonSchemaStateMachine, entry: Entry, count: int) -> Iterator[str]:
    """Yield different texts that the masks of a type admit.

    Args:
        machine: The machine of the type.
        entry: The type.
        count: The number of random walks; there are ``PROBES`` probes for each.
    """
    texts = dict.fromkeys(Draws(machine, entry.key).texts(count))
    yield from texts
    yield from (text for text in entry.refusals if machine.matches(text) and text not in texts)
    known = [*entry.instances, *entry.refusals, *texts][: 8 + len(entry.instances)]
    # The masks of unique items exclude all earlier ones, so each text takes milliseconds.
    probes = min(count * PROBES, _MOST_PROBES) // (
        4 if '"uniqueItems"' in json.dumps(machine.schema) else 1
    )
    for text in admitted_probes(machine, known, Random(entry.key), probes):
        if text not in texts:
            yield text


def wrong_facts(entry: Entry) -> Iterator[str]:
    """Yield the texts of an entry whose verdict is not that of the reader."""
    try:
        read = reader_of(entry)
    except Exception as error:
        yield f"it is no type: {type(error).__name__}: {error}"
        return
    for text in entry.instances:
        message = refusal(read, text)
        if message is not None:
            yield f"{text} is refused: {message}"
    for text in entry.refusals:
        if refusal(read, text) is None:
            yield f"{text} is read"
