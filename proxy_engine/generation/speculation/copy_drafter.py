"""The copy drafter: propose what stands in the prompt, or earlier in the answer.

Text that has occurred before continues as it did there (Saxena, "Prompt Lookup Decoding", 2023). A
value of structured output that begins like a word of the prompt continues like it, and ends where
the prompt or the grammar delimits it. The search is for bytes, since a value can have other tokens
in the prompt than in the answer, and escapes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from state_machines import Matcher, Vocabulary
from state_machines.budgets import derivative_budget
from state_machines.errors import GrammarBudgetError
from state_machines.grammar.node import EMPTY, Node
from state_machines.root import RootMatcher, Text

from ..fast_forward import FastForward

_BYTES_PER_TOKEN = 8
"""Text is cut to this many bytes per proposed token, more than most tokens have."""

_MERGING_BYTES = 8
"""Forced bytes behind a value that are tokenized with its end."""

_STEPS = 3_000
"""Step budget of one proposal."""

_MAX_PROMPT = 1 << 18
"""Bytes at the end of the prompt in which values are searched."""

_MAX_REPEATED = 1 << 16
"""Bytes at the end of prompt and answer in which repeated text is searched, at each token."""

_MATCHED_BYTES = (48, 24, 14, 10, 7)
"""Bytes that must be the same before text is repeated, the most first."""

_MAX_PLACES = 12
_MAX_VALUE = 600
_RARE = 3
"""A value of one byte is looked for only if it begins so few words."""

_WORD = re.compile(rb"[0-9A-Za-z\x80-\xff]")
_DELIMITER = re.compile(rb'["<>]')
"""Occurs between two values, in all notations."""

_OPENING_QUOTE = re.compile(rb'(?:[:=\[,({]\s*|^)"\Z')
_NUMBER = re.compile(rb"(?<![\w.])-?[\d.]*\Z")
_TAGGED = re.compile(rb"<([^<>\s=/]+)[^<>]*>(\n?)([^<>]*)\Z")
_MARKED = re.compile(rb"[:\[,]\s*(\xff?(?:<\|\"\|>|<escape>))([^<\xff]*)\Z")
_LABEL = re.compile(rb"(?:[:=|\t>#]|^|\n[ \t]*[-*+]?)[ \t]*[\"'*`$]{0,2}\Z")
_FIELD_END = rb"\s*[\n|\t<>\"]| {2}"
_SENTENCE_END = rb"|[;!?:)\]](?=\s|\Z)|(?<!\b[A-Z][a-z]{2})\.(?=\s|\Z)| \(|" + _FIELD_END
_ENDS = tuple(
    re.compile(end)
    for end in (rb" (?=[a-z])|," + _SENTENCE_END, rb", (?=[a-z])" + _SENTENCE_END, _FIELD_END)
)
"""What ends a name in running text, other values, and values that contain what ends those."""

_ENDS_NUMBER = b",}]) \n"
_BACKSLASH, _LETTER, _QUOTATION_MARK = 1 << ord("\\"), 1 << ord("a"), 1 << ord('"')
# JSON escapes all control characters. Raw text has them, but white space may not be its first byte.
_CONTROL = 1 << 1
_DIGITS = sum(1 << byte for byte in b"0123456789")
# An opening quote or a space can be left of forced text.
_VALUE_BYTES = sum(1 << byte for byte in range(128) if chr(byte).isalnum() or byte in b'" ')


class _Value(NamedTuple):
    """The value at the end of an answer.

    Attributes:
        start: Where it begins in the answer.
        text: The text so far, without escapes.
        closing: The text that ends it; empty for numbers.
        is_free: Whether it may contain any words.
        is_escaped: Whether it is text of JSON, in which some characters are escaped.
    """

    start: int
    text: bytes
    closing: bytes
    is_free: bool = False
    is_escaped: bool = False


class CopyDrafter:
    """Proposes text that occurred before, and the end of a value that is copied from the prompt.

    Args:
        prompt_ids: The prompt.
        vocabulary: The tokens.
        fast_forward: Tokenizes the proposed text.

    Attributes:
        source: Names the last proposal in acceptance rates: ``"value"``, ``"repetition"`` of any
            text, or ``"forced_text"`` before a value, with which it could merge.
    """

    name = "copy"

    def __init__(
        self, prompt_ids: Sequence[int], vocabulary: Vocabulary, fast_forward: FastForward
    ) -> None:
        self.source = self.name
        self._vocabulary = vocabulary
        self._retokenize = fast_forward.retokenize
        self._prompt_ids = prompt_ids
        self._known = len(prompt_ids)
        self._prompt: bytes | None = None
        self._answer = b""
        # Where values begin in the answer, and in the prompt that they are copied from.
        self._copied: dict[int, int] = {}
        # The length of the answer when its value was not found in the prompt.
        self._absent: int | None = None

    def update(self, tokens: Sequence[int]) -> None:
        """Take the tokens so far."""
        if self._prompt is None:
            self._prompt = self._decode(self._prompt_ids[: self._known])[-_MAX_PROMPT:]
        self._answer += self._decode(tokens[self._known :])
        self._known = max(self._known, len(tokens))

    def propose(
        self, tokens: Sequence[int], matcher: Matcher | None, at_most: int
    ) -> Sequence[int]:
        """Return the tokens of the rest of a value and of its end, or of repeated text."""
        if at_most < 1 or len(tokens) < self._known or (matcher and matcher.is_finished):
            return ()
        answer = self._answer + self._decode(tokens[self._known :])
        if matcher is None or _is_free_text(matcher):
            return self._repeated(tokens, answer, at_most)
        try:
            with derivative_budget(_STEPS):
                return self._propose(tokens, answer, matcher.state, at_most)[:at_most]
        except GrammarBudgetError:
            return ()

    def expects_draft(self, matcher: Matcher | None) -> bool:
        """Whether the state is in or before a value, or the last words have occurred before."""
        if matcher is None or _is_free_text(matcher):
            return bool(self._repetition(self._answer, 1))
        if matcher.is_finished or not matcher.state.first_bytes & _VALUE_BYTES:
            return False
        if self._absent is None or _DELIMITER.search(self._answer, self._absent):
            return True
        return bool(self._repetition(self._answer, 1))

    def _propose(
        self, tokens: Sequence[int], answer: bytes, state: Node, at_most: int
    ) -> Sequence[int]:
        forced = self._forced_by(state)
        if forced:
            state = state.compute_word_derivative(forced)
        value = _open_value(answer + forced, state)
        if value is None and state.first_bytes & _QUOTATION_MARK:
            # A string is the most likely value where the grammar allows others.
            forced += b'"'
        elif value is not None and value.text:
            for rest, closing in self._rests(value, state, answer, at_most):
                found = self._with_end(tokens, forced, rest, closing, state)
                if found is not None:
                    self.source = "value"
                    return found
            self._absent = len(answer) if len(value.text) > 1 else None
        return self._repeated(tokens, answer, at_most) or self._before_value(tokens, forced, state)

    def _rests(
        self, value: _Value, state: Node, answer: bytes, at_most: int
    ) -> Iterator[tuple[bytes, bytes | None]]:
        """Yield rests of a value that the prompt has, the most likely first.

        Each is as the answer writes it, with what ends it; ``None`` if it is cut.
        """
        prompt = self._prompt or b""
        limit = at_most * _BYTES_PER_TOKEN
        for start in self._starts(prompt, value, answer):
            behind = start + len(value.text)
            if value.is_free:
                rest = prompt[behind : _value_end(prompt, start, behind)]
                closing = value.closing if len(rest) <= limit else None
                # Without half a character at the end.
                text = rest[:limit].decode("utf-8", "ignore")
                if value.is_escaped:
                    text = json.dumps(text, ensure_ascii=False)[1:-1]
                rest = text.encode()
            else:
                closing = value.closing
                rest = _allowed(state, prompt[behind : behind + limit], closing or _ENDS_NUMBER)
            self._copied[value.start] = start
            yield rest, closing

    def _starts(self, prompt: bytes, value: _Value, answer: bytes) -> list[int]:
        """Return where the prompt has a value's text: next to the value copied before it first."""
        known, cursor = self._copied.get(value.start), 0
        for begin, place in self._copied.items():
            if begin < value.start and prompt.startswith(answer[begin : begin + 2], place):
                cursor = place
        places: list[int] = []
        for begin, stop in ((cursor, len(prompt)), (0, cursor)):
            place = prompt.find(value.text, begin, stop)
            while place >= 0 and len(places) < _MAX_PLACES:
                # A word does not begin within another one.
                if not _WORD.match(value.text) or not _WORD.match(prompt[place - 1 : place]):
                    places.append(place)
                place = prompt.find(value.text, place + 1, stop)
        if len(value.text) < 2 and len(places) > _RARE:
            places = [place for place in places if _is_labelled(prompt, place)]
        places.sort(
            key=lambda place: (place != known, not _is_labelled(prompt, place), abs(place - cursor))
        )
        return places

    def _with_end(
        self,
        tokens: Sequence[int],
        forced: bytes,
        rest: bytes,
        closing: bytes | None,
        state: Node,
    ) -> Sequence[int] | None:
        """Return the tokens of forced text, the rest of a value, and of what ends it.

        Without an end, the last token is left out, since it could merge with what follows.

        Returns:
            The tokens; ``None`` if the grammar refuses the rest.
        """
        after = state.compute_word_derivative(rest)
        if after is EMPTY:
            return None
        ending = b"" if closing is None else _with_separator(closing, after)
        merging = self._forced_by(after.compute_word_derivative(ending)) if ending else b""
        text = forced + rest + ending
        if not text:
            return None
        found = self._retokenize(tokens, text + merging[:_MERGING_BYTES]) or ()
        return self._leading(found, len(text)) if ending else found[:-1]

    def _before_value(self, tokens: Sequence[int], forced: bytes, state: Node) -> Sequence[int]:
        """Return the tokens of forced text if they do not merge with a likely value behind it."""
        self.source = "forced_text"
        is_number = state.first_bytes & _DIGITS and not forced.endswith(b'"')
        likely = b"1" if is_number else b"A"
        found = self._retokenize(tokens, forced + likely) if forced else None
        leading = self._leading(found or (), len(forced))
        return leading if len(self._decode(leading)) == len(forced) else ()

    def _repeated(self, tokens: Sequence[int], answer: bytes, at_most: int) -> Sequence[int]:
        self.source = "repetition"
        text = self._repetition(answer, at_most)
        found = self._retokenize(tokens, text) if text else None
        # The last token could merge with what follows.
        return (found or ())[:-1][:at_most]

    def _repetition(self, answer: bytes, at_most: int) -> bytes:
        """Return what followed the last bytes where they occurred before; empty if nowhere."""
        prompt = (self._prompt or b"")[-_MAX_REPEATED:]
        text = (prompt + answer[-_MAX_REPEATED:])[-_MAX_REPEATED:]
        for length in _MATCHED_BYTES:
            same = text[-length:]
            place = text.rfind(same, 0, len(text) - 1) if length <= len(text) else -1
            if place >= 0:
                behind = place + len(same)
                # Longer matches have longer continuations.
                length = min(2 * length, at_most * _BYTES_PER_TOKEN // 2)
                rest = text[behind : behind + length]
                # At the end of the text, the copy continues with itself.
                return (rest * length)[:length]
        return b""

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

    def _decode(self, tokens: Sequence[int]) -> bytes:
        forms = self._vocabulary.token_bytes
        return b"".join([forms[token_id] or b"" for token_id in tokens])


def _open_value(answer: bytes, state: Node) -> _Value | None:
    """Return the value at the end of an answer; ``None`` if there is none.

    The answer is read by patterns, since it can be JSON, a tool call in any notation, or JSON
    behind free text. A wrong reading costs a useless proposal and nothing else.
    """
    first = state.first_bytes
    if first & _CONTROL and first & _LETTER:
        tail = answer[-_MAX_VALUE:]
        marked, tagged = _MARKED.search(tail), _TAGGED.search(tail)
        skipped = len(answer) - len(tail)
        if marked is not None:
            return _Value(skipped + marked.start(2), marked[2], marked[1], is_free=True)
        if tagged is None:
            return None
        closing = tagged[2] + b"</" + tagged[1] + b">"
        return _Value(skipped + tagged.start(3), tagged[3], closing, is_free=True)
    # A longer value is no longer searched.
    begin = max(0, len(answer) - _MAX_VALUE)
    quote = answer.rfind(b'"', begin)
    while quote > 0 and (quote - begin - len(answer[begin:quote].rstrip(b"\\"))) % 2:
        quote = answer.rfind(b'"', begin, quote)
    if quote >= 0 and _OPENING_QUOTE.search(answer, max(0, quote - 8), quote + 1):
        text = answer[quote + 1 :]
        try:
            text = json.loads(b'"' + text + b'"').encode() if b"\\" in text else text
        except (ValueError, UnicodeError):
            # It ends within a character.
            return None
        is_free = bool(first & _BACKSLASH and first & _LETTER)
        return _Value(quote + 1, text, b'"', is_free, is_free)
    number = _NUMBER.search(answer, max(0, len(answer) - 40))
    if number is None or not first & _DIGITS:
        return None
    return _Value(number.start(), number[0], b"")


def _is_labelled(prompt: bytes, start: int) -> bool:
    """Whether a colon, a cell's border, a tag or a line break precedes a position."""
    return _LABEL.search(prompt, max(0, start - 12), start) is not None


def _value_end(prompt: bytes, start: int, certain: int) -> int:
    """Return where a value of the prompt most likely ends, but not before ``certain``."""
    stop = min(len(prompt), start + _MAX_VALUE)
    is_name = not prompt[start : start + 1].islower() and not _is_labelled(prompt, start)
    for ends in _ENDS[0 if is_name else 1 :]:
        if not ends.search(prompt, start, certain):
            match = ends.search(prompt, certain, stop)
            return stop if match is None else match.start()
    line = prompt.find(b"\n", certain, stop)
    return stop if line < 0 else line


def _allowed(state: Node, text: bytes, ends: bytes) -> bytes:
    """Return the beginning of a text that the grammar allows and that has no byte of ``ends``."""
    for position, byte in enumerate(text):
        if byte in ends or not state.first_bytes >> byte & 1:
            return text[:position]
        state = state.derivative(byte)
    return text


def _with_separator(closing: bytes, after: Node) -> bytes:
    """Return the text that ends a value, with a separator if the grammar has a choice of them.

    Empty if the grammar does not end the value here.
    """
    closed = after.compute_word_derivative(closing)
    if closed is EMPTY:
        return b""
    first = closed.first_bytes
    if _has_one_byte(first):
        return closing or bytes((first.bit_length() - 1,))
    # Most objects have another member.
    separator = next((byte for byte in b",]})" if first >> byte & 1), None)
    return closing + (b"" if separator is None else bytes((separator,)))


def _has_one_byte(first: int) -> bool:
    return bool(first) and not first & (first - 1)


def _is_free_text(matcher: Matcher) -> bool:
    return isinstance(matcher, RootMatcher) and isinstance(next(iter(matcher.parts), None), Text)
