"""Turn the definitions of a Lark grammar into a grammar over lexemes."""

from __future__ import annotations

from dataclasses import replace

from state_machines.context_free.lexical import LexicalGrammar, TerminalLanguage, lexical_machine
from state_machines.context_free.notations.lark.syntax import (
    AndExpression,
    Definitions,
    Inline,
    NotExpression,
)
from state_machines.context_free.notations.lark.terminals import (
    TerminalCompiler,
    without_empty_text,
)
from state_machines.errors import GrammarError, GrammarSyntaxError, UnsupportedGrammarError
from state_machines.grammar.node import EPSILON, Node
from state_machines.grammar.nodes import concatenation
from state_machines.grammar.token_limits import LimitedRule
from state_machines.grammar.tokens import token_set
from state_machines.machine import StateMachine
from state_machines.syntax_tree import (
    Choice,
    Expression,
    NamedTokens,
    Reference,
    Repeat,
    Rule,
    Series,
    SourcePosition,
    String,
    Terminal,
    walk,
)

NOTHING = Series(())
"""The empty text."""


def lower(definitions: Definitions, temperature: float | None = None) -> LexicalGrammar:
    """Return the grammar of some definitions; texts begin with the rule ``start``.

    Args:
        definitions: The rules and terminals.
        temperature: The sampling temperature of rules that do not have one of their own.

    Raises:
        GrammarError: A terminal is not defined or refers to itself, or an item stands where it has
            no meaning.
    """
    table = _TerminalTable()
    scope = _Scope(definitions, table, "", temperature)
    rules = scope.rules()
    return LexicalGrammar(
        rules,
        tuple(table.numbers),
        scope.ignored,
        "start",
        ignores_first=definitions.ignores_first,
        ignores_once=definitions.ignores_once,
        owners=tuple(table.owners),
        token_sets=tuple(table.token_sets),
        limited_rules=tuple(table.limited_rules),
    )


class _TerminalTable:
    """The terminals of a grammar and of those nested in it.

    Equal languages with equal properties are one terminal.
    """

    def __init__(self) -> None:
        self.numbers: dict[TerminalLanguage, int] = {}
        self.owners: dict[StateMachine, None] = {}
        self.token_sets: dict[NamedTokens, None] = {}
        self.limited_rules: list[LimitedRule] = []

    def expression(self, terminal: TerminalLanguage) -> Terminal:
        """Return one lexeme of a terminal."""
        return Terminal(self.numbers.setdefault(terminal, len(self.numbers)))


class _Scope:
    """The names of one grammar, which may be nested in another one.

    Args:
        definitions: The definitions of names.
        table: The terminals of all grammars.
        prefix: What precedes the names of rules, to keep nested grammars apart.
        temperature: The sampling temperature of rules that do not have one of their own.
    """

    def __init__(
        self,
        definitions: Definitions,
        table: _TerminalTable,
        prefix: str,
        temperature: float | None,
    ) -> None:
        self._definitions = definitions
        self._table = table
        self._prefix = prefix
        self._compiler = TerminalCompiler(definitions.terminals)
        self._lexemes: dict[tuple[Expression, float | None], Expression] = {}
        """The lexemes without a limit on tokens, by terminal and temperature."""
        self._has_stops = any(rule.options.is_stop for rule in definitions.rules.values())
        self._inner: dict[str, Rule] = {}
        """The rules of nested grammars."""
        self._rule = ""
        self._inherited_temperature = temperature
        self._temperature: float | None = None
        """That of the rule, once rules are read: ignored text has none."""
        self.ignored = frozenset(
            number
            for body in definitions.ignored
            for number in self._numbers(body, (1, 1), "%ignore")
        )

    def rules(self) -> dict[str, Rule]:
        """Return the rules of this grammar and of those nested in it."""
        found: dict[str, Rule] = {}
        for definition in self._definitions.rules.values():
            self._rule = definition.name
            own = definition.options.temperature
            self._temperature = self._inherited_temperature if own is None else own
            name = self._prefix + definition.name
            found[name] = replace(definition, name=name, body=self._body(definition))
        return found | self._inner

    def _body(self, definition: Rule) -> Expression:
        options = definition.options
        if options.max_tokens == 0:
            return NOTHING
        if options.is_lazy:
            return self._lazy_body(definition)
        is_limited = options.max_tokens is not None
        if not is_limited and options.temperature is None:
            return self.expression(definition.body)
        if self._is_terminal(definition.body):
            return self._lexeme(
                definition.body, definition.position, definition.name, options.max_tokens
            )
        if is_limited:
            raise self._unsupported(
                "max_tokens for a rule that is no terminal",
                definition.position,
                "Give it to rules of one regular expression, string or terminal each",
            )
        match definition.body:
            case Inline(language=Definitions()):
                return self.expression(definition.body)
        raise self._unsupported(
            "the temperature of a rule that is neither a terminal nor a nested grammar",
            definition.position,
            "Give it to rules of one regular expression, string, terminal or %lark each",
        )

    def _lazy_body(self, definition: Rule) -> Expression:
        position, name, options = definition.position, definition.name, definition.options
        language = self._compiler.language(definition.body, position, name)
        ending = before_ending = None
        if options.ending is not None:
            before_ending = language
            ending = self._compiler.language(options.ending, position, name)
            language = concatenation(language, ending)
        if language.nullable:
            return NOTHING  # The shortest match.
        terminal = TerminalLanguage(
            name,
            self._limited(language, options.max_tokens, position),
            is_lazy=True,
            ending=ending,
            before_ending=before_ending,
            temperature=self._temperature,
        )
        return self._table.expression(terminal)

    def _is_terminal(self, expression: Expression) -> bool:
        """Return whether an expression can be one lexeme."""
        return not any(
            isinstance(part, NamedTokens)
            or (isinstance(part, Inline) and isinstance(part.language, StateMachine | Definitions))
            or (isinstance(part, Reference) and part.name in self._definitions.rules)
            for part in walk(expression)
        )

    def _lexeme(
        self,
        expression: Expression,
        position: SourcePosition,
        name: str,
        max_tokens: int | None = None,
    ) -> Expression:
        """Return a lexeme of a terminal; it is optional if the terminal has the empty text."""
        key = expression, self._temperature
        found = self._lexemes.get(key) if max_tokens is None else None
        if found is None:
            language = self._compiler.language(expression, position, self._rule)
            found = NOTHING
            if language is not EPSILON:
                found = self._terminal(name, self._limited(language, max_tokens, position))
                found = Repeat(found, 0, 1) if language.nullable else found
            if max_tokens is None:
                self._lexemes[key] = found
        return found

    def _terminal(self, name: str, language: Node) -> Expression:
        terminal = TerminalLanguage(name, language, temperature=self._temperature)
        return self._table.expression(terminal)

    def _limited(self, language: Node, max_tokens: int | None, position: SourcePosition) -> Node:
        """Return the texts of a rule but the empty one, in a limited number of tokens."""
        texts = without_empty_text(language)
        if max_tokens is None:
            return texts
        rule = LimitedRule(self._rule, position, texts, max_tokens)
        # A rule with the empty text can do without tokens, so its other texts are not checked.
        checked = replace(rule, body=language) if language.nullable else rule
        self._table.limited_rules.append(checked)
        return rule.language

    def _numbers(self, body: Expression, position: SourcePosition, name: str) -> list[int]:
        match self._lexeme(body, position, name):
            case Terminal(number=number) | Repeat(body=Terminal(number=number)):
                return [number]
        return []

    def expression(self, expression: Expression) -> Expression:
        """Return an expression of a rule, over terminals and rules."""
        match expression:
            case Inline(language=StateMachine() as machine, position=position):
                if self._temperature is not None:
                    raise self._unsupported(
                        "the temperature of a %json",
                        position,
                        "Give the temperature of the request, or of a part of the answer",
                    )
                return self._inner_text(machine, machine.start, "%json")
            case Inline(language=Definitions() as definitions, position=position):
                return self._nested(definitions, position)
            case Inline(source=source, position=position):
                return self._lexeme(expression, position, source)
            case NotExpression(position=position):
                return self._lexeme(expression, position, "~")
            case Reference(name=name, position=position):
                if name in self._definitions.rules or name.lower() == name:
                    return Reference(self._prefix + name, position)
                return self._lexeme(expression, position, name)
            case Series(parts=parts):
                if self._has_stops:
                    parts = self._without_repeated_stop(parts)
                return Series(tuple(map(self.expression, parts)))
            case Choice(branches=branches):
                return Choice(tuple(map(self.expression, branches)))
            case Repeat(body=body, min_count=min_count, max_count=max_count):
                return Repeat(self.expression(body), min_count, max_count)
            case AndExpression(position=position):
                raise self._invalid(
                    "an & outside of a terminal", position, "Define a terminal, in upper case"
                )
            case NamedTokens(names=names, ranges=ranges, is_negated=is_negated, source=source):
                self._table.token_sets[expression] = None
                return self._terminal(source, token_set(names, ranges, is_negated=is_negated))
        raise AssertionError(f"{expression!r} is no expression of a rule")

    def _inner_text(self, machine: StateMachine, language: Node, name: str) -> Terminal:
        """Return a text of another machine."""
        self._table.owners[machine] = None
        return self._table.expression(TerminalLanguage(name, language, is_nested=True))

    def _without_repeated_stop(self, parts: tuple[Expression, ...]) -> tuple[Expression, ...]:
        """Drop a text behind a rule that stops at it: nothing is taken back, so it is there.

        Of a longer string that begins with the text, the rest is kept.
        """
        kept: list[Expression] = []
        ending: Expression | None = None
        for part in parts:
            if ending is not None:
                rest = _after_stop(part, ending)
                ending = None
                if rest is not None:
                    kept.append(rest)
                    continue
            kept.append(part)
            rule = self._definitions.rules.get(part.name) if isinstance(part, Reference) else None
            ending = rule.options.ending if rule is not None and rule.options.is_stop else None
        return tuple(kept)

    def _nested(self, definitions: Definitions, position: SourcePosition) -> Expression:
        """Return a reference to a nested grammar's rule, or a terminal of its texts.

        Grammars that ignore the same text have one lexer. Otherwise the nested one has its own, and
        its texts may end wherever they are complete.
        """
        if "start" not in definitions.rules:
            raise self._invalid("a nested grammar without the rule 'start'", position)
        prefix = f"{self._prefix}%lark {position[0]}:{position[1]} "
        scope = _Scope(definitions, self._table, prefix, self._temperature)
        once = definitions.ignores_once, self._definitions.ignores_once
        if scope.ignored == self.ignored and (once[0] == once[1] or not scope.ignored):
            self._inner |= scope.rules()
            return Reference(f"{prefix}start", position)
        inner = lower(definitions, self._temperature)
        if any(rule.options.capture is not None for rule in inner.rules.values()):
            raise self._unsupported(
                "a capture in a nested grammar that ignores other text than the one around it",
                position,
                "Ignore the same text in both, or capture a rule around the nested grammar",
            )
        machine = lexical_machine(inner, "start")
        language = without_empty_text(machine.start)
        found = self._inner_text(machine, language, "%lark")
        return Repeat(found, 0, 1) if machine.start.nullable else found

    def _invalid(self, what: str, position: SourcePosition, hint: str = "") -> GrammarError:
        return GrammarSyntaxError.at(position, what, self._rule, hint)

    def _unsupported(self, what: str, position: SourcePosition, hint: str = "") -> GrammarError:
        return UnsupportedGrammarError.at(position, what, self._rule, hint)


def _after_stop(part: Expression, ending: Expression) -> Expression | None:
    """Return what is left of a part that begins with the end of a rule before it, if it does."""
    if part == ending:
        return NOTHING
    match part, ending:
        case (
            Inline(language=String(text=text), position=position),
            Inline(language=String(text=first)),
        ):
            if text.startswith(first):
                rest = text.removeprefix(first)
                return Inline(String(rest), f'"{rest}"', position)
    return None
