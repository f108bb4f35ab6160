"""The typed tree of a structural tag.

Each format is a language of texts. Formats of one kind share a class: ``optional``, ``plus``,
``star`` and ``repeat`` are a :class:`Repeated`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from state_machines.grammar.node import Node
from state_machines.grammar.tokens import Spell
from state_machines.machine import StateMachine

Token: TypeAlias = str | int
"""A token by its text or by its number."""


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Format:
    """A language of texts.

    Attributes:
        pointer: JSON Pointer of the format in the structural tag.
    """

    pointer: str


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class ConstString(Format):
    """One text, which may be empty."""

    value: str


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class MachineText(Format):
    """The texts of a machine: of a JSON schema, a pattern or a grammar."""

    machine: StateMachine


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Arguments(Format):
    """The objects of a JSON schema in the notation of a model family.

    Attributes:
        compile: Returns the language, given the function that spells markers.
    """

    compile: Callable[[Spell], Node]


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class AnyText(Format):
    """Free text, without the strings of ``excludes`` and without the end of the enclosing tag."""

    excludes: tuple[str, ...] = ()
    max_chars: int | None = None
    max_tokens: int | None = None


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class OneToken(Format):
    """One token out of some."""

    tokens: tuple[Token, ...]


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class OtherToken(Format):
    """Any token other than those of ``excludes`` and the end of the enclosing tag."""

    excludes: tuple[Token, ...] = ()


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class AnyTokens(Format):
    """Up to ``max_tokens`` tokens other than those of ``excludes`` and the end of the tag."""

    excludes: tuple[Token, ...] = ()
    max_tokens: int | None = None


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Series(Format):
    """Formats in a row."""

    elements: tuple[Format, ...]


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Alternatives(Format):
    """Any one of several formats."""

    elements: tuple[Format, ...]


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Repeated(Format):
    """A format ``min_count`` to ``max_count`` times (``None``: no bound)."""

    content: Format
    min_count: int
    max_count: int | None


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Tag(Format):
    """``begin``, the content, and any one of ``ends``."""

    begin: str | OneToken
    content: Format
    ends: tuple[str, ...] | OneToken


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class SeparatedTags(Format):
    """Tags with a separator between them, and no other text."""

    tags: tuple[Tag, ...]
    separator: str
    at_least_one: bool = False
    stop_after_first: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class TriggeredTag:
    """A tag that begins with a text."""

    begin: str
    tag: Tag


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class TriggeredTags(Format):
    """Free text in which each trigger begins one of its tags.

    Attributes:
        triggers: The triggers, each with its tags. No trigger begins with another.
        excludes: Strings that the free text does not contain.
        at_least_one: Whether the text begins with a tag.
        stop_after_first: Whether the text ends after the first tag.
    """

    triggers: tuple[tuple[str, tuple[TriggeredTag, ...]], ...]
    excludes: tuple[str, ...] = ()
    at_least_one: bool = False
    stop_after_first: bool = False

    @property
    def tags(self) -> tuple[TriggeredTag, ...]:
        """The tags of all triggers."""
        return tuple(tag for _, tags in self.triggers for tag in tags)


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Dispatch(Format):
    """Free text in which each pattern is followed by its format.

    Attributes:
        rules: Patterns, each with a format that follows it.
        loop: Whether free text follows the format.
        excludes: Strings that the free text does not contain.
    """

    rules: tuple[tuple[str, Format], ...]
    loop: bool = True
    excludes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class TokenDispatch(Format):
    """Any tokens, where each of some tokens is followed by its format.

    Attributes:
        rules: Tokens, each with the formats that may follow it.
        loop: Whether any tokens follow the format.
        at_least_one: Whether the text begins with one of the tokens.
        excludes: Other tokens that are not written.
        knows_end: Whether the token that ends the enclosing tag is not written either.
    """

    rules: tuple[tuple[Token, tuple[Format, ...]], ...]
    loop: bool = True
    at_least_one: bool = False
    excludes: tuple[Token, ...] = ()
    knows_end: bool = False
