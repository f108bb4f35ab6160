"""Validation of outputs by ``jsonschema``, an independent implementation, within bounds of time.

Masks admit only outputs of the schema. Validation must neither refuse a correct output nor take
long:

* Patterns are ECMA-262 and are searched by the project's own machines, in linear time.
  ``jsonschema`` uses Python's ``re``, another dialect, which may backtrack exponentially. Beside
  ``patternProperties``, ``unevaluatedProperties`` is left to the masks for that reason.
* Numbers are compared as decimals: 0.3 is a multiple of 0.1.
* Nothing is fetched.
* If the time is over, or ``jsonschema`` cannot decide, the output is accepted and a warning is
  logged.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from fractions import Fraction
from functools import cache
from typing import Any

import attrs
import jsonschema
from jsonschema.validators import extend, validator_for
from referencing import Registry

from state_machines.budgets import spend, step_budget
from state_machines.grammar.quote_sources import find_quote
from state_machines.quotes import SUBSTRING_OF, SUBSTRING_UNIT
from state_machines.regex import compile_pattern

from .checks import reference_token
from .results.parts import Quotation

_LOGGER = logging.getLogger(__name__)

MAX_SECONDS = 1.0
"""Time of a validation. Beyond it, a value is accepted: the masks were exact."""

_MAX_EXPONENT = 400
"""Largest exponent of a number that is compared as a decimal; others are doubles."""

_STEPS_PER_SCHEMA = 50
"""Steps of the work budget for each schema that a value is held against."""

_Errors = Iterator[jsonschema.ValidationError]


class _GaveUpError(Exception):
    """The value is not decided."""


class _Decimal(Fraction):
    """A number with a fraction; errors show it as a float."""

    def __repr__(self) -> str:
        return repr(float(self))


class JsonValidator:
    """Validates JSON values against a schema. Thread-safe.

    Cheap to create: the schema is read as far as values need it.

    Args:
        schema: The schema, of the draft in its ``$schema``; default: 2020-12.
        registry: Documents that references may name; nothing is fetched.
        sources: The texts that strings are quoted from; ``None``: quotes are not checked.
    """

    def __init__(
        self,
        schema: Mapping[str, Any] | bool,
        *,
        registry: Registry[Any] | None = None,
        sources: Mapping[str, str] | None = None,
    ) -> None:
        self._schema = schema
        self._sources = sources
        self._registry: Registry[Any] = Registry() if registry is None else registry
        self._validator: Any = None

    def validate(self, value: Any) -> None:
        """Validate a value. If the time is over, accept it and log a warning.

        Raises:
            jsonschema.ValidationError: The value does not match the schema.
        """
        try:
            text = json.dumps(value)
        except RecursionError as error:
            _gave_up(error)
        else:
            self._judge(text)

    def read(self, text: str) -> Any:
        """Parse and validate a JSON text. Numbers are validated as decimals.

        Raises:
            ValueError: The text is not JSON.
            RecursionError: The text is nested too deeply.
            jsonschema.ValidationError: The value does not match the schema.
        """
        value = json.loads(text)
        self._judge(text)
        return value

    def quotes_in(self, text: str) -> tuple[Quotation, ...]:
        """Parse and validate a JSON text, and return where its quotes stand in the sources.

        Raises:
            As :meth:`read`.
        """
        texts = self._judge(text)
        return tuple(quote for quoted in texts for _, quote in sorted(quoted.found.items()))

    def _judge(self, text: str) -> list[_QuotedText]:
        """Validate a JSON text, and return its strings with their quotes in document order."""
        deadline = time.perf_counter() + MAX_SECONDS

        def check() -> None:
            if time.perf_counter() > deadline:
                raise _GaveUpError("it takes too long")

        value = json.loads(text, parse_float=_exactly)
        texts: list[_QuotedText] = []
        error = None
        try:
            if self._sources is not None:
                value = _with_quotes(value, "", self._sources, texts)
            if self._validator is None:
                self._validator = self._of_draft()
            with step_budget(checkpoint=check):
                error = next(self._validator.iter_errors(value), None)
        except Exception as reason:
            # `jsonschema` cannot read some schemas that compile, in parts that have no effect.
            _gave_up(reason)
        if error is not None:
            raise error
        return texts

    def _of_draft(self) -> Any:
        _check_dialect(self._schema)
        draft = validator_for(self._schema, default=jsonschema.Draft202012Validator)
        known: dict[int, Any] = {}
        schema = _with_decimals(self._schema, known)
        documents: Mapping[str, Any] = self._registry
        exact = [
            (uri, attrs.evolve(document, contents=_with_decimals(document.contents, known)))
            for uri, document in documents.items()
        ]
        has_patterns = any("patternProperties" in part for part in known.values())
        registry: Registry[Any] = Registry().with_resources(exact)
        return _bounded(draft, has_patterns=has_patterns)(schema, registry=registry)


@cache
def _bounded(draft: Any, *, has_patterns: bool) -> Any:
    """Return a draft's class of validators, whose work is counted in steps."""
    # A keyword that only later drafts have is not checked.
    later = jsonschema.Draft202012Validator.VALIDATORS.keys() - draft.VALIDATORS.keys()
    keywords = {name: keyword for name, keyword in _KEYWORDS.items() if name not in later}
    if has_patterns and "unevaluatedProperties" in draft.VALIDATORS:
        # ``jsonschema`` searches for the patterns of evaluated properties with Python's ``re``.
        keywords["unevaluatedProperties"] = _is_undecided
    bounded: Any = extend(draft, keywords)
    evolve = bounded.evolve

    def evolve_within_bounds(self: Any, **changes: Any) -> Any:
        _check_dialect(changes.get("schema"))
        spend(_STEPS_PER_SCHEMA)
        evolved = evolve(self, **changes)
        if isinstance(evolved, type(self)):
            return evolved
        # The subschema names a draft.
        other: Any = type(evolved)
        bounded_other = _bounded(other, has_patterns=has_patterns)
        return bounded_other(evolved.schema, _resolver=evolved._resolver)

    bounded.evolve = evolve_within_bounds
    return bounded


def _gave_up(reason: Exception) -> None:
    _LOGGER.warning("gave up the validation of a value: %s: %.200s", type(reason).__name__, reason)


def _check_dialect(schema: Any) -> None:
    """Raise for a schema of a dialect of the caller's own."""
    default: Any = None
    if isinstance(schema, dict) and "$schema" in schema and not validator_for(schema, default):
        raise _GaveUpError("its dialect is no draft")


def _is_undecided(validator: Any, expected: Any, instance: Any, schema: Any) -> _Errors:
    return iter(())


def _with_decimals(value: Any, known: dict[int, Any]) -> Any:
    """Return a JSON value with exact numbers. Parts that are shared are so in the result.

    Args:
        value: The value.
        known: The results for parts, by ``id``.
    """
    if isinstance(value, float):
        return _exactly(repr(value))
    if not isinstance(value, list | dict):
        return value
    if id(value) not in known:
        known[id(value)] = (
            [_with_decimals(part, known) for part in value]
            if isinstance(value, list)
            else {name: _with_decimals(part, known) for name, part in value.items()}
        )
    return known[id(value)]


def _exactly(text: str) -> int | float | Fraction:
    """Return the number that a JSON text with a fraction or an exponent stands for."""
    _, _, exponent = text.lower().partition("e")
    if len(exponent) > 5 or (exponent and abs(int(exponent)) > _MAX_EXPONENT):
        return float(text)
    number = _Decimal(text)
    return number.numerator if number.denominator == 1 else number


def _finds(pattern: str, text: str) -> bool:
    """Return whether a pattern of ECMA-262 matches somewhere in a text.

    Raises:
        PatternError: The pattern is invalid, or its language cannot be computed.
    """
    language = compile_pattern(pattern, search=True)
    for character in text:
        point = ord(character)
        for members, target in language.transitions:
            if point in members:
                language = target
                break
        else:
            return False
    return language.nullable


def _pattern(validator: Any, expected: Any, instance: Any, schema: Any) -> _Errors:
    if isinstance(instance, str) and not _finds(expected, instance):
        yield jsonschema.ValidationError(f"{instance!r} does not match {expected!r}")


def _pattern_properties(validator: Any, expected: Any, instance: Any, schema: Any) -> _Errors:
    if isinstance(instance, dict):
        for pattern, subschema in expected.items():
            for name, value in instance.items():
                if _finds(pattern, name):
                    yield from validator.descend(value, subschema, path=name, schema_path=pattern)


def _additional_properties(validator: Any, expected: Any, instance: Any, schema: Any) -> _Errors:
    if not isinstance(instance, dict):
        return
    patterns = schema.get("patternProperties", {})
    for name in instance.keys() - schema.get("properties", {}).keys():
        if any(_finds(pattern, name) for pattern in patterns):
            continue
        if expected is False:
            yield jsonschema.ValidationError(f"the property {name!r} is not allowed")
        else:
            yield from validator.descend(instance[name], expected, path=name)


def _unique_items(validator: Any, expected: Any, instance: Any, schema: Any) -> _Errors:
    is_unique = expected is True and isinstance(instance, list)
    if is_unique and len(set(map(_identity, instance))) < len(instance):
        yield jsonschema.ValidationError("two items are equal")


def _identity(value: Any) -> Hashable:
    """Return a key that equal JSON values share."""
    if isinstance(value, list):
        return ("array", *map(_identity, value))
    if isinstance(value, dict):
        return frozenset((name, _identity(part)) for name, part in value.items())
    return (isinstance(value, bool), value)


class _QuotedText(str):
    """A string of a JSON value whose quotes are checked.

    Attributes:
        pointer: The JSON Pointer of the string.
        sources: The texts that strings are quoted from, by name.
        found: The quotes, by source.
    """

    pointer: str
    sources: Mapping[str, str]
    found: dict[str, Quotation]


def _with_quotes(
    value: Any, pointer: str, sources: Mapping[str, str], texts: list[_QuotedText]
) -> Any:
    """Return a JSON value whose strings are quoted texts, which are added to ``texts``."""
    match value:
        case str():
            text = _QuotedText(value)
            text.pointer, text.sources, text.found = pointer, sources, {}
            texts.append(text)
            return text
        case dict():
            return {
                name: _with_quotes(part, f"{pointer}/{reference_token(name)}", sources, texts)
                for name, part in value.items()
            }
        case list():
            return [
                _with_quotes(part, f"{pointer}/{index}", sources, texts)
                for index, part in enumerate(value)
            ]
    return value


def _substring_of(validator: Any, expected: Any, instance: Any, schema: Any) -> _Errors:
    """Check ``x-substring-of``, and record where the quote stands.

    Without the sources of the schema nothing is checked.
    """
    if not isinstance(instance, _QuotedText):
        return
    source = instance.sources.get(expected)
    unit = schema.get(SUBSTRING_UNIT, "words")
    found = find_quote(source, instance, unit) if source is not None and instance else None
    if found is None:
        yield jsonschema.ValidationError(f"{instance!r} is not a quote from {expected!r}")
        return
    start, count = found
    instance.found[expected] = Quotation(
        instance.pointer, expected, start, start + len(instance), count
    )


_KEYWORDS: dict[str, Callable[..., _Errors]] = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "uniqueItems": _unique_items,
    SUBSTRING_OF: _substring_of,
}
"""Keywords by name: bounded keywords of JSON Schema, and keywords that ``jsonschema`` lacks."""
