"""Random answers out of parts, and tool calls read out of who wrote what."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Any

from state_machines.argument_notations import TaggedNotation
from state_machines.grammar.node import EMPTY, Node, leading_bytes
from state_machines.grammar.shortest import shortest_word
from state_machines.grammar.tokens import Spell
from state_machines.root import Choice, Marker, Optional, Part, Piece, Repeat, Series, SubState
from state_machines.root.spellings import speller
from state_machines.tool_calls import FORMATS, CallArguments, CallId, CallStart

__all__ = ["Call", "a_walk", "a_word", "are_distinct", "calls_in", "ending", "longest_first"]

_ENDING_BYTES = b'"}])<>:0,ntfab1 \n'
"""In the order in which they bring a text to its end."""


def _closings() -> list[bytes]:
    """Return the ends of values of tagged arguments, alone and after the end of a name.

    Their tags may be special tokens.
    """
    ends = {b'">', b">\n"}
    for entry in FORMATS.values():
        if isinstance(entry.notation, TaggedNotation):
            for spell in (str.encode, speller(entry.tokens)):
                value = spell(entry.notation.after_value)
                ends |= {value, spell(entry.notation.after_name) + value}
    return sorted(ends)


_CLOSINGS = _closings()


@dataclass
class Call:
    """A call, as a result reports it."""

    name: str
    arguments: dict[str, Any] | None = None
    id: str | None = None
    raw: str = ""


def a_word(node: Node, random: Random, steps: int) -> bytes:
    """Return a word of a language: up to ``steps`` random bytes, then a short ending.

    Raises ``OverflowError`` if no short ending exists.
    """
    word = bytearray()
    for _ in range(random.randrange(steps + 1)):
        if node.nullable and random.random() < 0.05:
            return bytes(word)
        live = leading_bytes(node)
        if not live:
            break
        structure = [byte for byte in live if byte in b'{}[]",:<>()= \n0123456789']
        byte = random.choice(structure if structure and random.random() < 0.6 else live)
        word.append(byte)
        node = node.derivative(byte)
    return bytes(word) + ending(node)


def ending(node: Node) -> bytes:
    """Return a word, often a short one: closing texts first, then the transition nearest to an end."""
    for by_length in (False, True):
        word = bytearray()
        state = node
        for count in range(600):
            if state.nullable:
                return bytes(word)
            if count % 12 == 11:
                closing = _closing(state)
                word += closing
                state = state.compute_word_derivative(closing)
                continue
            steps = []
            for members, after in state.transitions:
                rank, byte = _easiest(members)
                # These closing texts may be ordinary text in this language.
                often = word.count(byte) // 8
                steps.append((after.min_length * by_length, often, rank, byte, after))
            *_, byte, state = min(steps, key=lambda step: step[:3])
            word.append(byte)
    return shortest_word(node) or b""


def _closing(state: Node) -> bytes:
    """Return the end of a text that is no more text, if there is one."""
    tried = [(text, state.compute_word_derivative(text)) for text in _CLOSINGS]
    ways = [(len(leading_bytes(after)), text) for text, after in tried if after is not EMPTY]
    few, text = min(ways, default=(256, b""))
    return text if few < 100 else b""


def _easiest(members: int) -> tuple[int, int]:
    """Return the byte of a set that rather ends things, after its rank."""
    for rank, byte in enumerate(_ENDING_BYTES):
        if members >> byte & 1:
            return rank, byte
    return len(_ENDING_BYTES), members.bit_length() - 1


def a_walk(part: Part, random: Random, spell: Spell = str.encode) -> list[Piece]:
    """Return random text for each part."""
    match part:
        case Marker():
            return [Piece(part, spell(part.text))]
        case Series():
            return [piece for inner in part.parts for piece in a_walk(inner, random, spell)]
        case Choice():
            return a_walk(random.choice(part.options), random, spell)
        case Optional():
            return a_walk(part.part, random, spell) if random.random() < 0.5 else []
        case Repeat():
            most = (
                part.min_count + 2
                if part.max_count is None
                else min(part.max_count, part.min_count + 2)
            )
            pieces = []
            for index in range(random.randint(part.min_count, most)):
                if index and part.between is not None:
                    pieces += a_walk(part.between, random, spell)
                pieces += a_walk(part.part, random, spell)
            return pieces
        case SubState():
            return [Piece(part, a_word(part.spelled_machine(spell).start, random, 40))]
    raise AssertionError(part)


def calls_in(pieces: Iterable[Piece]) -> list[Call]:
    """Return the calls that an answer's pieces write."""
    calls: list[Call] = []
    for part, form in pieces:
        text = form.replace(b"\xff", b"").decode()
        match part:
            case CallStart():
                calls.append(Call(part.tool.name))
            case CallId():
                calls[-1].id = part.parse(text)
            case CallArguments():
                assert calls[-1].arguments is None
                assert calls[-1].name == part.tool.name
                calls[-1].arguments = part.parse(text)
                calls[-1].raw = text
    return calls


def are_distinct(calls: Iterable[Call]) -> bool:
    """Whether no two calls have the same tool and the same arguments."""
    keys = [(call.name, json.dumps(call.arguments, sort_keys=True)) for call in calls]
    return len(set(keys)) == len(keys)


def longest_first(text: bytes, tokens: dict[bytes, int]) -> list[int]:
    """Cut a text into tokens, each time the longest that there is."""
    longest = max(map(len, tokens))
    ids, at = [], 0
    while at < len(text):
        width = next(w for w in range(longest, 0, -1) if text[at : at + w] in tokens)
        ids.append(tokens[text[at : at + width]])
        at += width
    return ids
