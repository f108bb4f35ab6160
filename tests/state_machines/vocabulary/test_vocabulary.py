"""Vocabularies read from small tokenizers of each kind, and from real ones where there are any."""

from __future__ import annotations

import gc
import json
import weakref
from collections.abc import Callable

import pytest
from data_files import NO_TOKENIZERS, tokenizer_files
from hypothesis import given
from hypothesis import strategies as st
from mlx_lm.tokenizer_utils import TokenizerWrapper
from small_tokenizers import (
    SPACE,
    byte_level_tokenizer,
    gemma_like,
    llama2_like,
    unigram_tokenizer,
    word_level_tokenizer,
)
from tokenizers import AddedToken, Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from state_machines import JsonSchemaStateMachine, RegexStateMachine
from state_machines.errors import VocabularyError
from state_machines.vocabulary import Vocabulary


def ids_of(tokenizer: Tokenizer, text: str) -> list[int]:
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
    return ids


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_byte_level_tokens_spell_the_text(text: str) -> None:
    assert BYTE_LEVEL_VOCABULARY.decode(ids_of(BYTE_LEVEL, text)) == text.encode()


BYTE_LEVEL = byte_level_tokenizer()
BYTE_LEVEL_VOCABULARY = Vocabulary.from_tokenizer(BYTE_LEVEL)


@given(st.text(st.sampled_from('ab {}":,0é日\n\x00😀'), max_size=30))
def test_byte_fallback_tokens_spell_the_text(text: str) -> None:
    assert BYTE_FALLBACK_VOCABULARY.decode(ids_of(BYTE_FALLBACK, text)) == text.encode()


BYTE_FALLBACK = gemma_like()
BYTE_FALLBACK_VOCABULARY = Vocabulary.from_tokenizer(BYTE_FALLBACK)


@pytest.mark.parametrize("make", [llama2_like, unigram_tokenizer])
@pytest.mark.parametrize("text", ["ab", '{"a": 1}', "ab  ab", "é"])
def test_first_space_decoders_keep_the_space_in_token_bytes(
    make: Callable[[], Tokenizer], text: str
) -> None:
    tokenizer = make()
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    ids = ids_of(tokenizer, text)
    assert vocabulary.strips_first_space
    assert vocabulary.decode(ids) == b" " + text.encode()
    assert tokenizer.decode(ids) == text


def test_without_a_first_space_decoder_nothing_is_stripped() -> None:
    assert not Vocabulary.from_tokenizer(gemma_like()).strips_first_space
    never = unigram_tokenizer()
    never.decoder = decoders.Metaspace(prepend_scheme="never")
    assert not Vocabulary.from_tokenizer(never).strips_first_space


def test_byte_level_byte_tokens_cover_all_bytes_and_split_characters() -> None:
    vocabulary = BYTE_LEVEL_VOCABULARY
    single = {form for form in vocabulary.token_bytes if form is not None and len(form) == 1}
    # The last one marks special tokens, and occurs in no text.
    assert single == {bytes([byte]) for byte in range(255)}
    assert b" \xc3" in vocabulary.token_bytes


def test_several_ids_may_have_the_same_bytes() -> None:
    tokenizer = gemma_like()
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    assert tokenizer.token_to_id("a") != tokenizer.token_to_id("<0x61>")
    assert vocabulary.token_bytes[tokenizer.token_to_id("a")] == b"a"
    assert vocabulary.token_bytes[tokenizer.token_to_id("<0x61>")] == b"a"
    assert vocabulary.token_bytes[tokenizer.token_to_id("<0x0A>")] == b"\n"


def test_byte_tokens_without_byte_fallback_are_text() -> None:
    tokenizer = word_level_tokenizer(decoders.Fuse())
    tokenizer.add_tokens(["<0x0A>"])
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    assert vocabulary.token_bytes[tokenizer.token_to_id("<0x0A>")] == b"<0x0A>"


def test_added_tokens_are_text_unless_special() -> None:
    forms = BYTE_LEVEL_VOCABULARY.token_bytes
    for text, form in (("<think>", b"<think>"), ("日本", "日本".encode()), ("é!", b"\xe9!")):
        assert forms[BYTE_LEVEL.token_to_id(text)] == form
        assert text not in BYTE_LEVEL_VOCABULARY.special_tokens
    start = BYTE_LEVEL.token_to_id("<|im_start|>")
    assert forms[start] == b"\xff<|im_start|>"
    assert BYTE_LEVEL_VOCABULARY.special_tokens["<|im_start|>"] == start


@pytest.mark.parametrize("text", ["größe", "naïve", "日本", "a b", "Ġx", "\n\n", "Ã©", "x\u00ad"])
@pytest.mark.parametrize("tokenizer", [byte_level_tokenizer(), llama2_like(), gemma_like()])
def test_added_tokens_have_the_bytes_that_decode_writes(tokenizer: Tokenizer, text: str) -> None:
    tokenizer.add_tokens([AddedToken(text, normalized=False)])
    (token,) = tokenizer.encode(text, add_special_tokens=False).ids
    around = tokenizer.token_to_id("a")
    form = Vocabulary.from_tokenizer(tokenizer).token_bytes[token]
    assert form is not None
    assert tokenizer.decode([around, token, around]) == f"a{form.decode(errors='replace')}a"


def test_machine_writes_no_added_token_that_decode_reads_as_another_text() -> None:
    tokenizer = byte_level_tokenizer()
    tokenizer.add_tokens([AddedToken("größe", normalized=False)])
    vocabulary = Vocabulary.from_tokenizer(tokenizer, end_token_ids=[0])
    allowed = RegexStateMachine("größe").matcher(vocabulary).allowed_tokens()
    assert not allowed[tokenizer.token_to_id("größe")]
    assert allowed[tokenizer.token_to_id("g")]


def test_added_space_marks_are_spaces() -> None:
    tokenizer = gemma_like()
    tokenizer.add_tokens([AddedToken(SPACE * 3, normalized=False)])
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    assert vocabulary.token_bytes[tokenizer.token_to_id(SPACE * 3)] == b"   "


def test_unknown_token_is_special() -> None:
    vocabulary = Vocabulary.from_tokenizer(llama2_like())
    assert vocabulary.token_bytes[vocabulary.special_tokens["<unk>"]] == b"\xff<unk>"


def test_plain_text_tokens_are_their_own_bytes() -> None:
    tokenizer = word_level_tokenizer(decoders.Fuse())
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    assert vocabulary.token_bytes[tokenizer.token_to_id("name")] == b"name"
    assert vocabulary.token_bytes[tokenizer.token_to_id("é")] == "é".encode()


def test_strip_before_fuse_acts_on_each_token() -> None:
    tokenizer = word_level_tokenizer(
        decoders.Sequence([decoders.Strip("n", 1, 0), decoders.Fuse()])
    )
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    assert vocabulary.token_bytes[tokenizer.token_to_id("name")] == b"ame"
    assert not vocabulary.strips_first_space


@pytest.mark.parametrize(
    ("decoder", "named"),
    [
        (None, "no decoder"),
        (decoders.WordPiece(), "WordPiece"),
        (decoders.CTC(), "CTC"),
        (decoders.Sequence([decoders.Fuse(), decoders.Strip(" ", 0, 1)]), "Strip"),
        (decoders.Sequence([decoders.Fuse(), decoders.Replace("ab", " ")]), "Replace"),
    ],
)
def test_decoders_without_a_byte_form_are_refused(
    decoder: decoders.Decoder | None, named: str
) -> None:
    with pytest.raises(VocabularyError, match=named):
        Vocabulary.from_tokenizer(word_level_tokenizer(decoder))


class _Reversing:
    def decode(self, tokens: list[str]) -> str:
        return "".join(reversed(tokens))


def test_custom_decoders_are_refused() -> None:
    tokenizer = word_level_tokenizer(decoders.Decoder.custom(_Reversing()))
    with pytest.raises(VocabularyError, match="custom"):
        Vocabulary.from_tokenizer(tokenizer)


@pytest.mark.parametrize("thing", [None, 7, "gpt2", object(), {"a": 1}])
def test_object_that_is_no_tokenizer_is_refused(thing: object) -> None:
    with pytest.raises(VocabularyError, match=type(thing).__qualname__):
        Vocabulary.from_tokenizer(thing)


# --- end tokens -----------------------------------------------------------------------------


def test_a_bare_tokenizer_ends_with_all_common_end_tokens() -> None:
    ids = {BYTE_LEVEL.token_to_id(name) for name in ("<|im_end|>", "<|endoftext|>")}
    assert BYTE_LEVEL_VOCABULARY.end_token_ids == ids


def test_ordinary_text_with_an_end_token_name_is_no_end_token() -> None:
    tokenizer = gemma_like()
    tokenizer.add_tokens([AddedToken("<|im_end|>")])
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    assert vocabulary.end_token_ids == {vocabulary.special_tokens["</s>"]}


def test_transformers_and_mlx_lm_name_their_own_end_tokens() -> None:
    fast = PreTrainedTokenizerFast(tokenizer_object=BYTE_LEVEL, eos_token="<|im_end|>")
    im_end, end_of_text = (BYTE_LEVEL.token_to_id(n) for n in ("<|im_end|>", "<|endoftext|>"))
    assert Vocabulary.from_tokenizer(fast).end_token_ids == {im_end}
    wrapper = TokenizerWrapper(fast, eos_token_ids=[end_of_text])
    assert Vocabulary.from_tokenizer(wrapper).end_token_ids == {im_end, end_of_text}
    assert Vocabulary.from_tokenizer(wrapper).token_bytes == BYTE_LEVEL_VOCABULARY.token_bytes


def test_unknown_end_token_ids_are_ignored_unless_given() -> None:
    fast = PreTrainedTokenizerFast(tokenizer_object=BYTE_LEVEL, eos_token="<|im_end|>")
    wrapper = TokenizerWrapper(fast, eos_token_ids=[99_999])
    assert Vocabulary.from_tokenizer(wrapper).end_token_ids == {fast.eos_token_id}
    with pytest.raises(VocabularyError, match="99999"):
        Vocabulary.from_tokenizer(BYTE_LEVEL, end_token_ids=[99_999])


def test_explicit_end_tokens_replace_the_others() -> None:
    token_id = BYTE_LEVEL.token_to_id("ab")
    vocabulary = Vocabulary.from_tokenizer(BYTE_LEVEL, end_token_ids=[token_id])
    assert vocabulary.end_token_ids == {token_id}
    assert vocabulary.token_bytes[token_id] == b"\xffab"
    assert vocabulary.decode([token_id]) == b""


def test_vocabulary_without_end_token_is_refused() -> None:
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "</s>": 1}, "a"))
    tokenizer.decoder = decoders.Fuse()
    with pytest.raises(VocabularyError, match="end_token_ids"):
        Vocabulary.from_tokenizer(tokenizer)
    with pytest.raises(VocabularyError, match="no end token"):
        Vocabulary([b"a"], end_token_ids=[])


# --- size -----------------------------------------------------------------------------------


def test_size_pads_or_truncates_the_vocabulary() -> None:
    natural = BYTE_LEVEL_VOCABULARY.size
    wide = Vocabulary.from_tokenizer(BYTE_LEVEL, size=natural + 3)
    assert wide.size == natural + 3
    assert wide.token_bytes == (*BYTE_LEVEL_VOCABULARY.token_bytes, None, None, None)
    end = BYTE_LEVEL.token_to_id("<|im_end|>")
    narrow = Vocabulary.from_tokenizer(BYTE_LEVEL, size=end + 1)
    assert narrow.size == end + 1
    assert narrow.end_token_ids == {end}
    assert "<|endoftext|>" not in narrow.special_tokens
    with pytest.raises(VocabularyError):
        Vocabulary.from_tokenizer(BYTE_LEVEL, size=end)
    with pytest.raises(VocabularyError):
        Vocabulary.from_tokenizer(BYTE_LEVEL, size=0)


def test_ids_between_tokens_are_unused() -> None:
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "</s>": 5}, "a"))
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens(["</s>"])
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    assert vocabulary.token_bytes[1:] == (None, None, None, None, b"\xff</s>")


# --- built from bytes -----------------------------------------------------------------------


def test_from_bytes_normalises_end_and_special_tokens() -> None:
    forms = [b"a", b"<s>", b"\xff</s>", None]
    vocabulary = Vocabulary(forms, end_token_ids=[2], special_tokens={"<s>": 1})
    assert vocabulary.token_bytes == (b"a", b"\xff<s>", b"\xff</s>", None)
    assert vocabulary.special_tokens == {"<s>": 1, "</s>": 2}
    assert forms == [b"a", b"<s>", b"\xff</s>", None]
    assert vocabulary.decode([0, 1, 0, 3, 2]) == b"a\xff<s>a"


def test_end_tokens_with_the_same_bytes_are_never_text() -> None:
    forms = [b'"', b"</s>", b"</s>", b"</s>", b"</s>"]
    vocabulary = Vocabulary(forms, end_token_ids=[1, 2], special_tokens={"</s>": 3})
    assert vocabulary.token_bytes == (b'"', *3 * [b"\xff</s>"], b"</s>")
    assert vocabulary.special_tokens == {"</s>": 2}
    matcher = JsonSchemaStateMachine({"type": "string"}).matcher(vocabulary)
    matcher.advance(0)
    assert matcher.allowed_tokens().nonzero()[0].tolist() == [0, 4]


@pytest.mark.parametrize(
    ("forms", "ends"),
    [
        ([b"a", b""], [0]),
        ([b"a", "b"], [0]),
        ([b"a", b"b"], [2]),
        ([b"a", b"b"], [-1]),
        ([b"a", None], [1]),
        ([], []),
    ],
)
def test_from_bytes_refuses_bad_values(forms: list[bytes | None], ends: list[int]) -> None:
    with pytest.raises(VocabularyError):
        Vocabulary(forms, end_token_ids=ends)


@pytest.mark.parametrize("token_id", [-1, 2])
def test_decode_refuses_ids_out_of_range(token_id: int) -> None:
    with pytest.raises(VocabularyError, match=str(token_id)):
        Vocabulary([b"a", b"b"], end_token_ids=[1]).decode([token_id])


def test_immutable_identity_and_weak_references() -> None:
    first = Vocabulary([b"a", b"b"], end_token_ids=[1])
    second = Vocabulary([b"a", b"b"], end_token_ids=[1])
    assert first != second
    assert len({first, second}) == 2
    with pytest.raises(AttributeError):
        first.token_bytes = ()  # type: ignore[misc]
    with pytest.raises(TypeError):
        first.special_tokens["c"] = 0  # type: ignore[index]
    attached = weakref.WeakKeyDictionary({first: "trie", second: "trie"})
    del second
    gc.collect()
    assert list(attached) == [first]


# --- real tokenizers ------------------------------------------------------------------------

_REAL = tokenizer_files()

_TEXTS = [
    "Hello world",
    json.dumps({"name": "Ada", "age": 36, "tags": ["a\n\t", "日本 😀", "é"], "x": None}, indent=2),
    " \u2028 नमस्ते   a\r\n\r\n" + " " * 40 + "\x00\x7f ‍👩‍👩‍👧 <think>x</think>",
    '{"$ref":"#/$defs/a~1b","n":-1.5e-300,"re":"^\\\\d{3}$"}',
]


@pytest.mark.skipif(not _REAL, reason=NO_TOKENIZERS)
def test_real_tokenizers_spell_the_text() -> None:
    for path in _REAL:
        tokenizer = Tokenizer.from_file(str(path))
        vocabulary = Vocabulary.from_tokenizer(tokenizer)
        space = b" " if vocabulary.strips_first_space else b""
        for text in _TEXTS:
            assert vocabulary.decode(ids_of(tokenizer, text)) == space + text.encode(), path
