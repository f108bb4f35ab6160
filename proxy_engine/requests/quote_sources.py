"""The texts that a request quotes from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from state_machines.json_schema.quotes import source_names

from ..answers.compiler import Answer
from ..answers.reader import AnswerReader
from ..answers.response_format import ResponseFormat
from ..conversation.content import TextContent
from ..conversation.encoded_prompt import EncodedPrompt
from ..conversation.interaction import Role
from ..conversation.messages import Prompt, to_interactions
from ..conversation.raw_prompt import RawPrompt
from ..errors import InvalidOptionError
from ..options.generation import GenerationOptions
from ..results.generation import Quotation
from ..tools import Tool

PROMPT = "prompt"
"""The source that is the text of the user's last message, unless the request gives another."""


def sources(prompt: Prompt | EncodedPrompt, options: GenerationOptions) -> dict[str, str]:
    """Return the sources of a request by name.

    Raises:
        PromptError: The prompt is malformed.
    """
    given = dict(options.sources or {})
    if PROMPT in given or isinstance(prompt, RawPrompt | EncodedPrompt):
        return given
    for message in reversed(to_interactions(prompt)):
        if message.role is Role.USER:
            texts = [part.text for part in message.content if isinstance(part, TextContent)]
            return {**given, PROMPT: "\n".join(texts)}
    return given


def quotations(reader: AnswerReader, answer: Answer) -> tuple[Quotation, ...]:
    """Return where the quotes of a complete answer stand.

    Raises:
        OutputValidationError: A string is no quote.
    """
    quotes = answer.response.quotes
    if quotes is None or reader.calls or not reader.values:
        return ()
    return quotes(reader.values[0][1])


def tool_sources(tools: Iterable[Tool]) -> set[str]:
    """Return the names of the sources that the parameters of tools are quoted from."""
    return {name for tool in tools for name in source_names(tool.parameters)}


def check_sources(
    given: Mapping[str, str] | None, response: ResponseFormat, tools: Iterable[Tool]
) -> None:
    """Raise ``InvalidOptionError`` for sources of a request from which nothing is quoted."""
    unused = sorted(set(given or ()) - response.sources - tool_sources(tools))
    if unused:
        raise InvalidOptionError(
            f"the response format quotes nothing from the source {unused[0]!r}",
            option="sources",
            hint="Name it in the schema with x-substring-of, or in a pydantic model with "
            "QuoteFrom.",
        )
