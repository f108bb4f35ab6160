"""A vocabulary small enough to look at every token, with every trap of a large one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from random import Random
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from state_machines import Matcher, Vocabulary
from state_machines.grammar.node import EMPTY, Node, leading_bytes

__all__ = [
    "a_text",
    "an_ending",
    "brute_force_mask",
    "check_masks",
    "cuttings",
    "small_vocabulary",
    "walk_masks",
]

_PIECES = [
    *(b"ab", b"ba", b"aab", b"abab", b'a"', b'"a', b'"a"', b'"ab', b"b,", b"true", b"tr", b"alse"),
    *(b"null", b"nul", b'{"', b'"}', b'":', b'": ', b'",', b'", ', b'", "', b'","', b"}]", b"}}"),
    *(b"]]", b"[[", b"[]", b"{}", b'["', b'"]', b"],", b"},", b"}, ", b": {", b':{"', b":[", b"0]"),
    *(b"12", b"10", b"0.", b".5", b"00", b"-1", b"e+", b"1e", b", ", b"\n  ", b"\n", b"  ", b" \n"),
    *("é".encode(), "é".encode()[:1] + b"\xa9a", b"a\xc3", b"\x82\xac", b"\xe2\x82", b"\xac\xf0"),
    *(b"\xf0\x9f\x98", b"\x98\x80", b"\xf0\x9f\x98\x80", b"\\u00", b"\\u", b"e9", b"\\n", b'\\"'),
    *(b"\\ud83d", b"\\ude00", b"\\", b'"\\', b'\\\\"', b"c d", b" d", b'"\xc3', b"\xff\xfe"),
]
_DUPLICATES = [b"a", b'"', b"}", b"ab", b'",', b"\xc3"]

_sorted_forms: WeakKeyDictionary[Vocabulary, list[tuple[bytes, int]]] = WeakKeyDictionary()
"""Bytes and ids of all tokens. Neighbours share most of their bytes."""

# In the order in which they bring a text to its end.
_ENDING_BYTES = b'"}]:0,ntfab1'


def small_vocabulary() -> Vocabulary:
    """Every byte, pieces across JSON's structure and inside characters, doubles, unused ids."""
    forms: list[bytes | None] = [bytes((byte,)) for byte in range(256)]
    forms += [*_PIECES, *_DUPLICATES]
    forms += [b"<s>", b"<tool>", b"</s>", b"<end>"]
    names = {"<s>": len(forms) - 4, "<tool>": len(forms) - 3}
    forms += [None, None, None]
    return Vocabulary(forms, end_token_ids=[len(forms) - 5, len(forms) - 4], special_tokens=names)


def brute_force_mask(state: Node, vocabulary: Vocabulary) -> npt.NDArray[np.bool_]:
    """The definition of a mask: the tokens with whose bytes a word of the state begins.

    End tokens are allowed if the state accepts. Tokens that a grammar names by number are left out.
    """
    forms = _sorted_forms.get(vocabulary)
    if forms is None:
        every = enumerate(vocabulary.token_bytes)
        forms = sorted((form, token_id) for token_id, form in every if form is not None)
        _sorted_forms[vocabulary] = forms
    mask = np.zeros(vocabulary.size, np.bool_)
    # The states along the bytes of the token before, up to one that nothing follows.
    path, along = [state], b""
    for form, token_id in forms:
        if path[-1] is EMPTY and form.startswith(along):
            continue
        shared = 0
        while shared < min(len(form), len(along)) and form[shared] == along[shared]:
            shared += 1
        del path[shared + 1 :]
        for byte in form[shared:]:
            path.append(path[-1].derivative(byte))
            if path[-1] is EMPTY:
                break
        along = form[: len(path) - 1]
        mask[token_id] = path[-1] is not EMPTY
    mask[list(vocabulary.end_token_ids)] |= state.nullable
    return mask


def check_masks(matcher: Matcher, vocabulary: Vocabulary, choices: Iterable[int]) -> None:
    """Assert that masks equal brute force along a text, whose tokens are the given allowed ones."""
    for number in choices:
        allowed = matcher.allowed_tokens()
        np.testing.assert_array_equal(allowed, brute_force_mask(matcher.state, vocabulary))
        assert allowed.any(), "no state is a dead end"
        matcher.advance(int(np.flatnonzero(allowed)[number % allowed.sum()]))
        if matcher.is_finished:
            break


def walk_masks(
    matcher: Matcher,
    vocabulary: Vocabulary,
    random: Random,
    steps: int,
    *,
    preferred: Callable[[bytes], object] | None = None,
    share: float = 0.9,
) -> bytes:
    """Assert that masks equal brute force along random tokens, and return their text.

    Args:
        matcher: Where the text begins.
        vocabulary: The matcher's vocabulary.
        random: Draws the tokens; no end token is taken.
        steps: The number of tokens.
        preferred: Whether the bytes of a token are preferred.
        share: The probability with which a preferred token is taken, where one is allowed.
    """
    text = b""
    for _ in range(steps):
        mask = matcher.allowed_tokens()
        wrong = np.flatnonzero(mask != brute_force_mask(matcher.state, vocabulary))[:10].tolist()
        assert not wrong, (text, [vocabulary.token_bytes[token_id] for token_id in wrong])
        forms = {i: vocabulary.token_bytes[i] or b"" for i in np.flatnonzero(mask).tolist()}
        plain = [token_id for token_id in forms if token_id not in vocabulary.end_token_ids]
        if not plain:
            break
        liked = [token_id for token_id in plain if preferred and preferred(forms[token_id])]
        token_id = random.choice(liked if liked and random.random() < share else plain)
        matcher.advance(token_id)
        text += forms[token_id]
    return text


def a_text(state: Node, random: Random, steps: int, stops: float = 0.2) -> bytes | None:
    """Write a text at random; ``None`` if no end is near after some bytes. Asserts live states."""
    text = b""
    for _ in range(steps):
        choices = leading_bytes(state)
        if state.nullable and (not choices or random.random() < stops):
            break
        assert choices, f"dead end after {text!r}"
        byte = random.choice(choices)
        state = state.derivative(byte)
        assert state is not EMPTY
        text += bytes((byte,))
    ending = an_ending(state)
    return None if ending is None else text + ending


@st.composite
def cuttings(draw: st.DrawFn, text: bytes, vocabulary: Vocabulary) -> list[int]:
    """Draw one of the ways to write a text in tokens."""
    by_first: dict[int, list[int]] = {}
    for token_id, form in enumerate(vocabulary.token_bytes):
        if form is not None and token_id not in vocabulary.end_token_ids:
            by_first.setdefault(form[0], []).append(token_id)
    at = 0
    ids = []
    while at < len(text):
        fitting = [
            token_id
            for token_id in by_first[text[at]]
            if text.startswith(vocabulary.token_bytes[token_id] or b"\0", at)
        ]
        chosen = fitting[draw(st.integers(0, len(fitting) - 1))] if len(fitting) > 1 else fitting[0]
        ids.append(chosen)
        at += len(vocabulary.token_bytes[chosen] or b"")
    return ids


def an_ending(state: Node) -> bytes | None:
    """Return a word of a language, often a short one; ``None`` where none is found soon."""
    return _greedy_ending(state) or _searched_ending(state)


def _greedy_ending(node: Node) -> bytes | None:
    word = bytearray()
    for _ in range(80):
        if node.nullable:
            return bytes(word)
        first = node.first_bytes
        byte = next((b for b in _ENDING_BYTES if first >> b & 1), first.bit_length() - 1)
        word.append(byte)
        node = node.derivative(byte)
    return None


def _searched_ending(state: Node, budget: int = 300) -> bytes | None:
    """Best first by length so far plus ``min_length``, which never is too large."""
    queue: list[tuple[int, int, int, Node, bytes]] = [(state.min_length, 0, 0, state, b"")]
    seen = {state}
    made = 0
    while queue and budget:
        budget -= 1
        _, _, _, node, word = heappop(queue)
        if node.nullable:
            return word
        live = leading_bytes(node)
        for byte in [byte for byte in live if byte in _ENDING_BYTES] or live[:4]:
            target = node.derivative(byte)
            if target not in seen:
                seen.add(target)
                made += 1
                step = word + bytes((byte,))
                # Of equal estimates the deeper one first.
                heappush(queue, (len(step) + target.min_length, -len(step), made, target, step))
    return None
