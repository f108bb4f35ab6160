"""Walks of grammars: the compiled kernel, whole-array operations and derivatives agree."""

from __future__ import annotations

import threading

import pytest

from state_machines import GrammarStateMachine, Vocabulary
from state_machines.grammar.lexing import Lexed
from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.nodes import Concatenation, concatenation
from state_machines.masks import kernel as kernel_module
from state_machines.masks import stack_automaton, token_sets
from state_machines.masks.descent import Descents
from state_machines.masks.grammar_walks import LexerWalks, RecursiveWalks
from state_machines.masks.kernel import KERNEL, Kernel
from state_machines.masks.token_trie import TokenTrie
from state_machines.masks.trie_walk import TrieWalk

LARK = r"""
start: item+
item: NAME "=" sum ";" | COMMENT | "if" NAME item
sum: sum ("+" | "-") term | term
term: NAME | NUMBER | "(" sum ")"
NAME: /[a-z_]+/
NUMBER: /[0-9]+(\.[0-9]+)?/
COMMENT: /\/\/[^\n]*\n/
%ignore /[ \n]+/
"""
TEXT = b"ab = (1.5 + c) - 2;\n// note\nif x y = 1;"
GBNF = r"""
root ::= item+
item ::= name ws "=" ws sum ";" ws | "#" [^\n]* ws
sum ::= sum [-+] ws term | term
term ::= name ws | [0-9]+ ws | "(" ws sum ws ")" ws
name ::= [a-z]+
ws ::= [ \n]*
"""


def _vocabulary() -> Vocabulary:
    pieces = {
        b"".join((a, b))
        for a in (b" ", b"(", b"if", b"a", b"1", b";\n")
        for b in (b"=", b"b", b" x", b"2.", b");", b"//")
    }
    pieces |= {b"  ", b" = (", b"+ (", b" // ", b"1.5 +", b";\n\n", b"# a", b" - ", b"ab=1;"}
    forms = [bytes((byte,)) for byte in range(256)] + sorted(pieces) + [b"<end>"]
    return Vocabulary(forms, end_token_ids=[len(forms) - 1])


VOCABULARY = _vocabulary()


def _expected(state: Node) -> set[int]:
    forms = VOCABULARY.token_bytes[:-1]
    return {
        token_id
        for token_id, form in enumerate(forms)
        if form and state.compute_word_derivative(form) is not EMPTY
    }


@pytest.mark.skipif(KERNEL is None, reason="the kernel is not compiled")
@pytest.mark.parametrize("pairs", [4, 1 << 18], ids=["full", "roomy"])
def test_automata_find_the_tokens_that_derivatives_allow(
    pairs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stack_automaton, "_MAX_PAIRS", pairs)
    machine = GrammarStateMachine.from_lark(LARK)
    walks = LexerWalks(Descents(TokenTrie(VOCABULARY), KERNEL))
    state = machine.start
    gave_up = 0
    for byte in TEXT:
        for part in getattr(state, "members", (state,)):
            assert isinstance(part, Lexed)
            found = walks.tokens(part)
            gave_up += found is None
            if found is not None:
                assert {i for each in found for i in each.ids.tolist()} == _expected(part)
        state = state.derivative(byte)
    assert (gave_up > 0) == (pairs == 4)


@pytest.mark.parametrize("kernel", [KERNEL, None])
@pytest.mark.parametrize("few", [kernel_module.FEW_TOKENS, 0])
def test_walks_find_the_tokens_that_derivatives_allow(
    kernel: Kernel | None, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_module, "FEW_TOKENS", few)
    monkeypatch.setattr(token_sets, "FEW_TOKENS", few)
    machine = GrammarStateMachine.from_lark(LARK)
    walks = LexerWalks(Descents(TokenTrie(VOCABULARY), kernel))
    state = machine.start
    for byte in TEXT:
        for part in getattr(state, "members", (state,)):
            assert isinstance(part, Lexed)
            found = {i for walk, _ in walks.walks(part) for i in walk.tokens.ids.tolist()}
            assert found == _expected(part)
        state = state.derivative(byte)
    assert state.nullable


@pytest.mark.parametrize("kernel", [KERNEL, None])
@pytest.mark.parametrize("states", [4, 1 << 14], ids=["full", "roomy"])
def test_states_of_recursive_rules_allow_the_tokens_that_derivatives_allow(
    kernel: Kernel | None, states: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stack_automaton, "_MAX_STATES", states)
    machine = GrammarStateMachine.from_gbnf(GBNF)
    descents = Descents(TokenTrie(VOCABULARY), kernel)
    walks = RecursiveWalks(descents, TrieWalk(descents).tokens_by_state)
    state = machine.start
    for byte in b"ab = (1 + c) - 2;\n# note\nxy = 1;":
        found = [each.ids.tolist() for each in walks.tokens(state)]
        assert set().union(*found) == _expected(state)
        state = state.derivative(byte)
    assert state.nullable


def test_deep_nesting_fits_into_the_stack_of_a_thread() -> None:
    machine = GrammarStateMachine.from_gbnf('root ::= "(" root? (| "a" root "e" | "b" root "d")')
    vocabulary = Vocabulary([b"(", b"a", b"b", b"d", b"e"], end_token_ids=[4])
    descents = Descents(TokenTrie(vocabulary))
    walks = RecursiveWalks(descents, TrieWalk(descents).tokens_by_state)
    state = machine.start.compute_word_derivative(b"(((")
    assert isinstance(state, Concatenation)
    assert isinstance(state.tail, Concatenation)
    inner, outer = state.head, state.tail.head
    for _ in range(10_000):
        state = concatenation(outer, state)
    state = concatenation(inner, state)
    found: list[set[int]] = []

    def run() -> None:
        found.append(set().union(*(each.ids.tolist() for each in walks.tokens(state))))

    size = threading.stack_size(1 << 19)
    try:
        thread = threading.Thread(target=run)
        thread.start()
    finally:
        threading.stack_size(size)
    thread.join()
    assert found == [{0, 1, 2}]


def test_a_terminal_that_takes_all_that_follows_leaves_no_dead_state() -> None:
    machine = GrammarStateMachine.from_lark('start: /[ab]+/ ("ab" | "c") | "b"')
    assert machine.matches(b"abc")
    assert machine.matches(b"b")
    # The string "ab" cannot begin: its first byte continues the terminal before it.
    assert not machine.matches(b"aab")
    assert machine.begins(b"aab")


@pytest.mark.skipif(KERNEL is None, reason="the kernel is not compiled")
def test_mask_that_waits_makes_no_other_mask_of_the_grammar_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A checkpoint of the budget may wait for another thread, which computes such a mask."""
    machine = GrammarStateMachine.from_gbnf(GBNF)
    descents = Descents(TokenTrie(VOCABULARY), KERNEL)
    walks = RecursiveWalks(descents, TrieWalk(descents).tokens_by_state)
    walks.tokens(machine.start)
    state = machine.start.compute_word_derivative(b"a=")
    expected = _expected(state)
    others: list[set[int]] = []

    def run() -> None:
        others.append(set().union(*(s.ids.tolist() for s in walks.tokens(state))))

    add_row = stack_automaton.StackAutomaton.add_missing_row

    def add_row_and_wait(automaton: stack_automaton.StackAutomaton) -> None:
        if not other.ident:
            other.start()
            other.join(10)
        add_row(automaton)

    other = threading.Thread(target=run, daemon=True)
    monkeypatch.setattr(stack_automaton.StackAutomaton, "add_missing_row", add_row_and_wait)
    found = set().union(*(s.ids.tolist() for s in walks.tokens(state)))
    assert others == [expected]
    assert found == expected
