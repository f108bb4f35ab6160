"""Walks of lexers: the compiled kernel, whole-array operations and derivatives agree."""

from __future__ import annotations

import pytest

from state_machines import GrammarStateMachine, Vocabulary
from state_machines.grammar.lexing import Lexed
from state_machines.grammar.node import EMPTY
from state_machines.masks import descent, token_sets
from state_machines.masks.descent import Descents
from state_machines.masks.kernel import KERNEL, Kernel
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
TEXT = b"ab = (1.5 + c) - 2;\n// note\nif x y = 1;"


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
    return {i for walk, _ in walks.walks(state) for i in walk.tokens.ids.tolist()}


@pytest.mark.parametrize("kernel", [KERNEL, None])
@pytest.mark.parametrize("few", [descent.FEW_TOKENS, 0])
def test_walks_find_the_tokens_that_derivatives_allow(
    kernel: Kernel | None, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(descent, "FEW_TOKENS", few)
    monkeypatch.setattr(token_sets, "FEW_TOKENS", few)
    machine = GrammarStateMachine.from_lark(LARK)
    walks = LexerWalks(Descents(TokenTrie(VOCABULARY), kernel))
    state = machine.start
    for byte in TEXT:
        for part in getattr(state, "members", (state,)):
            assert isinstance(part, Lexed)
            expected = {
                token_id
                for token_id, form in enumerate(VOCABULARY.token_bytes[:-1])
                if form and part.compute_word_derivative(form) is not EMPTY
            }
            assert _allowed(walks, part) == expected
        state = state.derivative(byte)
    assert state.nullable


def test_a_terminal_that_takes_all_that_follows_leaves_no_dead_state() -> None:
    machine = GrammarStateMachine.from_lark('start: /[ab]+/ ("ab" | "c") | "b"')
    assert isinstance(machine.start, Lexed)
    assert machine.start.lexicon.may_block
    assert machine.matches(b"abc")
    assert machine.matches(b"b")
    # The string "ab" cannot begin: its first byte continues the terminal before it.
    assert not machine.matches(b"aab")
    assert machine.begins(b"aab")
