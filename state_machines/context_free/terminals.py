"""Find the terminals of a grammar of characters.

The texts of rules that are not recursive are regular languages. Where recursive rules refer to
them, or spell characters themselves, these languages become terminals. So the parser advances once
for each lexeme instead of once for each byte, and states of the lexer are shared by all states of
the parser. A lexeme may end wherever it is complete, so the language stays the same.
"""

from __future__ import annotations

from state_machines.context_free.analysis import Analysis
from state_machines.context_free.compiler import GrammarCompiler
from state_machines.context_free.lexical import LexicalGrammar
from state_machines.context_free.recursion import RuleBook, nonempty
from state_machines.grammar.lexer import TerminalLanguage
from state_machines.grammar.node import EMPTY, EPSILON, Node
from state_machines.grammar.symbols import CodePointSet
from state_machines.syntax_tree import (
    Alternatives,
    Characters,
    Expression,
    Reference,
    Repeat,
    Rule,
    Series,
    Terminal,
    walk,
)

_NO_RULE = "*"
"""The name of a rule that no notation allows."""


def lexical_grammar(analysis: Analysis, start: str) -> LexicalGrammar:
    """Return a grammar over lexemes with the same texts.

    Args:
        analysis: The rules, some of which are recursive.
        start: The rule that whole texts match.

    Raises:
        GrammarError: A terminal cannot be compiled.
    """
    finder = _Finder(analysis, start)
    rules = {
        name: Rule(name, finder.expression(rule), rule.position, rule.options)
        for name, rule in analysis.rules.items()
        if name not in finder.regular
    }
    return LexicalGrammar(
        rules, tuple(finder.terminals), ignored=frozenset(), start=start, is_greedy=False
    )


class _Finder:
    """Replaces regular expressions in rules by terminals.

    Attributes:
        regular: Names of the rules that refer to no recursive rule.
        terminals: The terminals found so far.
    """

    def __init__(self, analysis: Analysis, start: str) -> None:
        self.regular: set[str] = set()
        for name in (name for members in analysis.order for name in members):
            rule = analysis.rules[name]
            if name != start and name not in analysis.recursive and self._is_regular(rule.body):
                self.regular.add(name)
        self.terminals: list[TerminalLanguage] = []
        self._numbers: dict[Node, int] = {}
        regular = {name: analysis.rules[name] for name in self.regular}
        references = tuple(Reference(name) for name in regular)
        whole = Rule(_NO_RULE, Alternatives((Series(()), *references)), (1, 1))
        self._compiler = GrammarCompiler(
            {_NO_RULE: whole, **regular}, _NO_RULE, RuleBook(lambda _: None)
        )

    def _is_regular(self, expression: Expression) -> bool:
        return all(
            found.name in self.regular for found in walk(expression) if isinstance(found, Reference)
        )

    def expression(self, rule: Rule) -> Expression:
        """Return the body of a rule over terminals."""
        self._compiler.rule = rule
        return self._over_terminals(rule.body)

    def _over_terminals(self, expression: Expression) -> Expression:
        if self._is_regular(expression) and not isinstance(expression, Series):
            return self._terminal(expression)
        match expression:
            case Series(parts=parts):
                return Series(tuple(self._series(parts)))
            case Alternatives(branches=branches):
                # One terminal for all alternatives that are one.
                whole = [branch for branch in branches if self._is_lexeme(branch)]
                others = [branch for branch in branches if not self._is_lexeme(branch)]
                found = [self._over_terminals(branch) for branch in others]
                if whole:
                    united = whole[0] if len(whole) == 1 else Alternatives(tuple(whole))
                    found.insert(0, self._terminal(united))
                return found[0] if len(found) == 1 else Alternatives(tuple(found))
            case Repeat(body=body, min_count=min_count, max_count=max_count):
                return Repeat(self._over_terminals(body), min_count, max_count)
        return expression

    def _is_lexeme(self, expression: Expression) -> bool:
        """Whether an expression is one terminal."""
        return self._is_regular(expression) and (
            not isinstance(expression, Series) or _spells_characters(expression)
        )

    def _series(self, parts: tuple[Expression, ...]) -> list[Expression]:
        """Return a series, in which adjacent parts that spell characters are one terminal."""
        found: list[Expression] = []
        spelled: list[Expression] = []
        for part in (*parts, None):
            if part is not None and _spells_characters(part):
                spelled.append(part)
                continue
            if spelled:
                whole = spelled[0] if len(spelled) == 1 else Series(tuple(spelled))
                found.append(self._terminal(whole))
                spelled = []
            if part is not None:
                found.append(self._over_terminals(part))
        return found

    def _terminal(self, expression: Expression) -> Expression:
        node = self._compiler.compile(expression)
        lexeme = nonempty(node)
        if lexeme is EMPTY:
            # No terminal matches the empty text.
            return Series(()) if node is EPSILON else Characters(CodePointSet(()))
        number = self._numbers.get(lexeme)
        if number is None:
            number = self._numbers[lexeme] = len(self.terminals)
            self.terminals.append(TerminalLanguage(f"terminal {number}", lexeme))
        terminal = Terminal(number)
        return Repeat(terminal, 0, 1) if node.nullable else terminal


def _spells_characters(expression: Expression) -> bool:
    """Whether an expression refers to no rule."""
    return not any(isinstance(found, Reference) for found in walk(expression))
