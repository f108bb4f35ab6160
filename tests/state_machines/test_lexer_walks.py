"""Walks of lexers: the compiled kernel, whole-array operations and single vertices agree."""

from __future__ import annotations

import pytest

from state_machines import GrammarStateMachine, Vocabulary
from state_machines.grammar.lexing import Lexed
from state_machines.grammar.liveness import has_word
from state_machines.masks import lexer_walks
from state_machines.masks.automaton import KERNEL, Kernel
from state_machines.masks.lexer_walks import LexerWalks
from state_machines.masks.token_trie import TokenTrie

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
GBNF = r"""
root ::= item+
item ::= name ws "=" ws sum ";" ws | "#" [^\n]* ws
sum ::= sum [-+] ws term | term
term ::= name ws | [0-9]+ ws | "(" ws sum ")" ws
name ::= [a-z]+
ws ::= [ \n]*
"""
TEXTS = {
    "lark": b"ab = (1.5 + c) - 2;\n// note\nif x y = 1;",
    "gbnf": b"ab = (1 + c) - 2;\n# note\nxy = 1;",
}


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


def _allowed(walks: LexerWalks, state: Lexed) -> set[int]:
    return {i for walk, _ in walks.walks(state) for i in walk.ids.tolist()}


@pytest.mark.parametrize("notation", ["lark", "gbnf"])
@pytest.mark.parametrize("kernel", [KERNEL, None])
def test_walks_of_few_and_many_vertices_agree(
    notation: str, kernel: Kernel | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = GrammarStateMachine(LARK if notation == "lark" else GBNF, notation=notation)
    trie = TokenTrie(VOCABULARY)
    by_vertex, at_once = LexerWalks(trie), LexerWalks(trie, kernel)
    state = machine.start
    for byte in TEXTS[notation]:
        for part in getattr(state, "members", (state,)):
            assert isinstance(part, Lexed)
            monkeypatch.setattr(lexer_walks, "FEW_TOKENS", 10_000)
            expected = _allowed(by_vertex, part)
            monkeypatch.setattr(lexer_walks, "FEW_TOKENS", -1)
            assert _allowed(at_once, part) == expected
        state = state.derivative(byte)
    assert state.nullable


def test_states_of_separable_grammars_have_a_word() -> None:
    machine = GrammarStateMachine.from_lark(LARK)
    state = machine.start
    for byte in TEXTS["lark"]:
        state = state.derivative(byte)
        assert isinstance(state, Lexed)
        assert not state.lexicon.may_block
        assert state.nullable or has_word(state.next_lexemes(0))


def test_a_terminal_that_takes_all_that_follows_leaves_no_dead_state() -> None:
    machine = GrammarStateMachine.from_lark('start: /[ab]+/ ("ab" | "c") | "b"')
    assert isinstance(machine.start, Lexed)
    assert machine.start.lexicon.may_block
    assert machine.matches(b"abc")
    assert machine.matches(b"b")
    # The string "ab" cannot begin: its first byte continues the terminal before it.
    assert not machine.matches(b"aab")
    assert machine.begins(b"aab")
