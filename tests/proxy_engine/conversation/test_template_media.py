"""Media in template messages: markers, placeholders of history, errors."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy_engine import (
    AudioContent,
    Content,
    ImageContent,
    Interaction,
    MediaError,
    PromptError,
    TextContent,
    ToolCall,
)
from proxy_engine.conversation.chat_template import STRICTEST
from proxy_engine.conversation.messages import media_marker, split_at_markers, template_messages

IMAGE, OTHER = ImageContent(data=b"1"), ImageContent(data=b"2")
RECORDING = AudioContent(data=b"3")


def turns(*contents: Any) -> list[Interaction]:
    """A conversation of the user and the assistant by turns."""
    return [
        Interaction("assistant" if index % 2 else "user", content)
        for index, content in enumerate(contents)
    ]


def content(*parts: Any) -> list[Content]:
    return [TextContent(part) if isinstance(part, str) else part for part in parts]


def texts(prompt: Any, *reads: str) -> list[str]:
    return [message["content"] for message in template_messages(prompt, reads).messages]


def test_markers_stand_where_the_media_stood() -> None:
    prompt = turns(content("a", IMAGE, OTHER, "b"), "c", content(RECORDING, "d", IMAGE))
    written = template_messages(prompt, {"image", "audio"})
    assert [split_at_markers(message["content"]) for message in written.messages] == [
        ["a", 0, 1, "b"],
        ["c"],
        [2, "d", 3],
    ]
    assert written.media == [IMAGE, OTHER, RECORDING, IMAGE]
    assert written.locations == [
        "messages[0].content[1]",
        "messages[0].content[2]",
        "messages[2].content[0]",
        "messages[2].content[2]",
    ]


def test_parts_of_text_are_separated() -> None:
    parts = content("Describe", "this", "one:\n", "a", " b", "", "c", IMAGE, "d", "e")
    written = template_messages([Interaction("user", parts)], {"image"}).messages[0]["content"]
    assert split_at_markers(written) == ["Describe\nthis\none:\na b\nc", 0, "d\ne"]
    for separator, expected in (("", "ab"), (" | ", "a | b")):
        message = Interaction("user", content("a", "b"))
        written = template_messages(message, part_separator=separator).messages[0]["content"]
        assert written == expected


def test_parts_of_an_answer_are_concatenated() -> None:
    assert texts(Interaction("assistant", content("a", "b"))) == ["ab"]


parts = st.lists(st.text(max_size=4) | st.sampled_from([IMAGE, OTHER, RECORDING]), max_size=6)


def separator(before: str, after: str) -> str:
    """The text between two parts of text."""
    return "" if not after or before[-1].isspace() or after[0].isspace() else "\n"


@given(st.lists(parts, min_size=1, max_size=4))
def test_splitting_at_markers_gives_the_parts_back(contents: list[list[Any]]) -> None:
    written = template_messages(
        [Interaction("user", content(*given_parts)) for given_parts in contents],
        {"image", "audio"},
    )
    assert len(written.media) == len(written.locations)
    for message, given_parts in zip(written.messages, contents, strict=True):
        expected: list[Any] = []
        for part in given_parts:
            if isinstance(part, str) and expected and isinstance(expected[-1], str):
                expected[-1] += f"{separator(expected[-1], part)}{part}"
            elif part != "":
                expected.append(part)
        split = split_at_markers(message["content"])
        found = [written.media[item] if isinstance(item, int) else item for item in split]
        assert found == expected
    numbers = [
        item
        for message in written.messages
        for item in split_at_markers(message["content"])
        if isinstance(item, int)
    ]
    assert numbers == list(range(len(written.media)))


def test_media_keep_their_order_in_adapted_messages() -> None:
    prompt = [
        Interaction("system", content("a", IMAGE)),
        Interaction("assistant", content(OTHER)),
        *(Interaction("user", content("b", medium)) for medium in (IMAGE, OTHER)),
        Interaction("system", content(IMAGE, "c")),
    ]
    messages = STRICTEST.adapt(template_messages(prompt, {"image"}).messages)
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    pieces = [piece for m in messages for piece in split_at_markers(m["content"])]
    assert pieces == ["a", 0, 1, "b", 2, "\n\nb", 3, "\n\n", 4, "c"]


def test_text_with_a_marker_is_refused() -> None:
    marker = media_marker(0)
    call = ToolCall("1", "f", {"x": marker})
    for prompt in (
        marker,
        [{"role": "user", "content": [{"type": "text", "text": f"x{marker}"}]}],
        [{"role": "user", "content": [{"type": "json", "value": {marker: 1}}]}],
        [{"role": "user", "content": [{"type": "file", "text": marker}]}],
        [Interaction("assistant", "x", reasoning=marker), Interaction("user", "x")],
        [Interaction("assistant", "x", tool_calls=[call]), Interaction("user", "x")],
    ):
        with pytest.raises(PromptError, match="marker") as caught:
            template_messages(prompt, {"image"})
        assert marker not in str(caught.value)


def test_marker_has_letters_and_digits_only() -> None:
    """Templates and tool notations escape other characters."""
    assert re.fullmatch("[a-z0-9]+", media_marker(12))


def test_media_of_history_become_placeholders() -> None:
    prompt = turns(
        content("See", IMAGE, OTHER, "and", IMAGE, RECORDING, RECORDING),
        "Nice.",
        "And now?",
    )
    assert texts(prompt)[0] == ("See\n[2 images]\nand\n[1 image]\n[2 audio recordings]")
    with_images = template_messages(prompt, {"image"})
    assert split_at_markers(with_images.messages[0]["content"]) == [
        "See", 0, 1, "and", 2, "\n[2 audio recordings]",
    ]  # fmt: skip
    assert with_images.media == [IMAGE, OTHER, IMAGE]


def test_placeholder_needs_no_line_break_beside_space() -> None:
    prompt = turns(content(IMAGE, " is it\n", IMAGE), "Yes.", "Sure?")
    assert texts(prompt)[0] == "[1 image] is it\n[1 image]"


@pytest.mark.parametrize("kind", ["image", "audio"])
def test_newest_turn_with_an_unread_medium_is_refused(kind: str) -> None:
    medium = {"image": IMAGE, "audio": RECORDING}[kind]
    prompt = turns(content("x", medium), "y", content("z", medium))
    with pytest.raises(MediaError, match=f"does not read {kind}") as caught:
        template_messages(prompt)
    assert caught.value.where == "messages[2].content[1]"
    assert caught.value.hint


def test_media_in_history_can_be_refused() -> None:
    prompt = turns(content("x", IMAGE), "y", "z")
    with pytest.raises(MediaError, match="media_in_history") as caught:
        template_messages(prompt, media_in_history="error")
    assert caught.value.where == "messages[0].content[1]"
    template_messages(prompt, {"image"}, "error")


def test_answer_that_is_continued_does_not_end_the_newest_turn() -> None:
    with pytest.raises(MediaError):
        template_messages(turns(content(IMAGE, "What is it?"), "It is a"))
    assert texts(turns(content(IMAGE), "A", "B", "C"))[0] == "[1 image]"


def test_results_of_tools_hold_media() -> None:
    """Numbers follow the order in which the results are written, which is that of the calls."""
    calls = [ToolCall("1", "screenshot"), ToolCall("2", "screenshot")]
    prompt = [
        Interaction("user", content(OTHER, "Look.")),
        Interaction("assistant", (), tool_calls=calls),
        Interaction("tool", content("second", IMAGE), tool_call_id="2"),
        {
            "role": "tool",
            "tool_call_id": "1",
            "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}],
        },
    ]
    written = template_messages(prompt, {"image"})
    assert [split_at_markers(message["content"]) for message in written.messages] == [
        [0, "Look."],
        [],
        [1],
        ["second", 2],
    ]
    assert [medium.data for medium in written.media] == [b"2", b"\0\0\0", b"1"]
    assert written.locations == [
        "messages[0].content[0]",
        "messages[3].content[0]",
        "messages[2].content[1]",
    ]
    # A text model reads the results as the newest turn.
    with pytest.raises(MediaError, match=r"messages\[3\]\.content\[0\]"):
        template_messages(prompt)
    assert texts([*prompt, Interaction("assistant", "Done."), Interaction("user", "Thanks")])[
        2:4
    ] == [
        "[1 image]",
        "second\n[1 image]",
    ]
