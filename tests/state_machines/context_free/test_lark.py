"""Grammars in Lark: syntax, lexemes, inline languages, and errors with line and column."""

from __future__ import annotations

import json
from random import Random

import pytest
from guarded_walks import random_walk
from small_vocabulary import small_vocabulary

from state_machines import (
    GrammarError,
    GrammarStateMachine,
    GrammarSyntaxError,
    UnsatisfiableGrammarError,
    UnsupportedGrammarError,
)
from state_machines.completion import Completion, Guard
from state_machines.limits import LIMITS

ACCEPTED = {
    "strings and ranges": ('start: "a" "b"i "0".."9"', ["aB7", "ab0"], ["aba", "Ab7"]),
    "escapes": (r'start: "\x41\u0042\n\"\/"', ['AB\n"/'], ["AB"]),
    "alternatives on later lines": (
        'start: "a"\n    // a comment\n    | "b" -> name\n# another one\n  | "c"',
        ["a", "b", "c"],
        ["ab"],
    ),
    "lines end inside brackets": ('start: ("a"\n "b"\n)', ["ab"], ["a"]),
    "optional groups": ('start: ["a" "b"] "c"?', ["", "ab", "abc", "c"], ["a"]),
    "repetition": (
        'start: a{2} | b~1..2 | c{,1} "-" | d{2,}\na: "a"\nb: "b"\nc: "c"\nd: "d"',
        ["aa", "b", "bb", "c-", "-", "dd", "dddd"],
        ["a", "bbb", "cc-", "d"],
    ),
    "prefixes of rules": ('?start: !x\n!x: "x"'.replace("!x\n", "x\n"), ["x"], ["y"]),
    "imports": (
        "%import common.INT -> NUM\n%import common (WS, CNAME)\nstart: CNAME NUM\n%ignore WS",
        ["a 1", "a\n 12 "[:-1]],
        ["1 a", "a"],
    ),
    "ignored text": (
        'start: "a" "b"?\n%ignore " "\n%ignore /#[^\\n]*\\n/',
        ["a", "a ", "a #x\n b", "ab"],
        [" a", "ab "],
    ),
    "ignored text at the start": (
        '%llguidance {"allow_initial_skip": true}\nstart: "a"\n%ignore " "',
        ["  a"],
        ["a b"],
    ),
    "ignored text once": (
        '%llguidance {"ignore_once": true}\nstart: "a" "b"\n%ignore " "',
        ["a b"],
        ["a  b"],
    ),
    "longest match": (
        'start: "if" NAME | NAME ";"\nNAME: /[a-z]+/',
        ["ifx;", "if;", "x;"],
        ["ifx"],
    ),
    "keywords apart": ('start: "if" NAME\nNAME: /[a-z]+/\n%ignore " "', ["if x", "ifx"], ["if"]),
    "optional terminals": ('start: A "b"\nA: /a*/', ["b", "aab"], ["a"]),
    "lazy lexemes": (
        'start: text "!"\ntext[lazy]: /(.|\\n)*/ "<end>"',
        ["<end>!", "a\n<end>!"],
        ["a<end>b<end>!", "a!"],
    ),
    "suffix": ('start: t "!"\nt[suffix=/;+/]: /[a-z]*/', ["ab;!", ";!"], ["ab;;!", "ab!"]),
    "stop keeps its text": (
        'start: t "</x>" "!"\nt[stop="</x>"]: /.*/',
        ["a</x>!", "</x>!"],
        ["a</x></x>!"],
    ),
    "stop within a longer string": ('start: t ";b"\nt[stop=";"]: /a*/', ["aa;b"], ["aa;;b"]),
    "conjunction and negation": (
        "start: A\nA: /[a-d]+/ & ~/.*[ab].*/ | B\nB: ~(/a/ | /./ /./+) & /[^\\n]/",
        ["cd", "c", "b"],
        ["a", "ac", "cb"],
    ),
    "negation binds tighter than repetition": ("start: A\nA: ~/a/{2} & /[ab]*/", ["bb"], []),
    "white space of all kinds in parentheses": (
        'start: ("a"\xa0| b\x0b"c"\u2028* )\nb: "b"',
        ["a", "b", "bcc"],
        ["c"],
    ),
    "empty terminals": ('start: "a" | A\nA: /ab/ & /b/', ["a"], ["ab", "b"]),
    "substrings": (
        'start: "<" %regex {"substring_words": "a fine, day"} ">"',
        ["<>", "<a>", "<fine,>", "< fine, day>"],
        ["<fin>", "<day a>"],
    ),
    "substrings by characters": (
        'start: A\nA: "x" %regex {"substring_chars": "abc"}',
        ["x", "xbc"],
        ["xac"],
    ),
    "JSON": (
        'start: "j" %json {"type": "object", "properties": {"a": {"type": "integer"}},\n'
        '"required": ["a"], "additionalProperties": false} "!"\n%ignore " "',
        ['j{"a": 1}!', 'j {"a":-20} !'],
        ['j{"a": "b"}!', 'j{"a": 1}'],
    ),
    "JSON in lists": (
        'start: "[" item ("," item)* "]"\nitem: %json {"enum": ["a", 1]} | item ";"',
        ['["a",1;;]'],
        ["[2]", "[]"],
    ),
    "nested grammars": (
        'start: /[ab]+/ x\nx: %lark {\n  start: y | "z"\n  y: "c"\n}\ny: "d"',
        ["ac", "az"],
        ["ad"],
    ),
    "nested grammars that ignore other text": (
        'start: "(" %lark { start: "a" "b"\n %ignore "-" } ")"\n%ignore " "',
        ["(a-b )", "( ab)"],
        ["(a b)"],
    ),
    "brackets directly behind the colon": ('start:["a"] "b"', ["ab", "b"], ["a"]),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_language(name: str) -> None:
    grammar, accepted, rejected = ACCEPTED[name]
    machine = GrammarStateMachine.from_lark(grammar)
    assert [text for text in accepted if not machine.matches(text)] == []
    assert [text for text in rejected if machine.matches(text)] == []


@pytest.mark.parametrize(
    ("grammar", "error", "line", "column", "words"),
    [
        ('root ::= "a"', GrammarSyntaxError, 1, 1, "from_gbnf"),
        ("start: 'a'", GrammarSyntaxError, 1, 8, '"double quotes"'),
        ('start: "a', GrammarSyntaxError, 1, 8, 'missing "'),
        (r'start: "\q"', GrammarSyntaxError, 1, 9, r"\q"),
        ('start: "a"\n  "b"', GrammarSyntaxError, 2, 3, "expected"),
        ('start: "a"\nstart: "b"', GrammarSyntaxError, 2, 1, "first in line 1"),
        ('start: A\nA: "x" B\nB: A', GrammarSyntaxError, 2, 1, "refers to itself"),
        ("start: NUMBER", GrammarSyntaxError, 1, 8, "%import common.NUMBER"),
        ('start: A\nA: b\nb: "x"', GrammarSyntaxError, 2, 4, "inside a terminal"),
        ("start: A\nA: %json {}", GrammarSyntaxError, 2, 4, "inside a terminal"),
        (
            'start: "a"\n%ignore " " | %lark { start: "b" }',
            GrammarSyntaxError,
            2,
            15,
            "inside a terminal",
        ),
        ("start: /a/ & /b/", GrammarSyntaxError, 1, 8, "upper case"),
        ('start: fooBar\nfooBar: "x"', GrammarSyntaxError, 1, 8, "upper case"),
        ('start: "a"{3,2}', GrammarSyntaxError, 1, 11, "out of order"),
        ('start: "b".."a"', GrammarSyntaxError, 1, 8, "out of order"),
        ("start: /a(/", GrammarSyntaxError, 1, 10, "missing )"),
        ("start: /x(?=a)/", UnsupportedGrammarError, 1, 10, "look-ahead"),
        ("start: /x+?/", UnsupportedGrammarError, 1, 10, "[lazy]"),
        ("start: /x/l", UnsupportedGrammarError, 1, 11, "flag l"),
        ("%declare A\nstart: A", UnsupportedGrammarError, 1, 1, "%declare"),
        ('%override start: "a"', UnsupportedGrammarError, 1, 1, "%override"),
        ('%extend start: "a"', UnsupportedGrammarError, 1, 1, "%extend"),
        ("%import python.NAME", UnsupportedGrammarError, 1, 1, "python.NAME"),
        ("%import common.NAME", GrammarSyntaxError, 1, 1, "CNAME"),
        ("%llguidance {'a': 1}", GrammarSyntaxError, 1, 14, "JSON"),
        ('%llguidance {"x": true}\nstart: "a"', UnsupportedGrammarError, 1, 1, "'x'"),
        ('start.2: "a"', UnsupportedGrammarError, 1, 6, "priority"),
        ('list{x}: x ","', UnsupportedGrammarError, 1, 5, "template"),
        ('start: list{"a"}', UnsupportedGrammarError, 1, 12, "template"),
        ("start: a::0", UnsupportedGrammarError, 1, 8, "parameter"),
        ("start: @sub", UnsupportedGrammarError, 1, 8, "%lark"),
        (
            'start: "x" %lark { start: a\n a[capture]: "b"\n %ignore " " }',
            UnsupportedGrammarError,
            1,
            12,
            "capture",
        ),
        ('start[tall]: "a"', GrammarSyntaxError, 1, 7, "Known are capture"),
        ('start: %regex {"substring": ""}', UnsupportedGrammarError, 1, 15, "substring_words"),
        ('start: "a" )', GrammarSyntaxError, 1, 12, "unmatched )"),
        ('start: %lark { start: "a"', GrammarSyntaxError, 1, 8, "missing }"),
        ("", GrammarSyntaxError, 1, 1, "start: …"),
        ('begin: "a"', GrammarSyntaxError, 1, 1, "start"),
        ('start: A "b"\nA: /[ab]+/', UnsatisfiableGrammarError, 1, 1, "longest"),
    ],
)
def test_error_has_place_and_hint(
    grammar: str, error: type[GrammarError], line: int, column: int, words: str
) -> None:
    with pytest.raises(error) as caught:
        GrammarStateMachine.from_lark(grammar)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("schema", "error", "pointer", "place"),
    [
        ({"properties": {"a/b": {"type": "text"}}}, GrammarSyntaxError, "type", '"text"'),
        ({"items": [{"minimum": "x"}]}, GrammarSyntaxError, None, None),
        ({"type": "string", "pattern": "("}, UnsupportedGrammarError, "/pattern", '"("'),
        (
            {"type": "integer", "minimum": 2, "maximum": 1},
            UnsatisfiableGrammarError,
            "",
            "{",
        ),
    ],
)
def test_schema_error_has_pointer_and_place(
    schema: object, error: type[GrammarError], pointer: str | None, place: str | None
) -> None:
    text = "start: A\n  | %json " + json.dumps(schema, indent=1) + "\nA: /a/"
    with pytest.raises(error) as caught:
        GrammarStateMachine.from_lark(text)
    assert caught.value.pointer is not None
    if pointer is not None and place is not None:
        assert caught.value.pointer.endswith(pointer)
        line = text.splitlines()[caught.value.line - 1]
        assert line[caught.value.column - 1 :].startswith(place)


def test_gbnf_refuses_lark_with_a_hint() -> None:
    with pytest.raises(GrammarSyntaxError, match="from_lark"):
        GrammarStateMachine.from_gbnf('start: "a"')


def test_from_text_recognizes_the_notation() -> None:
    assert GrammarStateMachine.from_text('# GBNF\nroot ::= "a"').matches("a")
    assert GrammarStateMachine.from_text('start: "a ::= b"').matches("a ::= b")


def test_start_names_another_rule() -> None:
    machine = GrammarStateMachine.from_lark('start: "a"\nother: "b"', start="other")
    assert machine.matches("b")
    assert not machine.matches("a")


@pytest.mark.parametrize(
    "text",
    [
        "start: " + "(" * 10_000 + '"a"' + ")" * 10_000,
        "start: " + "%lark { start: " * 1000 + '"a"' + "}" * 1000,
        "start: /" + "(" * 10_000 + ")" * 10_000 + "/",
        "start: /" + "[a&&" * 10_000 + "]" * 10_000 + "/",
        "start: " + "~" * 10_000 + "/a/",
        'start: "a"{1000000000000}',
        'start: "a"' + "+" * 100,
        "start: /a{999999}{999999}{999999}/",
        'start: "a"\n' + '%ignore "b"\n' * (LIMITS.ignored_terminals + 1),
        pytest.param(
            "start: T0\n" + "".join(f"T{n}: T{n + 1} T{n + 1}\n" for n in range(60)) + 'T60: "a"',
            marks=pytest.mark.soak,
        ),
    ],
    ids=range(10),
)
def test_hostile_grammar_is_refused(text: str) -> None:
    with pytest.raises(GrammarError):
        GrammarStateMachine.from_lark(text)


def test_long_chain_of_terminals_compiles() -> None:
    names = "".join(f"T{n}: T{n + 1}\n" for n in range(3000))
    assert GrammarStateMachine.from_lark(f'start: T0\n{names}T3000: "a"').matches("a")


@pytest.mark.parametrize("name", ["JSON in calls", "lazy", "recursive"])
def test_random_text_is_complete_within_max_tokens(name: str) -> None:
    grammar = {
        "JSON in calls": 'start: NAME "(" [value ("," value)*] ")"\nvalue: NUMBER | start | %json '
        '{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}\n'
        "NAME: /[a-z]+/\n%import common.NUMBER\n%ignore /[ \\t]+/",
        "lazy": 'start: t "!"\nt[lazy]: /(.|\\n)*<end>/',
        "recursive": 'start: start "+" term | term\nterm: /[0-9]+/ | "(" start ")"\n%ignore " "',
    }[name]
    machine = GrammarStateMachine.from_lark(grammar)
    vocabulary = small_vocabulary()
    for seed in range(2):
        guard = Guard(machine.matcher(vocabulary), 30)
        tokens = random_walk(guard, Random(seed), Completion(vocabulary))
        assert machine.matches(b"".join(vocabulary.token_bytes[token] or b"" for token in tokens))
