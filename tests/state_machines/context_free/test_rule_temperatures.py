"""The option temperature of rules in Lark: what matchers report, and where it is refused."""

from __future__ import annotations

import pytest

from state_machines import (
    GrammarError,
    GrammarStateMachine,
    InvalidArgumentError,
    StateMachine,
    Vocabulary,
)
from state_machines.grammar.rule_options import same_temperature
from state_machines.processors.row_masks import RowMasks
from state_machines.root import Optional, RootStateMachine, Series, Structured, Text

END = 256
VOCABULARY = Vocabulary([*(bytes([byte]) for byte in range(256)), b"</s>"], end_token_ids=[END])


def temperatures(machine: StateMachine, text: str) -> list[float | None]:
    """Return the temperature before each byte of a text, and behind the last one."""
    matcher = machine.matcher(VOCABULARY)
    found = [matcher.temperature]
    for byte in text.encode():
        matcher.advance(byte)
        found.append(matcher.temperature)
    return found


@pytest.mark.parametrize(
    ("grammar", "text", "expected"),
    [
        ('start: "a" w "1"\nw[temperature=0.7]: /[b-z]+/', "abc1", [None, 0.7, 0.7, 0.7, None]),
        ('start: "a" w "1"\nw[temperature=0]: "bc" | "bd"', "abc1", [None, 0, 0, None, None]),
        # A lexeme that can go on is being written, even if it is complete.
        ('start: w "1"\nw[temperature=2]: "b" | "bcd"', "b1", [2, 2, None]),
        # The suffix belongs to the lexeme.
        ('start: w "1"\nw[temperature=0.5, suffix="."]: /[b-z]*/', "b.1", [0.5, 0.5, None, None]),
        ('start: w "1"\nw[temperature=0.5, max_tokens=2]: /[b-z]+/', "b1", [0.5, 0.5, None]),
        # Ignored text before the rule.
        (
            'start: "a" w "1"\nw[temperature=0.7]: /[b-z]+/\n%ignore /[ ]+/',
            "a  b 1",
            [None, 0.7, 0.7, 0.7, 0.7, None, None],
        ),
        # Several terminals may come: where they agree, and where one of them is left.
        ("start: v | w\nv[temperature=1]: /a+/\nw[temperature=1]: /b+/", "a", [1, 1]),
        ("start: v | w\nv[temperature=1]: /ab*/\nw[temperature=2]: /ac*/", "ab", [None, None, 1]),
        ("start: v | w\nv[temperature=1]: /a+/\nw: /b+/", "a", [None, 1]),
        # Equal texts are of two terminals.
        ('start: v "," w\nv[temperature=1]: /a+/\nw: /a+/', "a,a", [1, 1, None, None]),
        # A rule of a nested grammar has the temperature, if it has none of its own.
        (
            'start: "<" n ">"\nn[temperature=0.5]: %lark {\nstart: /a+/ ";" w\n'
            "w[temperature=0]: /b+/\n}",
            "<a;b>",
            [None, 0.5, 0.5, 0, 0, None],
        ),
        (
            'start: "<" n ">"\nn[temperature=0.5]: %lark {\nstart: /a+/ ";"\n%ignore " "\n}',
            "<a ;>",
            [None, 0.5, 0.5, 0.5, None, None],
        ),
    ],
)
def test_temperature_is_that_of_the_rule_whose_lexeme_is_written(
    grammar: str, text: str, expected: list[float | None]
) -> None:
    assert temperatures(GrammarStateMachine.from_lark(grammar), text) == expected


GRAMMAR = GrammarStateMachine.from_lark(
    'start: "a" w "1"\nw[temperature=0.7]: /[b-z]+/\nv[temperature=0]: "x"'
)


def test_machine_knows_the_temperatures_of_its_rules() -> None:
    assert GRAMMAR.temperatures == (0, 0.7)
    assert GRAMMAR.matcher(VOCABULARY).temperatures == (0, 0.7)
    assert GrammarStateMachine("root ::= [a-z]").temperatures == ()
    nested = 'start: n\nn: %lark {\nstart: w\nw[temperature=0.3]: "x"\n%ignore " "\n}'
    assert GrammarStateMachine.from_lark(nested).temperatures == (0.3,)


def test_grammars_in_answers_keep_their_temperatures() -> None:
    thoughts = Text("reasoning", begin="<t>", end="</t>")
    answer = Series(Optional(thoughts), Structured("call", grammar=GRAMMAR))
    machine = RootStateMachine(answer)
    assert machine.temperatures == (0, 0.7)
    found = temperatures(machine, "<t>ab</t>abc1")
    assert found == [None] * 10 + [0.7, 0.7, 0.7, None]


def test_finished_text_has_no_temperature() -> None:
    matcher = GrammarStateMachine.from_lark("start: w\nw[temperature=1]: /a+/").matcher(VOCABULARY)
    matcher.advance(ord("a"))
    assert matcher.temperature == 1
    matcher.advance(END)
    assert matcher.temperature is None


def test_text_has_one_temperature_if_all_its_bytes_do() -> None:
    state = GRAMMAR.start.derivative(ord("a"))
    assert same_temperature(state, b"bc")
    assert same_temperature(state, b"")
    assert not same_temperature(GRAMMAR.start, b"ab")


@pytest.mark.parametrize(
    ("grammar", "line", "column", "message"),
    [
        ("start: w\nw[temperature=0.5]: %json {}", 2, 1, "neither a terminal nor a nested"),
        ('start: w\nw[temperature=0.5]: start "x" | "y"', 2, 1, "neither a terminal nor a nested"),
        ("start: w\nw[temperature=0.5]: %lark {\nstart: %json {}\n}", 3, 8, "of a %json"),
        ('start: w\nw[temperature=101]: "x"', 2, 3, "neither 0 nor in"),
        ('start: w\nw[temperature=0.000001]: "x"', 2, 3, "neither 0 nor in"),
        ('start: w\nw[temperature="1"]: "x"', 2, 3, "a number was expected"),
        ('start: w\nw[temperature]: "x"', 2, 14, "needs a value"),
    ],
)
def test_temperatures_that_cannot_be_kept_are_refused(
    grammar: str, line: int, column: int, message: str
) -> None:
    with pytest.raises(GrammarError, match=message) as raised:
        GrammarStateMachine.from_lark(grammar)
    assert (raised.value.line, raised.value.column) == (line, column)


def test_logits_processors_refuse_temperatures() -> None:
    with pytest.raises(InvalidArgumentError, match="temperature"):
        RowMasks(GRAMMAR, VOCABULARY)
