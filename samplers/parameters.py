"""The sampling parameters of a request, declared once as a pydantic model."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    TypeAdapter,
    ValidationError,
    model_validator,
)

_MAX_SHOWN = 200


class InvalidSamplingParameterError(ValueError):
    """A sampling parameter, or an argument of a transform, is invalid.

    Attributes:
        parameter: Its name.
        value: The invalid value.
        expected: A description of valid values.
    """

    def __init__(self, parameter: str, value: object, expected: str) -> None:
        super().__init__(parameter, value, expected)
        self.parameter = parameter
        self.value = value
        self.expected = expected

    def __str__(self) -> str:
        try:
            text = repr(self.value)
        except Exception:
            # `repr` raises for integers of more than 4,300 digits and for deeply nested values.
            text = f"<{type(self.value).__name__}>"
        shown = text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 1]}…"
        return f"{self.parameter} must be {self.expected}, not {shown}"


class ParameterModel(BaseModel):
    """Base of immutable parameter models.

    Validation is strict: numbers are neither parsed from strings nor taken from Booleans. NumPy
    numbers are converted to Python numbers. The constructor raises what :meth:`_refusal` returns;
    pydantic's own methods, such as ``model_validate``, raise ``pydantic.ValidationError``.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )

    if not TYPE_CHECKING:  # Type checkers derive the signature from the fields.

        def __init__(self, **values: Any) -> None:
            try:
                super().__init__(**values)
            except ValidationError as error:
                # Pydantic's error repeats the same facts, with its own names for types.
                raise self._refusal(error, values) from None

        # Nested models are validated without calling the constructor, so that errors in them
        # are located from the outermost model.
        __init__.__pydantic_base_init__ = True

    @model_validator(mode="before")
    @classmethod
    def _convert_numpy_numbers(cls, values: Any) -> Any:
        if isinstance(values, dict):
            return {name: _python_number(value) for name, value in values.items()}
        return values

    @classmethod
    def _refusal(cls, error: ValidationError, values: Mapping[str, Any]) -> ValueError:
        """Return the exception that the constructor raises for pydantic's ``error``."""
        fact = error.errors(include_url=False)[0]
        name = str(fact["loc"][0]) if fact["loc"] else cls.__name__
        expected = fact["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
        return InvalidSamplingParameterError(name, values.get(name), expected)


def _python_number(value: Any) -> Any:
    """Convert NumPy integers and floats; return everything else unchanged."""
    if isinstance(value, bool | int | float) or not isinstance(value, Real):
        return value
    return int(value) if isinstance(value, Integral) else float(value)


def _zero_or_not_tiny(temperature: float) -> float:
    if 0 < temperature < 1e-5:
        raise ValueError("0 or a number in [1e-05, 100]")
    return temperature


_Temperature = Annotated[float, AfterValidator(_zero_or_not_tiny)]
_TopK = Annotated[int, AfterValidator(lambda top_k: max(0, top_k))]
_TokenIdText = Annotated[str, Field(pattern="^[0-9]{1,10}$")]
_BIAS_PAIRS = TypeAdapter(
    tuple[
        tuple[
            Annotated[int, Field(ge=0, strict=True)],
            Annotated[float, Field(ge=-10_000, le=10_000, strict=True)],
        ],
        ...,
    ]
)


def _bias_pairs(bias: Any) -> tuple[tuple[int, float], ...]:
    """Convert biases to pairs, ordered by token id.

    Names of JSON objects are strings, so token ids may also be strings of digits.
    """
    try:
        items = bias.items() if isinstance(bias, Mapping) else bias
        pairs = _BIAS_PAIRS.validate_python(
            tuple((_token_id(token_id), _python_number(number)) for token_id, number in items)
        )
    except (TypeError, ValueError):
        pairs = None
    if pairs is None or len(dict(pairs)) < len(pairs):
        raise ValueError("should be a mapping of distinct token ids to numbers in [-10000, 10000]")
    return tuple(sorted(pairs))


def _token_id(key: Any) -> Any:
    is_text = isinstance(key, str) and key.isascii() and key.isdecimal() and len(key) <= 10
    return int(key) if is_text else _python_number(key)


LogitBias = Annotated[
    Mapping[int, float] | tuple[tuple[int, float], ...],
    PlainValidator(_bias_pairs, json_schema_input_type=dict[_TokenIdText, float]),
]


class SamplingParameters(ParameterModel):
    """How tokens are chosen. Immutable and hashable.

    ``logit_bias`` is stored as pairs in order of the token ids.

    Raises:
        InvalidSamplingParameterError: A value is invalid. It is a ``ValueError``.
    """

    temperature: _Temperature = Field(default=0.0, ge=0, le=100)
    """0 selects the most likely token. Other values, from 1e-5, divide log-probabilities."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """Keep the fewest most likely tokens whose total probability reaches this; 1 is off."""
    top_k: _TopK = Field(default=0, ge=-1)
    """Keep this many most likely tokens; 0 and -1 are off."""
    min_p: float = Field(default=0.0, ge=0, le=1)
    """Keep tokens with at least this fraction of the highest probability; 0 is off."""
    min_tokens_to_keep: int = Field(default=1, ge=1)
    """Number of most likely tokens that `min_p` never drops."""
    xtc_probability: float = Field(default=0.0, ge=0, le=1)
    """Probability, at each token, that likely tokens are excluded to make the text less predictable
    (XTC, "exclude top choices"): all with at least `xtc_threshold` but the least likely of them.
    Line feeds and end tokens are never excluded. 0 is off."""
    xtc_threshold: float = Field(default=0.1, ge=0, le=1)
    """Probability from which on `xtc_probability` excludes tokens. Above 0.5 it excludes none."""
    repetition_penalty: float = Field(default=1.0, ge=0.01, le=100)
    """Divides positive and multiplies negative logits of tokens in the window; 1 is off."""
    presence_penalty: float = Field(default=0.0, ge=-100, le=100)
    """Subtracted from the logits of tokens of the answer in the window; 0 is off."""
    frequency_penalty: float = Field(default=0.0, ge=-100, le=100)
    """Subtracted from the logits of tokens of the answer in the window, once per occurrence."""
    repetition_context_size: int = Field(default=64, ge=1)
    """Number of latest tokens that all penalties consider."""
    logit_bias: LogitBias = ()
    """Numbers in [-10000, 10000] that are added to logits, by token id."""
    seed: int | None = Field(default=None, ge=0, lt=2**64)
    """Seed of the random numbers; without it, each request draws different ones."""

    @property
    def bias_pairs(self) -> tuple[tuple[int, float], ...]:
        """``logit_bias`` as (token id, number) pairs in order of their ids."""
        pairs = self.logit_bias
        return pairs if isinstance(pairs, tuple) else tuple(pairs.items())

    @property
    def has_filters(self) -> bool:
        """Whether ``top_p``, ``min_p``, ``top_k`` or XTC may exclude tokens that are not greedy."""
        filters = self.top_p < 1 or self.min_p > 0 or self.top_k > 0 or self.has_xtc
        return filters and self.temperature > 0

    @property
    def has_xtc(self) -> bool:
        """Whether XTC may exclude tokens."""
        return self.xtc_probability > 0 and self.temperature > 0

    @property
    def has_penalties(self) -> bool:
        """Whether the distribution of a token depends on the tokens before it by penalties."""
        penalties = self.repetition_penalty, self.presence_penalty, self.frequency_penalty
        return penalties != (1, 0, 0)
