"""Context-free grammars: the machine against a chart, and against hand-made cases."""

from __future__ import annotations

import gc
from itertools import product
from random import Random
from weakref import ref

import numpy as np
import pytest
from grammar_reference import Chart, Grammar, grammars
from guarded_walks import random_walk
from hypothesis import event, example, given, settings
from hypothesis import strategies as st
from patched_limits import patch_limits
from root_compiling import compiled as compiled_part
from small_vocabulary import brute_force_mask, check_masks, small_vocabulary

from state_machines import (
    GrammarStateMachine,
    GrammarSyntaxError,
    MaxTokensTooSmallError,
    UnsatisfiableGrammarError,
    UnsupportedGrammarError,
)
from state_machines.completion import Completion, Guard
from state_machines.errors import InvalidArgumentError
from state_machines.limits import LIMITS
from state_machines.masks import trie_walk
from state_machines.root import Marker, Series, Structured

VOCABULARY = small_vocabulary()
COMPLETION = Completion.of(VOCABULARY)
TEXTS = ["".join(letters) for size in range(4) for letters in product("abé", repeat=size)]


def compiled(grammar: Grammar) -> GrammarStateMachine | None:
    """Return the machine of a grammar; ``None`` if its constructor says that no text matches."""
    if "root" in grammar.productive():
        return GrammarStateMachine(grammar.text)
    with pytest.raises(UnsatisfiableGrammarError):
        GrammarStateMachine(grammar.text)
    return None


ROOT, X, Y = ("rule", "root"), ("rule", "x"), ("rule", "y-1")
A, B, NOTHING = ("text", "a"), ("text", "b"), ("text", "")


@given(grammars(), st.lists(st.text("ab", max_size=9), max_size=8))
@example(Grammar({"root": ("any", ("all", ROOT, ROOT), A, NOTHING)}), [])
@example(Grammar({"root": ("any", ("all", X, ROOT, B), A), "x": ("any", B, NOTHING)}), ["babb"])
@example(Grammar({"root": ("any", ("all", X, A), B), "x": ("any", ("all", ROOT, B), X, A)}), [])
@example(Grammar({"root": ("all", X, Y, ROOT), "x": Y, "y-1": ("any", X, NOTHING)}), [])
@example(
    Grammar({"root": ("any", ("all", X, ROOT, A), B), "x": ("all", Y, Y), "y-1": NOTHING}), ["ba"]
)
@settings(max_examples=100, deadline=None)
def test_machine_admits_exactly_the_texts_of_the_grammar(
    grammar: Grammar, longer: list[str]
) -> None:
    machine = compiled(grammar)
    event("productive" if machine is not None else "empty")
    if machine is None:
        return
    for text in [*TEXTS, *longer]:
        chart = Chart(grammar, text)
        assert machine.matches(text) == chart.is_word, text
        # A prefix has a state exactly if some text continues it.
        assert machine.begins(text) == chart.is_beginning, text


@given(grammars(), st.lists(st.integers(0, 1000), max_size=6))
@settings(max_examples=40, deadline=None)
def test_masks_of_random_grammars_equal_brute_force(grammar: Grammar, choices: list[int]) -> None:
    machine = compiled(grammar)
    if machine is not None:
        check_masks(machine.matcher(VOCABULARY), VOCABULARY, [*choices, 0])


def check_walks(machine: GrammarStateMachine, random: Random, extra: list[int]) -> None:
    least = 0
    if not machine.start.nullable:
        with pytest.raises(MaxTokensTooSmallError) as caught:
            Guard(machine.matcher(VOCABULARY), 0)
        least = caught.value.needed
    for more in extra:
        written = random_walk(Guard(machine.matcher(VOCABULARY), least + more), random, COMPLETION)
        assert len(written) <= least + more
        assert machine.matches(VOCABULARY.decode(written))


@given(grammars(), st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_random_grammars_complete_within_max_tokens(grammar: Grammar, random: Random) -> None:
    machine = compiled(grammar)
    if machine is not None:
        # Of longer texts, grammars that are drawn have ever more readings.
        check_walks(machine, random, [0, 1, 2, 4])


# Grammars as they are written

JSON = r"""
# Any JSON value, with white space of a kind.
root   ::= value
value  ::= object | array | string | number | "true" | "false" | "null"
object ::= "{" ws ( member ("," ws member)* )? ws "}"
member ::= string ":" ws value
array  ::= "[" ws ( value
    ("," ws value)* )? ws "]"
string ::= "\"" ( [^"\\\x00-\x1F] | "\\" ( ["\\/bfnrt] | "u" [0-9a-fA-F]{4} ) )* "\""
number ::= "-"? ( "0" | [1-9] [0-9]* ) ( "." [0-9]+ )? ( [eE] [-+]? [0-9]+ )?
ws     ::= [ \t\n]{0,20}
"""
ARITHMETIC = r"""
root ::= (sum "=" ws sum "\n")+
sum  ::= sum ws [-+] ws product | product   # left recursion
product ::= product ws ("*" | "/") ws factor
  | factor
factor ::= name | number | "(" ws sum ws ")"
name ::= [a-z] [a-z0-9_]*
number ::= [0-9]+ ("." [0-9]{1,2})?
ws ::= " "?
"""
C_LIKE = r"""
root ::= (function | declaration)*
function ::= type ws name "(" parameters? ")" ws "{" ws statement* "}" ws
parameters ::= type ws name ("," ws type ws name)*
declaration ::= type ws name ws "=" ws expression ";" ws
statement ::= (
    declaration |
    name ws "=" ws expression ";" ws |
    "return" ws expression ";" ws |
    "while" ws "(" expression ")" ws block |
    "if" ws "(" expression ")" ws block ("else" ws block)? |
    "//" [^\n]* "\n" ws
)
block ::= "{" ws statement* "}" ws
expression ::= term (ws ("+" | "-" | "==" | "<=" | "<" | "&&") ws term)*
term ::= unary (ws ("*" | "/" | "%") ws unary)*
unary ::= "-" unary | primary
primary ::= name ("(" (expression ("," ws expression)*)? ")")? | [0-9]+ | "(" expression ")"
type ::= "int" | "float" | "char"
name ::= [a-zA-Z_] [a-zA-Z_0-9]*
ws ::= [ \t\n]*
"""
LIST = r"""
root ::= item+
# Excludes line and paragraph separators
item ::= "- " [^\r\n\x0b\x0c\x85\u2028\u2029]+ "\n"
"""
CHESS = r"""
root ::= "1. " move " " move "\n" ([1-9] [0-9]? ". " move " " move "\n")+
move ::= (pawn | nonpawn | castle) [+#]?
nonpawn ::= [NBKQR] [a-h]? [1-8]? "x"? [a-h] [1-8]
pawn ::= ([a-h] "x")? [a-h] [1-8] ("=" [NBKQR])?
castle ::= "O-O" "-O"?
"""
CASES = [
    (JSON, ['{"a": [1, -2.5e+3, {}], "é\\u00e9": "\\""}', "null", "[ ]", '"\U0001f600"'],
     ["", "01", '{"a"}', '["\n"]', "[1,]", "nul", '"\\x"']),
    (ARITHMETIC, ["1=1\n", "a+b*c= (1 -2.50)/x_1\n2=2\n", "1*2*3-4=5\n"],
     ["1\n", "1+=2\n", "(1=2\n", "1..0=1\n", "1.234=1\n"]),
    (C_LIKE, ["", "int x = 1;", "int f(int a, float b) { while (a <= 10) { a = -a * (2+g(a,1)); }"
     "// é\n if (a) { return 1; } else { } return a; }\n"],
     ["int", "int x = ;", "int f() { return 1 }", "x = 1;", "int f() { if (a) return 1; }"]),
    (LIST, ["- a\n", "- é\n- b \n"], ["", "- \n", "- a", "- a\u2028\n", "a\n"]),
    (CHESS, ["1. e4 e5\n2. Nf3 Nc6\n", "1. exd5 O-O-O+\n12. a8=Q# Qh4x\n"[:-3] + "h4\n"],
     ["1. e4 e5\n", "1. e4\n2. e4 e5\n", "2. e4 e5\n3. a1 a2\n"]),
]  # fmt: skip
COUNTED = r'root ::= "<" [^>\n]{3,400} ">" ("(" [^()]{20,} ")")? .{0,60}'
CASES.append((COUNTED, ["<abé>(" + 22 * "x" + ")yé"], ["<ab>", "<a\nbc>"]))
NAMES = ["json", "arithmetic", "c", "list", "chess", "counted"]


@pytest.mark.parametrize(("text", "words", "others"), CASES, ids=NAMES)
def test_real_grammars_admit_and_refuse_texts(
    text: str, words: list[str], others: list[str]
) -> None:
    machine = GrammarStateMachine(text)
    assert [machine.matches(word) for word in words] == [True] * len(words)
    assert [machine.matches(word) for word in others] == [False] * len(others)
    for word in words:
        content = word.encode()
        assert all(machine.begins(content[:size]) for size in range(len(content) + 1))


@pytest.mark.parametrize(("text", "words", "others"), CASES, ids=NAMES)
def test_masks_of_real_grammars_equal_brute_force(
    text: str, words: list[str], others: list[str]
) -> None:
    for word in words:
        matcher = GrammarStateMachine(text).matcher(VOCABULARY)
        for index, byte in enumerate(word.encode()):
            if index % 2 == 0:
                expected = brute_force_mask(matcher.state, VOCABULARY)
                np.testing.assert_array_equal(matcher.allowed_tokens(), expected)
            matcher.advance(byte)


@pytest.mark.parametrize("text", [case[0] for case in CASES], ids=NAMES)
def test_real_grammars_complete_within_max_tokens(text: str) -> None:
    check_walks(GrammarStateMachine(text), Random(1), [0, 1, 2, 3, 7, 20, 60])


@pytest.mark.parametrize(
    ("text", "word", "forced"),
    [
        ('root ::= "abc" ("de" | "df") root?', "", b"abcd"),
        ('root ::= "é" [è] "."', "", "éè.".encode()),
        ('root ::= "(" root ")" | "[" "x" "]"', "([", b"x])"),
        ('root ::= "a" root "b" | "c"', "aac", b"bb"),
        ('root ::= root "a" | "b"', "", b"b"),
        ('root ::= "ab"{3}', "a", b"babab"),
    ],
)
def test_forced_bytes_of_a_grammar(text: str, word: str, forced: bytes) -> None:
    matcher = GrammarStateMachine(text).matcher(VOCABULARY)
    for byte in word.encode():
        matcher.advance(byte)
    assert matcher.forced_bytes() == forced


def test_deeply_nested_texts_match() -> None:
    depth = 2000
    machine = GrammarStateMachine(JSON)
    assert machine.matches("[" * depth + "]" * depth)
    assert machine.matches('{"a":' * depth + "1" + "}" * depth)
    assert not machine.matches("[" * depth + "]" * (depth - 1))
    matcher = machine.matcher(VOCABULARY)
    for _ in range(depth):
        matcher.advance(ord("["))
    expected = brute_force_mask(matcher.state, VOCABULARY)
    np.testing.assert_array_equal(matcher.allowed_tokens(), expected)
    assert Guard(matcher, depth).mask(matcher.allowed_tokens()).any()


@pytest.mark.parametrize("count", [10, 300])
def test_long_chains_of_rules_compile(count: int) -> None:
    chain = [f'r{i} ::= r{i + 1} | "{i}" r0 ";"' for i in range(count)]
    machine = GrammarStateMachine("\n".join([*chain, f'r{count} ::= "(" r0 ")" | "x"']), start="r0")
    assert machine.matches("(1x;)")
    left = "\n".join(f'r{i} ::= r{(i + 1) % count} "{i % 10}" | "x"' for i in range(count))
    if count < 100:
        assert GrammarStateMachine(left, start="r0").matches("x")


# The notation


@pytest.mark.parametrize(
    ("text", "words", "others"),
    [
        (r'root ::= "\n\t\r\\\"\x41é\u00e9\U0001F600"', ["\n\t\r\\\"Aéé😀"], [""]),
        (r"root ::= [\x41-C\]\-\^] | [-a] | [b-]", list("ABC]-^ab"), list("Dc\\")),
        (r"root ::= [^a-c\n] .", ["dé", "😀\n"], ["ab", "\nx", "d"]),
        ('root ::= "a"{2} "b"{1,} "c"{0,2}', ["aab", "aabbcc"], ["ab", "aac", "aabccc"]),
        (r'root ::= [^"\n]{2,40} "\"" .{20}', ["ab\"" + 20 * "é", 40 * "ü" + "\"" + 20 * "\n"],
         ["a\"" + 20 * "é", 41 * "ü" + "\"" + 20 * "\n", "a\nb\"" + 20 * "é", "abc\"" + 19 * "x"]),
        ('root ::= "a" * "b" + "c" ?', ["b", "aabbc"], ["a", "bcc"]),
        ('root ::= ("a" | ) "b" | # nothing\n', ["", "b", "ab"], ["a"]),
        ("root ::=\n\n  # one\n  a-1\n  | b_2\na-1 ::= \"x\" b_2 ::=\n\"y\"", ["x", "y"], ["xy"]),
        ('root ::= (\n"a"\n|\n"b"\n)+', ["abba"], [""]),
        ('root ::= "#" [#] # "b"', ["##"], ["##b"]),
        ('root::="a"\r\nx::="b"', ["a"], ["b"]),
        ('root ::= "a"{0} "b"+?', ["", "b", "bb"], ["a"]),
    ],
)  # fmt: skip
def test_gbnf_syntax(text: str, words: list[str], others: list[str]) -> None:
    machine = GrammarStateMachine(text)
    assert [machine.matches(word) for word in words] == [True] * len(words)
    assert [machine.matches(word) for word in others] == [False] * len(others)


def test_start_names_another_rule() -> None:
    assert GrammarStateMachine('root ::= "a"\nother ::= "b"', start="other").matches("b")


@pytest.mark.parametrize(
    ("text", "what", "line", "column"),
    [
        ("", "without a rule", 1, 1),
        ("# nothing", "without a rule", 1, 1),
        ('a ::= "x"', "no rule 'root'", 1, 1),
        ('root ::= "a"\n  | b', "no rule 'b'", 2, 5),
        ('root ::= "a"\nx ::= y', "no rule 'y'", 2, 7),
        ('root ::= "a"\nx ::= "b"\nroot ::= "c"', "given twice", 3, 1),
        ('root ::= "a', 'missing "', 1, 10),
        ("root ::= [a", "missing ]", 1, 10),
        ('root ::= ("a" |\n "b"', "missing )", 1, 10),
        ('root ::= "a")', "unmatched )", 1, 13),
        ("root ::= [c-a]", "out of order", 1, 11),
        ("root ::= []", "without a member", 1, 10),
        ("root ::= [^]", "without a member", 1, 10),
        (r'root ::= "\q"', "no meaning", 1, 11),
        (r"root ::= [\d]", "no meaning", 1, 11),
        (r'root ::= "\x4"', "2 hexadecimal digits", 1, 11),
        (r'root ::= "\uD800"', "surrogate", 1, 11),
        (r'root ::= "\U00110000"', "no code point", 1, 11),
        ('root ::= * "a"', "nothing precedes *", 1, 10),
        ('root ::= "a"{2,1}', "out of order", 1, 13),
        ('root ::= "a"{,2}', "{m,n} was expected", 1, 13),
        ('root ::= "a"{1 2}', "{m,n} was expected", 1, 13),
        ('root ::= "a"{9999999}', "a count of more than", 1, 13),
        ('root ::= "a"+++', "in a row", 1, 15),
        ("root ::= 'a'", "not expected", 1, 10),
        ('root ::= (= "a")', "not expected", 1, 10),
        ('root : "a"', "a rule was expected", 1, 1),
        ('start: "a" | /b/', "a rule was expected", 1, 1),
        ("root ::= " + "(" * 100, "groups inside each other", 1, 10 + LIMITS.nested_groups),
    ],
)
def test_syntax_errors_have_line_and_column(text: str, what: str, line: int, column: int) -> None:
    with pytest.raises(GrammarSyntaxError, match="of the grammar") as caught:
        GrammarStateMachine(text)
    error = caught.value
    assert what in error.what
    assert (error.line, error.column) == (line, column)


def test_lark_grammar_gets_a_hint() -> None:
    with pytest.raises(GrammarSyntaxError, match="Lark"):
        GrammarStateMachine('start: "a" | "b"')


@pytest.mark.parametrize(
    "text",
    [
        "root ::= root",
        'root ::= "a" root',
        'root ::= x "a"\nx ::= y\ny ::= x | root',
        r"root ::= [^\x00-\U0010FFFF]",
        'root ::= root "a" | [^\\x00-\\U0010FFFF]',
    ],
)
def test_unsatisfiable_grammars_raise(text: str) -> None:
    with pytest.raises(UnsatisfiableGrammarError) as caught:
        GrammarStateMachine(text)
    assert caught.value.rule == "root"


@pytest.mark.parametrize(
    "text",
    [
        'root ::= (("a"{1000}){1000}){1000}',
        "\n".join(f"r{i} ::= r{i + 1} r{i + 1}" for i in range(60)) + '\nr60 ::= "a"?\nroot ::= r0',
        "root ::= " + " ".join(f'"a{i}"?' for i in range(200)),
    ],
)
def test_grammars_beyond_the_limits_raise(text: str) -> None:
    with pytest.raises(UnsupportedGrammarError):
        GrammarStateMachine(text)


def test_groups_nested_to_the_limit_compile() -> None:
    deep = "(" * LIMITS.nested_groups + '"a"' + ' | "b")*?' * LIMITS.nested_groups
    assert GrammarStateMachine(f"root ::= {deep}").matches("abab")
    more = "(" * 20 + 'root? "a"' + ' "b")*?' * 20
    assert GrammarStateMachine(f"root ::= {more}").matches("")


def test_freed_machine_frees_its_nodes() -> None:
    gc.collect()
    gc.disable()
    try:
        machine = GrammarStateMachine(ARITHMETIC)
        first = ref(machine.start)
        machine.begins("[a(1")
        del machine
        assert first() is None
    finally:
        gc.enable()


def test_state_with_many_tokens_is_walked_as_an_automaton(monkeypatch: pytest.MonkeyPatch) -> None:
    # Lower the limits, so that few tokens count as many.
    monkeypatch.setattr(trie_walk, "MAX_VISITS", 1)
    monkeypatch.setattr(trie_walk, "VISITS_PER_STEP", 1)
    for states in (3, 2048):
        patch_limits(monkeypatch, trie_walk_states=states)
        vocabulary = small_vocabulary()
        matcher = GrammarStateMachine(CHESS).matcher(vocabulary)
        for byte in b"1. e4 e5\n2. Nf3 exd5\n":
            expected = brute_force_mask(matcher.state, vocabulary)
            np.testing.assert_array_equal(matcher.allowed_tokens(), expected)
            matcher.advance(byte)


def test_grammar_may_be_a_part_of_an_answer() -> None:
    numbers = GrammarStateMachine('root ::= "[" (root ("," root)*)? "]" | [0-9]')
    first, second = Structured("a", grammar=numbers), Structured("b", grammar=numbers)
    machine = compiled_part(Series(first, Marker("and", " and "), second), VOCABULARY)
    assert machine.matches("[1,[2]] and [[],3]")
    assert not machine.matches("[1,[2] and 3")
    for more in (0, 3, 20):
        least = len(Completion.of(VOCABULARY).plan(machine.start).tokens)
        guard = Guard(machine.matcher(VOCABULARY), least + more)
        written = random_walk(guard, Random(more), COMPLETION)
        assert machine.matches(VOCABULARY.decode(written))


def test_equal_remainders_are_one_state() -> None:
    """Ambiguity does not multiply the states of a text."""
    machine = GrammarStateMachine('root ::= root root | "a" | "ab" | "b" | [a-z] ws\nws ::= " "*')
    state, seen = machine.start, set()
    for _ in range(200):
        state = state.compute_word_derivative(b"ab ")
        seen.add(state)
    assert len(seen) < 5


def test_unknown_notation_raises() -> None:
    with pytest.raises(InvalidArgumentError, match="no notation 'ebnf'") as caught:
        GrammarStateMachine('root ::= "a"', notation="ebnf")
    assert caught.value.argument == "notation"
