"""From the printable form of a token to the bytes that it adds to a text.

A tokenizer stores its tokens as printable strings. Its *decoder* turns a sequence of them into
text. The decoders of generative models treat each token by itself, except for one space at the
start of the text, so a decoder is a function from token to bytes. ``byte_form_of`` derives that
function from the decoder's JSON, as the ``tokenizers`` library writes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from state_machines.errors import VocabularyError

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")


@dataclass(frozen=True)
class ByteForm:
    """The function from the tokens of one tokenizer to bytes.

    Attributes:
        token: The function, for tokens of the model and for added tokens: a decoder treats both
            alike. So a byte-level decoder reads the added token ``größe`` as bytes of Latin-1.
        strips_first_space: Whether decoding a *whole* text drops one space at its start. The
            function gives the bytes of a token anywhere else, so it keeps it.
    """

    token: Callable[[str], bytes]
    strips_first_space: bool


def byte_form_of(
    decoder: Mapping[str, Any] | None,
    pre_tokenizer: Mapping[str, Any] | None = None,
    *,
    byte_fallback: bool = False,
) -> ByteForm:
    """Derive the byte form from a decoder's (and pre-tokenizer's) JSON.

    Args:
        decoder: JSON of the decoder.
        pre_tokenizer: JSON of the pre-tokenizer.
        byte_fallback: Whether the model spells unknown characters by ``<0x..>`` tokens, although
            the decoder does not mention them.

    Raises:
        VocabularyError: The decoder is unknown, or the bytes of a token depend on its neighbours
            (WordPiece, CTC).
    """
    if decoder is None:
        steps = () if pre_tokenizer is None else _flatten(pre_tokenizer, "pretokenizers")
        if any(step["type"] == "ByteLevel" for step in steps):
            return _BYTE_LEVEL
        raise VocabularyError(
            "the tokenizer has no decoder, so its tokens are words joined by spaces",
            hint="Set a decoder (decoders.Fuse() where tokens are plain text), or build "
            "Vocabulary(token_bytes, end_token_ids=...) from bytes",
        )
    steps = _flatten(decoder, "decoders")
    if [step["type"] for step in steps if step["type"] != "Fuse"] == ["ByteLevel"]:
        return _BYTE_LEVEL
    return _text_form(steps, byte_fallback)


def _flatten(part: Mapping[str, Any], members: str) -> list[Mapping[str, Any]]:
    """Return the steps of a decoder or pre-tokenizer; a sequence has them as ``members``."""
    if part["type"] == "Sequence":
        return [step for inner in part[members] for step in _flatten(inner, members)]
    return [part]


# --- byte-level BPE -------------------------------------------------------------------------


def _printable_bytes() -> dict[str, int]:
    """Map the 256 printable characters of byte-level BPE back to bytes.

    Printable Latin-1 characters stand for themselves; the other bytes, in order, are shifted to
    U+0100 and on (Radford et al. 2019, "Language models are unsupervised multitask learners").
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    table = {chr(byte): byte for byte in printable}
    table.update({chr(0x100 + position): byte for position, byte in enumerate(others)})
    return table


_PRINTABLE_BYTES = _printable_bytes()


def _byte_level(token: str) -> bytes:
    if token.isascii():  # Printable ASCII stands for itself; the rest of ASCII does not occur.
        return token.encode()
    try:
        return bytes(map(_PRINTABLE_BYTES.__getitem__, token))
    except KeyError:  # The library also reads a token with another character as plain text.
        return token.encode()


_BYTE_LEVEL = ByteForm(token=_byte_level, strips_first_space=False)


# --- tokens that are text, with marks for spaces and bytes ----------------------------------


def _text_form(steps: Sequence[Mapping[str, Any]], byte_fallback: bool) -> ByteForm:
    rewrites: list[Callable[[str], str]] = []
    strips_first_space = False
    fused = False
    for step in steps:
        kind = step["type"]
        if kind == "Fuse":
            fused = True
        elif kind == "ByteFallback":
            byte_fallback = True
        elif kind == "Metaspace":
            rewrites.append(_replacing(step["replacement"], " "))
            strips_first_space |= _scheme(step) != "never"
        elif kind == "Replace":
            rewrites.append(_replace_step(step, fused))
        elif kind == "Strip":
            if not fused:
                rewrites.append(_strip_step(step))
            elif (step["content"], step["start"], step["stop"]) == (" ", 1, 0):
                strips_first_space = True
            elif step["start"] or step["stop"]:
                raise _unknown(step, "it cuts more off a text than one space at the start")
        else:
            raise _unknown(step, "the bytes of a token depend on its neighbours")

    def text(token: str) -> bytes:
        for rewrite in rewrites:
            token = rewrite(token)
        return token.encode()

    def text_or_byte(token: str) -> bytes:
        match = _BYTE_TOKEN.fullmatch(token) if token.startswith("<0x") else None
        return bytes((int(match[1], 16),)) if match else text(token)

    return ByteForm(
        token=text_or_byte if byte_fallback else text,
        strips_first_space=strips_first_space,
    )


def _scheme(step: Mapping[str, Any]) -> str:
    scheme = step.get("prepend_scheme")
    if scheme is None:  # Older files have a flag instead of the scheme.
        return "always" if step.get("add_prefix_space", True) else "never"
    return str(scheme)


def _replace_step(step: Mapping[str, Any], fused: bool) -> Callable[[str], str]:
    old = step["pattern"].get("String")
    if not old:
        raise _unknown(step, "it replaces by a regular expression")
    if fused and len(old) > 1:
        raise _unknown(step, "it replaces text that can span tokens")
    return _replacing(old, step["content"])


def _replacing(old: str, new: str) -> Callable[[str], str]:
    return lambda token: token.replace(old, new)


def _strip_step(step: Mapping[str, Any]) -> Callable[[str], str]:
    content, start, stop = step["content"], step["start"], step["stop"]

    def strip(token: str) -> str:
        head = len(token[:start]) - len(token[:start].lstrip(content))
        rest = token[head:]
        end = rest[max(len(rest) - stop, 0) :]
        return rest[: len(rest) - len(end) + len(end.rstrip(content))]

    return strip


def _unknown(step: Mapping[str, Any], reason: str) -> VocabularyError:
    return VocabularyError(
        f"the tokenizer's decoder step {step['type']!r} is not supported: {reason}",
        hint="Build Vocabulary(token_bytes, end_token_ids=...) from bytes instead",
    )
