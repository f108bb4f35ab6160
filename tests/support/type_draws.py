"""Texts drawn under masks, with a preference for rare choices.

A draw walks over the bytes of a state machine. Where bytes of several kinds may follow (digits, letters,
escapes, lead bytes of UTF-8), a kind is chosen first, so a lone quote is as likely as 200 letters.
A draw has one of several habits, such as long runs of a byte, the edges of ranges, or the kinds that
earlier draws of the machine have chosen least. It ends with a short completion.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from random import Random

from state_machines import GrammarBudgetError, JsonSchemaStateMachine
from state_machines.grammar.node import Node, leading_bytes
from state_machines.grammar.shortest import shortest_word

__all__ = ["Draws", "draw_texts"]

_KINDS: dict[str, bytes] = {
    **{char: char.encode() for char in '"\\[]{},:.-+eE019 /T'},
    "digit": b"2345678",
    "lower": b"abcdfghijklmnopqrstuvwxyz",
    "upper": b"ABCDFGHIJKLMNOPQRSUVWXYZ",
    "continuation": bytes(range(0x80, 0xC0)),
    "two bytes": bytes(range(0xC0, 0xE0)),
    "three bytes": bytes(range(0xE0, 0xF0)),
    "four bytes": bytes(range(0xF0, 0x100)),
}
_KIND_OF = {byte: kind for kind, members in _KINDS.items() for byte in members}

_CLOSING = b'"}]'
_AFTER_OPENING = (tuple(b'"}'), tuple(b'"]'))
_QUOTATION_MARK = 0x22
_BACKSLASH = 0x5C
_PREFERRED = b"0:,ntfab1"

Choose = Callable[[Node, Sequence[int]], int]


class Draws:
    """Draws texts of one machine, and counts their choices.

    Args:
        machine: The machine.
        seed: Names the sequence of texts.
    """

    def __init__(self, machine: JsonSchemaStateMachine, seed: str) -> None:
        self._machine = machine
        self._random = Random(seed)
        self._counts: Counter[tuple[Node, str]] = Counter()
        self._habits: tuple[Choose, ...] = (
            self._by_kind,
            self._rarest,
            self._rarest,
            self._repeating,
            self._edge,
            self._numeric,
        )
        self._last = 0
        self._run = 0

    def texts(self, count: int) -> Iterator[str]:
        """Yield texts of the machine.

        Raises:
            AssertionError: No completion of a text is found.
        """
        for number in range(count):
            yield self._text(self._habits[number % len(self._habits)])

    def _text(self, habit: Choose) -> str:
        random = self._random
        steps = random.choice((0, 1, 2, 4, 8, 16, 40))
        stops = random.choice((0.0, 0.1, 0.5))
        state = self._machine.start
        text = bytearray()
        self._run = 0
        try:
            while len(text) < 2000:
                live = leading_bytes(state)
                if not live:
                    assert state.nullable, f"dead end after {bytes(text)!r}"
                    break
                if len(live) > 1 or state.nullable:
                    if steps == 0 or (state.nullable and random.random() < stops):
                        break
                    steps -= 1
                    byte = live[0] if len(live) == 1 else self._chosen(habit, state, live)
                else:
                    byte = live[0]
                self._last = byte
                text.append(byte)
                state = state.derivative(byte)
            return (bytes(text) + _ending(state, random)).decode()
        except GrammarBudgetError:
            return (bytes(text) + _ending(state, random)).decode()

    def _chosen(self, habit: Choose, state: Node, live: Sequence[int]) -> int:
        byte = habit(state, live)
        self._counts[state, _KIND_OF.get(byte, "other")] += 1
        return byte

    def _by_kind(self, state: Node, live: Sequence[int]) -> int:
        kinds = _by_kind(live)
        return self._random.choice(kinds[self._random.choice(sorted(kinds))])

    def _rarest(self, state: Node, live: Sequence[int]) -> int:
        kinds = _by_kind(live)
        fewest = min(self._counts[state, kind] for kind in kinds)
        rare = [kind for kind in sorted(kinds) if self._counts[state, kind] == fewest]
        return self._random.choice(kinds[self._random.choice(rare)])

    def _repeating(self, state: Node, live: Sequence[int]) -> int:
        """Write long runs of a byte."""
        if self._run == 0:
            self._run = self._random.choice((0, 1, 3, 10, 25))
            return self._by_kind(state, live)
        self._run -= 1
        return self._last if self._last in live else self._by_kind(state, live)

    def _edge(self, state: Node, live: Sequence[int]) -> int:
        """Choose the first or last byte of a kind."""
        kinds = _by_kind(live)
        return kinds[self._random.choice(sorted(kinds))][self._random.choice((0, -1))]

    def _numeric(self, state: Node, live: Sequence[int]) -> int:
        """Prefer digits, signs, and exponents."""
        numeric = [byte for byte in live if byte in b"0123456789.eE+-"]
        if numeric and self._random.random() < 0.8:
            return self._by_kind(state, numeric)
        return self._by_kind(state, live)


def draw_texts(machine: JsonSchemaStateMachine, seed: str, count: int) -> list[str]:
    """Return texts of a machine.

    Args:
        machine: The machine.
        seed: Names the sequence of texts.
        count: The number of texts.
    """
    return list(Draws(machine, seed).texts(count))


def _by_kind(live: Sequence[int]) -> dict[str, list[int]]:
    kinds: dict[str, list[int]] = {}
    for byte in live:
        kinds.setdefault(_KIND_OF.get(byte, "other"), []).append(byte)
    return kinds


def _ending(state: Node, random: Random) -> bytes:
    """Return a short word of a state: closing bytes as soon as they may come."""
    for attempt in range(8):
        word = bytearray()
        node = state
        while len(word) < 600:
            live = leading_bytes(node)
            if node.nullable or not live:
                assert node.nullable, f"dead end after {bytes(word)!r}"
                return bytes(word)
            byte: int | None = None
            if (
                attempt
                and _BACKSLASH in live
                and _QUOTATION_MARK not in live
                and random.random() < 0.3
            ):
                # The quote of a string within a string is escaped.
                byte = _BACKSLASH
            elif live in _AFTER_OPENING and attempt < 4:
                # The quote would open a name. Inside a string it comes first.
                byte = live[1]
            else:
                byte = next((byte for byte in _CLOSING if byte in live), None)
            if byte is None:
                # The same choice at each step leads to the same name again and again.
                plain = [byte for byte in live if byte < 0x80] or live
                preferred = [byte for byte in _PREFERRED if byte in live]
                is_random = attempt and random.random() < 0.5
                byte = random.choice(plain) if is_random or not preferred else preferred[0]
            word.append(byte)
            node = node.derivative(byte)
    found = shortest_word(state, 500)
    assert found is not None, "no completion is found"
    return found
