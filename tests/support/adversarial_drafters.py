"""Drafters that know the answer of a request, and misuse it in every way that the interface allows."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from proxy_engine import SpeculationOptions
from proxy_engine.generation.speculation import Drafter
from proxy_engine.requests.sequence_factory import SequenceFactory
from state_machines import Matcher

Texts = Sequence[Sequence[int]]
"""Token sequences that drafters continue: prompts with their answers."""

Make = Callable[[Sequence[int]], Sequence[Drafter]]
"""Returns the drafters of a sequence, given its prompt."""

ALWAYS = SpeculationOptions(is_adaptive=False, max_draft_tokens=6)
"""Drafts of the largest length, whatever was accepted before."""


@contextmanager
def drafters(make: Make) -> Iterator[None]:
    """Give the sequences of all engines other drafters."""

    def made(_: SequenceFactory, prompt_ids: Sequence[int]) -> list[Drafter]:
        return list(make(prompt_ids))

    with patch.object(SequenceFactory, "drafters", made):
        yield


class Replay:
    """Proposes continuations of known texts.

    Args:
        texts: The texts.
        expects: The result of :meth:`expects_draft`.

    Attributes:
        problems: Violations of the interface by its caller.
    """

    name = source = "replay"

    def __init__(self, texts: Texts, *, expects: bool = True) -> None:
        self.problems: list[str] = []
        self._texts = [list(text) for text in texts]
        self._expects = expects
        self._updated: list[int] = []

    def update(self, tokens: Sequence[int]) -> None:
        """Take the tokens so far."""
        given = list(tokens)
        if given[: len(self._updated)] != self._updated:
            self.problems.append("tokens of an update are gone in the next one")
        if not any(text[: len(given)] == given for text in self._texts):
            self.problems.append("update with tokens that are no part of the answer")
        self._updated = given

    def propose(
        self, tokens: Sequence[int], matcher: Matcher | None, at_most: int
    ) -> Sequence[int]:
        """Return what follows in the first text that begins like this."""
        given = list(tokens)
        if given[: len(self._updated)] != self._updated:
            self.problems.append("proposal for tokens that are not those of the last update")
        if at_most < 1:
            self.problems.append("request for no tokens")
        return self.change(self._right(given, at_most), len(given), at_most)

    def change(self, right: list[int], position: int, at_most: int) -> Sequence[int]:
        """Return the proposal, given the right one."""
        return right

    def expects_draft(self, matcher: Matcher | None) -> bool:
        """Return the argument of the constructor."""
        return self._expects

    def _right(self, tokens: list[int], at_most: int) -> list[int]:
        for text in self._texts:
            if text[: len(tokens)] == tokens:
                return text[len(tokens) : len(tokens) + at_most]
        return []


class Wrong(Replay):
    """Never proposes a right token first."""

    name = source = "wrong"

    def change(self, right: list[int], position: int, at_most: int) -> Sequence[int]:
        """Return the neighbours of the right tokens."""
        return [max(0, token - 1) or 1 for token in right] or [65] * at_most


class Mistaken(Replay):
    """Makes random mistakes."""

    name = source = "mistaken"

    def __init__(self, texts: Texts, seed: int, vocabulary: int, rate: float = 0.3) -> None:
        super().__init__(texts, expects=seed % 2 == 0)
        self._random = random.Random(seed)
        self._vocabulary = vocabulary
        self._rate = rate

    def change(self, right: list[int], position: int, at_most: int) -> Sequence[int]:
        """Return the right tokens, some of them replaced, and sometimes fewer or more."""
        draw = self._random
        changed = [
            draw.randrange(self._vocabulary) if draw.random() < self._rate else token
            for token in right
        ]
        return changed[: draw.randint(0, at_most)] if draw.random() < self._rate else changed


class Garbage(Replay):
    """Proposes numbers that are no tokens, and some that must not be generated."""

    name = source = "garbage"

    def __init__(self, texts: Texts, seed: int, vocabulary: int) -> None:
        super().__init__(texts, expects=seed % 2 == 0)
        self._random = random.Random(seed)
        self._ids = (-1, -(2**40), 2**40, vocabulary, *range(vocabulary - 64, vocabulary))

    def change(self, right: list[int], position: int, at_most: int) -> Sequence[int]:
        """Return right tokens, then garbage."""
        right = right[: self._random.randint(0, at_most)]
        return [*right, *self._random.choices(self._ids, k=at_most)][:at_most]


class Ending(Replay):
    """Proposes the end of the answer again and again.

    Args:
        texts: The texts.
        ends: End tokens and other special tokens.
    """

    name = source = "ending"

    def __init__(self, texts: Texts, ends: Sequence[int]) -> None:
        super().__init__(texts)
        self._ends = list(ends)

    def change(self, right: list[int], position: int, at_most: int) -> Sequence[int]:
        """Return some right tokens, then an end token, and more behind it."""
        end = self._ends[position % len(self._ends)]
        return [*right[: position % 3], end, *right[position % 3 :], end][:at_most]


class Excessive(Replay):
    """Proposes more tokens than it may."""

    name = source = "excessive"

    def change(self, right: list[int], position: int, at_most: int) -> Sequence[int]:
        """Return the right tokens, then many others."""
        return [*self._right(self._updated, 1000), *right * 100]


class Failing(Replay):
    """Raises errors from some call on.

    Args:
        texts: The texts.
        method: The method that fails.
        calls: Calls that do not fail.
    """

    name = source = "failing"

    def __init__(self, texts: Texts, method: str, calls: int) -> None:
        super().__init__(texts)
        self._left = calls
        works = getattr(self, method)

        def fails(*arguments: Any) -> Any:
            self._left -= 1
            if self._left < 0:
                raise RuntimeError("the drafter failed")
            return works(*arguments)

        setattr(self, method, fails)


KINDS = ("right", "unexpected", "wrong", "mistaken", "garbage", "ending", "excessive", "failing")


def drafter_of(
    kind: str, texts: Texts, *, seed: int, vocabulary: int, special: Sequence[int]
) -> Replay:
    """Return a drafter.

    Args:
        kind: One of :data:`KINDS`.
        texts: The texts that it knows.
        seed: Determines its mistakes.
        vocabulary: Width of the logits.
        special: End tokens and other special tokens.
    """
    match kind:
        case "right" | "unexpected":
            return Replay(texts, expects=kind == "right")
        case "wrong":
            return Wrong(texts, expects=seed % 2 == 0)
        case "mistaken":
            return Mistaken(texts, seed, vocabulary)
        case "garbage":
            return Garbage(texts, seed, vocabulary)
        case "ending":
            return Ending(texts, special)
        case "excessive":
            return Excessive(texts)
        case "failing":
            method = ("update", "propose", "expects_draft")[seed % 3]
            return Failing(texts, method, seed % 7)
    raise ValueError(kind)
