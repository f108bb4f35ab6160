"""The engine's branch of the exception tree.

::

    ProxyError                              (state_machines.errors)
    └── EngineError
        ├── ModelError                      the model cannot be used
        │   ├── ModelNotFoundError          no such directory, repo id or embedded model
        │   ├── ModelFormatError            the files are no model
        │   │   └── UnsupportedArchitectureError    no library has its architecture
        │   ├── AdapterError                an adapter cannot be read, or belongs to another model
        │   ├── DraftModelError             a draft model or head does not fit
        │   └── ModelFetchError             the embedded model cannot be downloaded
        ├── MissingExtraError               a package of an optional extra is not installed
        ├── PromptError (V)                 the prompt is invalid
        │   ├── MediaError                  an image or a recording cannot be read
        │   └── PromptTooLongError          the context has no room for an answer
        ├── InvalidOptionError (V)          an option or argument is unknown or invalid
        ├── InvalidResponseFormatError (V)  the response format is none of the accepted kinds
        ├── InvalidToolError (V)            a tool is invalid
        │   └── ToolSchemaError             its schema is refused; also a SchemaError
        ├── CompileLimitError               compiling takes too long
        ├── RequestCancelledError           the request was cancelled while it was compiled
        ├── ToolArgumentsError (V)          arguments do not match a tool's parameters
        ├── ToolFailedError                 a tool reports that it has failed
        ├── EventLoopBlockedError           a tool needs the event loop that waits for it
        ├── OutputValidationError           complete output that a validator rejects
        ├── BatchError                      requests of a batch failed
        ├── RecordError (V)                 a record of an extraction cannot be read
        ├── EarlierRunError                 a record failed before an extraction was resumed
        ├── OutputFileError                 an output file cannot be written
        │   └── OutputFileRefusedError      it has contents that the run must not change
        ├── PromptCacheFileError            a file is no prompt cache, or none can be written
        │   └── PromptCacheMismatchError    the file belongs to another model
        └── EngineClosedError               the engine is closed
            ├── EngineForkedError           the process was forked after an engine was created
            └── DistributedError            a rank of a distributed run has failed

Errors marked (V) are also ``ValueError``s. ``ToolArgumentsError``, ``ToolFailedError``,
``EventLoopBlockedError``, ``OutputValidationError``, ``BatchError``, ``EngineClosedError`` with its
subclasses, and ``OutputFileError`` can be raised while the model runs, all others before.
``RecordError`` and ``EarlierRunError`` are stored with their records and not raised.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Self

from state_machines.errors import CompositionError as CompositionError
from state_machines.errors import GrammarBudgetError as GrammarBudgetError
from state_machines.errors import MaxTokensTooSmallError as MaxTokensTooSmallError
from state_machines.errors import ProxyError as ProxyError
from state_machines.errors import SchemaError as SchemaError
from state_machines.errors import VocabularyError as VocabularyError


class EngineError(ProxyError):
    """Base of the errors of ``proxy_engine``."""


@dataclass(eq=False, repr=False, kw_only=True)
class ModelError(EngineError):
    """A model cannot be used.

    Attributes:
        model: The requested path or Hugging Face repo id.
    """

    model: str


class ModelNotFoundError(ModelError):
    """There is no model at that path or with that Hugging Face repo id."""


class ModelFormatError(ModelError):
    """The files cannot be read as a model."""


class UnsupportedArchitectureError(ModelFormatError):
    """No library supports the model's architecture, or it requires code of its checkpoint."""


class AdapterError(ModelError):
    """An adapter cannot be read, or it belongs to another model.

    Attributes:
        adapter: Directory of the adapter.
        reason: Why it cannot be used.
    """

    def __init__(
        self, reason: str, *, adapter: str | os.PathLike[str], model: str, hint: str = ""
    ) -> None:
        path = os.fspath(adapter)
        what = f"the adapter {path!r} cannot be used with {model!r}: {reason}"
        super().__init__(what, model=model, hint=hint)
        self.adapter = path
        self.reason = reason


@dataclass(eq=False, repr=False, kw_only=True)
class DraftModelError(ModelError):
    """The draft model or head does not fit the model that it should draft for.

    Attributes:
        target: Path or name of that model.
        token_id: The first token id that differs in the vocabularies; ``None``: a head has other
            layers.
    """

    target: str
    token_id: int | None


class ModelFetchError(ModelError):
    """The embedded model cannot be downloaded, or the file has another checksum."""


@dataclass(eq=False, repr=False, kw_only=True)
class MissingExtraError(EngineError, ImportError):
    """A package of an optional extra, or a backend of MLX, is not installed or cannot be loaded.

    Attributes:
        extra: The extra that contains the package.
    """

    extra: str

    def __post_init__(self) -> None:
        self.hint = self.hint or f"Run `pip install 'proxy-engine[{self.extra}]'`."


@dataclass(eq=False, repr=False, kw_only=True)
class PromptError(EngineError, ValueError):
    """The prompt is empty, malformed, or of an unknown type.

    Attributes:
        where: The location in the prompt, such as ``"messages[3].content[1]"``; empty if it is
            unknown, or the prompt as a whole.
    """

    where: str = ""

    def at(self, where: str) -> Self:
        """Return the same error with ``where`` before its location."""
        located = copy(self)
        located.where = f"{where}.{self.where}" if where and self.where else where or self.where
        return located

    def __str__(self) -> str:
        text = super().__str__()
        return f"{self.where}: {text}" if self.where else text


@dataclass(eq=False, repr=False, kw_only=True)
class MediaError(PromptError):
    """An image or an audio recording cannot be read, or exceeds a limit.

    Attributes:
        limit: The option of ``MediaOptions`` that refuses it; ``None`` if none does.
    """

    limit: str | None = None


@dataclass(eq=False, repr=False, kw_only=True)
class PromptTooLongError(PromptError):
    """The prompt leaves no room for an answer.

    Attributes:
        prompt_tokens: Tokens of the prompt.
        context_length: Tokens of the model's context.
    """

    prompt_tokens: int
    context_length: int


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


@dataclass(eq=False, repr=False, kw_only=True)
class InvalidToolError(EngineError, ValueError):
    """A tool is invalid, or conflicts with another tool.

    Attributes:
        tool: The tool's name, if it has one.
        index: Its index in the list of tools, if it is in one.
        others: The errors of other tools of the same list.
    """

    tool: str | None = None
    index: int | None = None
    others: tuple[InvalidToolError, ...] = ()

    def at(self, index: int) -> Self:
        """Return the same error with an index in the list of tools."""
        located = copy(self)
        located.index = index
        return located

    def named(self, tool: str) -> Self:
        """Return the same error with the name of the tool."""
        named = copy(self)
        named.tool = tool
        return named

    def _where(self) -> str:
        place = "" if self.index is None else f" {self.index}"
        name = "" if self.tool is None else f" {self.tool!r}"
        return f" (tool{place}{name})" if place or name else ""


class ToolSchemaError(InvalidToolError, SchemaError):
    """The schema of a tool's parameters is refused.

    ``pointer`` and ``keyword`` are those of the ``SchemaError`` that is the ``__cause__``, if
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

    def _where(self) -> str:
        return f"{SchemaError._where(self)}{InvalidToolError._where(self)}"


@dataclass(eq=False, repr=False, kw_only=True)
class CompileLimitError(EngineError):
    """Compiling the response format and tools takes more processor time than the limit.

    The limit includes the first mask and the first completion plan.

    Attributes:
        seconds: The limit.
    """

    seconds: float


class RequestCancelledError(EngineError):
    """The request was cancelled before it was queued."""


@dataclass(eq=False, repr=False, kw_only=True)
class ToolArgumentsError(EngineError, ValueError):
    """Arguments do not match a tool's parameters; the reason is ``__cause__``.

    Attributes:
        tool: The tool's name.
        arguments: The arguments.
    """

    tool: str
    arguments: Any


@dataclass(eq=False, repr=False, kw_only=True)
class ToolFailedError(EngineError):
    """A tool reports that it has failed, with a text for the model.

    Attributes:
        tool: The tool's name.
    """

    tool: str


class EventLoopBlockedError(EngineError):
    """A tool needs the event loop of the thread that waits for the tool."""


@dataclass(eq=False, repr=False, kw_only=True)
class OutputValidationError(EngineError):
    """The output matches its grammar, but a validator rejects it; the reason is ``__cause__``.

    This happens if a type has constraints that its JSON Schema lacks, such as a validator in
    Python.

    Attributes:
        text: The output.
        attempts: The ``RejectedAnswer`` of each attempt (``max_retries``), this one last; empty if
            the output is not complete.
    """

    text: str
    attempts: Sequence[Any] = ()


@dataclass(eq=False, repr=False, kw_only=True)
class BatchError(EngineError):
    """Requests of a batch failed; the first error is ``__cause__``.

    Attributes:
        items: The ``BatchItem`` of each request, in order.
    """

    items: Sequence[Any]


@dataclass(eq=False, repr=False, kw_only=True)
class RecordError(EngineError, ValueError):
    """A record of an extraction has no text or image that can be read.

    Attributes:
        field: The field at fault; ``None`` if the record has no fields.
    """

    field: str | None = None


@dataclass(eq=False, repr=False, kw_only=True)
class EarlierRunError(EngineError):
    """A record of an extraction failed in the run that is resumed; read from the output file.

    Attributes:
        type: The name of the exception's class.
    """

    type: str


@dataclass(eq=False, repr=False, kw_only=True)
class OutputFileError(EngineError):
    """An output file cannot be written, for example on a full disk. Its rows are whole.

    Attributes:
        path: The file.
    """

    path: str


class OutputFileRefusedError(OutputFileError):
    """An output file exists, is an input, or was not written by this extraction; it is unchanged.

    Raised before the model runs.
    """


@dataclass(eq=False, repr=False, kw_only=True)
class PromptCacheFileError(EngineError):
    """A prompt cache cannot be saved, or a file holds none.

    Attributes:
        path: The file.
    """

    path: str


@dataclass(eq=False, repr=False, kw_only=True)
class PromptCacheMismatchError(PromptCacheFileError):
    """A saved prompt cache belongs to another model, adapter, quantization or other cache options.

    Attributes:
        differs: The differing properties by name: their values in the file and here.
    """

    differs: Mapping[str, tuple[str, str]]


class EngineClosedError(EngineError):
    """The engine is closed and accepts no requests."""


class EngineForkedError(EngineClosedError):
    """The process was forked after an engine was created.

    The engine's thread exists in the parent process only, and MLX does not work in a forked child
    once it was used, so no new engine can be created there either.
    """


@dataclass(eq=False, repr=False, kw_only=True)
class DistributedError(EngineClosedError):
    """A rank of a distributed run has failed, so that no rank can continue.

    Attributes:
        rank: The rank that failed; ``None`` if it is unknown.
    """

    rank: int | None = None
