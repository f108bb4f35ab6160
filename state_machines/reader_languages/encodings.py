r"""Bytes as text: UTF-8, base64 and hexadecimal digits.

Observed with pydantic 2.14.4 (pydantic-core 2.50.5) and msgspec 0.22.

==================================  ============================================================
encoding                            texts
==================================  ============================================================
``utf8``                            any; lengths are those of UTF-8
``base64``                          the alphabet of RFC 4648 section 5 or section 4, not mixed,
                                    with padding or without
``base64`` of section 4 or 5 alone  with padding, as Python's ``base64`` reads it: ``Base64Bytes``,
                                    ``Base64UrlBytes``, and bytes of msgspec (section 4)
``hex``                             pairs of hexadecimal digits in either case
==================================  ============================================================

The unused bits at the end of base64 are zero: pydantic refuses others for bytes. Left out, although
Python's decoder reads them: characters outside of the alphabet, and text after the padding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from state_machines.grammar.lazy import reference
from state_machines.grammar.node import EMPTY, EPSILON, Node
from state_machines.grammar.nodes import branch, concatenation, repetition, symbols, union
from state_machines.grammar.symbols import CodePointSet, code_points
from state_machines.reader_languages.identifiers import octets
from state_machines.regex import compile_pattern

_PLAIN = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_ALPHABETS = {"standard": f"{_PLAIN}+/", "url": f"{_PLAIN}-_"}
_PADDING = symbols(code_points("="))


def bytes_(
    *,
    encoding: Literal["utf8", "base64", "hex"] = "utf8",
    min_length: int | None = None,
    max_length: int | None = None,
    canonical: bool = False,
) -> Node:
    """Return the texts of bytes.

    Args:
        encoding: How the bytes are written.
        min_length: Smallest number of bytes.
        max_length: Largest number of bytes.
        canonical: Whether base64 is that of URLs with padding, and hexadecimal digits are in lower
            case.
    """
    low = min_length or 0
    if encoding == "utf8":
        return octets(low, max_length)
    if encoding == "hex":
        digit = "[0-9a-f]" if canonical else "[0-9A-Fa-f]"
        return _counted(compile_pattern(rf"{digit}{{2}}", search=False), low, max_length)
    if encoding != "base64":
        raise ValueError(f"the encoding {encoding!r} is not one of utf8, base64, hex")
    padded = [_base64(_ALPHABETS["url"], low, max_length, is_padded=True)]
    if not canonical:
        padded += [
            _base64(_ALPHABETS["url"], low, max_length, is_padded=False),
            _base64(_ALPHABETS["standard"], low, max_length, is_padded=True),
            _base64(_ALPHABETS["standard"], low, max_length, is_padded=False),
        ]
    return union(padded)


def base64(
    *,
    alphabet: Literal["standard", "url"] = "standard",
    is_text: bool = False,
    min_length: int | None = None,
    max_length: int | None = None,
) -> Node:
    """Return base64 with padding. Different texts are different bytes.

    Args:
        alphabet: The alphabet of RFC 4648, section 4 or 5.
        is_text: Whether the bytes are a text in UTF-8; lengths are then those of the text.
        min_length: Smallest number of bytes.
        max_length: Largest number of bytes.
    """
    characters = _ALPHABETS.get(alphabet)
    if characters is None:
        raise ValueError(f"the alphabet {alphabet!r} is not one of standard, url")
    if not is_text:
        return _base64(characters, min_length or 0, max_length, is_padded=True)
    count = _Count(max(min_length or 0, 0), max_length)
    if max_length is not None and max_length < count.least:
        return EMPTY
    return EPSILON if max_length == 0 else _base64_text(characters, 0, 0, _STARTS, count)


def _base64(alphabet: str, low: int, high: int | None, *, is_padded: bool) -> Node:
    """Return base64 of a number of bytes, whose unused bits are zero."""
    sextet = symbols(CodePointSet.of(alphabet))
    last_of_one = symbols(CodePointSet.of(alphabet[::16]))
    last_of_two = symbols(CodePointSet.of(alphabet[::4]))
    tails = [
        EPSILON,
        concatenation(sextet, last_of_one, *([_PADDING, _PADDING] if is_padded else [])),
        concatenation(sextet, sextet, last_of_two, *([_PADDING] if is_padded else [])),
    ]
    group = repetition(sextet, 4, 4)
    return union(
        concatenation(
            _counted(group, -(-(low - rest) // 3), None if high is None else (high - rest) // 3),
            tail,
        )
        for rest, tail in enumerate(tails)
    )


def _counted(body: Node, low: int, high: int | None) -> Node:
    """Return a repetition, which is empty if the bounds are."""
    low = max(low, 0)
    return EMPTY if high is not None and high < low else repetition(body, low, high)


# A state of a decoder of UTF-8: the ranges of the next bytes, each with the ranges after them.
_Utf8State = tuple[tuple[int, int, "_Utf8State | None"], ...]

_TAIL_1: _Utf8State = ((0x80, 0xBF, None),)
_TAIL_2: _Utf8State = ((0x80, 0xBF, _TAIL_1),)
_STARTS: _Utf8State = (
    (0, 0x7F, None),
    (0xC2, 0xDF, _TAIL_1),
    (0xE0, 0xE0, ((0xA0, 0xBF, _TAIL_1),)),
    (0xE1, 0xEC, _TAIL_2),
    (0xED, 0xED, ((0x80, 0x9F, _TAIL_1),)),
    (0xEE, 0xEF, _TAIL_2),
    (0xF0, 0xF0, ((0x90, 0xBF, _TAIL_2),)),
    (0xF1, 0xF3, ((0x80, 0xBF, _TAIL_2),)),
    (0xF4, 0xF4, ((0x80, 0x8F, _TAIL_2),)),
)


class _Count(NamedTuple):
    """Numbers of code points that follow; ``most`` is ``None`` for any."""

    least: int
    most: int | None

    def less_one(self) -> _Count:
        """Return the numbers behind a code point."""
        return _Count(max(self.least - 1, 0), None if self.most is None else self.most - 1)


def _base64_text(alphabet: str, width: int, bits: int, state: _Utf8State, count: _Count) -> Node:
    """Return the rest of the base64 of a text.

    Args:
        alphabet: The characters of the sextets.
        width: Number of bits of the next byte that are known: 0, 2, 4 or 6.
        bits: These bits.
        state: The bytes that may follow.
        count: The code points that follow, with that of the next byte.
    """
    nullable = width == 0 and state is _STARTS and not count.least
    return reference(
        ("base64 text", alphabet, width, bits, state, count),
        lambda: branch(_sextets(alphabet, width, bits, state, count), nullable=nullable),
        nullable=nullable,
        min_length=1,
    )


def _sextets(
    alphabet: str, width: int, bits: int, state: _Utf8State, count: _Count
) -> Iterator[tuple[CodePointSet, Node]]:
    targets: dict[Node, list[str]] = {}
    for sextet, character in enumerate(alphabet):
        found = bits << 6 | sextet
        known = width + 6
        after: _Utf8State | None = state
        left = count
        if known >= 8:
            known -= 8
            after = _after_byte(state, found >> known)
            found &= (1 << known) - 1
            left = count.less_one() if after is _STARTS else count
        if after is None or not _may_begin(after, known, found):
            continue
        rests = []
        if left.most != 0:
            rests.append(_base64_text(alphabet, known, found, after, left))
        if after is _STARTS and known != 6 and not found and not left.least:
            # The text may end here: the bits that are not used are zero.
            rests.append(concatenation(*[_PADDING] * (known // 2)))
        if not rests:
            continue
        rest = union(rests)
        targets.setdefault(rest, []).append(character)
    for target, characters in targets.items():
        yield CodePointSet.of("".join(characters)), target


def _after_byte(state: _Utf8State, byte: int) -> _Utf8State | None:
    for first, last, after in state:
        if first <= byte <= last:
            return _STARTS if after is None else after
    return None


def _may_begin(state: Sequence[tuple[int, int, object]], width: int, bits: int) -> bool:
    """Return whether a byte that begins with some bits may follow."""
    low = bits << (8 - width)
    high = low | (1 << (8 - width)) - 1
    return any(first <= high and low <= last for first, last, _ in state)
