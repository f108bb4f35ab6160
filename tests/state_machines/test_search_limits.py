"""Searches that give up: a limit may withhold an answer, and never changes one.

Two laws. Under limits of a few states, random schemas, grammars and patterns admit the texts of a
reference, or a budget is named. With counts around the real limits, so do nested repetitions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest
from counted_trees import (
    LETTERS,
    MIXED,
    CountedTree,
    as_lark,
    as_pattern,
    counted_schemas,
    is_text_of,
    text_near,
    trees,
)
from hypothesis import event, given
from hypothesis import strategies as st
from judging import Judge
from lexical_reference import ReferenceLexer, lexical_references
from patched_limits import patch_limits
from schema_strategies import ALL_FEATURES, crowded_arrays, examples, schemas, values_near
from small_vocabulary import check_masks, small_vocabulary

from state_machines import (
    ChoiceStateMachine,
    GrammarBudgetError,
    GrammarStateMachine,
    InvalidSchemaError,
    JsonSchemaStateMachine,
    MaxTokensTooSmallError,
    RegexStateMachine,
    StateMachine,
    UnsatisfiableGrammarError,
    UnsatisfiableSchemaError,
    UnsupportedGrammarError,
    UnsupportedPatternError,
    UnsupportedSchemaError,
)
from state_machines.budgets import Verdict, step_budget
from state_machines.completion import Guard
from state_machines.context_free.compiler import lexical_machine
from state_machines.grammar.finite_choices import finite_choice
from state_machines.root import Marker, Repeat, RootStateMachine, Series, Structured
from state_machines.vocabulary import Vocabulary

VOCABULARY = small_vocabulary()
BYTES = Vocabulary(
    [*(bytes((byte,)) for byte in range(256)), b"ab", b"1,", b"</s>"], end_token_ids=[258]
)
REFUSED = (
    GrammarBudgetError,
    UnsupportedGrammarError,
    UnsupportedPatternError,
    UnsupportedSchemaError,
)
"""Errors that name a limit, or a construct that is not supported."""

SEARCHES = (
    *("emptiness_states", "endless_states", "array_states"),
    *("nested_emptiness_queries", "tagged_values", "factored_parts", "walked_configurations"),
    *("trie_walk_states", "word_states", "word_nesting", "word_branches", "visits_per_state"),
    *("remembered_words", "completion_improvement_steps", "unevaluated_cases", "union_clauses"),
)


def test_verdict_is_no_boolean() -> None:
    with pytest.raises(TypeError, match="may be unknown"):
        bool(Verdict.UNKNOWN)
    verdicts = iter([Verdict.NO, Verdict.UNKNOWN, Verdict.YES, Verdict.NO])
    assert Verdict.any_of(verdicts) is Verdict.YES
    assert list(verdicts) == [Verdict.NO], "the others are not computed"
    assert Verdict.any_of([Verdict.NO, Verdict.UNKNOWN]) is Verdict.UNKNOWN
    assert Verdict.any_of([]) is Verdict.NO
    with pytest.raises(GrammarBudgetError, match="deciding it took more than 50,000 states"):
        Verdict.UNKNOWN.decided("it", 50_000)


@contextmanager
def limits(**changes: int) -> Iterator[None]:
    """Replace limits for a ``with`` block."""
    with pytest.MonkeyPatch.context() as patch:
        patch_limits(patch, **changes)
        yield


# Verdicts that were wrong


def unique_ones(count: int, **inner: Any) -> dict[str, Any]:
    """Return the schema of different arrays of at least ``count`` ones."""
    items = {"type": "array", "items": {"const": 1}, "minItems": count, **inner}
    return {"type": "array", "items": items, "uniqueItems": True, "minItems": 2}


def write(machine: StateMachine, text: bytes) -> None:
    """Write a text byte by byte, each of which a mask must allow."""
    matcher = machine.matcher(BYTES)
    for byte in text:
        assert matcher.allowed_tokens()[byte], "a dead end"
        matcher.advance(byte)
    assert matcher.is_accepting


def test_unique_long_arrays_are_no_dead_end() -> None:
    count = 1_000
    machine = JsonSchemaStateMachine(unique_ones(count))
    ones = ["1"] * count
    again = f"[[{','.join(ones)}],[{','.join(ones)}"
    write(machine, f"{again}, 1]]".encode())
    assert not machine.begins(f"{again}]"), "the same value again"
    # The search for another value is made once, and not for every token.
    with step_budget(200 * count):
        write(machine, f"{again},1],[{','.join(ones)},1,1]]".encode())


def test_exhausted_unique_arrays_end() -> None:
    machine = JsonSchemaStateMachine(unique_ones(600, maxItems=601))
    texts = [",".join(["1"] * count) for count in (600, 601)]
    write(machine, f"[[{texts[0]}],[{texts[1]}]]".encode())
    assert not machine.begins(f"[[{texts[0]}],[{texts[1]}],")


def test_undecided_exclusion_is_no_dead_end() -> None:
    """A mask names the budget, and a guard continues with its plan."""
    machine = JsonSchemaStateMachine(unique_ones(60))
    first = f"[[{','.join(['1'] * 60)}]"
    with limits(emptiness_states=20):
        matcher = machine.matcher(BYTES)
        matcher.restrict(machine.start.compute_word_derivative(first.encode()))
        with pytest.raises(GrammarBudgetError, match="took more than 20 states"):
            matcher.allowed_tokens()
    assert np.flatnonzero(matcher.allowed_tokens()).tolist() == [ord(",")]


@pytest.mark.parametrize("count", [1_500, 60_000])
@pytest.mark.parametrize(("item", "written"), [('"a" %json {"const": 1} ","', "a1,"), ("w", ";")])
def test_long_repetitions_of_nested_and_lazy_terminals_have_texts(
    count: int, item: str, written: str
) -> None:
    grammar = f'start: item~{count}\nitem: {item}\nw[suffix=";"]: /a*/'
    machine = GrammarStateMachine.from_lark(grammar)
    if count < 10_000:
        assert machine.matches(written * count)
        assert not machine.begins(written * count + written[0])
        assert not machine.matches(written * (count - 1))


@pytest.mark.parametrize(("count", "tokens"), [(300, 150), (30, 15)])
def test_rule_that_only_a_search_fits_into_its_tokens_has_texts(count: int, tokens: int) -> None:
    grammar = f'start: item "."\nitem[max_tokens={tokens}]: /(a|b){{{count}}}/'
    matcher = GrammarStateMachine.from_lark(grammar).matcher(BYTES)
    random = Random(0)
    while not matcher.is_accepting:
        allowed = np.flatnonzero(matcher.allowed_tokens()).tolist()
        assert allowed, "a dead end"
        matcher.advance(random.choice(allowed))


@pytest.mark.parametrize(("count", "tokens"), [(3_000, 1_500), (300, 149)])
def test_rule_beyond_its_tokens_is_refused_by_name(count: int, tokens: int) -> None:
    grammar = f'start: item "."\nitem[max_tokens={tokens}]: /(a|b){{{count}}}/'
    machine = GrammarStateMachine.from_lark(grammar)
    fits = count == 2 * tokens
    with pytest.raises(
        GrammarBudgetError if fits else UnsatisfiableGrammarError,
        match="was found within 100,000 steps" if fits else "takes at most 149 tokens",
    ):
        machine.matcher(BYTES)


def test_contains_with_large_counts_is_decided_once() -> None:
    schema = {
        "type": "array",
        "items": {"enum": [1, 2]},
        "minItems": 1_000,
        "contains": {"const": 1},
        "minContains": 1_000,
    }
    machine = JsonSchemaStateMachine(schema)
    with step_budget(100_000):
        assert machine.matches(json.dumps([1] * 1_000))
        assert not machine.matches(json.dumps([1] * 999 + [2]))


@pytest.mark.parametrize("count", [10, 3_000])
def test_limits_of_parts_behind_many_others_count(count: int) -> None:
    grammar = GrammarStateMachine.from_lark("start: <[7]> w\nw[max_tokens=2]: /[ab]+;/")
    rounds = Repeat(Marker("m", "x"), min_count=count, max_count=count)
    machine = RootStateMachine(Series(rounds, Structured("g", grammar=grammar)))
    matcher = machine.matcher(BYTES)
    for token_id in [*[ord("x")] * count, 7, ord("a")]:
        matcher.advance(token_id)
    assert np.flatnonzero(matcher.allowed_tokens()).tolist() == [ord(";")]


def test_smaller_enclosing_budget_hides_no_finite_choice() -> None:
    state = ChoiceStateMachine([f"choice {n}" for n in range(60)]).start
    with suppress(GrammarBudgetError), step_budget(20):
        assert finite_choice(state) is None
    assert len(finite_choice(state) or ()) == 60


# Limits of a few states


FEW = st.dictionaries(st.sampled_from(SEARCHES), st.sampled_from([1, 2, 3, 5, 10, 30]), min_size=1)


def check_texts(machine: StateMachine, admits: dict[str, bool]) -> None:
    """Check that texts are accepted as a reference says, or a budget is exceeded."""
    for text, admitted in admits.items():
        try:
            accepted = machine.matches(text)
        except GrammarBudgetError:
            event("a text is not decided")
        else:
            assert accepted == admitted, text


def check_walk(machine: StateMachine, seed: int, steps: int = 12) -> None:
    """Check that masks are exact and never empty, without and with a limit on tokens."""
    random, matcher = Random(seed), machine.matcher(VOCABULARY)
    guard = None
    try:
        guard = Guard(matcher.copy(), 60)
    except (GrammarBudgetError, MaxTokensTooSmallError) as error:
        event(f"no guard: {type(error).__name__}")
    while guard is not None and not guard.matcher.is_finished:
        try:
            allowed = guard.mask(guard.matcher.allowed_tokens(), exact=True)
        except GrammarBudgetError:
            allowed = guard.plan_mask()
        ids = np.flatnonzero(allowed).tolist()
        assert ids
        token_id = random.choice(ids)
        if not guard.accepts(token_id):
            token_id = int(guard.plan_mask().argmax())
        guard.advance(token_id)
    try:
        check_masks(matcher, VOCABULARY, (random.getrandbits(32) for _ in range(steps)))
    except GrammarBudgetError:
        event("a mask is not decided")


@examples(15)
@given(st.data(), FEW, st.integers(0, 2**32))
def test_small_limits_change_no_value_of_a_schema(
    data: st.DataObject, few: dict[str, int], seed: int
) -> None:
    kinds = st.one_of(schemas(features=ALL_FEATURES - {"ref"}), crowded_arrays(), unique_arrays())
    schema = data.draw(kinds)
    judge = Judge(schema)
    values = [data.draw(values_near(schema)) for _ in range(4)]
    admits = {json.dumps(value): judge.admits(value) for value in values}
    with limits(**few):
        try:
            machine = JsonSchemaStateMachine(schema, property_order="any")
        except UnsatisfiableSchemaError:
            assert not any(admits.values())
        except (*REFUSED, InvalidSchemaError) as error:
            event(f"refused: {str(error)[:60]}")
        else:
            check_texts(machine, admits)
            check_walk(machine, seed)


@st.composite
def unique_arrays(draw: st.DrawFn) -> dict[str, Any]:
    """Draw arrays of different arrays."""
    size = draw(st.integers(0, 4))
    inner: dict[str, Any] = {
        "type": "array",
        "items": {"enum": draw(st.sampled_from([[1], [1, 2], ["a", 1], [[1], [2]]]))},
        "minItems": size,
    }
    if draw(st.booleans()):
        inner["maxItems"] = size + draw(st.integers(0, 2))
    return {
        "type": "array",
        "items": inner,
        "uniqueItems": True,
        "minItems": draw(st.integers(0, 3)),
    }


TEXTS = ["".join(letters) for size in range(6) for letters in product("ab ", repeat=size)]


@examples(40)
@given(lexical_references(), st.sets(st.sampled_from(TEXTS), max_size=40), FEW, st.integers())
def test_small_limits_change_no_text_of_a_grammar(
    reference: ReferenceLexer, texts: set[str], few: dict[str, int], seed: int
) -> None:
    admits = {text: reference.accepts(text) for text in sorted(texts)}
    with limits(**few):
        try:
            machine = lexical_machine(reference.grammar, "root")
        except UnsatisfiableGrammarError:
            assert not any(admits.values())
        except GrammarBudgetError:
            event("refused")
        else:
            check_texts(machine, admits)
            check_walk(machine, seed)


# Counts around the real limits


def check_counted(
    build: Callable[[], StateMachine], admits: dict[str, bool], random: Random
) -> None:
    """Check verdicts, and masks along accepted texts, against those of a reference."""
    try:
        machine = build()
    except (UnsatisfiableGrammarError, UnsatisfiableSchemaError) as error:
        assert not any(admits.values()), error
        return
    except REFUSED as error:
        event(f"refused: {str(error)[:50]}")
        return
    check_texts(machine, admits)
    accepted = [text.encode() for text, admitted in admits.items() if admitted]
    if not accepted:
        return
    text = random.choice(accepted)
    places = [0, random.randrange(len(text) + 1), max(0, len(text) - 3), len(text)]
    for place in places:
        matcher = machine.matcher(BYTES)
        try:
            matcher.restrict(machine.start.compute_word_derivative(text[:place]))
            for byte in text[place : place + 8]:
                allowed = matcher.allowed_tokens()
                assert allowed[byte], text[:place]
                matcher.advance(byte)
            check_masks(matcher, BYTES, (random.getrandbits(32) for _ in range(6)))
        except GrammarBudgetError as error:
            assert "took more than" in error.what
            event(f"not decided: {error.what[:50]}")


def judged(tree: CountedTree, random: Random) -> dict[str, bool]:
    pattern = as_pattern(tree)
    texts = {text_near(tree, random) for _ in range(5)}
    verdicts = {text: is_text_of(pattern, text) for text in sorted(texts) if len(text) < 50_000}
    return {text: known for text, known in verdicts.items() if known is not None}


def check_grammar(tree: CountedTree, seed: int) -> None:
    random = Random(seed)
    text = f'start: {as_lark(tree)}\nlazy[suffix=";"]: /#[ab]*/'
    check_counted(lambda: GrammarStateMachine.from_lark(text), judged(tree, random), random)


def check_pattern(tree: CountedTree, seed: int) -> None:
    random = Random(seed)
    pattern = as_pattern(tree)
    check_counted(lambda: RegexStateMachine(pattern), judged(tree, random), random)


def check_schema(drawn: tuple[Any, list[Any]], seed: int) -> None:
    schema, values = drawn
    judge = Judge(schema)
    admits = {json.dumps(value): judge.admits(value) for value in values}
    check_counted(lambda: JsonSchemaStateMachine(schema), admits, Random(seed))


SEEDS = st.integers(0, 2**32)


@examples(8)
@given(trees(1_001, items=MIXED), SEEDS)
def test_counts_change_no_text_of_a_grammar(tree: CountedTree, seed: int) -> None:
    check_grammar(tree, seed)


@examples(8)
@given(trees(2_001, items=LETTERS), SEEDS)
def test_counts_change_no_text_of_a_pattern(tree: CountedTree, seed: int) -> None:
    check_pattern(tree, seed)


@examples(8)
@given(counted_schemas(1_001), SEEDS)
def test_counts_change_no_value_of_a_schema(drawn: tuple[Any, list[Any]], seed: int) -> None:
    check_schema(drawn, seed)


@pytest.mark.soak
@examples(300)
@given(
    trees(10_001, items=MIXED),
    trees(10_001, items=LETTERS),
    counted_schemas(10_001),
    SEEDS,
)
def test_larger_counts_change_no_verdict(
    lark: CountedTree, pattern: CountedTree, drawn: tuple[Any, list[Any]], seed: int
) -> None:
    check_grammar(lark, seed)
    check_pattern(pattern, seed)
    check_schema(drawn, seed)
