"""A vocabulary small enough to look at every token, with every trap of a large one."""

from __future__ import annotations

from heapq import heappop, heappush

from hypothesis import strategies as st

from state_machines import Vocabulary
from state_machines.grammar.node import Node, leading_bytes
from state_machines.masks.reference import reference_mask as brute_force_mask

__all__ = [
    "an_ending",
    "brute_force_mask",
    "cuttings",
    "small_vocabulary",
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
