"""Formats of structural tags: languages that depend on the place where they are written.

Free text contains no end of the tag around it. Everything else is a context-free composition, so
where a text can be read in several ways, all of them count.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from state_machines.budgets import spend
from state_machines.grammar.encoding import RAW, encoded
from state_machines.grammar.lazy import reference
from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.nodes import concatenation, literal, repetition, union
from state_machines.grammar.rule_options import LimitedRule
from state_machines.grammar.tokens import Spell, token_set
from state_machines.grammar.until import text_until, text_without
from state_machines.machine import StateMachine
from state_machines.syntax_tree import NamedTokens

Token: TypeAlias = str | int
"""A token by its text or by its number."""

# Nodes may outlive their writer, whose identity may then be reused, so keys hold a number.
_serial_numbers = itertools.count()


class OneToken(NamedTuple):
    """A delimiter that is one token, by its text or by its number."""

    token: Token


class Place(NamedTuple):
    """Where a format is written.

    Attributes:
        writer: Writes texts and tokens.
        ends: The strings that end the tag around the format.
        end_tokens: The tokens that end it.
        after_text: Whether free text may precede the format. A text is then written in special
            tokens or in ordinary ones, otherwise in special ones where the vocabulary has them.
    """

    writer: TagWriter
    ends: tuple[str, ...] = ()
    end_tokens: tuple[Token, ...] = ()
    after_text: bool = False


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Format:
    """A language of texts.

    Attributes:
        language: Returns the language at a place, in bytes.
        is_unlimited: Whether XGrammar counts the format as unlimited: its end must be found in the
            text.
        has_excludes: Whether there are strings or tokens that its free text does not contain.
        ends_in_text: Whether free text may be its end.
    """

    language: Callable[[Place], Node]
    is_unlimited: bool = False
    has_excludes: bool = False
    ends_in_text: bool = False

    def node(self, place: Place) -> Node:
        """Return the language at a place, and count the work."""
        spend()
        return self.language(place)

    def compiled(self, spell: Spell) -> StateMachine:
        """Return the machine of the format; ``spell`` returns the bytes of a text."""
        writer = TagWriter(spell)
        start = self.node(Place(writer))
        return StateMachine(
            start,
            token_sets=writer.token_sets,
            limited_rules=writer.limited_rules,
            inner=writer.machines,
        )


@dataclass(frozen=True, eq=False, slots=True)
class Tag:
    """A beginning, a content, and an end from a set.

    Attributes:
        pointer: The JSON Pointer of the tag.
        begin: The beginning.
        content: The content.
        ends: The ends.
    """

    pointer: str
    begin: str | OneToken
    content: Format
    ends: tuple[str, ...] | OneToken

    @property
    def ends_in_text(self) -> bool:
        """Whether free text may be its end."""
        ends = self.ends
        return not isinstance(ends, OneToken) and not all(ends) and self.content.ends_in_text

    def node(self, place: Place) -> Node:
        """Return the language at a place."""
        spend()
        if isinstance(self.begin, OneToken):
            begin = place.writer.token(self.begin)
            return concatenation(begin, self.rest(Place(place.writer)))
        begin = place.writer.string(self.begin, place.after_text)
        after_text = place.after_text and not self.begin
        return concatenation(begin, self.rest(Place(place.writer, after_text=after_text)))

    def rest(self, place: Place) -> Node:
        """Return the language of the content and the end."""
        writer, ends = place.writer, self.ends
        if isinstance(ends, OneToken):
            content = self.content.node(place._replace(ends=(), end_tokens=ends))
            return concatenation(content, writer.token(ends))
        content = self.content.node(place._replace(ends=ends, end_tokens=()))
        after_content = self.content.ends_in_text
        return concatenation(content, union(writer.string(text, after_content) for text in ends))


class TagWriter:
    """Writes the texts and tokens of one structural tag.

    Args:
        spell: Returns the bytes of a text in which names of special tokens may occur.

    Attributes:
        token_sets: The tokens that the formats have by name or by number.
        limited_rules: The formats that take a limited number of tokens.
        machines: The machines of schemas, patterns and grammars.
    """

    def __init__(self, spell: Spell) -> None:
        self.spell = spell
        self.token_sets: list[NamedTokens] = []
        self.limited_rules: list[LimitedRule] = []
        self.machines: list[StateMachine] = []
        self._number = next(_serial_numbers)
        self._dispatches = itertools.count()

    def token(self, tokens: Iterable[Token], *, is_negated: bool = False) -> Node:
        """Return the language of a single token: a member of a set, or of its complement."""
        distinct = tuple(dict.fromkeys(tokens))
        names = tuple(token for token in distinct if isinstance(token, str))
        ranges = tuple((token, token) for token in distinct if isinstance(token, int))
        if distinct:
            self.token_sets.append(NamedTokens(names, ranges, is_negated))
        return token_set(names, ranges, is_negated=is_negated)

    def string(self, text: str, after_text: bool) -> Node:
        """Return the language of one text; free text may precede it."""
        special = self.special(text)
        if special is None:
            return literal(text.encode())
        return union((special, literal(text.encode()))) if after_text else special

    def special(self, text: str) -> Node | None:
        """Return a text with special tokens; ``None`` if it names none."""
        form = self.spell(text)
        return None if form == text.encode() else literal(form)

    def dispatch(
        self,
        rules: Sequence[tuple[str, Node]],
        excludes: Sequence[str],
        *,
        is_loop: bool,
        special: Iterable[Node] | None = None,
    ) -> Node:
        """Return free text in which what follows each pattern is of its language.

        Args:
            rules: Patterns, each with the language that follows it.
            excludes: Strings that the free text does not contain, nor end with.
            is_loop: Whether free text follows that language.
            special: Languages that follow free text in place of a pattern; ``None`` for the
                patterns as special tokens.
        """
        strings = (*excludes, *(pattern for pattern, _ in rules))
        free = free_text(strings)
        if special is None:
            special = [
                concatenation(form, node)
                for pattern, node in rules
                if (form := self.special(pattern)) is not None
            ]
        bodies = [concatenation(free, node) for node in special]
        for pattern, node in rules:
            # The free text before the pattern would otherwise contain an excluded string.
            if not any(text in pattern for text in excludes):
                until = text_until(pattern, strings)
                bodies.append(EMPTY if until is EMPTY else concatenation(encoded(until, RAW), node))
        if not is_loop:
            return union((free, *bodies))
        body = union(bodies)

        def loop() -> Node:
            return union((free, concatenation(body, again)))

        again = reference(
            ("StructuralTag", self._number, next(self._dispatches)), loop, nullable=True
        )
        return again


def free_text(strings: Iterable[str], max_chars: int | None = None) -> Node:
    """Return the texts that contain none of some strings."""
    return encoded(text_without(filter(None, strings), 0, max_chars), RAW)


def free_format(language: Callable[[Place], Node], excludes: Sequence[Token]) -> Format:
    """Return a format of free text or any tokens, perhaps with tags in it."""
    return Format(
        language=language, is_unlimited=True, has_excludes=bool(excludes), ends_in_text=True
    )


def texts_of(machine: StateMachine) -> Format:
    """Return the texts of a machine."""

    def language(place: Place) -> Node:
        place.writer.machines.append(machine)
        return machine.start

    return Format(language=language)


def const(text: str) -> Format:
    """Return one text, which may be empty."""
    return Format(language=lambda place: place.writer.string(text, place.after_text))


def any_text(excludes: Sequence[str], max_chars: int | None, max_tokens: int | None) -> Format:
    """Return free text without some strings."""

    def language(place: Place) -> Node:
        node = free_text((*excludes, *place.ends), max_chars)
        if max_tokens is None:
            return node
        rule = LimitedRule("any_text", (1, 1), node, max_tokens)
        place.writer.limited_rules.append(rule)
        return rule.language

    return free_format(language, excludes)


def other_token(excludes: Sequence[Token], place: Place) -> Node:
    """Return any token other than some and the end of the enclosing tag."""
    return place.writer.token((*excludes, *place.end_tokens), is_negated=True)


def _composed(elements: Sequence[Format], language: Callable[[Place], Node]) -> Format:
    return Format(
        language=language,
        is_unlimited=any(element.is_unlimited and not element.has_excludes for element in elements),
        ends_in_text=any(element.ends_in_text for element in elements),
    )


def series(elements: Sequence[Format]) -> Format:
    """Return formats in a row."""

    def language(place: Place) -> Node:
        nodes, after_text = [], place.after_text
        for element in elements:
            nodes.append(element.node(place._replace(after_text=after_text)))
            after_text = element.ends_in_text or (after_text and nodes[-1].nullable)
        return concatenation(*nodes)

    return _composed(elements, language)


def choice(elements: Sequence[Format]) -> Format:
    """Return the union of several formats."""
    return _composed(elements, lambda place: union(element.node(place) for element in elements))


def repeat(content: Format, min_count: int, max_count: int | None) -> Format:
    """Return a format a number of times; ``None``: without a bound."""

    def language(place: Place) -> Node:
        after_text = place.after_text or content.ends_in_text
        body = content.node(place._replace(after_text=after_text))
        return repetition(body, min_count, max_count)

    return Format(
        language=language,
        is_unlimited=max_count is None or (max_count != 0 and content.is_unlimited),
        ends_in_text=content.ends_in_text,
    )
