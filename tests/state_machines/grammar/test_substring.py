"""Languages of substrings: their words, their masks, quotes in JSON Schema."""

from __future__ import annotations

import gc
import json
import re
import tracemalloc
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from patched_limits import patch_limits

from state_machines import (
    InvalidArgumentError,
    InvalidSchemaError,
    JsonSchemaStateMachine,
    MissingSourceError,
    QuoteFrom,
    StateMachine,
    SubstringStateMachine,
    UnsatisfiableSchemaError,
    UnsupportedSchemaError,
    Vocabulary,
)
from state_machines.grammar.boolean import intersection
from state_machines.grammar.encoding import (
    JSON_STRING,
    PYTHON_STRING,
    RAW,
    Spelling,
    encoded,
)
from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.nodes import concatenation, literal, optional, repetition, symbols
from state_machines.grammar.quote_sources import find_quote, words_of
from state_machines.grammar.substring import EncodedQuote, substring_language
from state_machines.grammar.symbols import ANY_CODE_POINT, bytes_in
from state_machines.grammar.text_languages import list_words, word_language
from state_machines.limits import Limits
from state_machines.masks import quote_walks
from state_machines.masks.descent import Descents
from state_machines.masks.kernel import KERNEL
from state_machines.masks.quote_walks import quote_walk
from state_machines.masks.token_trie import TokenTrie

TEXTS = st.one_of(
    st.text(alphabet, max_size=12)
    for alphabet in ("ab ", "a", 'aé日😀"\\\n ', "ab\x01\té", "a-_1 \u0301")
)
BOUNDS = st.sampled_from([(0, None), (0, None), (1, None), (4, None), (0, 2), (2, 2), (1, 4)])
DOCUMENT = 'The quick brown fox.\nIt jumps — "over" the lazy dog, the quick one.'


def runs(chunks: Sequence[str]) -> set[str]:
    """Return all runs of consecutive chunks."""
    ends = range(len(chunks) + 1)
    return {"".join(chunks[first:last]) for first in ends for last in ends if first <= last}


def of_length(language: Node, min_chars: int, max_chars: int | None) -> Node:
    """Return the words of a length within bounds."""
    return intersection((language, repetition(symbols(ANY_CODE_POINT), min_chars, max_chars)))


def test_words_are_runs_of_letters_of_space_and_of_other_characters() -> None:
    assert words_of("foo bar. baz_1") == ["foo", " ", "bar", ".", " ", "baz_1"]
    assert words_of("") == []
    assert "".join(words_of(DOCUMENT)) == DOCUMENT


def test_empty_chunks_divide_no_other_chunk() -> None:
    language = encoded(substring_language(["ab", "", "c", ""]), RAW)
    assert [text for text in ("ab", "abc", "a", "bc", "c") if language.matches(text.encode())] == [
        "ab", "abc", "c",
    ]  # fmt: skip


@settings(max_examples=30)
@given(TEXTS, st.booleans(), BOUNDS)
def test_language_is_the_set_of_runs_of_chunks(
    text: str, is_divided: bool, bounds: tuple[int, int | None]
) -> None:
    chunks = words_of(text) if is_divided else list(text)
    min_chars, max_chars = bounds
    longest = len(text) if max_chars is None else max_chars
    expected = {word for word in runs(chunks) if min_chars <= len(word) <= longest}
    language = of_length(substring_language(chunks), min_chars, max_chars)
    if language is EMPTY or language.is_empty:
        assert not expected
        return
    words = list_words(language, 10_000)
    assert words is not None
    assert len(words) == len(expected)
    assert set(words) == expected


def vocabulary_of(text: str, parts: list[tuple[int, int, int, bytes]]) -> Vocabulary:
    """Return a vocabulary of all bytes and of parts of the text's spellings."""
    spellings = [
        text.encode(),
        json.dumps(text).encode(),
        json.dumps(text, ensure_ascii=False).encode() + b',"',
        b"x" + text.encode() + b"yy",
    ]
    forms = {bytes((byte,)) for byte in range(256)}
    for which, start, length, tail in parts:
        spelling = spellings[which]
        start %= len(spelling) or 1
        forms.add(spelling[start : start + length] + tail)
    forms.discard(b"")
    return Vocabulary([*sorted(forms), b"</s>"], end_token_ids=[len(forms)])


PARTS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.integers(0, 30),
        st.integers(1, 6),
        st.sampled_from([b"", b"", b'"', b'",', b'"}', b"\\", b"\\u", b"y", b"\xe6"]),
    ),
    min_size=20,
    max_size=40,
)


@settings(max_examples=25)
@given(TEXTS.filter(bool), st.booleans(), BOUNDS, PARTS, st.sampled_from([0, 2, 96]), st.data())
def test_masks_are_those_of_brute_force(
    text: str,
    is_divided: bool,
    bounds: tuple[int, int | None],
    parts: list[tuple[int, int, int, bytes]],
    few_positions: int,
    data: st.DataObject,
) -> None:
    chunks = words_of(text) if is_divided else list(text)
    quotes = of_length(substring_language(chunks), *bounds)
    if quotes is EMPTY or quotes.is_empty:
        return
    in_json = concatenation(literal(b'"'), encoded(quotes, JSON_STRING, b'"'))
    starts = [
        encoded(quotes, RAW),
        concatenation(literal(b"x"), encoded(quotes, RAW), optional(literal(b"yy"))),
        in_json,
        concatenation(optional(literal(b" ")), in_json, literal(b"}")),
    ]
    vocabulary = vocabulary_of(text, parts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quote_walks, "FEW_POSITIONS", few_positions)
        # The state by derivatives of bytes; matchers take whole tokens.
        state = data.draw(st.sampled_from(starts))
        matcher = StateMachine(state).matcher(vocabulary)
        for _ in range(6):
            mask = matcher.allowed_tokens()
            forms = [form or b"" for form in vocabulary.token_bytes[:-1]]
            # The vocabulary has no form for the mark of special tokens.
            expected = [
                bool(form) and state.compute_word_derivative(form) is not EMPTY for form in forms
            ]
            wrong = np.flatnonzero(mask[:-1] != np.array(expected))
            assert [(forms[at], bool(mask[at])) for at in wrong] == []
            assert mask[-1] == state.nullable
            allowed = sorted(np.flatnonzero(mask[:-1]), key=lambda at: -len(forms[at]))
            if not allowed:
                break
            token_id = int(data.draw(st.sampled_from(allowed[:8])))
            matcher.advance(token_id)
            state = state.compute_word_derivative(forms[token_id])


@settings(max_examples=40)
@given(TEXTS, st.booleans(), BOUNDS, st.data())
def test_states_are_those_of_the_listed_words(
    text: str, is_divided: bool, bounds: tuple[int, int | None], data: st.DataObject
) -> None:
    chunks = words_of(text) if is_divided else list(text)
    longest = len(text) if bounds[1] is None else bounds[1]
    words = sorted(word for word in runs(chunks) if bounds[0] <= len(word) <= longest)
    if not words:
        return
    spelled = data.draw(st.sampled_from([(JSON_STRING, b'"'), (PYTHON_STRING, b'"'), (RAW, b"")]))
    quote = encoded(of_length(substring_language(chunks), *bounds), *spelled)
    listed = encoded(word_language(words), *spelled)
    while listed.first_bytes:
        assert (quote.first_bytes, quote.nullable) == (listed.first_bytes, listed.nullable)
        written = b""
        for _ in range(data.draw(st.integers(1, 4))):
            if listed.first_bytes:
                written += bytes((data.draw(st.sampled_from(list(bytes_in(listed.first_bytes)))),))
                listed = listed.derivative(written[-1])
        assert quote.word_derivative(written + b"\xff") is EMPTY
        quote = quote.word_derivative(written)
    assert (quote.first_bytes, quote.nullable) == (0, listed.nullable)


def test_masks_do_not_change_while_they_are_referenced() -> None:
    vocabulary = vocabulary_of(DOCUMENT, [])
    matcher = schema_machine().matcher(vocabulary)
    held = []
    for byte in b'"The quick brown fox':
        mask = matcher.allowed_tokens()
        held.append((mask[1:] if byte % 2 else mask.view(), mask.copy()[byte % 2 :]))
        del mask
        matcher.advance(vocabulary.token_bytes.index(bytes((byte,))))
    assert all(np.array_equal(view, copy) for view, copy in held)


def test_masks_within_a_quote_name_their_route() -> None:
    vocabulary = vocabulary_of(DOCUMENT, [])
    matcher = schema_machine().matcher(vocabulary)
    for byte in b'"The':
        matcher.allowed_tokens()
        matcher.advance(vocabulary.token_bytes.index(bytes((byte,))))
    matcher.allowed_tokens()
    cost = matcher.mask_cost()
    assert cost is not None
    assert cost.routes == ("quote" if KERNEL else "vertices",)


def test_cost_of_a_mask_that_takes_too_much_work_is_not_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    schema = {"type": "array", "items": {"type": "string", "x-substring-of": "d"}}
    machine = JsonSchemaStateMachine(schema, sources={"d": DOCUMENT})
    vocabulary = vocabulary_of(DOCUMENT, [(1, 0, 1, b'"]')])
    matcher = machine.matcher(vocabulary)
    for byte in b'["The':
        matcher.advance(vocabulary.token_bytes.index(bytes((byte,))))
    patch_limits(monkeypatch, mask_steps=0)
    assert matcher.mask_cost() is None


@pytest.mark.parametrize(
    ("written", "unit", "forced"),
    [
        ('"T', "words", b"he"),
        ('"T', "chars", b""),
        ('"fox.\\n', "words", b""),
        ('"q', "words", b"uick"),
    ],
)
def test_rest_of_a_word_is_forced(written: str, unit: str, forced: bytes) -> None:
    vocabulary = vocabulary_of(DOCUMENT, [])
    matcher = schema_machine(**{"x-substring-unit": unit}).matcher(vocabulary)
    for byte in written.encode():
        matcher.advance(vocabulary.token_bytes.index(bytes((byte,))))
    assert matcher.forced_bytes() == forced


@pytest.mark.skipif(KERNEL is None, reason="the loop was not compiled")
@given(
    st.text('ab é€😀"\\\n', min_size=1, max_size=30),
    st.booleans(),
    st.sampled_from(((0, None), (2, None), (0, 3), (2, 5))),
    st.sampled_from(((RAW, b""), (JSON_STRING, b'"'))),
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)), min_size=1, max_size=30),
)
def test_compiled_walk_equals_that_of_other_languages(
    text: str,
    is_divided: bool,
    bounds: tuple[int, int | None],
    spelled: tuple[Spelling, bytes],
    cuts: list[tuple[int, int]],
) -> None:
    written = (text + json.dumps(text) + json.dumps(text, ensure_ascii=False)).encode() + b'",'
    forms = {written[at % len(written) :][:size] for at, size in cuts}
    quotes = substring_language(words_of(text) if is_divided else list(text))
    quote = encoded(of_length(quotes, *bounds), *spelled)
    if not isinstance(quote, EncodedQuote):
        return
    trie = TokenTrie.of_texts(sorted(forms))
    found = [quote_walk(Descents(trie, kernel), quote, 0) for kernel in (KERNEL, None)]
    tokens = [set(walk.tokens.ids.tolist()) for walk in found]
    assert tokens[0] == tokens[1]
    ends = [set(filter(trie.has_children, walk.ends.tolist())) for walk in found]
    assert ends[0] == ends[1]


def test_raw_machine_accepts_quotes() -> None:
    machine = SubstringStateMachine(DOCUMENT)
    assert machine.matches("fox.\nIt jumps")
    assert not machine.matches("uick")
    assert not machine.matches("")
    assert SubstringStateMachine(DOCUMENT, "chars").matches("uick br")
    assert SubstringStateMachine(DOCUMENT, allow_empty=True).matches("")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("", "words"), "the source is empty"),
        (("a", "lines"), "unit must be"),
        ((7, "words"), "must be a string"),
        (("a\ud800", "chars"), "lone surrogate at position 1"),
    ],
)
def test_unusable_sources_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        SubstringStateMachine(*arguments)


def test_long_sources_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("state_machines.grammar.quote_sources.LIMITS", Limits(source_characters=5))
    with pytest.raises(InvalidArgumentError, match="at most 5"):
        SubstringStateMachine("abcdef")


def schema_machine(**keywords: Any) -> JsonSchemaStateMachine:
    schema = {"type": "string", "x-substring-of": "d", **keywords}
    return JsonSchemaStateMachine(schema, sources={"d": DOCUMENT, "other": "-"})


@pytest.mark.parametrize(
    ("keywords", "accepted", "refused"),
    [
        ({}, ["fox", '"over" the', "fox.\nIt"], ["", "cat", "qui"]),
        ({"x-substring-unit": "chars"}, ["qui", "— "], ["", "cat"]),
        ({"minLength": 60}, [DOCUMENT[:-1]], ["fox"]),
        ({"maxLength": 3}, ["fox", "dog"], ["quick"]),
        (
            {"minLength": 9, "maxLength": 9},
            ["quick one", "The quick", "the quick"],
            ["brown fox"[:5]],
        ),
        ({"pattern": "^[a-z]+ [a-z]+$"}, ["brown fox", "lazy dog"], ["fox", "The quick"]),
        ({"enum": ["fox", "cat", "lazy dog"]}, ["fox", "lazy dog"], ["cat"]),
        ({"not": {"pattern": "o"}}, ["quick"], ["fox"]),
    ],
)
def test_keyword_combines_with_others(
    keywords: dict[str, Any], accepted: list[str], refused: list[str]
) -> None:
    machine = schema_machine(**keywords)
    for text in accepted:
        assert machine.matches(json.dumps(text)), text
        assert machine.matches(json.dumps(text, ensure_ascii=False)), text
    for text in refused:
        assert not machine.begins(json.dumps(text) + " "), text
        assert not machine.matches(json.dumps(text)), text


def test_quotes_that_were_matched_are_not_kept() -> None:
    source = " ".join(map(str, range(20_000)))
    machine = JsonSchemaStateMachine(
        {"type": "string", "x-substring-of": "d"}, sources={"d": source}
    )
    quotes = [json.dumps(" ".join(map(str, range(first, 20_000)))) for first in range(12)]
    assert machine.matches(quotes[0])
    tracemalloc.start()
    try:
        assert all(map(machine.matches, quotes))
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < len(source)


@pytest.mark.parametrize(
    ("keywords", "error", "where"),
    [
        ({"x-substring-of": "e"}, MissingSourceError, "/x-substring-of"),
        ({"x-substring-of": 3}, InvalidSchemaError, "/x-substring-of"),
        ({"x-substring-unit": "lines"}, InvalidSchemaError, "/x-substring-unit"),
        ({"minLength": 1000}, UnsatisfiableSchemaError, ""),
        ({"pattern": "^[0-9]+$"}, UnsatisfiableSchemaError, ""),
        ({"enum": ["cat"]}, UnsatisfiableSchemaError, ""),
    ],
)
def test_unenforceable_quotes_are_refused(
    keywords: dict[str, Any], error: type[UnsupportedSchemaError], where: str
) -> None:
    with pytest.raises(error) as caught:
        schema_machine(**keywords)
    assert caught.value.pointer == where


def test_missing_source_names_those_that_are_known() -> None:
    with pytest.raises(MissingSourceError, match=re.escape("Known are 'd', 'other'")) as caught:
        schema_machine(**{"x-substring-of": "e"})
    assert (caught.value.source, caught.value.known) == ("e", ("d", "other"))


def test_machine_keeps_the_sources_that_it_quotes() -> None:
    assert schema_machine().sources == {"d": DOCUMENT}
    assert JsonSchemaStateMachine({}, sources={"d": DOCUMENT}).sources == {}


def test_quote_from_adds_the_keyword_to_pydantic_types() -> None:
    adapter = pydantic.TypeAdapter(Annotated[str | None, QuoteFrom("d", unit="chars")])
    schema = adapter.json_schema()
    assert schema["x-substring-of"] == "d"
    assert schema["x-substring-unit"] == "chars"
    machine = JsonSchemaStateMachine(schema, sources={"d": DOCUMENT})
    assert [machine.matches(text) for text in ("null", '"ick b"', '"cat"')] == [True, True, False]
    with pytest.raises(TypeError, match="annotates a string"):
        pydantic.TypeAdapter(Annotated[list[str], QuoteFrom("d")]).json_schema()


@pytest.mark.parametrize(
    ("quote", "unit", "found"),
    [
        ("quick", "words", (4, 2)),
        ("uick", "words", None),
        ("uick", "chars", (5, 2)),
        ("cat", "chars", None),
        ("The", "words", (0, 1)),
    ],
)
def test_quote_is_found_between_the_boundaries_of_its_unit(
    quote: str, unit: str, found: tuple[int, int] | None
) -> None:
    assert find_quote(DOCUMENT, quote, unit) == found


@settings(max_examples=40)
@given(TEXTS, st.data())
def test_quote_is_found_where_the_language_has_it(text: str, data: st.DataObject) -> None:
    word = text[data.draw(st.integers(0, len(text))) :][: data.draw(st.integers(1, 5))]
    for unit, chunks in (("words", words_of(text)), ("chars", list(text))):
        if word:
            assert (find_quote(text, word, unit) is not None) == (word in runs(chunks))
