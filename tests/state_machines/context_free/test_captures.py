"""Captured texts of rules."""

from __future__ import annotations

import pytest

from state_machines import GrammarStateMachine, InvalidArgumentError


@pytest.mark.parametrize(
    ("grammar", "text", "expected"),
    [
        ('start: "a" w\nw[capture]: /[bc]+/', "abcb", {"w": "bcb"}),
        ('start: w ("," w)*\nw[capture="x"]: /[bc]+/', "b,c,bc", {"x": ["b", "c", "bc"]}),
        ('start: a b\na[capture]: /[0-9]+/\nb[capture]: "x"?', "12", {"a": "12", "b": ""}),
        ('start: w "!"\nw[capture, suffix="<end>"]: /.*/', "foo<end>!", {"w": "foo"}),
        ('start: w "!"\nw[capture, stop="<end>"]: /.*/', "foo<end>!", {"w": "foo"}),
        ('start: w "<end>!"\nw[capture, stop="<end>"]: /.*/', "foo<end>!", {"w": "foo"}),
        ("start: w\nw[capture, suffix=END]: /[a-z ]+/\nEND: /[.;] ?/", "a b.", {"w": "a b"}),
        ('start: w v\nw[capture, suffix=";"]: /.*/\nv[capture]: /.*/', ";b;", {"w": "", "v": "b;"}),
        # The text in front of the suffix matches the rule; the longest that does, as in llguidance.
        ('start: w\nw[capture, suffix=/b?c/]: "ab"', "abc", {"w": "ab"}),
        ("start: w\nw[capture, suffix=/b?c/]: /ab?/", "abc", {"w": "ab"}),
        ('start: w\nw[capture, suffix=";", max_tokens=9]: /.*/', "ab;", {"w": "ab"}),
        ('start: w\nw[capture, suffix=";", temperature=1]: /.*/', "ab;", {"w": "ab"}),
        ('start: (w " "?)+\nw[capture, suffix=";"]: /[a-z]*/', "a; b;;", {"w": ["a", "b", ""]}),
        ('start: w "!"\nw[capture, lazy]: /.*<end>/', "foo<end>!", {"w": "foo<end>"}),
        ('start: o\no[capture]: w\nw[suffix="<end>"]: /.*/', "foo<end>", {"o": "foo<end>"}),
        (
            'start: p+\np[capture]: "(" q ")"\nq[capture]: /[a-z]/ q?\n%ignore / /',
            "( a b ) (c)  ",
            {"p": ["( a b )", "(c)"], "q": ["a b", "b", "c"]},
        ),
        ("start: e\ne[capture]: e /[+]/ e | /[0-9]+/", "1", {"e": "1"}),
        ('start: j\nj[capture]: %json {"type": "array"}', "[1, 2]", {"j": "[1, 2]"}),
        ("start: <think> t </think>\nt[capture]: /[a-z]*/", "<think>ab</think>", {"t": "ab"}),
        ("start: /[a-z]+/", "ab", {}),
        # No text of `none` exists, so no lexeme is read for it.
        (
            'start[capture]: "a" | start "a" | /a+b/ none\nnone: none "x"',
            "aa",
            {"start": ["aa", "a"]},
        ),
    ],
)
def test_captures_are_the_texts_of_rules(
    grammar: str, text: str, expected: dict[str, str | list[str]]
) -> None:
    assert GrammarStateMachine.from_lark(grammar).captures(text) == expected


def test_text_that_does_not_match_has_no_captures() -> None:
    machine = GrammarStateMachine.from_lark('start: "a" w\nw[capture]: /[bc]+/')
    with pytest.raises(InvalidArgumentError, match="does not match"):
        machine.captures("ax")


def test_long_texts_are_captured_without_recursion() -> None:
    machine = GrammarStateMachine.from_lark(
        "start: list\nlist: item | list item\nitem[capture]: /[a-z]/ /[0-9]/"
    )
    assert machine.captures("a1" * 2000) == {"item": ["a1"] * 2000}
