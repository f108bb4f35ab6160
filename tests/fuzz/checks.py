"""Properties that hold for every schema, checked against the judge."""

from __future__ import annotations

import json
import re
import signal
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from types import FrameType
from typing import Any

import numpy as np
from oracle import Oracle
from small_vocabulary import an_ending, small_vocabulary

from state_machines import (
    JsonSchemaStateMachine,
    Matcher,
    ProxyError,
    TokenRejectedError,
    UnsatisfiableSchemaError,
)
from state_machines.errors import SchemaError
from state_machines.grammar.node import EMPTY

__all__ = ["Finding", "OverBudgetError", "examined", "seconds_at_most"]

VOCABULARY = small_vocabulary()
COMPILE_SECONDS = 5
MATCH_SECONDS = 5
WALK_SECONDS = 15
STEPS = 25

_EXPONENT = re.compile(r"[0-9.][eE]")
_LONG_NUMBER = re.compile(r"\d{300}")


@dataclass(frozen=True)
class Finding:
    """A schema that violates a property. ``kind`` groups similar findings."""

    kind: str
    schema: Any
    detail: str = ""
    value: Any = None
    has_value: bool = False

    def line(self) -> dict[str, Any]:
        """Return the finding as JSON."""
        line = {"kind": self.kind, "schema": self.schema, "detail": self.detail}
        return {**line, "value": self.value} if self.has_value else line


class OverBudgetError(BaseException):
    """More processor time than the budget; no ``Exception``, so that nothing handles it."""


@contextmanager
def seconds_at_most(seconds: float) -> Iterator[None]:
    """Interrupt what takes more of the processor's time than this."""

    def interrupt(signum: int, frame: FrameType | None) -> None:
        raise OverBudgetError

    before = signal.signal(signal.SIGPROF, interrupt)
    # Again and again, for a signal may arrive where its exception is swallowed.
    signal.setitimer(signal.ITIMER_PROF, seconds, 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def examined(
    schema: Any, values: list[Any], seed: int, counts: Counter[str], *, walks: int = 2
) -> Finding | None:
    """Return the first thing that does not hold of a schema, if there is one."""
    stage, at_hand = "compiling", values[:0]
    oracle = Oracle(schema)
    counts["schemas"] += 1
    counts["schemas judged"] += oracle.knows
    try:
        with seconds_at_most(COMPILE_SECONDS):
            machine = _compiled(schema, "any", counts)
        if isinstance(machine, Finding):
            return machine
        with seconds_at_most(COMPILE_SECONDS):
            in_order = _compiled(schema, "schema", counts) if machine else None
        if isinstance(in_order, Finding):
            return in_order
        for value in values:
            stage, at_hand = "matching", [value]
            with seconds_at_most(MATCH_SECONDS):
                finding = _instance(schema, value, oracle, machine, in_order, counts)
            if finding is not None:
                return finding
        stage, at_hand = "walking", []
        for number in range(walks if machine is not None else 0):
            with seconds_at_most(WALK_SECONDS):
                finding = _walk(schema, oracle, Random(f"{seed} {number}"), counts)
            if finding is not None:
                return finding
    except OverBudgetError:
        kind, detail = f"slow while {stage}", "more processor time than the budget"
    except MemoryError:
        kind, detail = f"memory while {stage}", ""
    except ProxyError as error:
        if stage == "compiling":
            raise AssertionError("refusals are counted where they are met") from error
        kind, detail = f"late refusal while {stage}: {type(error).__name__}", str(error)
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{frame.filename.rpartition('state_machines/')[2]}:{frame.name}"
        kind, detail = f"crash while {stage}: {type(error).__name__} in {place}", str(error)[:300]
    else:
        return None
    return Finding(kind, schema, detail, next(iter(at_hand), None), bool(at_hand))


def _compiled(
    schema: Any, order: Any, counts: Counter[str], **options: Any
) -> JsonSchemaStateMachine | Finding | None:
    """Return the machine, ``None`` for a schema that is refused as it should be."""
    try:
        return JsonSchemaStateMachine(schema, property_order=order, assert_formats=False, **options)
    except UnsatisfiableSchemaError:
        counts["unsatisfiable"] += 1
        return _NOTHING
    except SchemaError as error:
        counts[f"refused: {type(error).__name__}"] += 1
        if not error.is_located or (error.keyword is None and error.pointer):
            return Finding("refusal without place", schema, repr(error))
        counts[f"refused by: {error.keyword}"] += 1
    except ProxyError as error:
        return Finding(f"refusal of another kind: {type(error).__name__}", schema, str(error))
    return None


class _Nothing(JsonSchemaStateMachine):
    """Stands for a schema that nothing satisfies."""

    def __init__(self) -> None:
        self.start = EMPTY


_NOTHING = _Nothing()


def _instance(
    schema: Any,
    value: Any,
    oracle: Oracle,
    machine: JsonSchemaStateMachine | None,
    in_order: JsonSchemaStateMachine | None,
    counts: Counter[str],
) -> Finding | None:
    if machine is None or _has_lone_surrogate(value):
        return None
    admitted = oracle.admits(value)
    if admitted is None or (oracle.is_draft_4 and _has_integral_float(value)):
        return None
    counts["instances"] += 1
    counts["instances admitted"] += admitted
    for ensure_ascii in (False, True):
        text = json.dumps(value, ensure_ascii=ensure_ascii)
        accepted = machine.matches(text)
        if accepted and not admitted:
            return Finding("invalid instance accepted", schema, text, value, True)
        if admitted and not accepted and not _is_spelled_unusually(text):
            return Finding("valid instance rejected", schema, text, value, True)
        if in_order is not None and in_order.matches(text) and not admitted:
            return Finding("invalid instance accepted in order", schema, text, value, True)
    if admitted and machine.matches(text):
        return _cut_into_tokens(schema, value, machine, counts)
    return None


def _has_lone_surrogate(value: Any) -> bool:
    return any(0xD800 <= ord(char) < 0xE000 for char in json.dumps(value, ensure_ascii=False))


def _has_integral_float(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_integral_float, value.values()))
    if isinstance(value, list):
        return any(map(_has_integral_float, value))
    return isinstance(value, float) and value.is_integer()


def _is_spelled_unusually(text: str) -> bool:
    """Whether a number in the text may be written in a way that is not generated."""
    return bool(_EXPONENT.search(text) or _LONG_NUMBER.search(text) or "-0" in text)


def _cut_into_tokens(
    schema: Any, value: Any, machine: JsonSchemaStateMachine, counts: Counter[str]
) -> Finding | None:
    text = json.dumps(value, ensure_ascii=False).encode()
    if len(text) > 200:
        return None
    random = Random(len(text))
    matcher = machine.matcher(VOCABULARY)
    at = 0
    while at < len(text):
        token_id = random.choice(_fitting(text, at))
        if not matcher.allowed_tokens()[token_id]:
            form = VOCABULARY.token_bytes[token_id]
            return Finding("token of a valid text masked", schema, f"{form!r} at {at}", value, True)
        matcher.advance(token_id)
        at += len(VOCABULARY.token_bytes[token_id] or b"")
    counts["cuttings"] += 1
    end = min(VOCABULARY.end_token_ids)
    if not matcher.allowed_tokens()[end]:
        return Finding("end of a valid text masked", schema, "", value, True)
    return None


def _fitting(text: bytes, at: int) -> list[int]:
    return [
        token_id
        for token_id, form in enumerate(VOCABULARY.token_bytes)
        if form is not None
        and token_id not in VOCABULARY.end_token_ids
        and text.startswith(form, at)
    ]


def _walk(schema: Any, oracle: Oracle, random: Random, counts: Counter[str]) -> Finding | None:
    machine = _compiled(
        schema,
        random.choice(("schema", "any")),
        Counter(),
        whitespace=random.choice(("json", "json", "compact", "indented")),
    )
    if isinstance(machine, Finding) or machine is None or machine is _NOTHING:
        return machine if isinstance(machine, Finding) else None
    counts["walks"] += 1
    matcher = machine.matcher(VOCABULARY)
    text = b""
    for step in range(random.randint(3, STEPS)):
        mask = matcher.allowed_tokens()
        problem = _problem(matcher, mask, random)
        if problem:
            return Finding(problem, schema, repr(text))
        allowed = [i for i in np.flatnonzero(mask).tolist() if i not in VOCABULARY.end_token_ids]
        if not allowed or (matcher.is_accepting and step and random.random() < 0.2):
            break
        long = [i for i in allowed if len(VOCABULARY.token_bytes[i] or b"") > 1]
        token_id = random.choice(long if long and random.random() < 0.5 else allowed)
        matcher.advance(token_id)
        text += VOCABULARY.token_bytes[token_id] or b""
    forced = matcher.forced_bytes()
    if matcher.state.compute_word_derivative(forced) is EMPTY:
        return Finding("forced text cannot be written", schema, repr(text))
    ending = an_ending(matcher.state)
    if ending is None:
        counts["walks too far from the end"] += 1
        return None
    counts["walks ended"] += 1
    if oracle.admits_text(text + ending) is False:
        return Finding("a walk ends in text that is not admitted", schema, repr(text + ending))
    try:
        json.loads(text + ending)
    except ValueError:
        return Finding("a walk ends in text that is no JSON", schema, repr(text + ending))
    return None


def _problem(matcher: Matcher, mask: Any, random: Random) -> str:
    """Return the error of a mask; for some tokens the mask is compared with ``advance``."""
    if not mask.any():
        return "dead end"
    if any(mask[end] != matcher.is_accepting for end in VOCABULARY.end_token_ids):
        return "end token and acceptance disagree"
    for token_id in random.sample(range(VOCABULARY.size), 8):
        twin = matcher.copy()
        try:
            twin.advance(token_id)
        except TokenRejectedError:
            taken = False
        else:
            taken = True
        if taken != mask[token_id]:
            return "mask and advance disagree"
    return ""
