"""Measure one size in a forked process, so that caches hold nothing of its schema.

The child inherits the parent's results, such as a vocabulary's trie. Each repeat forks a new child,
which walks a text of another schema first.
"""

from __future__ import annotations

import gc
import multiprocessing
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from statistics import median
from time import perf_counter_ns
from typing import Any

from families import MIXED, Member

from state_machines import GrammarBudgetError, JsonSchemaStateMachine, SchemaError, Vocabulary

__all__ = [
    "Measured",
    "cut_vocabulary",
    "greedy_tokens",
    "measure_member",
    "measure_vocabulary",
    "tokens_of",
    "walk",
]

MASKED = 5_000
"""Tokens at a text's beginning and at its end for which masks are computed; between, none are."""

_LONGEST = 24
"""Bytes of the longest token that is tried when a text is cut; longer ones are mostly spaces."""


@dataclass(frozen=True)
class Measured:
    """Costs in microseconds by name; ``ended`` says why there are none (refused, limit)."""

    tokens: int
    ended: str = ""
    costs: dict[str, float] = field(default_factory=dict)


def cut_vocabulary(vocabulary: Vocabulary, size: int) -> Vocabulary:
    """Return the first ``size`` tokens, and the end tokens if they are not among them.

    Byte-pair encodings list tokens in the order in which they were found, so that the beginning
    of one is what training would have given for a smaller size.
    """
    forms = list(vocabulary.token_bytes[:size])
    ends = []
    for end in sorted(vocabulary.end_token_ids):
        if end >= size:
            forms.append(vocabulary.token_bytes[end])
        ends.append(end if end < size else len(forms) - 1)
    return Vocabulary(forms, end_token_ids=ends)


def greedy_tokens(text: bytes, ids: dict[bytes, int]) -> list[int]:
    """Cut a text into tokens, the longest that fits first; whatever vocabulary there is.

    Raises ``KeyError`` for a byte that no token has.
    """
    tokens, at = [], 0
    while at < len(text):
        for length in range(min(_LONGEST, len(text) - at), 1, -1):
            token = ids.get(text[at : at + length])
            if token is not None:
                break
        else:
            length, token = 1, ids[text[at : at + 1]]
        tokens.append(token)
        at += length
    return tokens


def tokens_of(member: Member, vocabulary: Vocabulary) -> list[int]:
    """Cut a member's text into tokens of a vocabulary."""
    ids = {form: token for token, form in enumerate(vocabulary.token_bytes) if form is not None}
    tokens: list[int] = []
    for piece in member.pieces:
        tokens += greedy_tokens(piece.text.encode(), ids) * piece.times
    return tokens


def walk(
    machine: JsonSchemaStateMachine, vocabulary: Vocabulary, tokens: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Write a text: nanoseconds of each mask computed, and of each token taken.

    Raises ``ValueError`` if a mask does not have the token.
    """
    masks, advances = [], []
    started = perf_counter_ns()
    matcher = machine.matcher(vocabulary)
    for position, token in enumerate(tokens):
        if position < MASKED or position >= len(tokens) - MASKED:
            mask = matcher.allowed_tokens()
            masks.append(perf_counter_ns() - started)
            if not mask[token]:
                raise ValueError(f"token {token} is not allowed after {position} others")
        started = perf_counter_ns()
        matcher.advance(token)
        advances.append(perf_counter_ns() - started)
        started = perf_counter_ns()
    if not matcher.is_accepting:
        raise ValueError("the text is not complete")
    return masks, advances


def measure_member(
    member: Member, vocabulary: Vocabulary, repeats: int, seconds: float
) -> Measured:
    """Compile a schema and walk its text, twice; medians over the repeats."""
    tokens = tokens_of(member, vocabulary)
    other_tokens = tokens_of(MIXED, vocabulary)

    def costs() -> dict[str, float]:
        # A child copies shared memory on first access, even when Python only reads it. So the
        # interpreter and the vocabulary are used before the measurement.
        walk(JsonSchemaStateMachine(MIXED.schema), vocabulary, other_tokens)
        return _costs(member, vocabulary, tokens)

    return _repeated(costs, len(tokens), repeats, seconds)


def measure_vocabulary(
    vocabulary: Vocabulary, member: Member, repeats: int, seconds: float
) -> Measured:
    """The same with a vocabulary that is built each time, and its first mask of all."""
    tokens = tokens_of(member, vocabulary)

    def costs() -> dict[str, float]:
        started = perf_counter_ns()
        fresh = Vocabulary(vocabulary.token_bytes, end_token_ids=vocabulary.end_token_ids)
        built = perf_counter_ns() - started
        started = perf_counter_ns()
        JsonSchemaStateMachine({}).matcher(fresh).allowed_tokens()
        first_of_all = perf_counter_ns() - started
        return {
            "vocabulary": built / 1000,
            "first_of_all": first_of_all / 1000,
            **_costs(member, fresh, tokens),
        }

    return _repeated(costs, len(tokens), repeats, seconds)


def _costs(member: Member, vocabulary: Vocabulary, tokens: Sequence[int]) -> dict[str, float]:
    started = perf_counter_ns()
    machine = JsonSchemaStateMachine(member.schema)
    compile_ns = perf_counter_ns() - started
    masks, advances = walk(machine, vocabulary, tokens)
    again, again_advances = walk(machine, vocabulary, tokens)
    costs = {
        "compile": compile_ns,
        "first_mask": masks[0],
        "mean_mask": sum(masks) / len(masks),
        "slowest_mask": max(masks),
        "mean_advance": sum(advances) / len(advances),
        # Mask and advance for a token that has been seen.
        "again": sum(again) / len(again) + sum(again_advances) / len(again_advances),
    }
    if len(masks) == len(tokens):
        costs["walk"] = sum(masks) + sum(advances)
    return {name: ns / 1000 for name, ns in costs.items()}


def _repeated(
    costs: Callable[[], dict[str, float]], tokens: int, repeats: int, seconds: float
) -> Measured:
    found = []
    for _ in range(repeats):
        result = _in_child(costs, seconds)
        if isinstance(result, str):
            return Measured(tokens, ended=result)
        found.append(result)
    medians = {name: median(each[name] for each in found) for name in found[0]}
    return Measured(tokens, costs={name: float(f"{us:.5g}") for name, us in medians.items()})


def _in_child(costs: Callable[[], dict[str, float]], seconds: float) -> dict[str, float] | str:
    """Run in a forked process: the costs, or in a word why there are none."""
    # What lives is not looked at by the child's collector, and so not copied for it.
    gc.collect()
    gc.freeze()
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_send, args=(theirs, costs))
    child.start()
    theirs.close()
    try:
        if not ours.poll(seconds):
            return "limit"
        result: dict[str, float] | str | Exception = ours.recv()
    except EOFError:
        return "died"
    finally:
        child.kill()
        child.join()
        ours.close()
    if isinstance(result, Exception):
        raise result
    return result


def _send(connection: Connection[Any, Any], costs: Callable[[], dict[str, float]]) -> None:
    try:
        connection.send(costs())
    except (SchemaError, GrammarBudgetError):
        connection.send("refused")
    except Exception as error:
        connection.send(error)
