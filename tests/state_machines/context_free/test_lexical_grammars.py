"""Grammars over lexemes against a reference lexer and brute force."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from lexical_reference import ReferenceLexer, lexical_references
from schema_strategies import examples
from small_vocabulary import an_ending, check_masks, small_vocabulary

from state_machines import GrammarStateMachine, StateMachine, UnsatisfiableGrammarError
from state_machines.context_free.compiler import lexical_machine
from state_machines.grammar.deep import compute_word_derivative
from state_machines.grammar.lexer import LexerState
from state_machines.grammar.lexing import Lexed, before_lexeme
from state_machines.grammar.liveness import exit_of, exit_within
from state_machines.grammar.node import EMPTY

VOCABULARY = small_vocabulary()
TEXTS = ["".join(letters) for size in range(6) for letters in product("ab ", repeat=size)]


def compiled(reference: ReferenceLexer) -> StateMachine | None:
    """Return the machine of a grammar; ``None`` if the compiler says that no text matches."""
    try:
        return lexical_machine(reference.grammar, "root")
    except UnsatisfiableGrammarError:
        return None


def check_texts(reference: ReferenceLexer, texts: list[str]) -> None:
    machine = compiled(reference)
    accepted = {text for text in texts if reference.accepts(text)}
    event("satisfiable" if machine is not None else "empty")
    if machine is None:
        assert not accepted
        return
    seen = set()
    for text in texts:
        assert machine.matches(text) == (text in accepted), text
        state = compute_word_derivative(machine.start, text.encode())
        if state is not EMPTY and state not in seen:
            seen.add(state)
            # A prefix has a state only if some text continues it.
            ending = an_ending(state)
            assert ending is None or reference.accepts(text + ending.decode()), (text, ending)


CHOICES = st.lists(st.integers(0, 999), min_size=4, max_size=9)


@examples(25)
@given(lexical_references(), st.sets(st.sampled_from(TEXTS), max_size=40))
def test_machine_admits_the_texts_of_the_reference(
    reference: ReferenceLexer, texts: set[str]
) -> None:
    check_texts(reference, sorted(texts))


@examples(15)
@given(lexical_references(), CHOICES)
def test_masks_equal_brute_force(reference: ReferenceLexer, choices: list[int]) -> None:
    machine = compiled(reference)
    if machine is not None:
        check_masks(machine.matcher(VOCABULARY), VOCABULARY, choices)


@examples(25)
@given(lexical_references(), CHOICES)
def test_safe_ends_are_ends_that_a_search_finds(
    reference: ReferenceLexer, choices: list[int]
) -> None:
    machine = compiled(reference)
    state = machine.start if machine is not None else EMPTY
    for number in choices:
        lexed = [each for each in getattr(state, "members", (state,)) if isinstance(each, Lexed)]
        for each in lexed:
            safe_ends, lexer = each.lexicon.safe_ends, each.lexer
            if each.is_start:
                assert not safe_ends.begins(each.parser.first_bytes) or exit_of(each, 0) >= 0
            elif isinstance(lexer, LexerState) and safe_ends.is_safe(lexer):
                before = before_lexeme(each.lexicon, each.parser, may_ignore=each.may_ignore)
                assert isinstance(before, Lexed)
                assert exit_within(before, lexer) >= 0
        if not state.transitions:
            break
        _, state = state.transitions[number % len(state.transitions)]


@pytest.mark.parametrize("ignored", ["", "%ignore / /"])
def test_optional_lexemes_compete_with_those_behind_them(ignored: str) -> None:
    # Behind "~", the lexeme "a" may be a T1, which continues with all that r0 begins with.
    grammar = rf"""
        start: r1 T2 r0
        r0: T1 (r0* | T1?) | T2
        r1: T0 T1? | T1
        T0: "~"
        T1: /[a-c]+/
        T2: "a"
        {ignored}
    """
    if not ignored:
        with pytest.raises(UnsatisfiableGrammarError):
            GrammarStateMachine.from_lark(grammar)
        return
    machine = GrammarStateMachine.from_lark(grammar)
    assert machine.matches("~a b")
    assert not machine.matches("~ab")


@pytest.mark.soak
@settings(max_examples=200)
@given(lexical_references(plain=True))
def test_lark_grammars_admit_the_texts_of_the_reference(reference: ReferenceLexer) -> None:
    accepted = {text for text in TEXTS if reference.accepts(text)}
    try:
        machine = GrammarStateMachine.from_lark(reference.lark)
    except UnsatisfiableGrammarError:
        assert not accepted
        return
    assert {text for text in TEXTS if machine.matches(text)} == accepted


@pytest.mark.parametrize("digits", [6, 70])
def test_long_lexemes_follow_wherever_they_may(digits: int) -> None:
    machine = GrammarStateMachine.from_lark(rf"""
        start: (entry "\n")+
        entry: "%" DATE "%" ("," WORD "~" VALUE)* body?
        body: "<" (entry | LABEL) ">"
        DATE: /[0-9]{{{digits}}}\/[0-9]{{2}}/
        WORD: /[A-Z]+/
        VALUE: /[A-Z0-9]+/
        LABEL: /[A-Z][A-Z;]*/
    """)
    date = f"%{'7' * digits}/05%"
    assert machine.matches(f"{date},CODE~A17<READY>\n{date},CODE~B2<{date},RETRY~3<LATE;>>\n")
