"""Long texts in pieces: where they end, and how the answers are merged."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Annotated, Any

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy_engine import InferenceEngine, InvalidOptionError, QuoteFrom
from proxy_engine.extraction.answer_format import AnswerFormat
from proxy_engine.extraction.chunks import Chunks, ItemList, TextPiece
from proxy_engine.extraction.options import ExtractionOptions
from proxy_engine.extraction.run import extraction_of
from proxy_engine.results.generation import GenerationResult
from proxy_engine.results.parts import CutShort, Usage
from proxy_engine.validation import JsonValidator


class Fact(pydantic.BaseModel):
    words: Annotated[str, QuoteFrom("input")] | None
    size: int = 0


class Facts(pydantic.BaseModel):
    facts: list[Fact]


def count(text: str) -> int:
    return len(re.findall(r"\w+|[^\w\s]", text))


def divided(text: str, tokens: int, overlap: int) -> list[TextPiece]:
    chunks = Chunks.of(tokens, overlap, AnswerFormat.of(Facts))
    assert chunks is not None
    return chunks.divide(text, count)


def test_pieces_end_at_sentences_and_paragraphs() -> None:
    text = 'One two three. Four "five."\n\nSix seven! Eight nine\nten eleven. Twelve.'
    assert [piece.text for piece in divided(text, 12, 3)] == [
        # Room for another sentence, which a paragraph's end is preferred to.
        'One two three. Four "five."\n\n',
        'Four "five."\n\nSix seven! Eight nine\n',
        "Six seven! Eight nine\nten eleven. Twelve.",
    ]


words = st.text(st.sampled_from("ab"), min_size=1, max_size=9)
ends = st.sampled_from([" ", ". ", "! ", "\n", "\n\n", "。", ""])


@given(st.lists(st.tuples(words, ends), max_size=60), st.integers(1, 20), st.integers(0, 19))
def test_pieces_overlap_and_are_the_text(
    parts: list[tuple[str, str]], tokens: int, overlap: int
) -> None:
    text = "".join(word + end for word, end in parts)
    pieces = divided(text, tokens, min(overlap, tokens - 1))
    covered = 0
    for piece in pieces:
        assert piece.text == text[piece.start : piece.start + len(piece.text)]
        assert piece.start <= covered < piece.start + len(piece.text)
        covered = piece.start + len(piece.text)
        assert count(piece.text) <= tokens
    assert covered == len(text)
    if pieces and overlap and tokens >= 16:
        assert all(b.start < a.start + len(a.text) for a, b in pairwise(pieces))


DOCUMENT = "the art of party. an art is art. no art"
PIECES = [TextPiece(0, DOCUMENT[:33]), TextPiece(18, DOCUMENT[18:])]


def answer(
    piece: TextPiece, response_format: Any, value: Any, **others: Any
) -> GenerationResult[Any]:
    answers = AnswerFormat.of(response_format)
    text = json.dumps(value)
    validator = JsonValidator(answers.schema, sources={"input": piece.text})
    quotes = validator.quotes_in(text)
    usage = Usage(10, 5, 0.5, 0.25)
    return GenerationResult(
        text, answers.parse(text), "stop", usage, (1,), "m", quotes=quotes, **others
    )


def merged(response_format: Any, *values: Any, **others: Any) -> GenerationResult[Any]:
    results = [
        answer(piece, response_format, value, **others)
        for piece, value in zip(PIECES, values, strict=True)
    ]
    return ItemList.of(AnswerFormat.of(response_format)).merge(DOCUMENT, PIECES, results)


def fact(words: str | None, size: int = 0) -> dict[str, Any]:
    return {"words": words, "size": size}


def test_items_at_one_place_are_one() -> None:
    result = merged(
        Facts,
        # The third occurrence of "art" as a word is in both pieces; "party" has none.
        {"facts": [fact("art"), fact("art", 1), fact("art", 2), fact("the", 3), fact("the", 4)]},
        {"facts": [fact("art", 7), fact("art", 8), fact("art", 9), fact("is")]},
    )
    assert [(item.words, item.size) for item in result.parsed.facts] == [
        *(("art", 0), ("art", 1), ("art", 2)),
        # Two items of a piece may share a place.
        *(("the", 3), ("the", 4), ("art", 9), ("is", 0)),
    ]
    places = [(one.pointer, one.start, one.occurrences) for one in result.quotes]
    assert places[:4] == [
        *(("/facts/0/words", 4, 4), ("/facts/1/words", 21, 4), ("/facts/2/words", 28, 4)),
        ("/facts/3/words", 0, 1),
    ]
    assert places[5:] == [("/facts/5/words", 36, 4), ("/facts/6/words", 25, 1)]
    assert all(DOCUMENT[one.start : one.end] in ("art", "the", "is") for one in result.quotes)


def test_quote_at_the_border_inside_a_word_has_its_places_in_the_document() -> None:
    document, pieces = "abcabcabc", [TextPiece(0, "abcab"), TextPiece(5, "cabc")]
    schema = {"type": "array", "items": {"type": "string", "x-substring-of": "input"}}
    results = [answer(piece, schema, [piece.text]) for piece in pieces]
    result = ItemList.of(AnswerFormat.of(schema)).merge(document, pieces, results)
    places = [(one.start, one.end, one.occurrences) for one in result.quotes]
    assert places == [(0, 5, 2), (5, 9, 2)]


def test_equal_items_of_a_place_and_those_without_quotes_are_one() -> None:
    result = merged(
        Facts,
        {"facts": [fact("the"), fact("the"), fact(None, 1), fact(None, 1), fact(None, 2)]},
        {"facts": [fact(None, 2), fact(None, 3)]},
    )
    items = [(item.words, item.size) for item in result.parsed.facts]
    assert items == [("the", 0), (None, 1), (None, 2), (None, 3)]


def test_items_keep_their_notation_and_sets_have_no_equal_ones() -> None:
    quote = {"type": "string", "x-substring-of": "input"}
    schema = {"type": "array", "uniqueItems": True, "items": quote}
    assert merged(schema, ["art", "the"], ["no", "art"]).parsed == ["art", "the", "no"]
    schema = {"type": "array", "items": {"type": "array", "prefixItems": [quote, {}]}}
    both = [[["art", 1.50]], [["no", 1e20]]]
    assert merged(schema, *both).text == '[["art", 1.5], ["no", 1e+20]]'
    assert merged(list[Annotated[str, QuoteFrom("input")]], [], []).parsed == []


def test_counts_are_added_and_limits_are_told() -> None:
    cut = CutShort("/facts/0/words", "max_tokens")
    empty: dict[str, Any] = {"facts": []}
    result = merged(Facts, empty, empty, cut_short=cut)
    assert result.usage == Usage(20, 10, 1.0, 0.5)
    assert result.cut_short == CutShort("/facts", "max_tokens")
    assert result.token_ids == ()


@pytest.mark.parametrize(
    ("response_format", "message"),
    [
        (Fact, "other properties than one list"),
        (list[str], "no quote from 'input'"),
        (list[Annotated[str, QuoteFrom("title")]], "no quote from 'input'"),
        (dict[str, Fact], "it is no list"),
        (Annotated[list[Fact], pydantic.Field(max_length=9)], "'maxItems' would hold for each"),
        (
            {
                "$ref": "#/$defs/facts",
                "maxItems": 9,
                "$defs": {"facts": {"type": "array", "items": {"x-substring-of": "input"}}},
            },
            "'maxItems' would hold for each",
        ),
        ({"type": "object", "properties": {"a": {}}, "additionalProperties": True}, "other prop"),
    ],
)
def test_answers_that_cannot_be_merged_are_refused(
    tiny_engine: InferenceEngine, response_format: Any, message: str
) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        tiny_engine.extract(["x"], response_format, chunk_tokens=20)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((None, 3), "requires"),
        ((0, None), "greater than or equal to 1"),
        ((8, 8), "less than chunk_tokens, 8"),
        ((8.5, 1), "integer"),
    ],
)
def test_wrong_sizes_are_refused(sizes: Any, message: str) -> None:
    names = ("chunk_tokens", "chunk_overlap")
    with pytest.raises(InvalidOptionError, match=message):
        extraction_of(Facts, ExtractionOptions.of(dict(zip(names, sizes, strict=True))), {})
