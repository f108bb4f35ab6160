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
        ├── IncompleteOutputError       structured output cut off; ``text``, ``tokens``
        ├── OutputValidationError       complete output that its own type refuses; ``text``
        └── EngineClosedError           a request after ``close()``

All of them but the last three are raised before any model time is spent.
"""

from __future__ import annotations

from state_machines.errors import ProxyError

__all__ = [
    "EngineClosedError",
    "EngineError",
    "IncompleteOutputError",
    "InvalidOptionError",
    "InvalidResponseFormatError",
    "ModelError",
    "ModelFetchError",
    "ModelFormatError",
    "ModelNotFoundError",
    "OutputValidationError",
    "PromptError",
    "PromptTooLongError",
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


class PromptError(EngineError):
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
    """``option`` is unknown or has a value that means nothing."""

    def __init__(self, what: str, *, option: str, hint: str = "") -> None:
        super().__init__(what, hint=hint)
        self.option = option


class InvalidResponseFormatError(EngineError):
    """The response format is neither a schema, nor a type, nor a state machine."""


class IncompleteOutputError(EngineError):
    """Structured output was cut off before it was whole.

    ``text`` is what was written so far, ``tokens`` how many tokens that took.
    """

    def __init__(self, what: str, *, text: str, tokens: int, hint: str = "") -> None:
        super().__init__(what, hint=hint)
        self.text = text
        self.tokens = tokens


class OutputValidationError(EngineError):
    """The output matches its grammar, but the final check refuses it.

    Happens where a type asks for more than its JSON Schema says, such as a pydantic validator
    written in Python. ``text`` is the output; the refusal itself is ``__cause__``.
    """

    def __init__(self, what: str, *, text: str, hint: str = "") -> None:
        super().__init__(what, hint=hint)
        self.text = text


class EngineClosedError(EngineError):
    """The engine was closed; it takes no more requests."""
