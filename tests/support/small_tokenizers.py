"""Tokenizers of each kind, small enough to be made in a test."""

from __future__ import annotations

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

__all__ = [
    "SPACE",
    "byte_fallback_tokenizer",
    "byte_level_tokenizer",
    "gemma_like",
    "llama2_like",
    "unigram_tokenizer",
    "word_level_tokenizer",
]

SPACE = "▁"


def byte_level_tokenizer() -> Tokenizer:
    """Byte-level BPE with merges that cross a character's bytes, special and ordinary extras."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    # U+00C3 U+00A9 spell "é"; U+0120 is a space. "Ã" alone is the first byte of many letters.
    merges = [("Ã", "©"), ("Ġ", "Ã"), ("a", "b"), ('"', ":")]
    tokens = alphabet + [left + right for left, right in merges]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>", "<|endoftext|>"])
    tokenizer.add_tokens([AddedToken("<think>"), AddedToken("日本"), AddedToken("é!")])
    return tokenizer


def byte_fallback_tokenizer(decoder: decoders.Decoder, *, prefix: bool) -> Tokenizer:
    """A SentencePiece-like BPE: ``▁`` for space, unknown characters as byte tokens."""
    letters = [SPACE, *'abc{}":,0123', "é"]
    merges = [(SPACE, "a"), ("a", "b"), (SPACE, SPACE)]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *letters]
    tokens += [left + right for left, right in merges]
    model = models.BPE(
        {token: i for i, token in enumerate(tokens)},
        merges,
        unk_token="<unk>",
        fuse_unk=True,
        byte_fallback=True,
    )
    tokenizer = Tokenizer(model)
    replace = normalizers.Replace(" ", SPACE)
    tokenizer.normalizer = (
        normalizers.Sequence([normalizers.Prepend(SPACE), replace]) if prefix else replace
    )
    tokenizer.decoder = decoder
    tokenizer.add_special_tokens(["<s>", "</s>"])
    return tokenizer


def llama2_like() -> Tokenizer:
    steps = [
        decoders.Replace(SPACE, " "),
        decoders.ByteFallback(),
        decoders.Fuse(),
        decoders.Strip(" ", 1, 0),
    ]
    return byte_fallback_tokenizer(decoders.Sequence(steps), prefix=True)


def gemma_like() -> Tokenizer:
    steps = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    return byte_fallback_tokenizer(decoders.Sequence(steps), prefix=False)


def unigram_tokenizer() -> Tokenizer:
    """A Unigram model with Metaspace, as T5-like SentencePiece exports have it."""
    pieces = [("<unk>", 0.0), ("</s>", 0.0), (SPACE, -2.0), (f"{SPACE}ab", -1.5)]
    pieces += [(letter, -3.0) for letter in 'abc{}":,0123é']
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=0))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(split=False)
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens(["<unk>", "</s>"])
    return tokenizer


def word_level_tokenizer(decoder: decoders.Decoder | None) -> Tokenizer:
    tokens = ["[UNK]", "</s>", *'{}":,', "name", "é"]
    tokenizer = Tokenizer(models.WordLevel({t: i for i, t in enumerate(tokens)}, "[UNK]"))
    if decoder is not None:
        tokenizer.decoder = decoder
    tokenizer.add_special_tokens(["</s>"])
    return tokenizer
