"""The engine's branch of the exception tree.

::

    ProxyError                          (state_machines.errors)
    └── EngineError
        ├── ModelError                  ``model``: what was asked for
        │   ├── ModelNotFoundError      no such directory, hub id or embedded model
        │   ├── ModelFormatError        files are there but cannot be read as a model
        │   └── ModelFetchError         the embedded model could not be downloaded
        ├── PromptError                 nothing to answer, or not a prompt at all
        │   └── PromptTooLongError      ``prompt_tokens``, ``context_length``
        ├── InvalidOptionError          ``option``: an unknown name or a value out of range
        ├── InvalidResponseFormatError  a response format that is not one
        ├── InvalidToolError            ``tool``, ``index``: what is no tool, or not with the others
        │   └── ToolSchemaError         its schema is refused: an error of schemas, too
        ├── CompileLimitError           compiling took too long; ``seconds``
        ├── RequestCancelledError       the request was cancelled while it was compiled
        ├── ToolArgumentsError          arguments that a tool does not take; ``tool``, ``arguments``
        ├── OutputValidationError       complete output that its own type refuses; ``text``
        ├── BatchError                  some of many requests failed; ``items``
        ├── PromptCacheFileError        a file that holds no prompt cache; ``path``
        │   └── PromptCacheMismatchError    it is another model's, or other options'; ``differs``
        └── EngineClosedError           a request after ``close()``
            └── EngineForkedError       the process was forked after an engine had been created

All of them but ``ToolArgumentsError``, ``OutputValidationError``, ``BatchError``,
``EngineClosedError`` and ``EngineForkedError`` are raised before any model time is spent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from state_machines.errors import ProxyError, SchemaError

__all__ = [
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
]


class EngineError(ProxyError):
    """Root of what ``proxy_engine`` raises on purpose."""


class ModelError(EngineError):
    """A model cannot be used. ``model`` is the path or hub id that was asked for."""

    def __init__(self, what: str, *, model: str, hint: str = "") -> None:
        super().__init__(what, hint=hint)
        self.model = model


class ModelNotFoundError(ModelError):
    """There is no model at that path or under that hub id."""


class ModelFormatError(ModelError):
    """The files are there, but no model can be made of them."""


class ModelFetchError(ModelError):
    """The embedded model could not be downloaded, or what came is not what was pinned."""


class PromptError(EngineError, ValueError):
    """A prompt that is empty or of no known form."""


class PromptTooLongError(PromptError):
    """The prompt leaves no room for even one token of answer."""

    def __init__(
        self, what: str, *, prompt_tokens: int, context_length: int, hint: str = ""
    ) -> None:
        super().__init__(what, hint=hint)
        self.prompt_tokens = prompt_tokens
        self.context_length = context_length


class InvalidOptionError(EngineError, ValueError):
    """An option or another argument is unknown, or its value is invalid.

    Attributes:
        option: Its name.
        pointer: A JSON Pointer (RFC 6901) from the arguments to the value at fault, such as
            ``/parts/text/max_tokens``.
    """

    def __init__(
        self, what: str, *, option: str, pointer: str | None = None, hint: str = ""
    ) -> None:
        super().__init__(what, hint=hint)
        self.option = option
        self.pointer = f"/{option}" if pointer is None else pointer


class InvalidResponseFormatError(EngineError, ValueError):
    """The response format is neither a schema, nor a type, nor a state machine."""


class InvalidToolError(EngineError, ValueError):
    """Something is not a tool, or cannot be one of the tools it was given with.

    ``tool`` is its name (``None`` where it has none), ``index`` its place in the list of tools
    (``None`` where it was not in one).
    """

    def __init__(
        self, what: str, *, tool: str | None = None, index: int | None = None, hint: str = ""
    ) -> None:
        super().__init__(what, hint=hint)
        self.tool = tool
        self.index = index

    def at(self, index: int) -> Self:
        """Return the same error with a place in the list of tools."""
        return type(self)(self.what, tool=self.tool, index=index, hint=self.hint)

    def _where(self) -> str:
        place = "" if self.index is None else f" {self.index}"
        name = "" if self.tool is None else f" {self.tool!r}"
        return f" (tool{place}{name})" if place or name else ""


class ToolSchemaError(InvalidToolError, SchemaError):
    """The schema of a tool's parameters is refused.

    ``pointer`` and ``keyword`` are those of the ``SchemaError`` that is the ``__cause__``, where
    there is one.
    """

    def __init__(
        self,
        what: str,
        *,
        tool: str | None = None,
        index: int | None = None,
        pointer: str | None = None,
        keyword: str | None = None,
        hint: str = "",
    ) -> None:
        SchemaError.__init__(self, what, pointer=pointer, keyword=keyword, hint=hint)
        self.tool = tool
        self.index = index

    def at(self, index: int) -> Self:
        """Return the same error with a place in the list of tools."""
        return self._copy(index=index)

    def located(self, pointer: str, keyword: str | None) -> Self:
        """Return the same error at a place in the schema."""
        return self._copy(pointer=pointer, keyword=self.keyword or keyword)

    def _copy(self, **changes: Any) -> Self:
        facts = {
            "tool": self.tool,
            "index": self.index,
            "pointer": self.pointer if self.is_located else None,
            "keyword": self.keyword,
            "hint": self.hint,
        }
        return type(self)(self.what, **(facts | changes))

    def _where(self) -> str:
        return f"{SchemaError._where(self)}{InvalidToolError._where(self)}"


class CompileLimitError(EngineError):
    """Compiling a response format or tools takes more processor time than ``seconds``.

    The limit covers the first mask and the first completion plan, too.
    """

    def __init__(self, what: str, *, seconds: float, hint: str = "") -> None:
        super().__init__(what, hint=hint)
        self.seconds = seconds


class RequestCancelledError(EngineError):
    """The request was cancelled before the engine began with it."""


class ToolArgumentsError(EngineError, ValueError):
    """A tool does not take these arguments.

    ``tool`` is its name, ``arguments`` what it was given; the refusal itself is ``__cause__``.
    """

    def __init__(self, what: str, *, tool: str, arguments: Any, hint: str = "") -> None:
        super().__init__(what, hint=hint)
        self.tool = tool
        self.arguments = arguments


class OutputValidationError(EngineError):
    """The output matches its grammar, but the final check refuses it.

    Happens where a type asks for more than its JSON Schema says, such as a pydantic validator
    written in Python. ``text`` is the output; the refusal itself is ``__cause__``.
    """

    def __init__(self, what: str, *, text: str, hint: str = "") -> None:
        super().__init__(what, hint=hint)
        self.text = text


class BatchError(EngineError):
    """Some requests of a batch failed; the first failure is ``__cause__``.

    ``items`` are what came of all of them, in order: ``BatchItem``, with a result or an error.
    """

    def __init__(self, what: str, *, items: Sequence[Any], hint: str = "") -> None:
        super().__init__(what, hint=hint)
        self.items = tuple(items)


class PromptCacheFileError(EngineError):
    """A prompt's cache cannot be saved to a file, or the file holds none. ``path`` names it."""

    def __init__(self, what: str, *, path: str, hint: str = "") -> None:
        super().__init__(what, hint=hint)
        self.path = path


class PromptCacheMismatchError(PromptCacheFileError):
    """A saved cache is that of another model, adapter or quantization, or of other options.

    ``differs``: what is not the same, by name, as it was saved and as it is here.
    """

    def __init__(
        self, what: str, *, path: str, differs: Mapping[str, tuple[str, str]], hint: str = ""
    ) -> None:
        super().__init__(what, path=path, hint=hint)
        self.differs = dict(differs)


class EngineClosedError(EngineError):
    """The engine was closed; it takes no more requests."""


class EngineForkedError(EngineClosedError):
    """The process was forked after an engine had been created.

    The engine's thread exists in the parent process only. MLX itself, once it was used, does not
    work in a forked child either, so a new engine cannot be created there.
    """
