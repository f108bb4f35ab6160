"""Structured lookup: propose the rest of a value that stands in the prompt.

In extraction a value is copied from the prompt, while the text before it is a key that the prompt
never had. Values are therefore looked up by their own first characters, as bytes: a value can be
escaped in the answer, and tokenized differently in the prompt. A value that has not begun is
guessed from its key: behind a label, or by the delimiters of earlier values of this key.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

from state_machines import Matcher, Vocabulary
from state_machines.budgets import recursion_budget, step_budget
from state_machines.errors import GrammarBudgetError
from state_machines.grammar.node import EMPTY, Node
from state_machines.root import RootMatcher, Text

from .retokenize import Retokenize
from .value_search import MIN_SEARCHED, Continuation, ValueSearch
from .written_values import ValueReader, open_value

_BYTES_PER_TOKEN = 8
"""Text is cut to this many bytes per proposed token, more than most tokens have."""

_MERGING_BYTES = 8
"""Forced bytes behind a value that are tokenized with its end."""

_STEPS = 3_000
"""Step budget of one proposal."""

_DELIMITER = re.compile(rb'["<>]')
"""Occurs between two values, in all notations."""

_NOWHERE = -1
_RECURSION_BUDGET = recursion_budget()
_QUOTE = 1 << ord('"')
_DIGITS = sum(1 << byte for byte in b"0123456789")
# An opening quote or a space can be left of forced text.
_VALUE_BYTES = sum(1 << byte for byte in range(128) if chr(byte).isalnum() or byte in b'" ')


class ValueLookup:
    """Proposes the rest of a value that is copied from the prompt, and its end.

    Args:
        prompt_ids: The prompt.
        vocabulary: The tokens.
        retokenize: Tokenizes the proposed text.

    Attributes:
        source: Names the last proposal in acceptance rates. ``"value_lookup"``: characters of the
            value were found in the prompt; ``"value_guess"``: none is written; ``"forced_text"``:
            the tokens before a value, which could merge with it.
    """

    name = "value_lookup"

    def __init__(
        self, prompt_ids: Sequence[int], vocabulary: Vocabulary, retokenize: Retokenize
    ) -> None:
        self.source = self.name
        self._prompt_ids = prompt_ids
        self._vocabulary = vocabulary
        self._retokenize = retokenize
        self._prompt_tokens = self._known = len(prompt_ids)
        self._answer = b""
        self._reader = ValueReader()
        # A value that is not in the source: the state in it, where it begins in the answer, and the
        # length of the answer by then.
        self._absent: tuple[Node | None, int, int] = (None, _NOWHERE, 0)

    @cached_property
    def _search(self) -> ValueSearch:
        # The list may have grown since.
        return ValueSearch(self._decode(self._prompt_ids[: self._prompt_tokens]))

    def update(self, tokens: Sequence[int]) -> None:
        """Take the tokens so far. Their values are read by the next proposal."""
        new = tokens[self._known :]
        if new:
            self._known += len(new)
            self._answer += self._decode(new)

    def propose(
        self, tokens: Sequence[int], matcher: Matcher | None, at_most: int
    ) -> Sequence[int]:
        """Return the tokens of the rest of the value and of its end; none if it is not found."""
        if matcher is None or at_most < 1 or len(tokens) < self._known or _has_no_value(matcher):
            return ()
        answer = self._answer + self._decode(tokens[self._known :])
        state, _, length = self._absent
        if matcher.state is state and b'"' not in answer[length:]:
            # Still in the value that is not in the source.
            return ()
        try:
            with step_budget(_STEPS), _RECURSION_BUDGET:
                return self._propose(tokens, answer, matcher, at_most)[:at_most]
        except GrammarBudgetError:
            return ()

    def expects_draft(self, matcher: Matcher | None) -> bool:
        """Whether the state is before or in a value that may be in the source."""
        if matcher is None or _has_no_value(matcher):
            return False
        state, _, length = self._absent
        if state is not None and not _DELIMITER.search(self._answer, length):
            # Still in the value that is not in the source.
            return False
        return bool(matcher.state.first_bytes & _VALUE_BYTES)

    def _propose(
        self, tokens: Sequence[int], answer: bytes, matcher: Matcher, at_most: int
    ) -> Sequence[int]:
        state = matcher.state
        forced = self._forced_by(state)
        if forced:
            state = state.compute_word_derivative(forced)
        search, reader = self._search, self._reader
        search.learn(reader.read(self._answer))
        reader = reader.copy()
        cursor = search.cursor_behind(reader.read(answer))
        value = open_value(answer + forced, state.first_bytes, reader.key)
        if value is not None and value.start != self._absent[1]:
            self.source = self.name if value.text else "value_guess"
            for found in search.continuations(value, state, cursor):
                proposed = self._tokens(tokens, forced, found, state, at_most)
                if proposed is not None:
                    search.copy_from(value, found)
                    return proposed
            if len(value.text) >= MIN_SEARCHED:
                self._absent = (matcher.state, value.start, len(answer))
        is_string = value is not None and value.kind == "other"
        return self._before_value(tokens, forced, state, is_string=is_string)

    def _before_value(
        self, tokens: Sequence[int], forced: bytes, state: Node, *, is_string: bool
    ) -> Sequence[int]:
        """Return the tokens of forced text if they do not merge with a likely value behind it.

        Args:
            tokens: The tokens before.
            forced: The forced text.
            state: The state behind it.
            is_string: Whether the grammar allows a string or null next. A string is more likely.
        """
        self.source = "forced_text"
        text = forced + b'"' if is_string else forced
        if not text:
            return ()
        is_number = state.first_bytes & _DIGITS and not state.first_bytes & _QUOTE
        likely = b"1" if is_number and not is_string else b"A"
        found = self._retokenize.retokenize(tokens, text + likely) or ()
        proposed = self._leading(found, len(text))
        return proposed if len(self._decode(proposed)) == len(text) else ()

    def _tokens(
        self,
        tokens: Sequence[int],
        forced: bytes,
        found: Continuation,
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
        rest = found.rest[:limit].decode("utf-8", "ignore").encode() if is_cut else found.rest
        after = state.compute_word_derivative(rest)
        if after is EMPTY:
            return None
        closing = b"" if is_cut else _closing(found, after)
        text = forced + rest + closing
        merging = b""
        if closing:
            merging = self._forced_by(after.compute_word_derivative(closing))[:_MERGING_BYTES]
        if not text:
            return ()
        proposed = self._retokenize.retokenize(tokens, text + merging) or ()
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

    def _decode(self, tokens: Sequence[int]) -> bytes:
        forms = self._vocabulary.token_bytes
        return b"".join([forms[token_id] or b"" for token_id in tokens])


def _closing(found: Continuation, after: Node) -> bytes:
    """Return the text that ends a value, with a separator if the grammar has a choice of them.

    Empty if the grammar does not end the value here.
    """
    closed = after.compute_word_derivative(found.closing)
    if closed is EMPTY:
        return b""
    first = closed.first_bytes
    if _has_one_byte(first):
        return found.closing or bytes((first.bit_length() - 1,))
    # Most objects have another member.
    separators = b"],})" if found.is_last else b",]})"
    separator = next((byte for byte in separators if first >> byte & 1), None)
    return found.closing + (b"" if separator is None else bytes((separator,)))


def _has_one_byte(first: int) -> bool:
    return bool(first) and not first & (first - 1)


def _has_no_value(matcher: Matcher) -> bool:
    """Whether the answer is complete, or the text is free."""
    if matcher.is_finished:
        return True
    return isinstance(matcher, RootMatcher) and isinstance(next(iter(matcher.parts), None), Text)
