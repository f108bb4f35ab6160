r"""Parse GBNF, the notation of llama.cpp. vLLM and XGrammar read the same but for details::

    root  ::= "[" (item ("," item)*)? "]"   # a rule; a comment
    item  ::= [a-z0-9_]+ | "\"" [^"\n]* "\"" | root{1,2}

A rule ends where the next name with ``::=`` after it begins, wherever lines end. An alternative may
be empty. An escape of a character that is neither a letter nor a digit stands for the character.
Tokens by name or number are written as :mod:`~state_machines.context_free.source` says.
"""

from __future__ import annotations

import re

from state_machines.budgets import spend
from state_machines.context_free.source import (
    Notation,
    Operator,
    Source,
    alternatives,
    counts,
    group,
    hexadecimal,
    mark,
    named_tokens,
    repeated,
    string,
)
from state_machines.errors import GrammarError
from state_machines.grammar.symbols import ANY_CODE_POINT, MAX_CODE_POINT, CodePointSet
from state_machines.limits import LIMITS
from state_machines.syntax_tree import (
    CLASS_MEMBERS_PER_STEP,
    HEXADECIMAL_ESCAPES,
    REPETITION_MARKS,
    Characters,
    Expression,
    Grammar,
    Reference,
    Rule,
    Series,
    String,
)

_CONTROLS = {"0": 0, "a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, "e": 27}
_CLASSES = {
    "d": "[0-9]",
    "D": "[^0-9]",
    "w": "[a-zA-Z0-9_]",
    "W": "[^a-zA-Z0-9_]",
    "s": r"[ \t\n\r]",
    "S": r"[^ \t\n\r]",
}
_SPACE = re.compile(r"(?:[ \t\r\n]++|#[^\n]*+)*+")
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_HEAD = re.compile(rf"({_NAME.pattern}+){_SPACE.pattern}::=")
_LARK = re.compile(r"[?!]?[A-Za-z_][A-Za-z0-9_.]*\s*:(?!:=)|%\w|/")
# Possessive, so that the match takes linear time.
_COUNTS = re.compile(r"\{\s*+([0-9]++)\s*+(,?)\s*+([0-9]*+)\s*+\}")
_HINTS = {
    "'": 'Texts stand in "quotes"',
    "!": "Only a token by name or number can be negated: !<name>, !<[1000]>",
    "(=": "Look-ahead is not supported",
    "=": "A rule is written name ::= …",
    ":": "A rule is written name ::= …",
    "{": 'A count stands after what it repeats; texts stand in "quotes"',
    ",": 'Texts stand in "quotes"',
    ";": "A rule ends without a mark",
}


def parse(text: str) -> Grammar:
    """Return the rules of a grammar in their order; texts begin with the rule ``root``.

    Raises :class:`~state_machines.errors.GrammarSyntaxError` and, for counts and classes beyond the
    limits, :class:`~state_machines.errors.UnsupportedGrammarError`.
    """
    source, rules = Source.of(text, _NOTATION), dict[str, Rule]()
    start = source.skip(0)
    while start < len(text):
        head = _HEAD.match(text, start)
        if head is None:
            raise _no_rule(source, start)
        name = head[1]
        if name in rules:
            line, _ = rules[name].position
            raise source.invalid(f"the rule {name!r} is given twice, first in line {line}", start)
        source = source.in_rule(name)
        end, body = alternatives(source, head.end())
        rules[name], start = Rule(name, body, source.place(start)), end
    if not rules:
        raise source.invalid("a grammar without a rule", 0, "Write root ::= …")
    return Grammar(rules, "root")


def _no_rule(source: Source, start: int) -> GrammarError:
    if source.at(start, ")"):
        return source.invalid("unmatched )", start)
    hint = "A rule is written name ::= …"
    if _LARK.match(source.text, start):
        hint += "; for Lark use GrammarStateMachine.from_lark, or notation='lark'"
    return source.invalid("a rule was expected", start, hint)


def _alternative(source: Source, position: int) -> tuple[int, Expression]:
    text, parts = source.text, []
    position = source.skip(position)
    while text[position : position + 1] not in "|)" and not _HEAD.match(text, position):
        spend()
        position, part = repeated(source, position)
        parts.append(part)
    return position, parts[0] if len(parts) == 1 else Series(tuple(parts))


def _operator(source: Source, start: int) -> Operator | None:
    if not source.at(start, "{"):
        return mark(source, start)
    found = _COUNTS.match(source.text, start)
    if found is None or (found[3] and not found[2]):
        raise source.invalid("{m}, {m,} or {m,n} was expected", start)
    return counts(source, start, found.end(), found[1], found[3] if found[2] else found[1])


def _item(source: Source, start: int) -> tuple[int, Expression]:
    end: int
    match source.text[start]:
        case '"':
            end, text = string(source, start)
            return end, String(text)
        case "[":
            end, members = _character_class(source, start)
            return end, Characters(members)
        case ".":
            return start + 1, Characters(ANY_CODE_POINT)
        case "(" if not source.at(start, "(="):
            return group(source, start, ")")
        case "<":
            return named_tokens(source, start)
        case "!" if source.at(start, "!<"):
            return named_tokens(source, start + 1, is_negated=True)
    name = _NAME.match(source.text, start)
    if name is None:
        raise _unexpected(source, start)
    return name.end(), Reference(name[0], source.place(start))


def _unexpected(source: Source, start: int) -> GrammarError:
    character = source.text[start]
    if character in REPETITION_MARKS:
        return source.invalid(f"nothing precedes {character}", start)
    hint = next((hint for text, hint in _HINTS.items() if source.at(start, text)), "")
    return source.invalid(f"{character!r} was not expected here", start, hint)


def _character_class(source: Source, start: int) -> tuple[int, CodePointSet]:
    is_negated = source.at(start, "[^")
    position = start + 1 + is_negated
    if source.at(position, "]"):
        hint = "Write . for any character" if is_negated else r"Write \] for a bracket"
        raise source.invalid("a class without a member", start, hint)
    ranges: list[tuple[int, int]] = []
    while not source.at(position, "]"):
        if not len(ranges) % CLASS_MEMBERS_PER_STEP:
            spend()
        if len(ranges) > LIMITS.class_ranges:
            raise source.unsupported(f"a class of more than {LIMITS.class_ranges:,} ranges", start)
        here = position
        position, first = _class_member(source, position, start)
        last = first
        if source.at(position, "-") and not source.at(position, "-]"):
            position, last = _class_member(source, position + 1, start)
            if last < first:
                raise source.invalid("a range that is out of order", here)
        ranges.append((first, last))
    members = CodePointSet(ranges)
    return position + 1, ~members if is_negated else members


def _class_member(source: Source, position: int, start: int) -> tuple[int, int]:
    if position >= len(source.text):
        raise source.invalid("missing ]", start)
    return _character(source, position)


def _character(source: Source, start: int) -> tuple[int, int]:
    """Read a character or an escape; its value is the code point."""
    if source.at(start, "\\"):
        end, point = _escape(source, start)
    else:
        end, point = start + 1, ord(source.text[start])
    if 0xD800 <= point <= 0xDFFF:
        raise source.invalid("a surrogate, which is no character", start, r"Write \UHHHHHHHH")
    return end, point


def _escape(source: Source, start: int) -> tuple[int, int]:
    letter = source.text[start + 1 : start + 2]
    if not letter:
        raise source.invalid("nothing follows a backslash", start)
    if letter in _CONTROLS:
        return start + 2, _CONTROLS[letter]
    if letter in HEXADECIMAL_ESCAPES:
        end, point = hexadecimal(source, start)
        if point > MAX_CODE_POINT:
            raise source.invalid("no code point", start)
        return end, point
    if not letter.isascii() or letter.isalnum() or letter in " \t\r\n":
        hint = f"Write {_CLASSES[letter]}" if letter in _CLASSES else ""
        raise source.invalid(f"\\{letter} has no meaning", start, hint)
    return start + 2, ord(letter)


_NOTATION = Notation(
    space=_SPACE,
    line_space=_SPACE,
    plain_text=re.compile(r'[^"\\\ud800-\udfff]+'),
    character=_character,
    alternative=_alternative,
    item=_item,
    operator=_operator,
)
