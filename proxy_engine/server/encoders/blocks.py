"""The common base of the encoders that write an answer as a list of items or blocks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

from state_machines import Vocabulary

from ...results.events import (
    ReasoningDelta,
    StreamEvent,
    TextDelta,
    ToolCallDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolInputDelta,
)
from .encoder import Answer, AnswerEncoder, EncoderOptions, Fields


class BlocksEncoder(AnswerEncoder):
    """Encodes one answer as blocks: reasoning, texts and calls. One is in progress at a time.

    ``_blocks`` are the blocks so far. The last one is in progress if ``_is_open``.
    """

    def __init__(self, vocabulary: Vocabulary, options: EncoderOptions) -> None:
        super().__init__(vocabulary, options)
        self._blocks: list[Fields] = []
        self._is_open = False
        # Of the last block; `None` if it is a call.
        self._is_reasoning: bool | None = None

    @abstractmethod
    def _text_block(self, is_reasoning: bool) -> Fields:
        """Return an empty block of reasoning or text."""

    @abstractmethod
    def _call_block(self, event: ToolCallStarted) -> Fields:
        """Return the block of a call, without its arguments."""

    @abstractmethod
    def _opened(self, block: Fields) -> Iterator[bytes]:
        """Return the frames for a new block."""

    @abstractmethod
    def _extended(self, block: Fields, text: str) -> Iterator[bytes]:
        """Add text to a block, and return the frames for it."""

    @abstractmethod
    def _closed(self, block: Fields, is_complete: bool) -> Iterator[bytes]:
        """Complete a block, and return the frames for it."""

    @property
    def _answer(self) -> Answer:
        return self._answers[0]

    def _content(self, index: int, event: StreamEvent[Any]) -> Iterator[bytes]:
        match event:
            case TextDelta(text=text):
                yield from self._add_text(text, is_reasoning=False)
            case ReasoningDelta(text=text):
                if self._options.reasoning:
                    yield from self._add_text(text, is_reasoning=True)
            case ToolCallStarted():
                yield from self._open(self._call_block(event))
            case ToolCallDelta(arguments=text) | ToolInputDelta(input=text):
                yield from self._extended(self._blocks[-1], text)
            case ToolCallFinished():
                yield from self._close()

    def _add_text(self, text: str, *, is_reasoning: bool) -> Iterator[bytes]:
        if not self._is_open or self._is_reasoning is not is_reasoning:
            yield from self._open(self._text_block(is_reasoning))
            self._is_reasoning = is_reasoning
        if text:
            yield from self._extended(self._blocks[-1], text)

    def _open(self, block: Fields) -> Iterator[bytes]:
        yield from self._close()
        self._blocks.append(block)
        self._is_open, self._is_reasoning = True, None
        yield from self._opened(block)

    def _close(self, *, is_complete: bool = True) -> Iterator[bytes]:
        if self._is_open:
            self._is_open = False
            yield from self._closed(self._blocks[-1], is_complete)
