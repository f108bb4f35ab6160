"""Lark grammars are read as llguidance reads them: the same texts are accepted, byte by byte."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any, ClassVar

import pytest
from lark_grammars import IGNORED_TOO, NULLABLE, random_grammar, random_texts

from state_machines import (
    GrammarStateMachine,
    UnsatisfiableGrammarError,
    UnsupportedGrammarError,
)
from state_machines.budgets import step_budget
from state_machines.errors import GrammarBudgetError

llguidance = pytest.importorskip("llguidance", reason="llguidance is in the extra `bench`")


STEPS = 200_000
"""Steps for one grammar and its texts."""


class Bytes:
    """A tokenizer with a token for each byte."""

    eos_token_id = 256
    bos_token_id = None
    tokens: ClassVar = [*(bytes([byte]) for byte in range(256)), b"<|end|>"]
    special_token_ids: ClassVar = [256]

    def __call__(self, text: str | bytes) -> list[int]:
        return list(text.encode() if isinstance(text, str) else text)


TOKENIZER = llguidance.LLTokenizer(llguidance.TokenizerWrapper(Bytes()))


def peer(grammar: str) -> Any:
    matcher = llguidance.LLMatcher(
        TOKENIZER, llguidance.LLMatcher.grammar_from_lark(grammar), log_level=0
    )
    assert not matcher.is_error(), (grammar, matcher.get_error())
    return matcher


def peer_reads(matcher: Any, text: bytes) -> tuple[int, bool]:
    """Return how many bytes of a text are read, and whether it is accepted then."""
    matcher.reset()
    count = matcher.try_consume_tokens(list(text))
    return count, count == len(text) and matcher.is_accepting()


def compare(grammar: str, random: Random, texts: int) -> tuple[int, int]:
    """Compare the verdicts on some texts; return how many were compared, and accepted."""
    matcher = peer(grammar)
    machine: GrammarStateMachine | None = None
    # Without a machine, llguidance reads beginnings that nothing completes.
    with suppress(UnsatisfiableGrammarError):
        machine = GrammarStateMachine.from_lark(grammar)
    compared = accepted = 0
    for text in random_texts(random, machine, texts):
        read, accepts = peer_reads(matcher, text)
        ours = machine is not None and machine.matches(text)
        assert ours == accepts, (grammar, text)
        compared += 1
        accepted += ours
        if machine is not None and machine.begins(text):
            assert read == len(text), (grammar, text)
    return compared, accepted


def compare_many(seed: int, grammars: int, texts: int) -> tuple[int, int, int]:
    """Compare random grammars; return counts of texts, accepted texts, and grammars left out.

    Grammars whose states take too much work are left out.
    """
    random = Random(seed)
    compared = accepted = costly = 0
    for _ in range(grammars):
        grammar = random_grammar(random)
        try:
            with step_budget(STEPS):
                counts = compare(grammar, random, texts)
        except (GrammarBudgetError, UnsupportedGrammarError):
            costly += 1
            continue
        compared += counts[0]
        accepted += counts[1]
    return compared, accepted, costly


def test_same_texts_as_llguidance() -> None:
    compared, accepted, costly = compare_many(7, 15, 12)
    assert compared > 150
    assert accepted > 30
    assert costly < 4


def differing_texts(seed: int, terminals: tuple[str, ...], grammars: int) -> tuple[int, set[str]]:
    """Compare grammars with terminals beside ignored text.

    Returns:
        The number of accepted texts, and who alone accepts a text: "peer, ignored first" for a text
        that begins with ignored text.
    """
    random, accepted, found = Random(seed), 0, set()
    for _ in range(grammars):
        grammar = random_grammar(random, beside_ignored=terminals)
        machine: GrammarStateMachine | None = None
        with suppress(GrammarBudgetError), step_budget(STEPS):
            with suppress(UnsatisfiableGrammarError):
                machine = GrammarStateMachine.from_lark(grammar)
            matcher = peer(grammar)
            for text in random_texts(random, machine, 8):
                theirs = peer_reads(matcher, text)[1]
                ours = machine is not None and machine.matches(text)
                accepted += ours
                if ours != theirs:
                    where = ", ignored first" if text[:1] in (b" ", b"#") else ""
                    found.add("here" if ours else f"peer{where}")
    return accepted, found


@pytest.mark.parametrize(
    ("terminals", "differences"),
    [((NULLABLE,) * 8, {"peer, ignored first"}), (IGNORED_TOO * 4, {"here"})],
    ids=["may be empty", "ignored as well"],
)
def test_verdicts_beside_ignored_text_differ_as_documented(
    terminals: tuple[str, ...], differences: set[str]
) -> None:
    accepted, found = differing_texts(3, terminals, 40)
    assert accepted > 30
    assert found == differences


@pytest.mark.soak
def test_same_texts_as_llguidance_for_many_grammars() -> None:
    compared, accepted, costly = compare_many(20, 2000, 25)
    assert accepted > compared // 6
    assert costly < 100
