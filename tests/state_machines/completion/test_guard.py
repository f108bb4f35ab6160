"""Outputs within a number of tokens: complete whenever it is enough, refused when it is not."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from guarded_walks import random_walk
from hypothesis import assume, given
from hypothesis import strategies as st
from patched_limits import patch_limits
from schema_strategies import crowded_arrays, crowded_objects, examples, object_schemas, schemas
from small_vocabulary import small_vocabulary

from state_machines import (
    GrammarBudgetError,
    GrammarStateMachine,
    JsonSchemaStateMachine,
    MaxTokensTooSmallError,
    ProxyError,
    RegexStateMachine,
    StateMachine,
    TokenRejectedError,
    Vocabulary,
)
from state_machines.completion import Completion, Guard, next_tokens
from state_machines.masks.mask_store import MaskStore
from state_machines.root import Marker, Optional, RootStateMachine, Series, Structured, Text

VOCABULARY = small_vocabulary()
COMPLETION = Completion.of(VOCABULARY)
END = min(VOCABULARY.end_token_ids)
ANY_SCHEMA = st.one_of(schemas(), object_schemas(), crowded_objects(), crowded_arrays())


def least_tokens(machine: StateMachine) -> int:
    """Return the least number of tokens that is not refused, as the refusal of none names it."""
    if machine.start.nullable:
        return 0
    with pytest.raises(MaxTokensTooSmallError) as caught:
        Guard(machine.matcher(VOCABULARY), 0)
    assert caught.value.given == 0
    return caught.value.needed


def check_walks(machine: StateMachine, extra: list[int], random: Random) -> None:
    least = least_tokens(machine)
    if least:
        with pytest.raises(MaxTokensTooSmallError) as caught:
            Guard(machine.matcher(VOCABULARY), least - 1)
        assert (caught.value.needed, caught.value.given) == (least, least - 1)
    for more in extra:
        guard = Guard(machine.matcher(VOCABULARY), least + more)
        written = random_walk(guard, random, COMPLETION)
        assert len(written) <= least + more
        assert machine.matches(VOCABULARY.decode(written))


@given(ANY_SCHEMA, st.data())
@examples(20)
def test_text_is_complete_within_max_tokens(schema: Any, data: st.DataObject) -> None:
    order = data.draw(st.sampled_from(("schema", "any")))
    try:
        machine = JsonSchemaStateMachine(schema, property_order=order)
    except ProxyError:
        assume(False)
    extra = [0, 1, 2, data.draw(st.integers(3, 10)), data.draw(st.integers(11, 50))]
    check_walks(machine, extra, Random(data.draw(st.integers(0, 1000))))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "string", "minLength": 7, "maxLength": 9},
        {"type": "string", "pattern": "^(ab|[^a]{3}é)+$"},
        {"type": "array", "uniqueItems": True, "minItems": 2, "items": {"type": "string"}},
        {
            "type": "object",
            "properties": {"a": {"type": "string"}, "ab": {"$ref": "#"}},
            "required": ["a"],
        },
    ],
)
@pytest.mark.parametrize("few", [0, 10_000])
def test_smallest_max_tokens_is_enough(
    schema: Any, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether tokens are looked at one by one, or by what they do to a lexeme."""
    monkeypatch.setattr(next_tokens, "FEW", few)
    machine = JsonSchemaStateMachine(schema)
    check_walks(machine, [0, 1, 2, 3, 8, 21, 50] if few == 0 else [0, 25], Random(1))


def test_composition_is_complete_within_max_tokens() -> None:
    person = JsonSchemaStateMachine({"type": "object", "required": ["ab"]})
    machine = RootStateMachine(
        Series(
            Text("thoughts", begin="<s>", end="]]"),
            Marker("call", "<tool>"),
            Structured("person", grammar=person, end="}}"),
        ),
        VOCABULARY,
    )
    check_walks(machine, [*range(6), 9, 14, 20, 29], Random(2))


@given(st.sampled_from([r'"[ab]*"', r'"a{0,9}b"|12', r'\{"(a|é)*":\}', ".*,"]), st.integers(0, 9))
@examples(20)
def test_grouped_tokens_are_narrowed_as_single_ones(pattern: str, more: int) -> None:
    """All that is narrowed by lexemes is narrowed so one by one."""
    state = RegexStateMachine(pattern).start
    string = JsonSchemaStateMachine({"type": "string", "pattern": "^[ab]*é?$"}).start
    for start in (state, string.compute_word_derivative(b'"a'), string):
        allowed = MaskStore.of(VOCABULARY).allowed(start)
        most = COMPLETION.length(start) + more - 3
        masks = []
        for few in (0, 10_000):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(next_tokens, "FEW", few)
                masks.append(COMPLETION.within(start, allowed, most))
        assert (masks[0] == masks[1]).all()


def forced_token(guard: Guard) -> int:
    """Return the only token of the guard's mask."""
    (token_id,) = np.flatnonzero(guard.mask(guard.matcher.allowed_tokens(), exact=True)).tolist()
    return int(token_id)


def test_mask_is_not_narrowed_far_from_the_limit() -> None:
    guard = Guard(JsonSchemaStateMachine({}).matcher(VOCABULARY), 500)
    allowed = guard.matcher.allowed_tokens()
    assert guard.mask(allowed) is allowed
    assert not guard.is_tight


def test_token_after_which_no_plan_fits_is_rejected() -> None:
    schema = {"anyOf": [{"type": "string"}, {"type": "array", "minItems": 300}]}
    guard = Guard(JsonSchemaStateMachine(schema).matcher(VOCABULARY), 250)
    allowed = guard.matcher.allowed_tokens()
    opening = ord("[")
    assert guard.mask(allowed)[opening]
    assert not guard.mask(allowed, exact=True)[opening]
    assert not guard.accepts(opening)
    with pytest.raises(TokenRejectedError):
        guard.advance(opening)
    guard.advance(ord('"'))
    assert (guard.left, guard.needed) == (249, 1)


def test_only_the_plan_is_allowed_at_the_limit() -> None:
    machine = RegexStateMachine("xyz")
    guard = Guard(machine.matcher(VOCABULARY), least_tokens(machine))
    while guard.left:
        assert forced_token(guard) == guard.plan.first
        guard.advance(guard.plan.tokens[0])
    assert guard.matcher.is_accepting
    mask = guard.mask(guard.matcher.allowed_tokens())
    assert set(np.flatnonzero(mask).tolist()) == VOCABULARY.end_token_ids
    assert not guard.accepts(ord(" "))
    guard.advance(END)
    assert not guard.accepts(END)


def test_rejected_token_leaves_the_guard_unchanged() -> None:
    guard = Guard(JsonSchemaStateMachine({"type": "object"}).matcher(VOCABULARY), 30)
    state = guard.matcher.state
    for token_id in (ord("["), END, -1, VOCABULARY.size, VOCABULARY.size - 1):
        assert not guard.accepts(token_id)
        with pytest.raises(TokenRejectedError):
            guard.advance(token_id)
    assert guard.matcher.state is state
    assert guard.left == 30


def test_guard_follows_a_searched_plan() -> None:
    """The shortest text takes fewer tokens than the first one found."""
    forms: list[bytes | None] = [bytes((byte,)) for byte in range(256)]
    vocabulary = Vocabulary([*forms, b"bcdefghi", b"end"], end_token_ids=[257])
    machine = RegexStateMachine("a(xyz|bcdefghij)")
    completion = Completion.of(vocabulary)
    found, is_exact = completion.shortest(machine.start)
    assert is_exact
    assert len(found.tokens) == 3
    guard = Guard(machine.matcher(vocabulary), 3)
    for token_id in found.tokens:
        assert forced_token(guard) == token_id
        guard.advance(token_id)
    assert guard.matcher.is_accepting


def plan_only_known_states(monkeypatch: pytest.MonkeyPatch, known: set[Any]) -> None:
    """Find plans for known states only."""
    plan = Completion.plan

    def bounded_plan(completion: Completion, state: Any, **options: Any) -> Any:
        if state not in known:
            raise GrammarBudgetError("no end was found", budget=1)
        return plan(completion, state, **options)

    monkeypatch.setattr(Completion, "plan", bounded_plan)


def test_guard_follows_its_plan_where_no_other_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = {"type": "object", "required": ["ab"], "properties": {"ab": {"type": "array"}}}
    machine = JsonSchemaStateMachine(schema)
    guard = Guard(machine.matcher(VOCABULARY), 30)
    plan_only_known_states(monkeypatch, {machine.start})
    plan = guard.plan.tokens
    written = []
    while not guard.matcher.is_accepting:
        assert guard.plan.tokens == plan[len(written) :]
        assert guard.needed == len(guard.plan.tokens)
        allowed = guard.matcher.allowed_tokens()
        accepted = [i for i in np.flatnonzero(allowed).tolist() if guard.accepts(i)]
        assert accepted == [guard.plan.tokens[0]]
        mask = guard.mask(allowed, exact=True)
        assert np.flatnonzero(mask).tolist() == accepted
        state = guard.matcher.state
        for token_id in np.flatnonzero(allowed).tolist():
            if token_id not in accepted:
                with pytest.raises(TokenRejectedError):
                    guard.advance(token_id)
        assert guard.matcher.state is state
        guard.advance(accepted[0])
        written.append(accepted[0])
    assert tuple(written) == plan
    assert machine.matches(VOCABULARY.decode(written))


def test_advance_that_raises_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    guard = Guard(JsonSchemaStateMachine({"type": "object"}).matcher(VOCABULARY), 30)

    def fail(*_: object) -> None:
        raise GrammarBudgetError("too much", budget=1)

    before = (guard.left, guard.total, guard.needed, guard.plan.tokens, guard.matcher.state)
    with monkeypatch.context() as patch:
        patch.setattr(type(guard.matcher), "move", fail)
        with pytest.raises(GrammarBudgetError):
            guard.advance(ord("{"))
    assert (guard.left, guard.total, guard.needed, guard.plan.tokens, guard.matcher.state) == before
    guard.advance(ord("{"))
    assert guard.left == 29


@pytest.mark.parametrize("grammar", ['root ::= "a" root? root?', 'root ::= root root | "a" | "b"'])
def test_ambiguous_grammars_raise_no_recursion_error(grammar: str) -> None:
    forms: list[bytes | None] = [b"a", b"b", b"a" * 40, b"end"]
    vocabulary = Vocabulary(forms, end_token_ids=[3])
    guard = Guard(GrammarStateMachine(grammar).matcher(vocabulary), 1000)
    for _ in range(40):
        left = guard.left
        if not guard.accepts(2):
            with pytest.raises((TokenRejectedError, GrammarBudgetError)):
                guard.advance(2)
            assert guard.left == left
            break
        guard.advance(2)
        assert guard.left == left - 1


def test_free_text_beside_calls_stays_free_with_few_tokens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A vocabulary as large as real ones are is not looked at token by token.
    monkeypatch.setattr(next_tokens, "FEW", 8)
    patch_limits(monkeypatch, restricted_tokens=8)
    vocabulary = small_vocabulary()
    number = Structured("n", grammar=RegexStateMachine("[0-9]{9}"))
    part = Series(Text("text"), Optional(Series(Marker("call", "<call>"), number)))
    guard = Guard(RootStateMachine(part, vocabulary).matcher(vocabulary), 5)
    mask = guard.mask(guard.matcher.allowed_tokens())
    allowed = guard.matcher.allowed_tokens()
    letters = [i for i, form in enumerate(vocabulary.token_bytes) if form and form.isalpha()]
    letters = [i for i in letters if allowed[i]]
    assert letters
    assert mask[letters].all()


def test_first_plan_through_a_part_takes_steps_of_the_reserve(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A part that costs more than one token may is begun all the same, as long as the reserve lasts."""
    patch_limits(monkeypatch, token_plan_steps=20, plan_reserve_steps=4_000)
    parts = "|".join(f"{letter}([0-9]{{3}}[{letter}-z]{{2}},){{9}}" for letter in "bcd")
    machine = RegexStateMachine(f"a|{parts}")
    guard = Guard(machine.matcher(VOCABULARY), 100, completion=Completion(VOCABULARY))
    assert guard.accepts(ord("b"))
    patch_limits(monkeypatch, token_plan_steps=20, plan_reserve_steps=0)
    guard = Guard(machine.matcher(VOCABULARY), 100, completion=Completion(VOCABULARY))
    assert not guard.accepts(ord("c"))


@pytest.mark.parametrize("first", ["b", "d"])
def test_copies_of_a_guard_take_nothing_from_its_reserve(
    monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    """The reserve lasts for one of the parts. A draft and another answer to a prompt are copies."""
    patch_limits(monkeypatch, token_plan_steps=20, plan_reserve_steps=150)
    parts = "|".join(f"{letter}([0-9]{{3}}[{letter}-z]{{2}},){{9}}" for letter in "bcd")
    guard = Guard(
        RegexStateMachine(f"a|{parts}").matcher(VOCABULARY),
        100,
        completion=Completion(VOCABULARY),
    )
    copy = guard.copy()
    assert copy.accepts(ord(first))
    assert not copy.accepts(ord("c"))
    assert guard.accepts(ord("c"))
