"""Read the text of a Lark grammar to its definitions.

All functions read one construct, as :mod:`~state_machines.context_free.source` says. The
readers of definitions and directives add to the definitions, and return the position alone.
"""

from __future__ import annotations

import re
from typing import Any

from state_machines.budgets import spend
from state_machines.context_free.lark import Boolean, Definitions, Inline
from state_machines.context_free.lark.items import (
    SPACE,
    item,
    json_object,
    string_character,
)
from state_machines.context_free.lark.terminals import COMMON_TERMINALS
from state_machines.context_free.source import (
    Notation,
    Operator,
    Source,
    alternatives,
    counts,
    mark,
    repeated,
    string,
)
from state_machines.errors import GrammarError
from state_machines.limits import LIMITS
from state_machines.regex import rust_lexemes
from state_machines.syntax_tree import (
    REPETITION_MARKS,
    Expression,
    Reference,
    Repeat,
    Rule,
    RuleOptions,
    Series,
    String,
)

_MIN_TEMPERATURE, _MAX_TEMPERATURE = 1e-5, 100
"""The range of temperatures above 0, as samplers have it."""

_OPTIONS = ("capture", "lazy", "max_tokens", "stop", "suffix", "temperature")
_ALIAS = re.compile(r"->[ \t]*_?[A-Za-z][A-Za-z0-9_-]*")
_SIMPLE_ITEM = re.compile(
    r"""(?>(_?(?:[a-z][a-z0-9_]*|[A-Z][A-Z0-9_]*))|("([^"\\\x00-\x1f\x7f\ud800-\udfff]*+)"))"""
    r"(?![A-Za-z0-9_:.-])(?>[ \t\f\r]*)(?:([*+?])(?>[ \t\f\r]*))?+(?![*+?{~#/\s])"
)
"""A name or a plain string with at most one repetition operator, and the space behind it, which no
comment and no other white space follows. Most items are such; others take several steps."""
_COUNTS = re.compile(r"\{\s*+(-?[0-9]*+)\s*+(,?)\s*+(-?[0-9]*+)\s*+\}")
_TILDE_COUNTS = re.compile(r"~\s*+(-?[0-9]++)(?:(\s*+\.\.\s*+)(-?[0-9]++))?")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?")
_RULE_NAME = re.compile(r"[?!]{0,2}(_?[a-z][a-z0-9_]*(?:-(?!>)[a-z0-9_]*)*)(?![A-Za-z0-9_])")
_TERMINAL_NAME = re.compile(r"(_?[A-Z][A-Z0-9_]*(?:-(?!>)[A-Z0-9_]*)*)(?![A-Za-z0-9_])")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PATH = re.compile(r"\.?[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*")
_FOREIGN_DIRECTIVES = {
    "declare": "Define the terminal in the grammar",
    "override": "Define the rule under its own name, without importing it",
    "extend": "Write all alternatives in one definition",
}


def read(text: str) -> Definitions:
    """Return the definitions of a whole text."""
    source = Source.of(text, _NOTATION)
    end, definitions = _definitions(source, 0)
    if end < len(text):
        raise source.invalid("unmatched }", end)
    if not definitions.rules:
        raise source.invalid("a grammar without a rule", 0, "Write start: …")
    return definitions


def _definitions(source: Source, position: int) -> tuple[int, Definitions]:
    """Read definitions up to the end, or to the brace that closes a nested grammar."""
    definitions = Definitions()
    position = source.skip(position, SPACE)
    while position < len(source.text) and not source.at(position, "}"):
        spend()
        reader = _directive if source.at(position, "%") else _definition
        position = source.skip(reader(source, position, definitions), SPACE)
    return position, definitions


def _nested(source: Source, start: int) -> tuple[int, Inline]:
    """Read a nested grammar, from its ``%lark`` on."""
    position = source.skip(start + len("%lark"), SPACE)
    if not source.at(position, "{"):
        raise source.invalid("a { was expected behind %lark", position)
    inner = source.inside(start, source.notation.line_space)
    end, definitions = _definitions(inner.in_rule(""), position + 1)
    if not source.at(end, "}"):
        raise source.invalid("missing }", start)
    return end + 1, Inline(definitions, "%lark", source.place(start))


# Definitions


def _definition(source: Source, start: int, definitions: Definitions) -> int:
    """Read a rule or a terminal. It ends with its line, unless a ``|`` follows."""
    kind, known = "rule", definitions.rules
    found = _RULE_NAME.match(source.text, start)
    if found is None:
        kind, known = "terminal", definitions.terminals
        found = _TERMINAL_NAME.match(source.text, start)
    if found is None:
        raise _no_definition(source, start)
    name, place = found[1], source.place(start)
    source = source.in_rule(name)
    if name in known:
        raise _given_twice(source, kind, known[name], start)
    position, options = source.skip(found.end()), RuleOptions()
    if kind == "rule" and source.at(position, "["):
        position, options = _rule_options(source, position + 1)
        position = source.skip(position)
    if not source.at(position, ":") or source.at(position, "::"):
        raise _no_colon(source, position, start)
    end, body = alternatives(source, position + 1)
    known[name] = Rule(name, body, place, options)
    return end


def _no_definition(source: Source, start: int) -> GrammarError:
    word = _WORD.match(source.text, start)
    if word is not None:
        hint = "A rule's name is lower case, a terminal's name upper case"
        return source.invalid(f"{word[0]!r} mixes upper and lower case", start, hint)
    if source.text[start] == "|":
        return source.invalid("an alternative without a rule", start)
    if source.text[start] in ")]":
        return source.invalid(f"unmatched {source.text[start]}", start)
    return source.invalid("a rule, a terminal or a directive was expected", start, "Write name: …")


def _given_twice(source: Source, kind: str, first: Rule, start: int) -> GrammarError:
    what = f"the {kind} {first.name!r} is given twice, first in line {first.position[0]}"
    return source.invalid(what, start)


def _no_colon(source: Source, position: int, start: int) -> GrammarError:
    if source.at(position, "{"):
        hint = "Write a rule for each of its uses, with no braces"
        return source.unsupported("a template", position, hint)
    if source.at(position, "."):
        hint = "The longest match wins, and all readings of an ambiguous text are accepted"
        return source.unsupported("a priority", position, hint)
    if source.at(position, "::="):
        hint = "`::=` is GBNF: use GrammarStateMachine.from_gbnf, or notation='gbnf'"
        return source.invalid("a rule of another notation", start, hint)
    if source.at(position, "::"):
        return source.unsupported("a parametric rule", position, "Write a rule for each value")
    return source.invalid("a : was expected behind the name", position, "Write name: …")


# Bodies


def _item(source: Source, start: int) -> tuple[int, Expression]:
    return _nested(source, start) if source.at(start, "%lark") else item(source, start)


def _alternative(source: Source, position: int) -> tuple[int, Expression]:
    """Read series with ``&`` between them, and an alias."""
    start = source.skip(position)
    position, series = _series(source, start)
    members = [series]
    while source.at(position, "&"):
        position, series = _series(source, source.skip(position + 1))
        members.append(series)
    if source.at(position, "->") and (alias := _ALIAS.match(source.text, position)) is not None:
        position = source.skip(alias.end())
    if source.at(position, "%if"):
        raise source.unsupported("a condition", position, "Write a rule for each case")
    whole = Boolean(tuple(members), False, source.place(start)) if members[1:] else series
    return position, whole


def _series(source: Source, position: int) -> tuple[int, Expression]:
    parts: list[Expression] = []
    text = source.text
    while (found := _SIMPLE_ITEM.match(text, position)) or not _ends_series(source, position):
        if found is None:
            position, part = repeated(source, position)
        else:
            name, written, plain, operator = found.groups()
            place, position = source.place(position), found.end()
            part = Reference(name, place) if name else Inline(String(plain), written, place)
            if operator:
                part = Repeat(part, *REPETITION_MARKS[operator])
        parts.append(part)
    spend(len(parts))
    return position, parts[0] if len(parts) == 1 else Series(tuple(parts))


def _ends_series(source: Source, position: int) -> bool:
    character = source.text[position : position + 1]
    if character in "-%":
        return not character or source.at(position, "->") or source.at(position, "%if")
    return character in "\n|)]}&"


def _operator(source: Source, start: int) -> Operator | None:
    found = None
    match source.text[start : start + 1]:
        case "{":
            found = _COUNTS.match(source.text, start)
            if found is None or not (found[1] or found[3]):
                raise _no_counts(source, start)
        case "~":
            found = _TILDE_COUNTS.match(source.text, start)
    if found is None:
        return mark(source, start)
    most = found[3] if found[2] else found[1]
    return counts(source, start, found.end(), found[1] or "0", most)


def _no_counts(source: Source, start: int) -> GrammarError:
    if source.text[start + 1 : start + 2] not in ("", "}", ",", "-", *"0123456789"):
        return source.unsupported("a template", start, "Write a rule for each of its uses")
    return source.invalid("{n}, {m,}, {,n} or {m,n} was expected", start)


# Directives


def _directive(source: Source, start: int, definitions: Definitions) -> int:
    word = _WORD.match(source.text, start + 1)
    name = word[0] if word is not None else ""
    if name in _FOREIGN_DIRECTIVES:
        raise source.unsupported(f"the directive %{name}", start, _FOREIGN_DIRECTIVES[name])
    if name not in _DIRECTIVES:
        known = ", ".join(f"%{each}" for each in _DIRECTIVES)
        raise source.invalid(f"there is no directive %{name}", start, f"Known are {known}")
    position = source.skip(start + 1 + len(name))
    return _DIRECTIVES[name](source, position, start, definitions)


def _ignore(source: Source, position: int, start: int, definitions: Definitions) -> int:
    if len(definitions.ignored) >= LIMITS.ignored_terminals:
        raise source.unsupported(f"more than {LIMITS.ignored_terminals} of %ignore", start)
    end, body = alternatives(source, position)
    definitions.ignored.append(body)
    return end


def _import(source: Source, position: int, start: int, definitions: Definitions) -> int:
    position, path = _word(source, position, "a name was expected behind %import", _PATH)
    module, _, name = path.rpartition(".")
    names = [(name, name, start)]
    position = source.skip(position)
    if source.at(position, "("):
        module = path
        position, names = _name_list(source, position)
    elif source.at(position, "->"):
        position = source.skip(position + 2)
        position, alias = _word(source, position, "a name was expected behind ->")
        names = [(name, alias, start)]
    if module != "common":
        hint = "Only common is there; paste the rules instead"
        raise source.unsupported(f"an import of {path}", start, hint)
    for common, name, where in names:
        if common not in COMMON_TERMINALS:
            hint = f"It has {', '.join(COMMON_TERMINALS)}"
            raise source.invalid(f"common has no terminal {common!r}", where, hint)
        if name in definitions.terminals:
            raise _given_twice(source, "terminal", definitions.terminals[name], where)
        place = source.place(where)
        body = Inline(rust_lexemes.parse(COMMON_TERMINALS[common]), name, place)
        definitions.terminals[name] = Rule(name, body, place)
    return position


def _word(
    source: Source, position: int, missing: str, pattern: re.Pattern[str] = _WORD
) -> tuple[int, str]:
    found = pattern.match(source.text, position)
    if found is None:
        raise source.invalid(missing, position)
    return found.end(), found[0]


def _name_list(source: Source, start: int) -> tuple[int, list[tuple[str, str, int]]]:
    """Read names in brackets; return each twice, with its position."""
    names: list[tuple[str, str, int]] = []
    position = start
    while not names or source.at(position, ","):
        where = source.skip(position + 1, SPACE)
        position, name = _word(source, where, "a name was expected")
        names.append((name, name, where))
        position = source.skip(position, SPACE)
    if not source.at(position, ")"):
        raise source.invalid("missing )", start)
    return position + 1, names


def _llguidance(source: Source, position: int, start: int, definitions: Definitions) -> int:
    end, options, _ = json_object(source, position, "%llguidance")
    for name, value in options.items():
        if name not in ("ignore_once", "allow_initial_skip", "no_forcing"):
            raise source.unsupported(f"the option {name!r} of %llguidance", start)
        if not isinstance(value, bool):
            raise source.invalid(f"the option {name!r} of %llguidance is true or false", start)
    # Text that only one continuation is possible for has no effect on the language: no_forcing.
    definitions.ignores_once = options.get("ignore_once", definitions.ignores_once)
    definitions.ignores_first = options.get("allow_initial_skip", definitions.ignores_first)
    return end


_DIRECTIVES = {"ignore": _ignore, "import": _import, "llguidance": _llguidance}


# Options of rules


def _rule_options(source: Source, position: int) -> tuple[int, RuleOptions]:
    """Read the options of a rule, behind the opening bracket."""
    values: dict[str, Any] = {}
    given: set[str] = set()
    position = source.skip(position, SPACE)
    while not source.at(position, "]"):
        start = position
        position, name = _word(source, start, "an option of the rule was expected")
        position = source.skip(position, SPACE)
        has_value = source.at(position, "=")
        if name in given:
            raise source.invalid(f"the option {name!r} is given twice", start)
        given.add(name)
        if has_value:
            position = source.skip(position + 1, SPACE)
        if has_value and {"stop", "suffix"} <= given:
            raise source.invalid("stop and suffix exclude each other", start)
        position, fields = _option(source, position, start, name, has_value=has_value)
        values |= fields
        position = source.skip(position, SPACE)
        if source.at(position, ","):
            position = source.skip(position + 1, SPACE)
        elif not source.at(position, "]"):
            raise source.invalid("missing ] behind the options of a rule", position)
    return position + 1, RuleOptions(**values)


def _option(
    source: Source, position: int, start: int, name: str, *, has_value: bool
) -> tuple[int, dict[str, Any]]:
    """Read the value of an option; return the fields of :class:`RuleOptions` that it sets."""
    match name, has_value:
        case "capture", False:
            return position, {"capture": source.rule}
        case "capture", True:
            if not source.at(position, '"'):
                raise source.invalid('a text in "quotes" was expected', position)
            end, text = string(source, position)
            return end, {"capture": text}
        case "lazy", False:
            return position, {"is_lazy": True}
        case "stop" | "suffix", True:
            end, ending = _item(source, position)
            if isinstance(ending, Inline) and ending.source in ('""', "//"):
                return end, {}  # The end of the text, which ends every lexeme.
            return end, {"ending": ending, "is_lazy": True, "is_stop": name == "stop"}
        case "max_tokens", True:
            end, digits = _number(source, position, start, "a count")
            return end, {"max_tokens": int(digits)}
        case "temperature", True:
            end, digits = _number(source, position, start, "a number")
            value = float(digits)
            if value > _MAX_TEMPERATURE or 0 < value < _MIN_TEMPERATURE:
                limits = f"[{_MIN_TEMPERATURE}, {_MAX_TEMPERATURE}]"
                raise source.invalid(f"the temperature is neither 0 nor in {limits}", start)
            return end, {"temperature": value}
        case "stop_capture", _:
            hint = "Capture a rule of its own behind this one"
            raise source.unsupported("the option stop_capture", start, hint)
    if name in _OPTIONS:
        needs = "takes no" if has_value else "needs a"
        raise source.invalid(f"the option {name!r} {needs} value", position)
    known = f"Known are {', '.join(_OPTIONS[:-1])} and {_OPTIONS[-1]}"
    raise source.invalid(f"there is no option {name!r} of rules", start, known)


def _number(source: Source, position: int, start: int, kind: str) -> tuple[int, str]:
    """Read the digits of an option's value: a number, or a whole one."""
    found = _NUMBER.match(source.text, position)
    is_whole = kind == "a count"
    if found is None or len(found[0]) > 12 or (is_whole and not found[0].isdigit()):
        raise source.invalid(f"{kind} was expected", start)
    return found.end(), found[0]


_NOTATION = Notation(
    space=SPACE,
    line_space=re.compile(r"(?:[ \t\f\r]++|(?://|#)[^\n]*+)*+"),
    plain_text=re.compile(r'[^"\\\x00-\x1f\x7f\ud800-\udfff]+'),
    character=string_character,
    alternative=_alternative,
    item=_item,
    operator=_operator,
)
