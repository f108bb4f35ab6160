"""Parse Lark: turn the definitions of a text into a grammar over lexemes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from state_machines.context_free.compiler import LexicalGrammar, lexical_machine
from state_machines.context_free.lark import (
    Boolean,
    Definitions,
    Inline,
)
from state_machines.context_free.lark.reader import read
from state_machines.context_free.lark.terminals import (
    TerminalCompiler,
    without_empty_text,
)
from state_machines.errors import GrammarSyntaxError, UnsupportedGrammarError
from state_machines.grammar.lexicon import TerminalLanguage
from state_machines.grammar.node import EMPTY, EPSILON, Node
from state_machines.grammar.nodes import concatenation
from state_machines.grammar.rule_options import LimitedRule
from state_machines.grammar.symbols import CodePointSet
from state_machines.grammar.tokens import token_set
from state_machines.machine import StateMachine
from state_machines.syntax_tree import (
    Characters,
    Choice,
    Expression,
    NamedTokens,
    Reference,
    Repeat,
    Rule,
    RuleOptions,
    Series,
    SourcePosition,
    String,
    Terminal,
    walk,
)

NOTHING = Series(())
"""The empty text."""

_NO_TEXT = Characters(CodePointSet([]))
_PLAIN = RuleOptions()


def parse(text: str) -> LexicalGrammar:
    """Return the grammar over lexemes; texts begin with the rule ``start``.

    Raises:
        GrammarSyntaxError: The text is not Lark.
        UnsupportedGrammarError: A construct is not supported, or a size exceeds its limit.
        UnsatisfiableGrammarError: No value satisfies the schema of a ``%json``.
    """
    return lower(read(text))


def lower(definitions: Definitions, temperature: float | None = None) -> LexicalGrammar:
    """Return the grammar of some definitions; texts begin with the rule ``start``.

    Args:
        definitions: The rules and terminals.
        temperature: The sampling temperature of rules that state none.

    Raises:
        GrammarError: A terminal is not defined or refers to itself, or an item stands where it has
            no meaning.
    """
    tables = _Tables()
    scope = _Scope(definitions, tables, "", temperature)
    scope.read_rules()
    return LexicalGrammar(
        tables.rules,
        tuple(tables.terminals),
        scope.ignored,
        "start",
        ignores_first=definitions.ignores_first,
        ignores_once=definitions.ignores_once,
        owners=tuple(tables.owners),
        token_sets=tuple(tables.token_sets),
        limited_rules=tuple(tables.limited_rules),
    )


@dataclass(slots=True, eq=False)
class _Tables:
    """The rules and the terminals of a grammar and of the grammars nested in it.

    Terminals have numbers. Equal languages with equal properties are one terminal.
    """

    rules: dict[str, Rule] = field(default_factory=dict)
    terminals: dict[TerminalLanguage, int] = field(default_factory=dict)
    owners: dict[StateMachine, None] = field(default_factory=dict)
    token_sets: dict[NamedTokens, None] = field(default_factory=dict)
    limited_rules: list[LimitedRule] = field(default_factory=list)

    def lexeme(self, terminal: TerminalLanguage) -> Terminal:
        """Return one lexeme of a terminal."""
        return Terminal(self.terminals.setdefault(terminal, len(self.terminals)))


class _Scope:
    """The names of a grammar, which may be nested in another grammar.

    Args:
        definitions: The definitions of names.
        tables: The rules and terminals of all grammars.
        prefix: What precedes the names of rules, to keep nested grammars apart.
        temperature: The sampling temperature of rules that state none.
    """

    def __init__(
        self, definitions: Definitions, tables: _Tables, prefix: str, temperature: float | None
    ) -> None:
        self._definitions = definitions
        self._tables = tables
        self._prefix = prefix
        self._compiler = TerminalCompiler(definitions.terminals)
        self._lexemes: dict[tuple[Expression, float | None], Expression] = {}
        """Lexemes without options, by terminal and temperature."""
        self._stops = {
            name: rule.options.ending
            for name, rule in definitions.rules.items()
            if rule.options.is_stop
        }
        self._rule = ""
        self._inherited_temperature = temperature
        self._temperature: float | None = None
        """The temperature of the rule that is read; ``None`` for ``%ignore``, which comes first."""
        ignored = (self._lexeme("%ignore", body, (1, 1)) for body in definitions.ignored)
        parts = (part for each in ignored for part in walk(each))
        self.ignored = frozenset(part.number for part in parts if isinstance(part, Terminal))

    def read_rules(self) -> None:
        """Enter the rules of this grammar, and of nested grammars, in the tables."""
        rules = {self._prefix + rule.name: rule for rule in self._definitions.rules.values()}
        # Rules of nested grammars come last.
        self._tables.rules |= rules
        for name, rule in rules.items():
            self._rule = rule.name
            own = rule.options.temperature
            self._temperature = self._inherited_temperature if own is None else own
            self._tables.rules[name] = replace(rule, name=name, body=self._body(rule))

    def _body(self, rule: Rule) -> Expression:
        options, body, position = rule.options, rule.body, rule.position
        if options.max_tokens == 0:
            return NOTHING
        is_limited = options.max_tokens is not None
        is_plain = not (options.is_lazy or is_limited or options.temperature is not None)
        is_nested = isinstance(body, Inline) and isinstance(body.language, Definitions)
        if not is_plain and (options.is_lazy or self._is_terminal(body)):
            return self._lexeme(rule.name, body, position, options)
        if is_limited:
            what = "max_tokens for a rule that is no terminal"
            hint = "Give it to rules of one regular expression, string or terminal each"
            raise UnsupportedGrammarError.at(position, what, self._rule, hint)
        if not (is_plain or is_nested):
            what = "the temperature of a rule that is neither a terminal nor a nested grammar"
            hint = "Give it to rules of one regular expression, string, terminal or %lark each"
            raise UnsupportedGrammarError.at(position, what, self._rule, hint)
        return self.expression(body)

    def _is_terminal(self, expression: Expression) -> bool:
        """Return whether an expression can be one lexeme."""
        return not any(
            isinstance(part, NamedTokens)
            or (isinstance(part, Inline) and isinstance(part.language, StateMachine | Definitions))
            or (isinstance(part, Reference) and part.name in self._definitions.rules)
            for part in walk(expression)
        )

    def _lexeme(
        self, name: str, body: Expression, position: SourcePosition, options: RuleOptions = _PLAIN
    ) -> Expression:
        """Return a lexeme of a terminal; it is optional if the terminal has the empty text."""
        key = body, self._temperature
        known = self._lexemes.get(key) if options is _PLAIN else None
        if known is None:
            known = self._new_lexeme(name, body, position, options)
            if options is _PLAIN:
                self._lexemes[key] = known
        return known

    def _new_lexeme(
        self, name: str, body: Expression, position: SourcePosition, options: RuleOptions
    ) -> Expression:
        language = self._compiler.language(body, position, self._rule)
        before = ending = None
        if options.ending is not None:
            before, ending = language, self._compiler.language(options.ending, position, name)
            language = concatenation(before, ending)
        # The shortest match of a lazy lexeme may be the empty text.
        if language is EPSILON or (options.is_lazy and language.nullable):
            return NOTHING
        texts = without_empty_text(language)
        if texts is EMPTY or (texts.boolean and texts.is_empty):
            return NOTHING if language.nullable else _NO_TEXT
        if options.max_tokens is not None:
            rule = LimitedRule(self._rule, position, texts, options.max_tokens)
            texts = rule.language
            # A rule with the empty text can do without tokens, so its other texts are not checked.
            checked = replace(rule, body=language) if language.nullable else rule
            self._tables.limited_rules.append(checked)
        terminal = TerminalLanguage(
            name, texts, options.is_lazy, False, ending, before, self._temperature
        )
        lexeme = self._tables.lexeme(terminal)
        return Repeat(lexeme, 0, 1) if language.nullable else lexeme

    def expression(self, expression: Expression) -> Expression:
        """Return an expression of a rule, over terminals and rules."""
        match expression:
            case Reference(name=name, position=position):
                if name in self._definitions.rules or name.lower() == name:
                    return Reference(self._prefix + name, position)
                return self._lexeme(name, expression, position)
            case Inline(source=source, position=position):
                if isinstance(expression.language, Definitions):
                    return self._nested(expression.language, position)
                if isinstance(expression.language, StateMachine):
                    return self._json(expression.language, position)
                return self._lexeme(source, expression, position)
            case Series(parts=parts):
                if self._stops:
                    parts = tuple(map(self._behind, (NOTHING, *parts), parts))
                return Series(tuple(map(self.expression, parts)))
            case Choice(branches=branches):
                return Choice(tuple(map(self.expression, branches)))
            case Repeat(body=body, min_count=min_count, max_count=max_count):
                return Repeat(self.expression(body), min_count, max_count)
            case Boolean(is_negated=True, position=position):
                return self._lexeme("~", expression, position)
            case Boolean(position=position):
                what, hint = "an & outside of a terminal", "Define a terminal, in upper case"
                raise GrammarSyntaxError.at(position, what, self._rule, hint)
            case NamedTokens(names=names, ranges=ranges, is_negated=is_negated, source=source):
                self._tables.token_sets[expression] = None
                language = token_set(names, ranges, is_negated=is_negated)
                terminal = TerminalLanguage(source, language, temperature=self._temperature)
                return self._tables.lexeme(terminal)
        raise AssertionError(f"{expression!r} is no expression of a rule")

    def _json(self, machine: StateMachine, position: SourcePosition) -> Terminal:
        if self._temperature is not None:
            what = "the temperature of a %json"
            hint = "Give the temperature of the request, or of a part of the answer"
            raise UnsupportedGrammarError.at(position, what, self._rule, hint)
        return self._inner_text(machine, machine.start, "%json")

    def _inner_text(self, machine: StateMachine, language: Node, name: str) -> Terminal:
        """Return a text of another machine."""
        self._tables.owners[machine] = None
        return self._tables.lexeme(TerminalLanguage(name, language, is_nested=True))

    def _behind(self, before: Expression, part: Expression) -> Expression:
        """Return a part without the text at which the rule before it stops.

        Nothing is taken back, so the text is there. Of a longer string that begins with it, the
        rest is kept.
        """
        ending = self._stops.get(before.name) if isinstance(before, Reference) else None
        match part, ending:
            case (
                Inline(language=String(text=text), position=position),
                Inline(language=String(text=first)),
            ) if text != first and text.startswith(first):
                rest = text.removeprefix(first)
                return Inline(String(rest), f'"{rest}"', position)
        return NOTHING if part == ending else part

    def _nested(self, definitions: Definitions, position: SourcePosition) -> Expression:
        """Return a reference to a nested grammar's rule, or a terminal of its texts.

        Grammars that ignore the same text have one lexer. Otherwise the nested one has its own, and
        its texts may end wherever they are complete.
        """
        if "start" not in definitions.rules:
            what = "a nested grammar without the rule 'start'"
            raise GrammarSyntaxError.at(position, what, self._rule)
        prefix = f"{self._prefix}%lark {position[0]}:{position[1]} "
        scope = _Scope(definitions, self._tables, prefix, self._temperature)
        once = definitions.ignores_once, self._definitions.ignores_once
        if scope.ignored == self.ignored and (once[0] == once[1] or not scope.ignored):
            scope.read_rules()
            return Reference(f"{prefix}start", position)
        inner = lower(definitions, self._temperature)
        if any(rule.options.capture is not None for rule in inner.rules.values()):
            what = "a capture in a nested grammar that ignores other text than the one around it"
            hint = "Ignore the same text in both, or capture a rule around the nested grammar"
            raise UnsupportedGrammarError.at(position, what, self._rule, hint)
        machine = lexical_machine(inner, "start")
        found = self._inner_text(machine, without_empty_text(machine.start), "%lark")
        return Repeat(found, 0, 1) if machine.start.nullable else found
