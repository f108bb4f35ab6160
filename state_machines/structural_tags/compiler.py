"""Compiles the typed tree of a structural tag to its language.

Free text contains no end of the tag around it. Everything else is a context-free composition, so
where a text can be read in several ways, all of them count.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from state_machines.budgets import spend
from state_machines.grammar.encoding import RAW, encoded
from state_machines.grammar.lazy import reference
from state_machines.grammar.node import EMPTY, EPSILON, Node
from state_machines.grammar.nodes import concatenation, literal, optional, repetition, union
from state_machines.grammar.token_limits import token_limited
from state_machines.grammar.tokens import Spell, token_set
from state_machines.grammar.until import text_until, text_without
from state_machines.structural_tags.bounds import ends_in_text
from state_machines.structural_tags.formats import (
    Alternatives,
    AnyText,
    AnyTokens,
    Arguments,
    ConstString,
    Dispatch,
    Format,
    MachineText,
    OneToken,
    OtherToken,
    Repeated,
    SeparatedTags,
    Series,
    Tag,
    Token,
    TokenDispatch,
    TriggeredTags,
)
from state_machines.syntax_tree import TokenSet

# Nodes may outlive their compiler, whose identity may then be reused, so keys hold a number.
_serial_numbers = itertools.count()


class Ends(NamedTuple):
    """What ends the tag around a format: strings or tokens."""

    strings: tuple[str, ...] = ()
    tokens: tuple[Token, ...] = ()


_NO_ENDS = Ends()


class StructuralTagCompiler:
    """Compiles formats.

    Args:
        spell: Returns the bytes of a text in which names of special tokens may occur.

    Attributes:
        token_sets: The tokens that the formats have by name or by number.
        limits_tokens: Whether a format takes a limited number of tokens.
    """

    def __init__(self, spell: Spell) -> None:
        self.token_sets: list[TokenSet] = []
        self.limits_tokens = False
        self._spell = spell
        self._number = next(_serial_numbers)
        self._dispatches = itertools.count()

    def node(
        self,
        content: Format,
        ends: Ends = _NO_ENDS,
        *,
        after_text: bool = False,
    ) -> Node:
        """Return the language of a format, in bytes.

        Args:
            content: The format.
            ends: What ends the tag around it.
            after_text: Whether free text may precede it. A text is then written in special tokens
                or in ordinary ones, otherwise in special ones where the vocabulary has them.
        """
        spend()
        match content:
            case ConstString():
                return self._string(content.value, after_text)
            case MachineText():
                self.token_sets += content.machine.token_sets
                self.limits_tokens |= content.machine.limits_tokens
                return content.machine.start
            case Arguments():
                return content.compile(self._spell)
            case AnyText():
                return self._any_text(content, ends)
            case OneToken():
                return self._token(content.tokens)
            case OtherToken():
                return self._token((*content.excludes, *ends.tokens), is_negated=True)
            case AnyTokens():
                other = self._token((*content.excludes, *ends.tokens), is_negated=True)
                return repetition(other, 0, content.max_tokens)
            case TokenDispatch():
                return self._token_dispatch(content, ends)
            case Series():
                return self._series(content.elements, ends, after_text)
            case Alternatives():
                return union(
                    self.node(each, ends, after_text=after_text) for each in content.elements
                )
            case Repeated():
                after_text = after_text or ends_in_text(content.content)
                body = self.node(content.content, ends, after_text=after_text)
                return repetition(body, content.min_count, content.max_count)
            case Tag():
                begin = content.begin
                if isinstance(begin, str):
                    return self._tag(content, begin, after_text)
                return concatenation(self._token(begin.tokens), self._rest_of_tag(content))
            case SeparatedTags():
                return self._separated(content, after_text)
            case TriggeredTags():
                return self._triggered(content, ends, after_text)
            case Dispatch():
                rules = [(text, self.node(each, ends)) for text, each in content.rules]
                return self._dispatch(rules, content.excludes, is_loop=content.loop)
        raise AssertionError(f"{content!r} is not a format")

    def _token(self, tokens: Iterable[Token], *, is_negated: bool = False) -> Node:
        """Return the language of one token out of some, or of all others."""
        given = tuple(dict.fromkeys(tokens))
        names = tuple(token for token in given if isinstance(token, str))
        ranges = tuple((token, token) for token in given if isinstance(token, int))
        if given:
            self.token_sets.append(TokenSet(names, ranges, is_negated))
        return token_set(names, ranges, is_negated=is_negated)

    def _any_text(self, content: AnyText, ends: Ends) -> Node:
        node = self._free_text((*content.excludes, *ends.strings), content.max_chars)
        if content.max_tokens is None:
            return node
        self.limits_tokens = True
        return token_limited(node, content.max_tokens)

    def _string(self, text: str, after_text: bool) -> Node:
        form, plain = self._spell(text), text.encode()
        if after_text and form != plain:
            return union((literal(form), literal(plain)))
        return literal(form)

    def _free_text(self, strings: Iterable[str], max_chars: int | None = None) -> Node:
        return encoded(text_without(filter(None, strings), 0, max_chars), RAW)

    def _series(self, elements: Sequence[Format], ends: Ends, after_text: bool) -> Node:
        nodes = []
        for element in elements:
            nodes.append(self.node(element, ends, after_text=after_text))
            after_text = ends_in_text(element) or (after_text and nodes[-1].nullable)
        return concatenation(*nodes)

    def _tag(self, tag: Tag, begin: str, after_text: bool) -> Node:
        """Return a tag whose beginning, but for ``begin``, has been written."""
        rest = self._rest_of_tag(tag, after_text=after_text and not begin)
        return concatenation(self._string(begin, after_text), rest)

    def _rest_of_tag(self, tag: Tag, *, after_text: bool = False) -> Node:
        """Return the content and the end of a tag."""
        if isinstance(tag.ends, OneToken):
            content = self.node(tag.content, Ends(tokens=tag.ends.tokens), after_text=after_text)
            return concatenation(content, self._token(tag.ends.tokens))
        content = self.node(tag.content, Ends(tag.ends), after_text=after_text)
        after_content = ends_in_text(tag.content)
        end = union(self._string(text, after_content) for text in tag.ends)
        return concatenation(content, end)

    def _tags(self, tags: Iterable[Tag], after_text: bool) -> Node:
        return union(self.node(tag, after_text=after_text) for tag in tags)

    def _separated(self, content: SeparatedTags, after_text: bool) -> Node:
        after_tag = any(map(ends_in_text, content.tags))
        first = tags = self._tags(content.tags, after_text)
        if not content.stop_after_first:
            separator = self._string(content.separator, after_tag)
            if after_text != after_tag:
                tags = self._tags(content.tags, after_tag and not content.separator)
            first = concatenation(first, repetition(concatenation(separator, tags), 0, None))
        return first if content.at_least_one else optional(first)

    def _triggered(self, content: TriggeredTags, ends: Ends, after_text: bool) -> Node:
        first = EPSILON
        if content.at_least_one:
            first = self._tags((each.tag for each in content.tags), after_text)
            if content.stop_after_first:
                return first
        rules = []
        for trigger, tags in content.triggers:
            bodies = (self._tag(each.tag, each.begin[len(trigger) :], False) for each in tags)
            rules.append((trigger, union(bodies)))
        special = [
            concatenation(literal(form), self._rest_of_tag(each.tag))
            for each in content.tags
            if (form := self._spell(each.begin)) != each.begin.encode()
        ]
        dispatch = self._dispatch(
            rules,
            (*content.excludes, *filter(None, ends.strings)),
            is_loop=not content.stop_after_first,
            special=special,
        )
        return concatenation(first, dispatch)

    def _dispatch(
        self,
        rules: Sequence[tuple[str, Node]],
        excludes: Sequence[str],
        *,
        is_loop: bool,
        special: Sequence[Node] | None = None,
    ) -> Node:
        """Return free text in which what follows each pattern is of its language.

        Args:
            rules: Patterns, each with the language that follows it.
            excludes: Strings that the free text does not contain, nor end with.
            is_loop: Whether free text follows that language.
            special: What may follow free text in place of a pattern; ``None`` for the patterns as
                special tokens.
        """
        strings = (*excludes, *(pattern for pattern, _ in rules))
        free = self._free_text(strings)
        if special is None:
            special = [
                concatenation(literal(form), node)
                for pattern, node in rules
                if (form := self._spell(pattern)) != pattern.encode()
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

    def _token_dispatch(self, content: TokenDispatch, ends: Ends) -> Node:
        rules = []
        for token, contents in content.rules:
            bodies = union(
                self._rest_of_tag(each)
                if isinstance(each, Tag) and content.knows_end
                else self.node(each, ends)
                for each in contents
            )
            rules.append(concatenation(self._token((token,)), bodies))
        found = union(rules)
        excludes = (*content.excludes, *(token for token, _ in content.rules))
        if content.knows_end:
            excludes += ends.tokens
        other = self._token(excludes, is_negated=True)
        if content.loop:
            rest = repetition(union((other, found)), 0, None)
            return concatenation(found, rest) if content.at_least_one else rest
        if content.at_least_one:
            return found
        return concatenation(repetition(other, 0, None), optional(found))
