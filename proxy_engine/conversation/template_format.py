"""The tool format that a model's chat template writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from state_machines.tool_calls import FORMATS, ToolFormat

from .chat_template import chat_template
from .tool_format_detection import DEFAULT_FORMAT, detected_format, format_of

if TYPE_CHECKING:
    from mlx_lm.tokenizer_utils import TokenizerWrapper


def template_format(tokenizer: TokenizerWrapper) -> ToolFormat | None:
    """Return the format in which a model's chat template describes tools and writes calls.

    The format of an unknown model is a guess. It is compared with the template's text of a call.

    Returns:
        The format; ``None`` if the template writes another one, which is not known.
    """
    found = format_of(tokenizer)
    if found != FORMATS[DEFAULT_FORMAT] or detected_format(tokenizer) is not None:
        return found
    template = chat_template(tokenizer)
    if not template.describes_tools and template.calls is None:
        return found
    return found if template.writes_call_with(found.start) else None
