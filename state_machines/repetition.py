"""Detection of repetition in arrays and strings without bounds.

A unit of text repeats without end if it leads from a state back to the same state, since the state
is all that the grammar knows: it counts neither items (``maxItems``) nor characters, and remembers
no items (``uniqueItems``). The text is compared first, which is cheap; the state is looked at only
where the text repeats.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from state_machines.budgets import derivative_budget
from state_machines.completion.completion import Completion
from state_machines.completion.texts import Plan
from state_machines.errors import GrammarBudgetError, UnwritableTextError
from state_machines.grammar.encoding import EncodedText
from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.nodes import Concatenation, concatenation
from state_machines.grammar.remembered import Remembered
from state_machines.grammar.symbols import byte_set
from state_machines.json_schema.grammar.array_grammar import RemainingItems
from state_machines.limits import LIMITS
from state_machines.vocabulary import Vocabulary

if TYPE_CHECKING:
    from state_machines.matcher import Matcher

ITEM_REPEATS, ITEM_BYTES = 4, 64
"""How often an item with free text has come in a row, and in how many bytes, where it is ended."""

REPEATS, BYTES = 6, 512
"""The same for other repetitions: within a string, of several items, of items without free text.
Lines of dashes, rows of zeros, labels of tokens and refrains repeat as well."""

_WINDOW = 4096
_PROBE = 24
"""The last bytes, which are searched in the bytes before them."""

_MAX_ATOMS = 8
"""How many nested values are looked at from the inside."""

_PAUSE = 61
"""Bytes after which a state is looked at again that does not repeat itself without end. A prime
number, so that the next look is at another place in the unit, such as between two characters."""

_PRINTABLE = byte_set(set(range(0x20, 0x7F)) - set(b'"\\'))


class _Repeated(NamedTuple):
    """A value that repeats.

    Attributes:
        rest: The language of the rest of the value.
        before_end: What remains of the current item; empty in a string.
        is_item: Whether an item with free text repeats, rather than something shorter.
    """

    rest: Node
    before_end: bytes
    is_item: bool


class RepetitionDetector:
    """Finds values that repeat, and the tokens that end them. Cheap to copy.

    It is a function of the tokens alone, however they were generated.

    Args:
        vocabulary: The tokens.

    Attributes:
        closing_token: The token that has to come next, where a value is being ended.
        unit: The text that would have come again, where a value began to be ended; ``None``
            before the first one.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.closing_token: int | None = None
        self.unit: bytes | None = None
        self._vocabulary = vocabulary
        self._text = b""
        self._length = 0
        self._next_look = 0
        self._rest: Node | None = None

    def copy(self) -> RepetitionDetector:
        """Return an independent detector at the same point of the output."""
        twin = RepetitionDetector.__new__(RepetitionDetector)
        twin.__dict__.update(self.__dict__)
        return twin

    def advance(self, form: bytes, matcher: Matcher) -> None:
        """Take a token, given its bytes and the matcher behind it."""
        text = self._text = (self._text + form)[-_WINDOW:]
        self._length += len(form)
        if self._rest is not None:
            self._advance_to_end(self._rest, form)
        elif self._length >= self._next_look and len(text) >= ITEM_BYTES:
            found = text.rfind(text[-_PROBE:], 0, -1)
            period = len(text) - _PROBE - found
            if (
                found >= 0
                and self._repeats(period, ITEM_REPEATS, ITEM_BYTES)
                and matcher.is_in_values
            ):
                self._look(matcher.state, text[-period:])

    def _advance_to_end(self, rest: Node, form: bytes) -> None:
        self._rest = self.closing_token = None
        try:
            with derivative_budget(LIMITS.token_advance_steps):
                self._end(rest.word_derivative(form))
        except (GrammarBudgetError, UnwritableTextError, RecursionError):
            self._next_look = self._length + _PAUSE

    def _repeats(self, period: int, repeats: int, length: int) -> bool:
        """Whether a unit of this length repeats this often at the end, over ``length`` bytes."""
        length, text = max(repeats * period, length), self._text
        return length <= len(text) and text[-length:-period] == text[period - length :]

    def _look(self, state: Node, unit: bytes) -> None:
        """End the value that repeats in a state, if there is one and this is the place."""
        try:
            with derivative_budget(LIMITS.token_plan_steps):
                found = _repeated(state, unit)
                if found is None:
                    self._next_look = self._length + _PAUSE
                elif self._is_due(found, len(unit)):
                    self._end(found.rest)
        except (GrammarBudgetError, UnwritableTextError, RecursionError):
            self._next_look = self._length + _PAUSE
        if self._rest is not None and self.unit is None:
            self.unit = unit

    def _is_due(self, found: _Repeated, period: int) -> bool:
        """Whether a value has repeated often enough, and its last item would not be cut off."""
        if not (found.is_item or self._repeats(period, REPEATS, BYTES)):
            return False
        forms = self._vocabulary.token_bytes
        tokens = self._plan(found.rest).tokens
        return b"".join(forms[token_id] or b"" for token_id in tokens).startswith(found.before_end)

    def _plan(self, rest: Node) -> Plan:
        return Completion.of(self._vocabulary).plan(rest, steps=LIMITS.token_plan_steps)

    def _end(self, rest: Node) -> None:
        """Let the next token bring a value nearer to its end, given the rest of the value."""
        if rest is EMPTY or rest.nullable:
            # The value has ended: the text repeats no more.
            self._text = b""
            return
        self._rest, self.closing_token = rest, self._plan(rest).first


def _repeated(state: Node, unit: bytes) -> _Repeated | None:
    """Return the innermost value to which a unit of text leads back."""
    while isinstance(state, Remembered):
        state = state.lexeme
    atoms = list(_atoms(state))
    for count, last in enumerate(atoms[:_MAX_ATOMS], 1):
        rest = concatenation(*atoms[:count])
        if rest.word_derivative(unit) is not rest:
            continue
        if isinstance(last, RemainingItems):
            return _repeated_items(rest, last, unit)
        if count == 1 and _is_free_text(last):
            # Raw text ends where the text behind it begins.
            while rest.nullable and count < len(atoms):
                count += 1
                rest = concatenation(*atoms[:count])
            return _Repeated(rest, b"", is_item=False)
        return None
    return None


def _repeated_items(rest: Node, last: Node, unit: bytes) -> _Repeated | None:
    """Return the array whose items repeat, given its rest and its rest behind the repeated item."""
    states, has_free_text = [rest], False
    for byte in unit:
        states.append(states[-1].derivative(byte))
        has_free_text = has_free_text or _is_free_text(next(_atoms(states[-1])))
    ends = [
        at
        for at in range(len(unit))
        if _is_behind_item(states[at], last) and not _is_behind_item(states[at + 1], last)
    ]
    if not ends:
        return None
    return _Repeated(rest, unit[: ends[0]], is_item=has_free_text and len(ends) == 1)


def _is_behind_item(state: Node, last: Node) -> bool:
    *before, end = _atoms(state)
    return end is last and all(node.nullable for node in before)


def _is_free_text(node: Node) -> bool:
    """Whether nearly every character can follow."""
    return isinstance(node, EncodedText) and node.first_bytes & _PRINTABLE == _PRINTABLE


def _atoms(state: Node) -> Iterator[Node]:
    while isinstance(state, Concatenation):
        yield state.head
        state = state.tail
    yield state
