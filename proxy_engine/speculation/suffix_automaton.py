"""A suffix automaton over token ids, extended token by token.

The automaton of a text accepts exactly the substrings of the text, with at most two states per
token (Blumer et al., "The smallest automaton recognizing the subwords of a text", 1985). The suffix
link of the last state is the longest suffix that has occurred before. A drafter proposes the tokens
behind that occurrence (Hu et al., "SAM Decoding", 2024).
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

ROOT = 0
"""The state of the empty text."""

_NONE = -1

_REFRESHED_SUFFIXES = 4
"""Repeated suffixes per token whose last occurrence is recorded. Longer ones come first."""


class SuffixAutomaton:
    """The substrings of a growing text, each with an occurrence.

    A state is a set of substrings that end at the same positions. All of them are suffixes of the
    longest one.

    Attributes:
        tokens: The text so far.
    """

    __slots__ = ("_ends", "_last", "_lengths", "_links", "_more", "_targets", "_via", "tokens")

    def __init__(self) -> None:
        self.tokens = array("i")
        # By state: length of the longest substring, suffix link, position of the last token of an
        # occurrence, and the token and target of a transition if there is only one.
        self._lengths = array("i", [0])
        self._links = array("i", [_NONE])
        self._ends = array("i", [_NONE])
        self._via = array("i", [_NONE])
        self._targets = array("i", [_NONE])
        # All transitions of the states that have several. Most states have one.
        self._more: dict[int, dict[int, int]] = {}
        self._last = ROOT

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def states(self) -> int:
        """Number of states."""
        return len(self._lengths)

    @property
    def repeated_suffix(self) -> tuple[int, int]:
        """The longest suffix of the text that has occurred before.

        Returns:
            Its state and its length in tokens; the root and 0 if there is none.
        """
        state = self._links[self._last]
        return (ROOT, 0) if state == _NONE else (state, self._lengths[state])

    def end(self, state: int) -> int:
        """Return the position of the last token of an occurrence of a state's substrings.

        It is the last occurrence before the text's end, except where more than
        ``_REFRESHED_SUFFIXES`` longer repeated suffixes ended at a later one.
        """
        return self._ends[state]

    def extend(self, tokens: Sequence[int]) -> None:
        """Append tokens, in amortised constant time per token; by Blumer et al."""
        links, via, targets, more = self._links, self._via, self._targets, self._more
        lengths, ends = self._lengths, self._ends
        for token in tokens:
            last, position = self._last, len(self.tokens)
            state = links[last]
            for _ in range(_REFRESHED_SUFFIXES):
                if state <= ROOT:
                    break
                ends[state] = position - 1
                state = links[state]
            self.tokens.append(token)
            new = self._last = len(lengths)
            self._add_state(lengths[last] + 1, position)
            state, following = last, _NONE
            while state != _NONE:
                only = via[state]
                if only == token:
                    following = targets[state]
                    break
                if only != _NONE:
                    more[state] = {only: targets[state], token: new}
                    via[state] = _NONE
                elif state in more:
                    following = more[state].setdefault(token, new)
                    if following != new:
                        break
                else:
                    via[state], targets[state] = token, new
                state = links[state]
            if state == _NONE:
                links[new] = ROOT
            elif lengths[following] == lengths[state] + 1:
                links[new] = following
            else:
                links[new] = self._split(state, token, following)

    def follow(self, state: int, length: int, token: int) -> tuple[int, int]:
        """Return the longest suffix that occurs in the text, of a substring followed by a token.

        Args:
            state: The state of the substring.
            length: Length of the substring.
            token: The token behind it.

        Returns:
            The state and the length of the suffix.
        """
        while True:
            target = self._target(state, token)
            if target != _NONE:
                return target, length + 1
            state = self._links[state]
            if state == _NONE:
                return ROOT, 0
            length = self._lengths[state]

    def _target(self, state: int, token: int) -> int:
        if self._via[state] == token:
            return self._targets[state]
        more = self._more.get(state)
        return _NONE if more is None else more.get(token, _NONE)

    def _split(self, state: int, token: int, following: int) -> int:
        """Separate from a state the substrings that occur at the text's end as well."""
        links, via, targets, more = self._links, self._via, self._targets, self._more
        short = self._add_state(self._lengths[state] + 1, self._ends[following])
        links[short] = links[following]
        links[following] = short
        via[short], targets[short] = via[following], targets[following]
        if following in more:
            more[short] = more[following].copy()
        while state != _NONE:
            if via[state] == token:
                if targets[state] != following:
                    break
                targets[state] = short
            else:
                others = more.get(state)
                if others is None or others.get(token) != following:
                    break
                others[token] = short
            state = links[state]
        return short

    def _add_state(self, length: int, end: int) -> int:
        self._lengths.append(length)
        self._links.append(_NONE)
        self._ends.append(end)
        self._via.append(_NONE)
        self._targets.append(_NONE)
        return len(self._lengths) - 1
