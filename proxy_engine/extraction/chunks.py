"""Long texts as overlapping pieces, and the answers to them merged by their quotes.

An item that two pieces have in common has its quote at the same place in the text, and is kept
once.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from state_machines.grammar.quote_sources import quote_places
from state_machines.quotes import source_names

from ..errors import InvalidOptionError, OutputValidationError
from ..results.parts import Quotation, total_usage
from .answer_format import AnswerFormat
from .details import is_limit
from .field_quotes import QuotedList, QuotedObject
from .json_values import join_members, pointer_of, split_items, split_members
from .schemas import ANNOTATIONS, INPUT, definition, keywords_beside_references, with_definitions

if TYPE_CHECKING:
    from ..results.generation import FinishReason, GenerationResult


_LIST_KEYWORDS = ANNOTATIONS | {"type", "items", "uniqueItems", "$comment"}
_Place: TypeAlias = tuple[tuple[str, int, int], ...] | str
"""Where the quotes of an item stand: their pointers in the item, and positions in the document.

For an item without quotes its JSON text.
"""


class TextPiece(NamedTuple):
    """A part of a text.

    Attributes:
        start: Its position in the text, in code points.
        text: The part.
    """

    start: int
    text: str


class _QuotedItem(NamedTuple):
    """An item of an answer.

    Attributes:
        text: Its JSON text.
        quotes: Its quotes: pointers in the item, positions in the document.
    """

    text: str
    quotes: list[Quotation]


@dataclass(frozen=True, slots=True)
class ItemList:
    """The list of items in the answers to the pieces of a text.

    Attributes:
        answers: The format of the answers.
        name: The property with the list; ``None`` if the answer is the list.
        are_unique: Whether no two items are equal.
        layout: The quotes that the items have in the output.
    """

    answers: AnswerFormat
    name: str | None
    are_unique: bool
    layout: QuotedList | None = None

    @classmethod
    def of(cls, answers: AnswerFormat) -> ItemList:
        """Find the list in the schema of the answers.

        Raises:
            InvalidOptionError: The schema describes no list of items with quotes from the text, or
                more than a list.
        """
        root = answers.schema
        schema, name = definition(root, root), None
        beside = keywords_beside_references(root, root)
        if isinstance(schema, Mapping) and "properties" in schema:
            if len(answers.properties) != 1 or answers.is_open:
                raise _refusal("it has other properties than one list")
            name = next(iter(answers.properties))
            listed = schema["properties"][name]
            schema = definition(listed, root)
            beside |= keywords_beside_references(listed, root)
        if not isinstance(schema, Mapping) or schema.get("type") != "array":
            raise _refusal("it is no list, and no object whose only property is a list")
        keywords = schema.keys() | beside
        for keyword in keywords - _LIST_KEYWORDS - {"$defs", "definitions", "$schema"}:
            raise _refusal(f"{keyword!r} would hold for each piece and not for the merged list")
        items = schema.get("items")
        layout = None if answers.field_quotes is None else answers.field_quotes.layout
        if isinstance(layout, QuotedObject):
            layout = layout.lists.get(name or "")
        if layout is None and INPUT not in source_names(with_definitions(items, root)):
            raise _refusal(f"its items have no quote from {INPUT!r}, by which they are merged")
        return cls(answers, name, schema.get("uniqueItems") is True, layout)

    def merge(
        self, document: str, pieces: Sequence[TextPiece], results: Sequence[GenerationResult[Any]]
    ) -> GenerationResult[Any]:
        """Merge the answers to the pieces of a text.

        If several pieces have items at a place, the items of the first piece are kept. Equal items
        of a piece are merged.

        Raises:
            OutputValidationError: A validator of the type rejects the merged answer.
        """
        merged: list[_QuotedItem] = []
        known: set[_Place] = set()
        equal: set[str] = set()
        for piece, result in zip(pieces, results, strict=True):
            places: set[tuple[_Place, str]] = set()
            for item in self._items(document, piece, result):
                answer = item.text if self.layout is None else self.layout.item_text(item.text)
                place, value = _place(item), _canonical(answer)
                is_twice = place in known or (place, value) in places
                if is_twice or (self.are_unique and value in equal):
                    continue
                places.add((place, value))
                equal.add(value)
                merged.append(item)
            known |= {place for place, _ in places}
        return self._result(merged, results)

    def _items(
        self, document: str, piece: TextPiece, result: GenerationResult[Any]
    ) -> Iterator[_QuotedItem]:
        """Yield the items of one answer; the n-th item with a quote stands at its n-th place."""
        answer = result.text
        if self.name is not None:
            answer = split_members(answer).get(self.name, "[]")
        quotes: dict[int, list[Quotation]] = {}
        for quote in result.quotes:
            position, _, rest = quote.pointer.removeprefix(f"{self._pointer}/").partition("/")
            of_item = replace(quote, pointer=f"/{rest}" if rest else "")
            quotes.setdefault(int(position), []).append(of_item)
        seen: Counter[tuple[tuple[str, int], ...]] = Counter()
        for index, text in enumerate(split_items(answer)):
            found = quotes.get(index, [])
            key = tuple((quote.pointer, quote.start) for quote in found)
            earlier = seen[key]
            seen[key] += 1
            yield _QuotedItem(
                text, [_in_document(quote, document, piece, earlier) for quote in found]
            )

    def _result(
        self, items: Sequence[_QuotedItem], results: Sequence[GenerationResult[Any]]
    ) -> GenerationResult[Any]:
        text = f"[{', '.join(item.text for item in items)}]"
        if self.name is not None:
            text = join_members({self.name: text})
        try:
            parsed = self.answers.output_value(text)
        except ValueError as error:
            raise OutputValidationError(
                f"the merged answer is invalid: {error}", text=text
            ) from error
        quotes = tuple(
            replace(quote, pointer=f"{self._pointer}/{index}{quote.pointer}")
            for index, item in enumerate(items)
            for quote in item.quotes
        )
        cuts = [result.cut_short for result in results if result.cut_short is not None]
        cut = next(filter(is_limit, cuts), next(iter(cuts), None))
        return replace(
            results[0],
            text=text,
            parsed=parsed,
            finish_reason=_finish_reason(results),
            usage=total_usage([result.usage for result in results]),
            quotes=quotes,
            cut_short=None if cut is None else replace(cut, pointer=self._pointer),
            # Tokens, parts and log-probabilities describe a single output; the answer is merged.
            token_ids=(),
            parts=(),
            logprobs=None,
            scored_choices=(),
            token_origins="",
            token_lengths=(),
            token_logprobs=(),
        )

    @property
    def _pointer(self) -> str:
        return "" if self.name is None else pointer_of(self.name)


def _refusal(reason: str) -> InvalidOptionError:
    return InvalidOptionError(
        f"answers of this schema cannot be merged: {reason}",
        option="chunk_tokens",
        hint="Give a list of items with QuoteFrom('input'), or an object whose only property is "
        "one.",
    )


def _in_document(quote: Quotation, document: str, piece: TextPiece, earlier: int) -> Quotation:
    """Return a quote at its place in the document.

    Args:
        quote: The quote, at its first occurrence in the piece.
        document: The document.
        piece: The piece.
        earlier: The number of items before it with the same quotes.
    """
    if quote.source != INPUT:
        return quote
    words = piece.text[quote.start : quote.end]
    unit = "words"
    places = quote_places(piece.text, words, unit)
    if len(places) != quote.occurrences:
        # The schema counts occurrences inside of words.
        unit = "chars"
        places = quote_places(piece.text, words, unit)
    start = piece.start + places[min(earlier, len(places) - 1)]
    found = quote_places(document, words, unit)
    if start not in found:
        # A long word is divided: the border of the piece is none of the document's words.
        found = quote_places(document, words, "chars")
    return replace(quote, start=start, end=start + len(words), occurrences=len(found))


def _place(item: _QuotedItem) -> _Place:
    places = tuple(
        (quote.pointer, quote.start, quote.end) for quote in item.quotes if quote.source == INPUT
    )
    return places or _canonical(item.text)


def _canonical(text: str) -> str:
    return json.dumps(json.loads(text), sort_keys=True)


def _finish_reason(results: Sequence[GenerationResult[Any]]) -> FinishReason:
    return next(
        (result.finish_reason for result in results if result.finish_reason != "stop"), "stop"
    )


Count = Callable[[str], int]
"""Returns the number of tokens of a text."""

# The end of a sentence with the space behind it, or a line break.
_SENTENCE = re.compile(r".+?(?:[.!?…][\"'”’»)\]]*\s+|[。！？]+\s*|\n\s*|\Z)", re.DOTALL)
_WORD = re.compile(r"\s*\S+\s*")
# Texts with more characters for each token of the limit are divided without being counted.
_CHARACTERS_PER_TOKEN = 32
_PARAGRAPH = re.compile(r"\n[^\S\n]*\n\s*\Z")


class _Unit(NamedTuple):
    """A part of a text that no piece divides: a sentence, or words of a long one."""

    start: int
    end: int
    tokens: int
    ends_paragraph: bool


@dataclass(frozen=True, slots=True)
class Chunks:
    """How long texts are divided, and the answers of their pieces merged.

    Attributes:
        tokens: Number of tokens of a piece, counted sentence by sentence.
        overlap: Number of tokens that a piece shares with the one before it, at least.
        items: The list of items in the answers.
    """

    tokens: int
    overlap: int
    items: ItemList

    @classmethod
    def of(cls, tokens: int | None, overlap: int | None, answers: AnswerFormat) -> Chunks | None:
        """Check the arguments; ``None`` if texts are not divided.

        Raises:
            InvalidOptionError: The overlap is as long as a piece, or answers of the format cannot
                be merged.
        """
        if tokens is None:
            if overlap is not None:
                raise InvalidOptionError(
                    "chunk_overlap requires chunk_tokens", option="chunk_overlap"
                )
            return None
        shared = tokens // 8 if overlap is None else overlap
        if shared >= tokens:
            raise InvalidOptionError(
                f"chunk_overlap should be less than chunk_tokens, {tokens}, not {overlap}",
                option="chunk_overlap",
            )
        return cls(tokens, shared, ItemList.of(answers))

    def divide(self, text: str, count: Count) -> list[TextPiece]:
        """Return the pieces of a text, in order. Together they are the text.

        A piece ends behind a sentence, or behind a paragraph that ends in its last third. Only
        sentences of more than half a piece are divided, between words.

        Args:
            text: The text.
            count: Returns the number of tokens of a text.
        """
        units = list(self._units(text, count))
        pieces: list[TextPiece] = []
        first = last = 0
        while last < len(units):
            last = self._end(units, first, last)
            begin = units[first].start
            pieces.append(TextPiece(begin, text[begin : units[last - 1].end]))
            first = self._next(units, first, last)
        return pieces

    def _end(self, units: list[_Unit], first: int, done: int) -> int:
        """Return the index behind the last unit of the piece that begins with ``first``.

        It is above ``done``, the end of the piece before.
        """
        end, tokens, paragraph = first, 0, done
        while end < len(units) and (end == first or tokens + units[end].tokens <= self.tokens):
            tokens += units[end].tokens
            end += 1
            if end > done and units[end - 1].ends_paragraph and 3 * tokens >= 2 * self.tokens:
                paragraph = end
        return paragraph if end < len(units) and paragraph > done else end

    def _next(self, units: list[_Unit], first: int, last: int) -> int:
        """Return the index of the first unit of the next piece, which overlaps with this one."""
        begin, tokens = last, 0
        if last == len(units):
            return begin
        # The next piece has room for a further unit, so that every piece proceeds.
        room = self.tokens - units[last].tokens
        while begin - 1 > first and tokens < self.overlap:
            if tokens + units[begin - 1].tokens > room:
                break
            begin -= 1
            tokens += units[begin].tokens
        return begin

    def _units(self, text: str, count: Count) -> Iterator[_Unit]:
        for found in _SENTENCE.finditer(text):
            is_long = len(found[0]) > _CHARACTERS_PER_TOKEN * self.tokens
            tokens = self.tokens if is_long else count(found[0])
            if 2 * tokens <= self.tokens:
                ends = bool(_PARAGRAPH.search(found[0]))
                yield _Unit(found.start(), found.end(), tokens, ends)
            else:
                yield from self._words(text, found.start(), found.end(), count)

    def _words(self, text: str, start: int, end: int, count: Count) -> Iterator[_Unit]:
        """Divide a long sentence into runs of words of an eighth of a piece."""
        limit = max(self.tokens // 8, 1)
        begin, tokens = start, 0
        for word in _WORD.finditer(text, start, end):
            is_long = len(word[0]) > _CHARACTERS_PER_TOKEN * limit
            size = limit + 1 if is_long else count(word[0])
            if tokens and tokens + size > limit:
                yield _Unit(begin, word.start(), tokens, False)
                begin, tokens = word.start(), 0
            tokens += size
            if size > limit:
                yield from _halves(text, begin, word.end(), count, limit)
                begin, tokens = word.end(), 0
        if begin < end:
            yield _Unit(begin, end, max(tokens, 1), False)


def _halves(text: str, start: int, end: int, count: Count, limit: int) -> Iterator[_Unit]:
    """Divide a text without spaces."""
    is_long = end - start > _CHARACTERS_PER_TOKEN * limit
    tokens = limit + 1 if is_long else count(text[start:end])
    if tokens <= limit or end - start < 2:
        yield _Unit(start, end, tokens, False)
        return
    middle = (start + end) // 2
    yield from _halves(text, start, middle, count, limit)
    yield from _halves(text, middle, end, count, limit)
