"""Compositions: attribution of text to parts, refused compositions, growth of the work."""

from __future__ import annotations

from gc import collect
from typing import Any
from weakref import ref

import pytest

from state_machines import JsonSchemaStateMachine, RegexStateMachine, Vocabulary
from state_machines.errors import CompositionError
from state_machines.limits import LIMITS
from state_machines.root import (
    Choice,
    Marker,
    Optional,
    Part,
    Repeat,
    RootStateMachine,
    Series,
    Structured,
    SubState,
    Text,
)
from state_machines.root.attribution import Attribution


def regex(name: str, pattern: str, **options: Any) -> Structured:
    return Structured(name, grammar=RegexStateMachine(pattern), **options)


def schema(identifier: str, /, **properties: Any) -> Structured:
    described = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return Structured(identifier, grammar=JsonSchemaStateMachine(described))


def special(*names: str, ends: str = "</s>") -> Vocabulary:
    """Every byte, and special tokens."""
    forms: list[bytes | None] = [bytes((byte,)) for byte in range(255)]
    last = len(forms)
    forms += [name.encode() for name in (*names, ends)]
    ids = {name: last + number for number, name in enumerate((*names, ends))}
    return Vocabulary(forms, end_token_ids=[ids[ends]], special_tokens=ids)


def read(part: Part, text: str | bytes, vocabulary: Vocabulary | None = None) -> Any:
    """Return (identifier, text) of all pieces; ``None`` where the text is not admitted."""
    machine = RootStateMachine(part, vocabulary)
    if not machine.matches(text):
        return None
    return [
        (piece.part.name, piece.text.decode(errors="replace")) for piece in machine.pieces(text)
    ]  # type: ignore[attr-defined]


CALL = Series(Marker("call", "<call>"), schema("arguments", a={"type": "integer"}))


def test_options_with_a_common_prefix_are_attributed_correctly() -> None:
    one = schema("one", kind={"const": "x"}, size={"type": "integer"})
    two = schema("two", kind={"const": "x"}, name={"type": "string"})
    machine = RootStateMachine(Choice(one, two))
    for text, owner in (('{"kind": "x", "size": 1}', "one"), ('{"kind": "x", "name": "s"}', "two")):
        attribution = Attribution(machine.automaton)
        shared = text.index("size" if owner == "one" else "name")
        assert attribution.feed(text[:shared].encode()) == []
        (piece,) = attribution.feed(text[shared : shared + 1].encode())
        assert (piece.part.name, piece.text.decode()) == (owner, text[: shared + 1])  # type: ignore[attr-defined]


def test_tool_names_with_a_common_prefix_are_distinguished() -> None:
    def tool(name: str) -> Part:
        return Series(Marker(name, f"<{name}>"), regex(f"{name} arguments", "[a-z]*"))

    part = Series(Text(), Repeat(Choice(tool("get"), tool("get_weather")), max_count=2))
    assert read(part, "so <get_weather>abc") == [
        ("text", "so "),
        ("get_weather", "<get_weather>"),
        ("get_weather arguments", "abc"),
    ]
    assert read(part, "<get>") == [("get", "<get>"), ("get arguments", "")]
    assert read(part, "<get>a<get_weather>") == [
        ("get", "<get>"),
        ("get arguments", "a"),
        ("get_weather", "<get_weather>"),
        ("get_weather arguments", ""),
    ]


def test_marker_cannot_span_adjacent_texts() -> None:
    interleaved = Repeat(Choice(Text(min_chars=1), CALL))
    assert read(interleaved, "<call>garbage") is None
    assert read(interleaved, "so<call") == [("text", "so<call")]
    assert read(interleaved, 'so<call>{"a": 1} and <call>{"a": 2}') == [
        ("text", "so"),
        ("call", "<call>"),
        ("arguments", '{"a": 1}'),
        ("text", " and "),
        ("call", "<call>"),
        ("arguments", '{"a": 2}'),
    ]


def test_text_cannot_begin_with_an_alternative_marker() -> None:
    part = Series(Optional(Text("thought", begin="<think>", end="</think>")), Text())
    assert read(part, "<think>so") is None
    assert read(part, "<thin") == [("text", "<thin")]
    assert read(part, "no <think>so") == [("text", "no <think>so")]
    attribution = Attribution(RootStateMachine(part).automaton)
    pieces = attribution.feed(b"<think>so <")
    assert [piece.text for piece in pieces] == [b"<think>", b"so "]


def test_separator_of_rounds_counts_with_the_next_marker() -> None:
    part = Series(Repeat(CALL, between=Marker("call", "\n")), Text())
    assert read(part, '<call>{"a": 1}\nbye') == [
        ("call", "<call>"),
        ("arguments", '{"a": 1}'),
        ("text", "\nbye"),
    ]
    assert read(part, '<call>{"a": 1}\n<call>bye') is None


def test_marker_may_be_special_token_or_plain_text() -> None:
    vocabulary = special("<|c|>")
    part = Series(Text(), Marker("channel", "<|c|>thought"), regex("number", "[0-9]+"))
    for written in (b"hi\xff<|c|>thought42", b"hi<|c|>thought42"):
        machine = RootStateMachine(part, vocabulary)
        assert machine.matches(written)
        names = [piece.part.name for piece in machine.pieces(written)]  # type: ignore[attr-defined]
        assert names == ["text", "channel", "number"]
    assert read(part, b"hi<|c|>thoughtx42", vocabulary) is None
    assert read(part, b"hi<|c|>thoug<|c|>thought42", vocabulary) is not None
    # Where no text comes before it, only the token is the marker.
    begun = Text("thought", begin="<|c|>", end="|")
    assert read(begun, b"<|c|>so|", vocabulary) is None
    assert read(begun, b"\xff<|c|>so|", vocabulary) is not None


@pytest.mark.parametrize("end", ["</s>", "}</s>"])
def test_end_token_may_be_the_last_marker(end: str) -> None:
    vocabulary = special()
    part = Series(Repeat(Series(Marker("call", "<c>"), regex("n", "[0-9]+")), max_count=2))
    part = Series(part, Marker("end", end))
    machine = RootStateMachine(part, vocabulary)
    matcher = machine.matcher(vocabulary)
    for byte in b"<c>1<c>2" + end.removesuffix("</s>").encode():
        matcher.advance(byte)
    matcher.advance(min(vocabulary.end_token_ids))
    assert (
        b"".join(piece.text for piece in matcher.take_pieces()) == b"<c>1<c>2" + end[:-4].encode()
    )


def test_nothing_follows_a_marker_that_ends_the_output() -> None:
    """What follows may be empty, and then is: no token can be written any more."""
    vocabulary = special(ends="<|call|>")
    part = Repeat(Series(regex("n", "[0-9]"), Marker("end", "<|call|>")), min_count=1)
    machine = RootStateMachine(part, vocabulary)
    assert machine.matches("1")
    assert not machine.matches("12")
    again = Series(regex("n", "[0-9]"), Marker("end", "<|call|>"), regex("m", "[0-9]"))
    with pytest.raises(CompositionError) as caught:
        RootStateMachine(again, vocabulary)
    assert caught.value.part == "end"


class _Never(SubState):
    """A sub-state whose class stands where an instance should."""

    def machine(self) -> RegexStateMachine:
        return RegexStateMachine("x")


@pytest.mark.parametrize(
    ("make", "part"),
    [
        (lambda: Marker("m", ""), "m"),
        (lambda: Text("t", min_chars=-1), "t"),
        (lambda: Text("t", min_chars=3, max_chars=2), "t"),
        (lambda: Text("t", stop=("",)), "t"),
        (lambda: Text("t", excluding=("a", "")), "t"),
        (lambda: Choice(), "choice"),
        (lambda: Repeat(Marker("m", "x"), min_count=2, max_count=1), "repeat"),
        (lambda: RootStateMachine(Repeat(Text("t"))), "t"),
        (lambda: RootStateMachine(Repeat(regex("r", "a*"))), "r"),
        (lambda: RootStateMachine(Repeat(Optional(Marker("m", "x")))), "optional"),
        (lambda: RootStateMachine(Repeat(Series())), "series"),
        (lambda: RootStateMachine("text"), "text"),  # type: ignore[arg-type]
        (lambda: RootStateMachine(Series(Text(), "text")), "text"),  # type: ignore[arg-type]
        (lambda: RootStateMachine(Series(Text(), None)), "None"),  # type: ignore[arg-type]
        (lambda: RootStateMachine(_Never), "<class"),  # type: ignore[arg-type]
        (lambda: RootStateMachine(Series(Text("t"), Text("u", min_chars=1))), "u"),
        (lambda: RootStateMachine(Text("t", excluding=("<",), end="</t>")), "t"),
        (
            lambda: RootStateMachine(
                Series(Text(), Choice(Marker("m", "<t"), Series(Marker("n", "<t>"), CALL)))
            ),
            "n",
        ),
        (lambda: RootStateMachine(Marker("m", "a</s>b"), special()), "m"),
    ],
)
def test_invalid_compositions_raise(make: Any, part: str) -> None:
    with pytest.raises(CompositionError) as caught:
        make()
    assert caught.value.part.startswith(part)
    assert caught.value.hint


ANSWER = Series(
    Optional(Text("reasoning", begin="<think>", end="</think>")),
    Text(),
    Repeat(CALL, between=Marker("call", "\n")),
    Text("after"),
)
LONG = "Once upon a <call in a c</think place, <<cal.\nSo "


@pytest.mark.parametrize(
    ("part", "before"),
    [
        (ANSWER, ""),
        (ANSWER, "<think>"),
        (ANSWER, '<call>{"a": 1}\n<call>{"a": 1}'),
        (Repeat(Choice(Text(min_chars=1), CALL)), ""),
        (Series(Text(min_chars=50, max_chars=100_000, end="</think>"), Text("rest")), ""),
        (Series(Text(), Text("two", max_chars=9)), ""),
        (regex("words", "([a-z<>A-Z,./]+ ?|\n)*"), ""),
    ],
)
def test_long_texts_need_few_threads_and_are_attributed_soon(part: Part, before: str) -> None:
    attribution = Attribution(RootStateMachine(part).automaton)
    attribution.feed(before.encode())
    told = 0
    longest = 0
    written = (LONG * 110).encode()
    for number, byte in enumerate(written):
        told += sum(len(piece.text) for piece in attribution.feed(bytes((byte,))))
        longest = max(longest, len(attribution.threads))
        assert number - told < 20
    assert longest <= 6
    assert all(len(thread.history) <= 3 for thread in attribution.threads)


def test_bounded_text_frees_its_states(vocabulary: Vocabulary) -> None:
    thought = Text("thought", max_chars=100_000, end="</think>")
    machine = RootStateMachine(Series(thought, Text()), vocabulary)
    matcher = machine.matcher(vocabulary)
    for _ in range(10):
        matcher.advance(ord("x"))
    early = ref(matcher.state)
    for _ in range(LIMITS.shared_derivatives + 10):
        matcher.advance(ord("x"))
        matcher.take_pieces()
    collect()
    assert early() is None


def test_states_of_a_freed_machine_do_not_collide_with_new_ones() -> None:
    """States outlive their machine where a cache holds them; its memory is used again."""

    def machine_of(word: str) -> RootStateMachine:
        return RootStateMachine(Repeat(regex("word", word, begin="(", end=")")))

    held = []
    for index in range(200):
        word = f"w{index % 50}"
        machine = machine_of(word)
        assert machine.matches(f"({word})({word})")
        held.append(machine.start.compute_word_derivative(f"({word})({word})(".encode()))
        del machine
        collect(0)
