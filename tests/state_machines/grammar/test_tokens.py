"""Tokens by name and by number, and limits on tokens: what masks, matchers and guards do."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state_machines import (
    GrammarStateMachine,
    GrammarSyntaxError,
    TokenRejectedError,
    UnknownTokenError,
    UnsatisfiableGrammarError,
    Vocabulary,
)
from state_machines.budgets import Verdict
from state_machines.completion import Completion, Guard
from state_machines.completion.completion import LimitedCompletion
from state_machines.grammar.encoding import RAW, encoded
from state_machines.grammar.node import EPSILON, Node
from state_machines.grammar.nodes import concatenation, literal
from state_machines.grammar.rule_options import LimitedRule
from state_machines.grammar.tokens import MAX_TOKEN_ID, spelling, token_set
from state_machines.machine import StateMachine
from state_machines.matcher import Matcher
from state_machines.regex import compile_pattern
from state_machines.root import RootStateMachine, Series, Structured, Text

TOKENS = [b"a", b"b", b"c", b"ab", b"bc", b"abc", b" ", b"\n", b"1", b"12", b"</s>", b"<", b">"]
TOKENS += [b"think", b"<tool>", b"a\n", b"\xe2", b"\x82", b"\xac", b"<think>", b"</think>", b"."]
END = TOKENS.index(b"</s>")
THINK, END_THINK = TOKENS.index(b"<think>"), TOKENS.index(b"</think>")
VOCABULARY = Vocabulary(
    [*TOKENS, None],
    end_token_ids=[END],
    special_tokens={"<think>": THINK, "</think>": END_THINK},
)
NUMBERS = st.integers(0, MAX_TOKEN_ID) | st.integers(0, 600) | st.just(MAX_TOKEN_ID)
RANGES = st.lists(st.tuples(NUMBERS, NUMBERS).map(lambda pair: (min(pair), max(pair))), max_size=5)


def allowed(matcher: Matcher) -> list[int]:
    return matcher.allowed_tokens().nonzero()[0].tolist()  # type: ignore[no-any-return]


def after(machine: StateMachine, tokens: list[bytes]) -> Matcher:
    matcher = machine.matcher(VOCABULARY)
    for token in tokens:
        matcher.advance(TOKENS.index(token))
    return matcher


@settings(max_examples=60, deadline=None)
@given(RANGES, st.lists(st.sampled_from(["<a>", "<ab>", "<", "x"]), max_size=3), st.data())
def test_set_has_the_spellings_of_its_tokens(
    ranges: list[tuple[int, int]], names: list[str], data: st.DataObject
) -> None:
    ends = [bound + step for pair in ranges for bound in pair for step in (-1, 0, 1)]
    number = data.draw(st.sampled_from([*ends, 7]).filter(lambda n: 0 <= n <= MAX_TOKEN_ID))
    name = data.draw(st.sampled_from(["<a>", "<ab>", "<", "x", "<abc>", ""]))
    is_member = name in names or any(first <= number <= last for first, last in ranges)
    text = spelling(number, name.encode())
    if ranges or names:
        assert token_set(names, ranges).matches(text) == is_member
        assert token_set(names, ranges, is_negated=True).matches(text) != is_member


@pytest.mark.parametrize(
    ("grammar", "tokens", "expected"),
    [
        ("root ::= <think>", [], [b"<think>"]),
        ("root ::= <tool>", [], [b"<tool>"]),
        ("root ::= <[3]>", [], [b"ab"]),
        ("root ::= <[3-5,19]>", [], [b"ab", b"bc", b"abc", b"<think>"]),
        ("root ::= <[^0-18]>", [], [b"<think>", b"</think>", b"."]),
        ("root ::= !<[0]>", [], [t for t in TOKENS if t not in (b"a", b"</s>")]),
        ("root ::= <[*]>", [], [t for t in TOKENS if t != b"</s>"]),
        ('root ::= "a" <[3]> | "ab" "c"', [b"a"], [b"b", b"ab", b"bc"]),
        ('root ::= "a" <[3]> | "ab" "c"', [b"a", b"ab"], [b"</s>"]),
        ('root ::= <think> !</think>* </think> "b"', [b"<think>", b"a", b"</think>"], [b"b"]),
    ],
)
def test_mask_has_the_tokens_of_a_set(
    grammar: str, tokens: list[bytes], expected: list[bytes]
) -> None:
    matcher = after(GrammarStateMachine(grammar), tokens)
    found = [TOKENS[token_id] for token_id in allowed(matcher)]
    assert found == [t for t in TOKENS if t in expected]
    for token_id in range(len(TOKENS)):
        assert matcher.explain(token_id).is_allowed == (token_id in allowed(matcher))


def test_token_of_another_number_with_the_same_bytes_is_refused() -> None:
    vocabulary = Vocabulary([b"a", b"a", b"</s>"], end_token_ids=[2])
    matcher = GrammarStateMachine("root ::= <[1]>").matcher(vocabulary)
    with pytest.raises(TokenRejectedError):
        matcher.advance(0)
    matcher.advance(1)
    assert matcher.is_accepting


@pytest.mark.parametrize(
    ("grammar", "token", "hint"),
    [
        ('root ::= "a"\n  <thnik>', "<thnik>", "<think>"),
        ('root ::= "a"\n  <[22]>', "<[22]>", "numbers"),
        ('root ::= "a"\n  <[9999-10000]>', "<[9999-10000]>", "numbers"),
        ('root ::= "a"\n  </s>', "</s>", "Leave it out"),
    ],
)
def test_tokens_that_the_vocabulary_lacks_are_named(grammar: str, token: str, hint: str) -> None:
    machine = GrammarStateMachine(grammar)
    with pytest.raises(UnknownTokenError) as caught:
        machine.matcher(VOCABULARY)
    error = caught.value
    assert (error.token, error.line, error.column) == (token, 2, 3)
    assert hint in error.hint


@pytest.mark.parametrize(
    "token", ["<a b>", "<", "<[x]>", "<[]>", "<[3-1]>", "<[99999999]>", "!<[*]>", "!", '!"a"']
)
def test_malformed_tokens_have_line_and_column(token: str) -> None:
    with pytest.raises(GrammarSyntaxError) as caught:
        GrammarStateMachine(f'root ::= "a"\n  {token}')
    assert caught.value.line == 2


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(["<think>", "<[3]>", '"a"', "<tool>", "!<think>", "<[^0-13]>"])))
def test_plan_and_guard_complete_texts_with_tokens(parts: list[str]) -> None:
    machine = GrammarStateMachine("root ::= " + " ".join([*parts, '"."']))
    plan = Completion.of(VOCABULARY).plan(machine.start)
    assert plan.length == len(parts) + 1
    guard = Guard(machine.matcher(VOCABULARY), plan.length)
    for token_id in plan.tokens:
        assert guard.mask(guard.matcher.allowed_tokens(), exact=True)[token_id]
        guard.advance(token_id)
    assert guard.matcher.is_accepting


def test_parts_of_an_answer_may_have_tokens() -> None:
    grammar = GrammarStateMachine("root ::= <[3]> <tool> [ab]*")
    parts = Series(
        Text("reasoning", begin="<think>", end="</think>"), Structured("x", grammar=grammar)
    )
    matcher = RootStateMachine(parts, VOCABULARY).matcher(VOCABULARY)
    for token in (b"<think>", b"a", b"</think>", b"ab", b"<tool>", b"b"):
        matcher.advance(TOKENS.index(token))
    matcher.advance(END)
    pieces = matcher.take_pieces()
    assert b"".join(piece.text for piece in pieces if piece.part is parts.parts[1]) == b"ab<tool>b"


# Limits on tokens


def regex(pattern: str) -> Node:
    return encoded(compile_pattern(pattern, search=False), RAW)


def limited(before: bytes, pattern: str, max_tokens: int, behind: bytes) -> StateMachine:
    rule = LimitedRule("rule", (1, 1), regex(pattern), max_tokens)
    parts = [literal(before) if before else EPSILON, rule.language, literal(behind)]
    return StateMachine(concatenation(*parts), limited_rules=[rule])


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from([b"", b"<<", b"ab"]),
    st.sampled_from(["[abc]*", "[abc]*\n", "(ab)+c|a", "[abc]{2,5}", "(a|bc)*\n", "€?[ab]*"]),
    st.integers(1, 4),
    st.sampled_from([b"..", b"c.", b"a\n."]),
    st.data(),
)
def test_limit_is_kept_and_is_no_dead_end(
    before: bytes, pattern: str, max_tokens: int, behind: bytes, data: st.DataObject
) -> None:
    if LimitedCompletion.of(VOCABULARY).fits(regex(pattern), max_tokens) is not Verdict.YES:
        return
    matcher = limited(before, pattern, max_tokens, behind).matcher(VOCABULARY)
    written: list[bytes] = []
    while not matcher.is_accepting:
        ids = allowed(matcher)
        assert ids
        for token_id in range(len(TOKENS)):
            twin = matcher.copy()
            try:
                twin.advance(token_id)
            except TokenRejectedError:
                assert token_id not in ids
            else:
                assert token_id in ids
        token_id = data.draw(st.sampled_from(ids))
        matcher.advance(token_id)
        written.append(TOKENS[token_id])
    text = b"".join(written)
    first, last, place, count = len(before), len(text) - len(behind), 0, 0
    for token in written:
        count += place < last and place + len(token) > first
        place += len(token)
    assert count <= max_tokens


def test_guard_completes_texts_with_limited_parts() -> None:
    machine = limited(b"<", "[abc]{6}", 2, b".")
    guard = Guard(machine.matcher(VOCABULARY), 4)
    for token in (b"<", b"abc", b"abc", b"."):
        assert guard.mask(guard.matcher.allowed_tokens(), exact=True).nonzero()[0].tolist() == [
            TOKENS.index(token)
        ]
        guard.advance(TOKENS.index(token))


def test_rules_of_lark_limit_their_tokens() -> None:
    machine = GrammarStateMachine.from_lark(
        """
        start: <think> thought </think> answer
        thought[max_tokens=2]: /[abc ]+/
        answer: /[0-9]+/ | <[14]>
        """
    )
    matcher = after(machine, [b"<think>", b"a", b"ab"])
    assert [TOKENS[i] for i in allowed(matcher)] == [b"</think>"]
    matcher.advance(END_THINK)
    assert [TOKENS[i] for i in allowed(matcher)] == [b"1", b"12", b"<tool>"]


def test_limits_that_no_text_keeps_are_refused_by_rule() -> None:
    grammar = """start: "a" (word | "1")
        word[max_tokens=2]: /[abc]{7}/"""
    machine = GrammarStateMachine.from_lark(grammar)
    with pytest.raises(UnsatisfiableGrammarError, match="at most 2 tokens") as raised:
        machine.matcher(VOCABULARY)
    assert (raised.value.line, raised.value.column, raised.value.rule) == (2, 9, "word")
    # In every place, and for every vocabulary.
    nested = GrammarStateMachine.from_lark(f"start: %lark {{\n{grammar}\n%ignore /;/\n}}")
    for whole in (nested, RootStateMachine(Structured("x", grammar=nested))):
        with pytest.raises(UnsatisfiableGrammarError, match="'word'"):
            whole.matcher(VOCABULARY)
    long = Vocabulary([b"a", b"abcabca", b"</s>"], end_token_ids=[2])
    assert machine.matcher(long).allowed_tokens().tolist() == [True, True, False]


def test_limits_hold_in_grammars_that_are_nested_twice() -> None:
    machine = GrammarStateMachine.from_lark(
        """start: "a" %lark {
            %ignore /:/
            start: "b" %lark {
                %ignore /;/
                start: word
                word[max_tokens=1]: /[abc]{3}/
            }
        }"""
    )
    matcher = after(machine, [b"a", b"b"])
    assert [TOKENS[i] for i in allowed(matcher)] == [b"abc"]


@pytest.mark.parametrize("body", ["/[abc]{6}/", "/([abc]{7})?/", "/[abc]+/", "/[abc]{7}|a/"])
def test_limits_that_some_text_keeps_are_accepted(body: str) -> None:
    machine = GrammarStateMachine.from_lark(f'start: word "1"\nword[max_tokens=2]: {body}')
    assert machine.matcher(VOCABULARY).allowed_tokens().any()


def test_limit_of_a_suffix_includes_it() -> None:
    machine = GrammarStateMachine.from_lark(
        'start: word "1"\nword[max_tokens=1, suffix="."]: /[abc]+/'
    )
    with pytest.raises(UnsatisfiableGrammarError, match="at most 1 token "):
        machine.matcher(VOCABULARY)
