"""Reading lines."""

from __future__ import annotations

import io
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from proxy_engine.bridge.commands import ProtocolError
from proxy_engine.bridge.process import read_lines
from proxy_engine.bridge.session import TokenDecoder
from state_machines import Vocabulary

BYTES = st.lists(st.sampled_from([b"\n", b"a", b"bcd", b"\n\n", b"\xff"])).map(b"".join)


@given(BYTES, st.integers(1, 6))
def test_long_lines_are_replaced_by_an_error(data: bytes, limit: int) -> None:
    found = list(read_lines(io.BytesIO(data), limit))
    assert [line if isinstance(line, bytes) else None for line in found] == [
        line if len(line) <= limit else None for line in data.splitlines(keepends=True)
    ]


def test_too_long_line_is_reported_early_and_discarded() -> None:
    class Endless(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            buffer[:] = b"x" * len(buffer)
            return len(buffer)

    assert isinstance(next(read_lines(io.BufferedReader(Endless()), 1000)), ProtocolError)


# Streaming detokenization.


FORMS = [bytes([byte]) for byte in "aé€𝄞".encode()]
FORMS += [b"abc", "é".encode(), "é".encode() + b"\xe2", b"\xac\xf0", b"\x9d\x84", b"\xff", b""]
SPECIAL, END = len(FORMS), len(FORMS) + 1
FORMS += [Vocabulary.SPECIAL_MARK + b"<tool>", Vocabulary.SPECIAL_MARK + b"</s>"]


def decoded(token_ids: list[int]) -> list[list[tuple[int, str]]]:
    """The tokens and texts that each token yields, and at last the end."""
    texts = TokenDecoder(FORMS, {END})
    steps = [*map(texts.add, token_ids), texts.finish()]
    return [[(reply["token_id"], reply["token"]) for reply in step] for step in steps]


@given(st.lists(st.integers(0, len(FORMS) - 1)))
def test_joined_texts_are_the_decoded_bytes(token_ids: list[int]) -> None:
    told = [token for step in decoded(token_ids) for token in step]
    assert [token_id for token_id, _ in told] == token_ids
    written = b"".join(
        FORMS[token_id].removeprefix(Vocabulary.SPECIAL_MARK)
        for token_id in token_ids
        if token_id != END
    )
    assert "".join(text for _, text in told) == written.decode("utf-8", "replace")


@given(st.text("aé€𝄞"))
def test_tokens_are_sent_when_their_last_character_is_complete(text: str) -> None:
    token_ids = [FORMS.index(bytes([byte])) for byte in text.encode()]
    steps = decoded(token_ids)
    assert steps[-1] == []
    ends = [step for step in steps if step]
    assert [[text for _, text in step][-1] for step in ends] == list(text)
    assert all(text == "" for step in ends for _, text in step[:-1])


def test_cut_character_is_a_replacement_character() -> None:
    euro = FORMS.index(b"\xe2")
    assert decoded([euro]) == [[], [(euro, "�")]]
    assert decoded([euro, END]) == [[], [], [(euro, ""), (END, "�")]]


def test_end_token_is_empty_and_marker_has_its_name() -> None:
    assert decoded([SPECIAL, END]) == [[(SPECIAL, "<tool>")], [(END, "")], []]
