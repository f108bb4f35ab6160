"""Read the text of a Lark grammar to its definitions."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NoReturn

from state_machines.budgets import spend
from state_machines.context_free.notations.lark.item_reader import ItemReader
from state_machines.context_free.notations.lark.syntax import (
    AndExpression,
    Definitions,
    InlineTerminal,
    Nested,
)
from state_machines.context_free.notations.lark.terminals import COMMON_TERMINALS
from state_machines.limits import LIMITS
from state_machines.regex import rust_lexemes
from state_machines.syntax_tree import (
    Expression,
    Reference,
    Repeat,
    Rule,
    RuleOptions,
    Series,
    SourcePosition,
    String,
)
from state_machines.text_reader import REPETITION_MARKS

_MIN_TEMPERATURE, _MAX_TEMPERATURE = 1e-5, 100
"""The range of temperatures above 0, as samplers have it."""

_OPTIONS = ("capture", "lazy", "max_tokens", "stop", "suffix", "temperature")
_INLINE_SPACE = re.compile(r"(?:[ \t\f\r]++|(?://|#)[^\n]*+)*+")
_SPACE = re.compile(r"(?:\s++|(?://|#)[^\n]*+)*+")
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
_TERMINAL_NAME = re.compile(r"_?[A-Z][A-Z0-9_]*(?:-(?!>)[A-Z0-9_]*)*(?![A-Za-z0-9_])")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PATH = re.compile(r"\.?[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*")
_GBNF_HINT = "`::=` is GBNF: use GrammarStateMachine.from_gbnf, or notation='gbnf'"
_UNIFORM = "A rule's name is lower case, a terminal's name upper case"
_OWN_DIRECTIVES = {"ignore", "import", "llguidance"}
_FOREIGN_DIRECTIVES = {
    "declare": "Define the terminal in the grammar",
    "override": "Define the rule under its own name, without importing it",
    "extend": "Write all alternatives in one definition",
}


class LarkReader(ItemReader):
    """Reads one grammar, and the grammars nested in it.

    A definition ends with its line, unless a bracket is open or a ``|`` follows.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.definitions = Definitions()
        self.grammar_depth = 0
        """Brackets around the innermost grammar; more are open inside of a definition."""

    def read(self) -> Definitions:
        """Return the definitions of the whole text."""
        self.read_definitions()
        if not self.at_end:
            self.invalid("unmatched }")
        if not self.definitions.rules:
            self.invalid("a grammar without a rule", 0, "Write start: …")
        return self.definitions

    def read_definitions(self) -> None:
        """Read definitions up to the end, or to the brace that closes a nested grammar."""
        self.skip_lines()
        while not self.at_end and not self.peek("}"):
            spend()
            self.rule = ""
            if self.take("%"):
                self.directive(self.position - 1)
            else:
                self.definition()
            self.skip_lines()

    # Definitions

    def definition(self) -> None:
        start = self.position
        found = _RULE_NAME.match(self.text, start)
        if found is not None:
            self.position, self.rule = found.end(), found[1]
            self.rule_definition(found[1], self.source_position(start), start)
            return
        found = _TERMINAL_NAME.match(self.text, start)
        if found is None:
            self.no_definition(start)
        self.position, self.rule = found.end(), found[0]
        self.head_end(start)
        body = self.alternatives()
        self.define_terminal(found[0], body, start)

    def no_definition(self, start: int) -> NoReturn:
        word = _WORD.match(self.text, start)
        if word is not None:
            self.invalid(f"{word[0]!r} mixes upper and lower case", start, _UNIFORM)
        if self.text[start] == "|":
            self.invalid("an alternative without a rule", start)
        if self.text[start] in ")]":
            self.invalid(f"unmatched {self.text[start]}", start)
        self.invalid("a rule, a terminal or a directive was expected", start, "Write name: …")

    def define_terminal(self, name: str, body: Expression, start: int) -> None:
        known = self.definitions.terminals.get(name)
        if known is not None:
            self.given_twice("terminal", name, known.position, start)
        position = self.source_position(start)
        self.definitions.terminals[name] = Rule(name, body, position)

    def given_twice(self, kind: str, name: str, first: SourcePosition, start: int) -> NoReturn:
        self.invalid(f"the {kind} {name!r} is given twice, first in line {first[0]}", start)

    def head_end(self, start: int) -> None:
        """Read what stands between a name and its body, except for options."""
        self.skip_space()
        if self.peek("[") or (not self.peek("::") and self.take(":")):
            return
        if self.peek("{"):
            self.unsupported(
                "a template", self.position, "Write a rule for each of its uses, with no braces"
            )
        if self.peek("."):
            self.unsupported(
                "a priority",
                self.position,
                "The longest match wins, and all readings of an ambiguous text are accepted",
            )
        if self.peek("::="):
            self.invalid("a rule of another notation", start, _GBNF_HINT)
        if self.peek("::"):
            self.unsupported("a parametric rule", self.position, "Write a rule for each value")
        self.invalid("a : was expected behind the name", self.position, "Write name: …")

    def rule_definition(self, name: str, position: SourcePosition, start: int) -> None:
        known = self.definitions.rules.get(name)
        if known is not None:
            self.given_twice("rule", name, known.position, start)
        self.head_end(start)
        options = RuleOptions()
        if self.take("["):
            options = self.rule_options()
            self.head_end(start)
        self.definitions.rules[name] = Rule(name, self.alternatives(), position, options)

    def nested(self, start: int) -> Expression:
        """Read a grammar after ``%lark``."""
        self.skip_lines()
        if not self.take("{"):
            self.invalid("a { was expected behind %lark", self.position)
        self.enter(start)
        outer = self.definitions, self.grammar_depth, self.rule
        inner = self.definitions = Definitions()
        self.grammar_depth = self.depth
        self.read_definitions()
        if not self.take("}"):
            self.invalid("missing }", start)
        self.definitions, self.grammar_depth, self.rule = outer
        self.depth -= 1
        return Nested(inner, self.source_position(start))

    # Bodies

    def bar(self) -> bool:
        """Read a ``|``, also on a later line; return whether there was one."""
        before = self.position
        self.skip_lines()
        if self.take("|"):
            return True
        self.position = before
        return False

    def alternative(self) -> Expression:
        """Read series with ``&`` between them, and an alias."""
        self.skip_space()
        start = self.position
        members = [self.series()]
        while self.take("&"):
            self.skip_space()
            members.append(self.series())
        if self.peek("-") and (alias := _ALIAS.match(self.text, self.position)) is not None:
            self.position = alias.end()
            self.skip_space()
        if self.peek("%if"):
            self.unsupported("a condition", self.position, "Write a rule for each case")
        if len(members) == 1:
            return members[0]
        return AndExpression(tuple(members), self.source_position(start))

    def series(self) -> Expression:
        parts: list[Expression] = []
        while (found := _SIMPLE_ITEM.match(self.text, self.position)) or not self.ends_series():
            if found is None:
                parts.append(self.repeated())
                continue
            name, source, text, mark = found.groups()
            position = self.source_position(self.position)
            self.position = found.end()
            part = (
                Reference(name, position)
                if name
                else InlineTerminal(String(text), source, position)
            )
            parts.append(Repeat(part, *REPETITION_MARKS[mark]) if mark else part)
        spend(len(parts))
        return parts[0] if len(parts) == 1 else Series(tuple(parts))

    def ends_series(self) -> bool:
        character = self.text[self.position : self.position + 1]
        return character in "\n|)]}&" or (
            character in "-%" and (self.peek("->") or self.peek("%if"))
        )

    def repetition(self) -> tuple[int, int | None] | None:
        start = self.position
        mark = self.text[start : start + 1]
        found = None
        if mark == "{":
            found = _COUNTS.match(self.text, start)
            if found is None or not (found[1] or found[3]):
                self.no_counts(start)
        elif mark == "~":
            found = _TILDE_COUNTS.match(self.text, start)
        if found is None:
            return self.mark()
        self.position = found.end()
        return self.bounds(found[1] or "0", found[3] if found[2] else found[1], start)

    def no_counts(self, start: int) -> NoReturn:
        if self.text[start + 1 : start + 2] not in ("", "}", ",", "-", *"0123456789"):
            self.unsupported("a template", start, "Write a rule for each of its uses")
        self.invalid("{n}, {m,}, {,n} or {m,n} was expected", start)

    def skip_space(self) -> None:
        """Skip white space and comments, inside of brackets also the ends of lines."""
        space = _SPACE if self.depth > self.grammar_depth else _INLINE_SPACE
        self.position = self.end_of_space(self.position, space)

    def skip_lines(self) -> None:
        """Skip white space, comments and the ends of lines."""
        self.position = self.end_of_space(self.position, _SPACE)

    # Directives

    def directive(self, start: int) -> None:
        word = _WORD.match(self.text, self.position)
        name = word[0] if word is not None else ""
        if name in _FOREIGN_DIRECTIVES:
            self.unsupported(f"the directive %{name}", start, _FOREIGN_DIRECTIVES[name])
        if name not in _OWN_DIRECTIVES:
            known = ", ".join(f"%{each}" for each in sorted(_OWN_DIRECTIVES))
            self.invalid(f"there is no directive %{name}", start, f"Known are {known}")
        self.position += len(name)
        self.skip_space()
        read: Callable[[int], None] = {
            "ignore": self.ignore,
            "import": self.import_names,
            "llguidance": self.llguidance,
        }[name]
        read(start)

    def ignore(self, start: int) -> None:
        if len(self.definitions.ignored) >= LIMITS.ignored_terminals:
            self.unsupported(f"more than {LIMITS.ignored_terminals} of %ignore", start)
        self.definitions.ignored.append(self.alternatives())

    def import_names(self, start: int) -> None:
        path = _PATH.match(self.text, self.position)
        if path is None:
            self.invalid("a name was expected behind %import", self.position)
        self.position = path.end()
        module, _, name = path[0].rpartition(".")
        self.skip_space()
        if self.take("("):
            module, names = path[0], self.name_list(start)
        else:
            names = [(name, name, start)]
            if self.take("->"):
                self.skip_space()
                alias = _WORD.match(self.text, self.position)
                if alias is None:
                    self.invalid("a name was expected behind ->", self.position)
                self.position = alias.end()
                names = [(name, alias[0], start)]
        if module != "common":
            self.unsupported(
                f"an import of {path[0]}", start, "Only common is there; paste the rules instead"
            )
        for common, name, where in names:
            if common not in COMMON_TERMINALS:
                known = ", ".join(COMMON_TERMINALS)
                self.invalid(f"common has no terminal {common!r}", where, f"It has {known}")
            body = rust_lexemes.parse(COMMON_TERMINALS[common])
            self.define_terminal(
                name, InlineTerminal(body, name, self.source_position(where)), where
            )

    def name_list(self, start: int) -> list[tuple[str, str, int]]:
        names = []
        while True:
            self.skip_lines()
            found = _WORD.match(self.text, self.position)
            if found is None:
                self.invalid("a name was expected", self.position)
            names.append((found[0], found[0], self.position))
            self.position = found.end()
            self.skip_lines()
            if self.take(")"):
                return names
            if not self.take(","):
                self.invalid("missing )", start)

    def llguidance(self, start: int) -> None:
        options, _ = self.json_value("%llguidance")
        if not isinstance(options, dict):
            self.invalid("%llguidance takes an object", start)
        for name, value in options.items():
            if name not in ("ignore_once", "allow_initial_skip", "no_forcing"):
                self.unsupported(f"the option {name!r} of %llguidance", start)
            if not isinstance(value, bool):
                self.invalid(f"the option {name!r} of %llguidance is true or false", start)
        # Text that only one continuation is possible for has no effect on the language: no_forcing.
        known = self.definitions
        known.ignores_once = options.get("ignore_once", known.ignores_once)
        known.ignores_first = options.get("allow_initial_skip", known.ignores_first)

    # Options of rules

    def rule_options(self) -> RuleOptions:
        """Read the options of a rule, behind the opening bracket."""
        values: dict[str, Any] = {}
        given: set[str] = set()
        while True:
            self.skip_lines()
            if self.take("]"):
                return RuleOptions(**values)
            start = self.position
            word = _WORD.match(self.text, start)
            if word is None:
                self.invalid("an option of the rule was expected", start)
            self.position = word.end()
            self.skip_lines()
            has_value = self.take("=")
            if word[0] in given:
                self.invalid(f"the option {word[0]!r} is given twice", start)
            given.add(word[0])
            if has_value:
                self.skip_lines()
                if word[0] in ("stop", "suffix") and {"stop", "suffix"} <= given:
                    self.invalid("stop and suffix exclude each other", start)
            values |= self.option(word[0], start, has_value=has_value)
            self.skip_lines()
            if not self.take(",") and not self.peek("]"):
                self.invalid("missing ] behind the options of a rule", self.position)

    def option(self, name: str, start: int, *, has_value: bool) -> dict[str, Any]:
        """Return the fields of :class:`RuleOptions` that an option sets; read its value."""
        match name, has_value:
            case "capture", _:
                return {"capture": self.option_string() if has_value else self.rule}
            case "lazy", False:
                return {"is_lazy": True}
            case "stop" | "suffix", True:
                ending = self.item()
                if isinstance(ending, InlineTerminal) and ending.source in ('""', "//"):
                    return {}  # The end of the text, which ends every lexeme.
                return {"ending": ending, "is_lazy": True, "is_stop": name == "stop"}
            case "max_tokens", True:
                return {"max_tokens": int(self.number(start, whole=True))}
            case "temperature", True:
                value = float(self.number(start, whole=False))
                if value > _MAX_TEMPERATURE or 0 < value < _MIN_TEMPERATURE:
                    self.invalid(
                        f"the temperature is neither 0 nor in [{_MIN_TEMPERATURE}, "
                        f"{_MAX_TEMPERATURE}]",
                        start,
                    )
                return {"temperature": value}
            case _:
                return self.no_option(name, start, has_value=has_value)

    def no_option(self, name: str, start: int, *, has_value: bool) -> NoReturn:
        if name == "stop_capture":
            self.unsupported(
                "the option stop_capture", start, "Capture a rule of its own behind this one"
            )
        if name in _OPTIONS:
            self.invalid(f"the option {name!r} {'takes no' if has_value else 'needs a'} value")
        known = f"Known are {', '.join(_OPTIONS[:-1])} and {_OPTIONS[-1]}"
        self.invalid(f"there is no option {name!r} of rules", start, known)

    def number(self, start: int, *, whole: bool) -> str:
        """Read the digits of an option's value."""
        found = _NUMBER.match(self.text, self.position)
        if found is None or len(found[0]) > 12 or (whole and not found[0].isdigit()):
            self.invalid("a number was expected" if not whole else "a count was expected", start)
        self.position = found.end()
        return found[0]
