"""Structured generation on Apple MLX: a model's answer that is guaranteed to match its schema.

Importing this package loads neither mlx nor transformers; the first use of a name does.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .conversation.content import (
        AudioContent,
        Content,
        FileContent,
        ImageContent,
        JsonContent,
        TextContent,
        ToolCall,
        VideoContent,
    )
    from .conversation.interaction import Interaction, Role
    from .conversation.raw_prompt import RawPrompt
    from .engine import InferenceEngine
    from .errors import (
        BatchError,
        CompileLimitError,
        EngineClosedError,
        EngineError,
        EngineForkedError,
        InvalidOptionError,
        InvalidResponseFormatError,
        InvalidToolError,
        ModelError,
        ModelFetchError,
        ModelFormatError,
        ModelNotFoundError,
        OutputValidationError,
        PromptCacheFileError,
        PromptCacheMismatchError,
        PromptError,
        PromptTooLongError,
        RequestCancelledError,
        ToolArgumentsError,
        ToolSchemaError,
    )
    from .events import (
        Event,
        Finished,
        PartialValue,
        PromptProgress,
        ReasoningDelta,
        StreamEvent,
        TextDelta,
        TokenGenerated,
        ToolCallDelta,
        ToolCallFinished,
        ToolCallStarted,
    )
    from .generation.generate_step import generate_step
    from .options import GenerationOptions, PartOptions, ReasoningOptions
    from .prompt_cache import CacheOptions
    from .requests.batches import AsyncBatchStream, BatchItem, BatchRequest, BatchStream
    from .requests.streams import AsyncEventStream, EventStream
    from .results import AnswerPart, GenerationResult, Logprob, Span, TokenLogprobs, Usage
    from .tools import Tool, ToolChoice
    from .tools.tool_loop import ToolRun

_MODULES = {
    "requests.batches": ("AsyncBatchStream", "BatchItem", "BatchRequest", "BatchStream"),
    "engine": ("InferenceEngine",),
    "generation.generate_step": ("generate_step",),
    "errors": (
        "BatchError",
        "CompileLimitError",
        "EngineClosedError",
        "EngineError",
        "EngineForkedError",
        "InvalidOptionError",
        "InvalidResponseFormatError",
        "InvalidToolError",
        "ModelError",
        "ModelFetchError",
        "ModelFormatError",
        "ModelNotFoundError",
        "OutputValidationError",
        "PromptCacheFileError",
        "PromptCacheMismatchError",
        "PromptError",
        "PromptTooLongError",
        "RequestCancelledError",
        "ToolArgumentsError",
        "ToolSchemaError",
    ),
    "conversation.interaction": ("Interaction", "Role"),
    "conversation.content": (
        "AudioContent",
        "Content",
        "FileContent",
        "ImageContent",
        "JsonContent",
        "TextContent",
        "ToolCall",
        "VideoContent",
    ),
    "events": (
        "Event",
        "Finished",
        "PartialValue",
        "PromptProgress",
        "ReasoningDelta",
        "StreamEvent",
        "TextDelta",
        "TokenGenerated",
        "ToolCallDelta",
        "ToolCallFinished",
        "ToolCallStarted",
    ),
    "prompt_cache": ("CacheOptions",),
    "conversation.raw_prompt": ("RawPrompt",),
    "options": ("GenerationOptions", "ReasoningOptions", "PartOptions"),
    "results": ("GenerationResult", "Logprob", "AnswerPart", "Span", "TokenLogprobs", "Usage"),
    "requests.streams": ("AsyncEventStream", "EventStream"),
    "tools.tool_loop": ("ToolRun",),
    "tools": ("Tool", "ToolChoice"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "AnswerPart",
    "AsyncBatchStream",
    "AsyncEventStream",
    "AudioContent",
    "BatchError",
    "BatchItem",
    "BatchRequest",
    "BatchStream",
    "CacheOptions",
    "CompileLimitError",
    "Content",
    "EngineClosedError",
    "EngineError",
    "EngineForkedError",
    "Event",
    "EventStream",
    "FileContent",
    "Finished",
    "GenerationOptions",
    "GenerationResult",
    "ImageContent",
    "InferenceEngine",
    "Interaction",
    "InvalidOptionError",
    "InvalidResponseFormatError",
    "InvalidToolError",
    "JsonContent",
    "Logprob",
    "ModelError",
    "ModelFetchError",
    "ModelFormatError",
    "ModelNotFoundError",
    "OutputValidationError",
    "PartOptions",
    "PartialValue",
    "PromptCacheFileError",
    "PromptCacheMismatchError",
    "PromptError",
    "PromptProgress",
    "PromptTooLongError",
    "RawPrompt",
    "ReasoningDelta",
    "ReasoningOptions",
    "RequestCancelledError",
    "Role",
    "Span",
    "StreamEvent",
    "TextContent",
    "TextDelta",
    "TokenGenerated",
    "TokenLogprobs",
    "Tool",
    "ToolArgumentsError",
    "ToolCall",
    "ToolCallDelta",
    "ToolCallFinished",
    "ToolCallStarted",
    "ToolChoice",
    "ToolRun",
    "ToolSchemaError",
    "Usage",
    "VideoContent",
    "generate_step",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_MODULE_OF[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
