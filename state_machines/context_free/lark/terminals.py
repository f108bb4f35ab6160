"""Compile terminals to languages of bytes.

A terminal is regular, so that ``&`` and ``~`` have a meaning. Both are computed on texts: a
negation is one of texts, and never of bytes that are no UTF-8.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NoReturn

from state_machines.context_free.compiler import ExpressionCompiler
from state_machines.context_free.lark import (
    Boolean,
    Definitions,
    Inline,
)
from state_machines.errors import GrammarBudgetError, GrammarSyntaxError, UnsupportedGrammarError
from state_machines.grammar.boolean import complement, intersection
from state_machines.grammar.encoding import EncodedText, encoded
from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.nodes import (
    Repetition,
    Union,
    branch,
    literal,
    repetition,
    union,
)
from state_machines.grammar.symbols import ANY_CODE_POINT
from state_machines.graphs import components
from state_machines.limits import LIMITS
from state_machines.machine import StateMachine
from state_machines.syntax_tree import (
    Expression,
    NamedTokens,
    Reference,
    Rule,
    SourcePosition,
    String,
    walk,
)

_INT = "[0-9]+"
_SIGN = "[+-]?"
_EXPONENT = "[eE][+-]?[0-9]+"
_DECIMAL = r"(?:[0-9]+\.[0-9]*|\.[0-9]+)"
_FLOAT = f"(?:{_DECIMAL}(?:{_EXPONENT})?|[0-9]+{_EXPONENT})"
_NUMBER = f"(?:{_FLOAT}|{_INT})"

COMMON_TERMINALS: Mapping[str, str] = MappingProxyType(
    {
        "DIGIT": "[0-9]",
        "HEXDIGIT": "[0-9A-Fa-f]",
        "INT": _INT,
        "SIGNED_INT": _SIGN + _INT,
        "DECIMAL": _DECIMAL,
        "_EXP": _EXPONENT,
        "FLOAT": _FLOAT,
        "SIGNED_FLOAT": _SIGN + _FLOAT,
        "NUMBER": _NUMBER,
        "SIGNED_NUMBER": _SIGN + _NUMBER,
        "ESCAPED_STRING": r'"(?:[^"\\]|\\.)*"',
        "LCASE_LETTER": "[a-z]",
        "UCASE_LETTER": "[A-Z]",
        "LETTER": "[A-Za-z]",
        "WORD": "[A-Za-z]+",
        "CNAME": "[A-Za-z_][0-9A-Za-z_]*",
        "WS_INLINE": r"[ \t]+",
        "WS": r"[ \t\f\r\n]+",
        "CR": r"\r",
        "LF": r"\n",
        "NEWLINE": r"(?:\r?\n)+",
        "SH_COMMENT": r"#[^\n]*",
        "CPP_COMMENT": r"//[^\n]*",
        "C_COMMENT": r"/\*[^*]*\*+(?:[^*/][^*]*\*+)*/",
        "SQL_COMMENT": r"--[^\n]*",
    }
)
"""The terminals that ``%import common.…`` names, by the names of the Lark toolkit, as patterns of
:mod:`state_machines.regex.rust_lexemes`.

As in llguidance, ``ESCAPED_STRING`` may contain line feeds, and ``NUMBER`` has an exponent only
behind a fraction or directly behind the digits.
"""


class TerminalCompiler(ExpressionCompiler):
    """Compiles the terminals of one grammar; nested grammars have terminals of their own.

    Args:
        definitions: The named terminals.
    """

    def __init__(self, definitions: Mapping[str, Rule]) -> None:
        self._definitions = definitions
        self._texts: dict[str, Node] = {}
        self._rule = ""

    def language(self, expression: Expression, position: SourcePosition, name: str) -> Node:
        """Return the language of a terminal; it may have the empty text.

        Args:
            expression: The terminal.
            position: Where it stands.
            name: The rule or the terminal that it belongs to, for error messages.

        Raises:
            GrammarError: A name is unknown or that of a rule, a terminal refers to itself, or the
                language takes too much work.
        """
        if isinstance(expression, Inline) and isinstance(expression.language, String):
            return literal(expression.language.text.encode())
        self._rule = name
        try:
            self._compile_names(expression)
            node = self.compile(expression)
        except GrammarBudgetError as error:
            raise UnsupportedGrammarError.at(
                position,
                f"compiling the terminal takes too much work: {error.what}",
                name,
                "Simplify the terminals of & and ~",
            ) from error
        return EMPTY if node.is_empty else node

    # References

    def _compile_names(self, expression: Expression) -> None:
        """Compile the terminals that an expression refers to, in the order of their references."""
        edges: dict[str, list[str]] = {}
        pending = self._names(expression, self._rule)
        while pending:
            name = pending.pop()
            if name not in edges and name not in self._texts:
                edges[name] = self._names(self._definitions[name].body, name)
                pending += edges[name]
        known = {name: [each for each in names if each in edges] for name, names in edges.items()}
        for members in components(known):
            name = members[-1]
            if len(members) > 1 or name in edges[name]:
                place = self._definitions[name].position
                raise GrammarSyntaxError.at(place, "the terminal refers to itself", name)
            self._texts[name] = _live(self.text(self._definitions[name].body))

    def _names(self, expression: Expression, rule: str) -> list[str]:
        """Return the terminals that an expression refers to. Raises for other names."""
        names: dict[str, None] = {}
        for part in walk(expression):
            hint = ""
            match part:
                case Reference(name=name, position=place):
                    if name in self._definitions:
                        names[name] = None
                        continue
                    what = f"the terminal {name!r} is not defined"
                    if name.lower() == name:
                        what = f"the rule {name!r} inside a terminal"
                        hint = "A terminal is made of texts, expressions and other terminals"
                    elif name in COMMON_TERMINALS:
                        hint = f"Write %import common.{name}"
                case NamedTokens(source=source, position=place):
                    what = f"the token {source} inside a terminal"
                case Inline(StateMachine() | Definitions(), source, place):
                    what = f"a {source} inside a terminal"
                case _:
                    continue
            raise GrammarSyntaxError.at(place, what, rule, hint)
        return list(names)

    # Languages

    def compile(self, expression: Expression, *, first: bool = False) -> Node:
        if isinstance(expression, Inline) and isinstance(expression.language, Expression):
            return self.compile(expression.language)
        return super().compile(expression, first=first)

    def text(self, expression: Expression) -> Node:
        match expression:
            case Inline(language=language):
                if isinstance(language, Node):
                    return language
                assert isinstance(language, Expression), "other languages are no terminals"
                return self.text(language)
            case Reference(name=name):
                return self._texts[name]
            case Boolean(members=members, is_negated=is_negated):
                language = intersection(map(self.text, members))
                return _live(complement(language, ANY_CODE_POINT) if is_negated else language)
        return super().text(expression)

    def is_text(self, expression: Expression) -> bool:
        return True

    def word(self, expression: Expression) -> str | None:
        match expression:
            case Inline(language=String(text=text)):
                return text
            case Reference(name=name):
                return self.word(self._definitions[name].body)
        return None

    def too_many_optional_parts(self, what: str) -> NoReturn:
        raise GrammarBudgetError(what, budget=LIMITS.adjacent_optional_parts)


def _live(node: Node) -> Node:
    return EMPTY if node.is_empty else node


def without_empty_text(node: Node) -> Node:
    """Return a language without the empty word."""
    if not node.nullable:
        return node
    if isinstance(node, Repetition) and not node.body.nullable:
        return repetition(node.body, 1, node.max_count)
    if isinstance(node, Union):
        return union(map(without_empty_text, node.members))
    if isinstance(node, EncodedText) and not node.terminator:
        return encoded(without_empty_text(node.text), node.spelling)
    return branch(node.transitions)
