"""The tool format of a request, and what follows from it for its prompt and its answer."""

from __future__ import annotations

from dataclasses import dataclass

from mlx_lm.tokenizer_utils import TokenizerWrapper

from state_machines.tool_calls import ToolFormat

from ..answers.compiler import Dialect
from ..conversation.tool_format_detection import format_of, reasoning_of
from ..conversation.tool_text import ToolText, tool_text_of
from ..options.generation import GenerationOptions


@dataclass(frozen=True, slots=True)
class RequestDialect:
    """How tools and reasoning are written in a prompt and in its answer.

    Attributes:
        answers: The dialect of the answer.
        tool_text: Writes tools, calls and results in prompts as plain text.
        is_native: Whether the chat template describes tools in this format.
    """

    answers: Dialect
    tool_text: ToolText
    is_native: bool


class Dialects:
    """Returns the dialect of each request of one model.

    Args:
        tokenizer: The model's tokenizer.
        default: Format of tool calls, or its name; ``None``: detected from the tokenizer.
    """

    def __init__(self, tokenizer: TokenizerWrapper, default: str | ToolFormat | None) -> None:
        self._tokenizer = tokenizer
        self._native = format_of(tokenizer)
        self._default = self._of(format_of(tokenizer, default))

    def of(self, options: GenerationOptions) -> RequestDialect:
        """Return the dialect of a request.

        Raises:
            InvalidOptionError: There is no tool format of that name.
            CompositionError: The tool format cannot be written between the given delimiters.
        """
        if options.tool_format is None and options.tool_delimiters is None:
            return self._default
        tool_format = self._default.answers.tool_format
        if options.tool_format is not None:
            tool_format = format_of(self._tokenizer, options.tool_format)
        if options.tool_delimiters is not None:
            tool_format = tool_format.with_delimiters(*options.tool_delimiters)
        return self._of(tool_format)

    def _of(self, tool_format: ToolFormat) -> RequestDialect:
        return RequestDialect(
            Dialect(tool_format, reasoning_of(self._tokenizer, tool_format)),
            tool_text_of(tool_format),
            # The chat template describes tools in the model's own format only.
            is_native=tool_format == self._native,
        )
