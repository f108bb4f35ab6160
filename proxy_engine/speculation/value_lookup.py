"""Structured lookup: propose the rest of a value that stands in the prompt.

In extraction a value is copied from the prompt, while the text before it is a key that the prompt
never had. Values are therefore looked up by their own first characters, as bytes: a value can be
escaped in the answer, and tokenized differently in the prompt. A value of which nothing is written
yet is guessed from its key: behind a label, or by what delimited earlier values of this key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, pairwise

from state_machines import Matcher, Vocabulary
from state_machines.budgets import recursion_budget, step_budget
from state_machines.errors import GrammarBudgetError
from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.symbols import bytes_in
from state_machines.root import RootMatcher, Text

from .labels import Labels
from .normal_forms import dates_in, number_at
from .retokenize import Retokenize
from .source_text import SourceText
from .wrappers import Wrapper
from .written_values import OpenValue, ValueReader, WrittenValue, escape, open_value

_BYTES_PER_TOKEN = 8
"""Text is cut to this many bytes per proposed token, more than most tokens have."""

_MERGING_BYTES = 8
"""Forced bytes behind a value that are tokenized with its end."""

_MIN_SEARCHED = 2
"""Bytes of a value by which it is searched, unless a label precedes it in the source."""

_MAX_JUMP = 4_000
_MIN_FAR = 8
"""A complete value shorter than ``_MIN_FAR`` bytes counts as copied only from ``_MAX_JUMP`` bytes
behind the value before it."""

_STEPS = 3_000
"""Step budget of one proposal."""

_NEAR = 60
_MAX_WORDS = 48
_MAX_FIRST = 40
_MAX_RESTRICTED = 80
_NOWHERE = -1
_RECURSION_BUDGET = recursion_budget()
_WORD_BYTES = frozenset(byte for byte in range(128) if chr(byte).isalnum())
_BACKSLASH = 1 << ord("\\")
_DIGITS = sum(1 << byte for byte in b"0123456789")
_LETTERS = sum(1 << byte for byte in range(128) if chr(byte).isalpha())
_SEPARATORS = b",]})"


@dataclass(frozen=True, slots=True)
class _Continuation:
    """How a value may go on.

    Attributes:
        rest: The text, as the answer writes it.
        start: Where the value begins in the source.
        closing: The text behind it that ends the value.
    """

    rest: bytes
    start: int
    closing: bytes


class ValueLookup:
    """Proposes the rest of a value that is copied from the prompt, and its end.

    Args:
        prompt_ids: The prompt.
        vocabulary: The tokens.
        retokenize: Tokenizes the proposed text.

    Attributes:
        source: Names the last proposal in acceptance rates: ``"value_lookup"`` if characters of the
            value were found in the prompt, ``"value_guess"`` if none was written.
    """

    name = "value_lookup"

    def __init__(
        self, prompt_ids: Sequence[int], vocabulary: Vocabulary, retokenize: Retokenize
    ) -> None:
        self.source = self.name
        self._prompt_ids = prompt_ids
        self._vocabulary = vocabulary
        self._retokenize = retokenize
        self._known = len(prompt_ids)
        self._answer = b""
        self._reader = ValueReader()
        self._cursor = 0
        self._wrappers: dict[bytes, Wrapper] = {}
        # The value that is being copied: where it begins in the answer and in the source.
        self._copied: tuple[int, int] = (_NOWHERE, _NOWHERE)
        # A value that is not in the source: the state in it, and where it begins in the answer.
        self._absent: tuple[Node | None, int] = (None, _NOWHERE)

    @cached_property
    def _source(self) -> SourceText:
        return SourceText(self._decode(self._prompt_ids))

    @cached_property
    def _labels(self) -> Labels:
        return Labels(self._source)

    @cached_property
    def _dates(self) -> list[tuple[int, bytes]]:
        return list(dates_in(self._source.lower))

    def update(self, tokens: Sequence[int]) -> None:
        """Take the tokens so far, and learn what delimits the values that are complete."""
        new = tokens[self._known :]
        if not new:
            return
        self._known += len(new)
        self._answer += self._decode(new)
        for value in self._reader.read(self._answer):
            start = self._place(value, self._cursor, self._copied)
            if start is not None:
                end = start + len(value.text)
                around = Wrapper.around(self._source, start, end, self._cursor)
                self._wrappers[value.key] = around
                self._cursor = end

    def propose(
        self, tokens: Sequence[int], matcher: Matcher | None, at_most: int
    ) -> Sequence[int]:
        """Return the tokens of the rest of the value and of its end; none if it is not found."""
        if matcher is None or matcher.is_finished or at_most < 1 or len(tokens) < self._known:
            return ()
        try:
            with step_budget(_STEPS), _RECURSION_BUDGET:
                return self._propose(tokens, matcher, at_most)
        except GrammarBudgetError:
            return ()

    def expects_draft(self, matcher: Matcher | None) -> bool:
        """Whether the state is in a value that may be in the source."""
        if matcher is None or matcher.is_finished or _is_free(matcher):
            return False
        state = matcher.state
        return state is not self._absent[0] and bool(state.first_bytes & (_DIGITS | _LETTERS))

    def _propose(self, tokens: Sequence[int], matcher: Matcher, at_most: int) -> Sequence[int]:
        forced = matcher.forced_bytes() if _has_one_byte(matcher.state.first_bytes) else b""
        state = matcher.state.compute_word_derivative(forced) if forced else matcher.state
        answer = self._answer + self._decode(tokens[self._known :]) + forced
        reader = self._reader.copy()
        cursor = self._cursor
        for complete in reader.read(answer):
            start = self._place(complete, cursor, self._copied)
            cursor = cursor if start is None else start + len(complete.text)
        value = open_value(answer, state.first_bytes, reader.key, is_free=_is_free(matcher))
        if value is None or self._absent[1] == value.start:
            return ()
        self.source = self.name if value.text else "value_guess"
        for found in self._continuations(value, state, cursor):
            proposed = self._tokens(tokens, forced, found, state, at_most)
            if proposed is not None:
                self._copied = (value.start, found.start)
                return proposed[:at_most]
        if value.text:
            self._absent = (matcher.state, value.start)
        return ()

    def _tokens(
        self,
        tokens: Sequence[int],
        forced: bytes,
        found: _Continuation,
        state: Node,
        at_most: int,
    ) -> Sequence[int] | None:
        """Return the tokens of a continuation, up to the one that closes the value.

        Without a closing text, the last token is left out, since it could merge with what follows.

        Returns:
            The tokens; ``None`` if the grammar refuses the continuation.
        """
        limit = at_most * _BYTES_PER_TOKEN
        is_cut = len(found.rest) > limit
        rest = _whole_characters(found.rest[:limit]) if is_cut else found.rest
        after = state.compute_word_derivative(rest)
        if after is EMPTY:
            return None
        closing = b"" if is_cut else self._closing(found.closing, after)
        text = forced + rest + closing
        if closing:
            behind = after.compute_word_derivative(closing)
            merging = self._forced_by(behind)[:_MERGING_BYTES]
        else:
            merging = b""
        if not rest and not closing:
            return ()
        proposed = self._retokenize.retokenize(tokens, text + merging)
        if not proposed:
            return ()
        return self._leading(proposed, len(text)) if closing else proposed[:-1]

    def _leading(self, tokens: Sequence[int], length: int) -> Sequence[int]:
        """Return the tokens that write the first bytes of a text."""
        forms = self._vocabulary.token_bytes
        for count, token_id in enumerate(tokens):
            length -= len(forms[token_id] or b"")
            if length <= 0:
                return tokens[: count + 1]
        return tokens

    def _forced_by(self, state: Node) -> bytes:
        if state is EMPTY or not _has_one_byte(state.first_bytes):
            return b""
        return Matcher(state, self._vocabulary).forced_bytes()

    @staticmethod
    def _closing(closing: bytes, after: Node) -> bytes:
        """Return the text that ends a value, with a separator if the grammar has a choice of them.

        Empty if the grammar does not end the value here.
        """
        closed = after.compute_word_derivative(closing) if closing else after
        if closed is EMPTY:
            return b""
        first = closed.first_bytes
        if _has_one_byte(first):
            return closing or bytes((first.bit_length() - 1,))
        # Whether a list or an object goes on is not known. Most do.
        separator = next((byte for byte in _SEPARATORS if first >> byte & 1), None)
        return closing + (b"" if separator is None else bytes((separator,)))

    def _continuations(self, value: OpenValue, state: Node, cursor: int) -> Iterator[_Continuation]:
        """Yield how the value may go on, the most likely first."""
        opening = b""
        if value.kind == "other":
            # An optional string: null is not proposed.
            state = state.compute_word_derivative(b'"')
            value, opening = replace(value, kind="string", closing=b'"'), b'"'
            if state is EMPTY:
                return
        is_restricted = value.kind == "string" and not state.first_bytes & _BACKSLASH
        for start in self._starts(value, cursor):
            text = (
                self._rest_of_number(value, start)
                if value.kind == "number"
                else self._rest_allowed(value, state, start)
                if is_restricted
                else self._rest_of_text(value, start)
            )
            if text is not None:
                yield _Continuation(opening + text, start, value.closing)
        if is_restricted:
            yield from self._restricted(value, state, cursor, opening)
        elif value.kind == "string" and value.text:
            for start, date in self._matching_dates(value, cursor):
                yield _Continuation(date[len(value.text) :], start, value.closing)

    def _starts(self, value: OpenValue, cursor: int) -> Iterator[int]:
        """Yield where the value may begin in the source, the most likely first."""
        source, seen = self._source, set()
        if self._copied[0] == value.start and value.text:
            seen.add(self._copied[1])
            yield self._copied[1]
        for start in self._expected(value.key, cursor):
            if start not in seen:
                seen.add(start)
                yield start
        if not value.text:
            return
        occurrences = [one for one in source.occurrences(value.text, cursor) if one not in seen]
        # Documents are mostly read in order, and values stand behind labels.
        labelled = {start: source.is_labelled(start) for start in occurrences}
        for start in sorted(occurrences, key=lambda one: not labelled[one]):
            if len(value.text) >= _MIN_SEARCHED or labelled[start]:
                yield start

    def _expected(self, key: bytes, cursor: int) -> Iterator[int]:
        """Yield where a value of a key begins by earlier values of it, and by its labels."""
        wrapper = self._wrappers.get(key)
        if wrapper is not None:
            start = wrapper.next_start(self._source, cursor)
            if start is not None:
                yield start
        if key:
            start = self._labels.value_start(key, cursor)
            if start is not None:
                yield start

    def _rest_of_number(self, value: OpenValue, start: int) -> bytes | None:
        number = number_at(self._source.text, start)
        if number is None or not number.startswith(value.text):
            return None
        return number[len(value.text) :]

    def _rest_of_text(self, value: OpenValue, start: int) -> bytes | None:
        """Return the rest of a value up to where the source delimits it, escaped as needed."""
        source, written = self._source, len(value.text)
        if source.text[start : start + written] != value.text:
            return None
        wrapper = self._wrappers.get(value.key)
        if wrapper is None:
            end = source.value_end(start, written)
        else:
            end = wrapper.end(source, start, written)
        rest = _whole_characters(source.text[start + written : end])
        if Vocabulary.SPECIAL_MARK in rest:
            return None
        return escape(rest) if value.kind == "string" else rest

    def _rest_allowed(self, value: OpenValue, state: Node, start: int) -> bytes | None:
        """Return as much of the source as the grammar allows, if the value can end there."""
        source, written = self._source, len(value.text)
        if source.text[start : start + written] != value.text:
            return None
        return _spelled(state, source.text, start + written, value.closing)

    def _restricted(
        self, value: OpenValue, state: Node, cursor: int, opening: bytes
    ) -> Iterator[_Continuation]:
        """Yield the rest of dates, and options of an enumeration, that stand in the source."""
        for start, date in self._matching_dates(value, cursor):
            yield _Continuation(opening + date[len(value.text) :], start, value.closing)
        if value.text:
            return
        for start, text in self._options(value, state, cursor):
            yield _Continuation(opening + text, start, value.closing)

    def _matching_dates(self, value: OpenValue, cursor: int) -> Iterator[tuple[int, bytes]]:
        if value.text and not value.text[:1].isdigit():
            return
        expected = list(self._expected(value.key, cursor)) if not value.text else []
        ahead = sorted(self._dates, key=lambda found: found[0] < cursor)
        for start, date in ahead:
            is_expected = any(0 <= start - one <= _NEAR for one in expected)
            if date.startswith(value.text) and date != value.text and (value.text or is_expected):
                yield start, date

    def _options(self, value: OpenValue, state: Node, cursor: int) -> Iterator[tuple[int, bytes]]:
        """Yield the words of the source that the grammar accepts as the whole value."""
        first = state.first_bytes
        if not first & _LETTERS or first.bit_count() > _MAX_FIRST:
            return
        source = self._source
        expected = set(self._expected(value.key, cursor))
        letters = bytes(byte for byte in bytes_in(first) if byte in _WORD_BYTES)
        words = re.compile(rb"(?<![0-9A-Za-z_])[" + re.escape(letters.lower()) + rb"]")
        found: dict[int, bytes] = {}
        for begin, stop in ((cursor, len(source.lower)), (0, cursor)):
            for match in islice(words.finditer(source.lower, begin, stop), _MAX_WORDS):
                text = _spelled(state, source.text, match.start(), value.closing)
                if text is not None:
                    found[match.start()] = text
        # A list of all options is a description of the format.
        places = sorted(found)
        for place, after in pairwise([*places, len(source.text) + _NEAR]):
            if after - place < _NEAR and found[after] != found[place]:
                del found[place]
        yield from sorted(found.items(), key=lambda one: (one[0] not in expected, one[0] < cursor))

    def _place(self, value: WrittenValue, cursor: int, copied: tuple[int, int]) -> int | None:
        """Return where a complete value stands in the source; ``None`` if it does not."""
        text, source = value.text, self._source
        if copied[0] == value.start and source.text.startswith(text, max(copied[1], 0)):
            return copied[1]
        for start in source.occurrences(text, cursor):
            if source.is_whole(start, start + len(text)):
                is_far = not 0 <= start - cursor <= _MAX_JUMP
                return None if is_far and len(text) < _MIN_FAR else start
        return None

    def _decode(self, tokens: Sequence[int]) -> bytes:
        forms = self._vocabulary.token_bytes
        return b"".join([forms[token_id] or b"" for token_id in tokens])


def _has_one_byte(first: int) -> bool:
    return bool(first) and not first & (first - 1)


def _is_free(matcher: Matcher) -> bool:
    return isinstance(matcher, RootMatcher) and isinstance(next(iter(matcher.parts), None), Text)


def _whole_characters(text: bytes) -> bytes:
    """Return a text without half a character at its end."""
    return text.decode("utf-8", "ignore").encode()


def _spelled(state: Node, text: bytes, start: int, closing: bytes) -> bytes | None:
    """Return the longest text from a position on behind which the grammar allows ``closing``.

    The grammar may write letters in another case, and spaces as underscores or hyphens.
    """
    spelled, longest = bytearray(), None
    for byte in text[start : start + _MAX_RESTRICTED]:
        first = state.first_bytes
        if closing and first >> closing[0] & 1:
            longest = bytes(spelled)
        spellings = (byte, byte ^ 32) if chr(byte).isalpha() else (byte,)
        if byte == ord(" "):
            spellings = (byte, ord("_"), ord("-"))
        same = next((one for one in spellings if first >> one & 1), None)
        if same is None:
            return longest
        spelled.append(same)
        state = state.derivative(same)
    return bytes(spelled) if closing and state.first_bytes >> closing[0] & 1 else longest
