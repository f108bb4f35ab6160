"""The readers of GBNF and Lark, on any text: a grammar, or an error with its place."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state_machines import GrammarError
from state_machines.budgets import step_budget
from state_machines.context_free.compiler import LexicalGrammar
from state_machines.context_free.gbnf import parse as parse_gbnf
from state_machines.context_free.lark.lowering import parse as parse_lark
from state_machines.limits import LIMITS
from state_machines.syntax_tree import Grammar

WORDS = (
    "root start a A : ::= | & ~ ( ) [ ] { } <think> <[1-3]> ! .. . * + ? {2,3} ~2 , - -> = @ ' \\"
)
WORDS += (
    ' "b" "b"i "\\u0041" /c+/ /d/i [^e-f] # // %ignore %import common.INT %json{} %lark{ %regex'
)
WORDS += (
    ' %llguidance{} [lazy] [capture="x"] [suffix="y"] [max_tokens=2] [temperature=0.5] \ud800 é "'
)
TEXTS = st.lists(st.sampled_from([*WORDS.split(), " ", "\n"]), max_size=14).map("".join)


@pytest.mark.parametrize("parse", [parse_gbnf, parse_lark])
@settings(max_examples=300, deadline=None)
@given(st.sampled_from(["", "root ::= ", "start: "]), TEXTS)
def test_text_is_a_grammar_or_an_error_at_a_place_in_it(
    parse: Callable[[str], Grammar | LexicalGrammar], beginning: str, rest: str
) -> None:
    text = beginning + rest
    lines = text.split("\n")
    try:
        with step_budget(LIMITS.compile_steps):
            grammar = parse(text)
    except GrammarError as error:
        assert error.what
        assert 1 <= error.line <= len(lines)
        assert 1 <= error.column <= len(lines[error.line - 1]) + 1
    else:
        for rule in grammar.rules.values():
            line, column = rule.position
            assert lines[line - 1][column - 1 :].lstrip("?!").startswith(rule.name.split()[-1])
