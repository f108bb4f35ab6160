"""Judge one case: a schema, and instances that it admits or forbids."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from state_machines import ProxyError, UnsatisfiableSchemaError, Vocabulary
from state_machines.errors import SchemaError
from state_machines.machine import StateMachine
from state_machines.matcher import Matcher

__all__ = ["Case", "Verdict", "judge", "written"]


@dataclass(frozen=True)
class Case:
    """A schema with its tests: pairs of an instance and whether the schema admits it."""

    name: str
    family: str
    schema: Any
    tests: tuple[tuple[Any, bool], ...]


@dataclass(frozen=True)
class Verdict:
    """What came of a case.

    ``status`` is ``right``, ``refused`` (with ``error`` and ``keyword``), ``wrong`` (with the
    indices of the tests) or ``crash`` (an error that is not the project's own, which never may
    be). ``split`` are tests on which bytes and tokens disagree.
    """

    name: str
    family: str
    status: str
    error: str = ""
    keyword: str = ""
    what: str = field(default="", compare=False)
    valid_rejected: tuple[int, ...] = ()
    invalid_accepted: tuple[int, ...] = ()
    split: tuple[int, ...] = ()
    judged_valid: dict[str, bool | None] = field(default_factory=dict, compare=False)
    reasons: dict[str, str] = field(default_factory=dict, compare=False)
    """By index of a test that went wrong: what ``jsonschema`` says, and what explains it.

    Not compared, since the judge has versions.
    """

    def line(self) -> dict[str, Any]:
        """Return the ledger's line without empty fields."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name in self.__dataclass_fields__
            if (value := getattr(self, name))
        }

    @classmethod
    def of(cls, line: dict[str, Any]) -> Verdict:
        """Read a line again."""
        return cls(**{n: tuple(v) if isinstance(v, list) else v for n, v in line.items()})


def judge(
    case: Case,
    compile_schema: Callable[[Any], StateMachine],
    vocabulary: Vocabulary | None = None,
) -> Verdict:
    """Compile the schema and feed it every instance: as bytes, and as tokens of a vocabulary."""
    try:
        machine = _machine_or_none(case, compile_schema)
        accepted = [_accepts(machine, instance, vocabulary) for instance, _ in case.tests]
    except ProxyError as error:
        keyword = (error.keyword or "") if isinstance(error, SchemaError) else ""
        return Verdict(
            case.name, case.family, "refused", type(error).__name__, keyword, error.what[:80]
        )
    except Exception as error:
        return Verdict(case.name, case.family, "crash", type(error).__name__)
    wrong: dict[tuple[bool, bool], list[int]] = {}
    for index, ((as_bytes, _), (_, valid)) in enumerate(zip(accepted, case.tests, strict=True)):
        wrong.setdefault((valid, as_bytes), []).append(index)
    rejected, admitted = wrong.get((True, False), []), wrong.get((False, True), [])
    split = [index for index, (a, b) in enumerate(accepted) if a != b]
    return Verdict(
        case.name,
        case.family,
        "wrong" if rejected or admitted or split else "right",
        valid_rejected=tuple(rejected),
        invalid_accepted=tuple(admitted),
        split=tuple(split),
    )


def _machine_or_none(
    case: Case, compile_schema: Callable[[Any], StateMachine]
) -> StateMachine | None:
    try:
        return compile_schema(case.schema)
    except UnsatisfiableSchemaError:
        return None


def _accepts(
    machine: StateMachine | None, instance: Any, vocabulary: Vocabulary | None
) -> tuple[bool, bool]:
    """Tell whether an instance is accepted as bytes, and whether as tokens."""
    if machine is None:
        return False, False
    text = written(instance)
    as_bytes = machine.matches(text)
    if vocabulary is None:
        return as_bytes, as_bytes
    return as_bytes, _accepts_tokens(machine.matcher(vocabulary), text, vocabulary)


def written(instance: Any) -> bytes:
    """Return the text of an instance; escapes only where a lone surrogate needs them."""
    try:
        return json.dumps(instance, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(instance).encode()


def _accepts_tokens(matcher: Matcher, text: bytes, vocabulary: Vocabulary) -> bool:
    for token_id in _cut(text, vocabulary):
        if not matcher.allowed_tokens()[token_id]:
            return False
        matcher.advance(token_id)
    end = next(iter(vocabulary.end_token_ids))
    return bool(matcher.allowed_tokens()[end])


def _cut(text: bytes, vocabulary: Vocabulary) -> Iterator[int]:
    """Cut a text into the longest tokens that fit, from left to right."""
    ids = {
        form: token_id
        for token_id, form in enumerate(vocabulary.token_bytes)
        if form is not None and token_id not in vocabulary.end_token_ids
    }
    longest = max(map(len, ids))
    at = 0
    while at < len(text):
        form = next(
            text[at : at + width]
            for width in range(min(longest, len(text) - at), 0, -1)
            if text[at : at + width] in ids
        )
        yield ids[form]
        at += len(form)
