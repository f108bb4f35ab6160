"""Rows of pydantic's core schemas that are read from numbers and strings.

Each function returns the JSON Schema of the texts that the validator of one kind reads, given the
reader and the core schema. Observed with pydantic 2.14.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from state_machines.reader_languages.multiples import multiples_within_tolerance
from state_machines.regex.python_syntax import flag_letters
from state_machines.type_readers.core_reader import Core, CoreReader
from state_machines.type_readers.type_schema import (
    GAPS,
    Schema,
    distinct_numbers,
    integers,
    language,
    note,
)

BOUNDS = ("ge", "gt", "le", "lt")
_KEYWORDS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
}
_LENGTHS = ("min_length", "max_length")

_EXACT_DIGITS = 15
"""Different decimals with up to 15 digits are different doubles, which JSON numbers are read as."""

_SHORT_SCHEMA_DIGITS = 8
"""Numbers with any split of this many digits around the point have a short schema."""

_DAY = datetime.timedelta(days=1)


# Numbers


def integer(reader: CoreReader, core: Core) -> Schema:
    """``int``: digits; pydantic reads no integer from ``1e2``, and at most 4,300 digits."""
    return integers(_number_keywords(core, _as_integer))


def number(reader: CoreReader, core: Core) -> Schema:
    """``float``: numbers, which are rounded to a double before they are compared."""
    schema: Schema = {"type": "number", **_number_keywords(core, _as_number)}
    step = schema.pop("multipleOf", None)
    if step is not None:
        return {**schema, "allOf": [multiples_within_tolerance(step).schema()]}
    return distinct_numbers(schema) if reader.is_canonical else schema


def _number_keywords(core: Core, convert: Any) -> Schema:
    bounds = {name: convert(core[name]) for name in _KEYWORDS if core.get(name) is not None}
    return {_KEYWORDS[name]: bound for name, bound in bounds.items() if not _is_infinite(bound)}


def _is_infinite(bound: Any) -> bool:
    return isinstance(bound, float) and math.isinf(bound)


def _as_number(bound: Any) -> int | float:
    return bound if isinstance(bound, int) else float(bound)


def _as_integer(bound: Any) -> int | float:
    whole = isinstance(bound, int) or (math.isfinite(bound) and bound == int(bound))
    return int(bound) if whole else float(bound)


def decimal(reader: CoreReader, core: Core) -> Schema:
    """``Decimal``: numbers that are exact as doubles, and their texts.

    A number is read as a double, and converted by its shortest text.
    """
    bounds = {name: core.get(name) for name in (*BOUNDS, "multiple_of")}
    digits, places = core.get("max_digits"), core.get("decimal_places")
    texts = language(
        "decimal",
        max_digits=digits,
        decimal_places=places,
        canonical=reader.is_canonical or None,
        **{name: None if bound is None else str(bound) for name, bound in bounds.items()},
    )
    if reader.is_canonical:
        return texts
    numbers: Schema = {"type": "number", **_number_keywords(core, _as_number)}
    is_bounded = any(bound is not None for bound in bounds.values())
    branches = _decimal_numbers(numbers, digits, places, is_bounded=is_bounded)
    return {"anyOf": [*branches, texts]}


def _decimal_numbers(
    number: Schema, digits: int | None, places: int | None, *, is_bounded: bool
) -> Iterator[Schema]:
    """Yield the schemas of numbers with a maximum of digits and decimal places.

    Numbers that are not exact as doubles are left out. Numbers without bounds are also left out if
    their schema would be long.

    Args:
        number: The schema of numbers with the other constraints.
        digits: The number of digits; ``None`` for any.
        places: The number of digits behind the point; ``None`` for any.
        is_bounded: Whether there are bounds, or a step.
    """
    if digits is None and "multipleOf" not in number:
        yield number if places is None else _limited(number, None, places)
        return
    most = _SHORT_SCHEMA_DIGITS if places is None else _EXACT_DIGITS
    if not is_bounded and (digits is None or digits > most):
        return
    whole = exact = _EXACT_DIGITS
    behind = exact if places is None else min(places, exact)
    if digits is None:
        # pydantic divides with 28 digits.
        behind = min(_places(number["multipleOf"]), behind)
    else:
        exact = min(digits, exact)
        whole = digits if places is None else max(digits - places, 0)
        behind = min(behind, exact)
    # The more digits are before the point, the fewer are behind it.
    for count in range(max(exact - whole, 0), behind + 1):
        limited = _limited(number, min(whole, exact - count), count)
        # pydantic counts the digit of a zero as one before the point.
        yield limited if whole else {**limited, "not": {"const": 0}}


def _limited(number: Schema, before: int | None, behind: int) -> Schema:
    """Return the schema of numbers with a limited number of digits before and behind the point."""
    limited: Schema = dict(number)
    step = 1 if behind == 0 else float(f"1e-{behind}")
    if "multipleOf" not in limited:
        limited["multipleOf"] = step
    elif _places(limited["multipleOf"]) > behind:
        limited["allOf"] = [{"multipleOf": step}]
    if before is not None:
        end = 10**before
        limited["exclusiveMinimum"] = max(limited.get("exclusiveMinimum", -end), -end)
        limited["exclusiveMaximum"] = min(limited.get("exclusiveMaximum", end), end)
    return limited


def _places(number: float) -> int:
    """Return the number of digits behind the point."""
    exponent = Decimal(repr(number)).normalize().as_tuple().exponent
    return max(-int(exponent), 0)


def fraction(reader: CoreReader, core: Core) -> Schema:
    """``Fraction``: texts, and numbers, which are exact as fractions of their doubles."""
    texts = {**language("fraction", canonical=reader.is_canonical or None), "format": "fraction"}
    if reader.is_canonical:
        return texts
    bounds = _number_keywords(core, _as_number)
    # The texts have no bounds.
    return {"anyOf": [{"type": "number", **bounds}, *([] if bounds else [texts])]}


def complex_number(reader: CoreReader, core: Core) -> Schema:
    """``complex``: a text that Python's ``complex`` reads, or, unless strict, a number."""
    texts = language("complex", canonical=reader.is_canonical or None)
    # pydantic refuses integers beyond 64 bits.
    numbers: Schema = {"type": "number", "minimum": -(2**62), "maximum": 2**62}
    return texts if reader.is_canonical or reader.is_strict(core) else {"anyOf": [texts, numbers]}


# Strings


def text(reader: CoreReader, core: Core) -> Schema:
    """``str``: stripped, then measured, matched by the pattern, and converted to a case."""
    config = reader.config
    length = [core.get(name) for name in _LENGTHS]
    if length[0] is None:
        length[0] = config.get("str_min_length") or None
    if length[1] is None:
        length[1] = config.get("str_max_length")
    schema: Schema = {"type": "string"}
    schema |= {
        name: value
        for name, value in zip(("minLength", "maxLength"), length, strict=True)
        if value is not None
    }
    pattern = core.get("pattern")
    is_stripped = core.get("strip_whitespace", config.get("str_strip_whitespace"))
    is_lower = core.get("to_lower", config.get("str_to_lower"))
    is_upper = core.get("to_upper", config.get("str_to_upper"))
    is_ascii = core.get("ascii_only")
    dialect = _dialect(core, config)
    if pattern is not None:
        schema["pattern"] = pattern.pattern if isinstance(pattern, re.Pattern) else pattern
    if not (pattern or is_stripped or is_ascii or (reader.is_canonical and (is_lower or is_upper))):
        return schema
    arguments: Schema = {}
    if pattern is not None:
        arguments = {"pattern": schema["pattern"], **dialect}
    case = "upper" if is_upper else "lower" if is_lower else None
    spec = language(
        "text",
        strip=is_stripped or None,
        min_length=length[0],
        max_length=length[1],
        case=case,
        ascii=is_ascii or None,
        canonical=reader.is_canonical or None,
        **arguments,
    )
    return {**schema, **spec}


def _dialect(core: Core, config: Mapping[str, Any]) -> Schema:
    """Return the arguments that name the dialect of a pattern."""
    pattern = core.get("pattern")
    if isinstance(pattern, re.Pattern):
        flags = flag_letters(pattern.flags & ~re.UNICODE)
        return {"dialect": "python", **({"flags": flags} if flags else {})}
    engine = core.get("regex_engine") or config.get("regex_engine") or "rust-regex"
    if engine == "python-re":
        return {"dialect": "python"}
    return {"dialect": "rust"}


def data(reader: CoreReader, core: Core) -> Schema:
    """``bytes``: text of the encoding ``val_json_bytes``; lengths count bytes."""
    encoding = reader.config.get("val_json_bytes") or "utf8"
    lengths = {name: core.get(name) for name in _LENGTHS}
    if encoding == "utf8" and not any(value is not None for value in lengths.values()):
        return {"type": "string", "format": "binary"}
    canonical = reader.is_canonical or None
    return language("bytes", encoding=encoding, **lengths, canonical=canonical)


def uuid(reader: CoreReader, core: Core) -> Schema:
    """``UUID``: the hyphenated form, of one version if the type names a version."""
    version = core.get("version")
    spec = language("uuid", version=version, canonical=reader.is_canonical or None)
    return {**spec, "format": "uuid" if version is None else f"uuid{version}"}


def url(reader: CoreReader, core: Core) -> Schema:
    """URLs: absolute, of the schemes that the type allows."""
    return {**_url(reader, core, is_multi_host=None), "format": "uri"}


def multi_host_url(reader: CoreReader, core: Core) -> Schema:
    """Data source names, whose address may list several hosts."""
    return {**_url(reader, core, is_multi_host=True), "format": "multi-host-uri"}


_URL_ARGUMENTS = (
    *("allowed_schemes", "max_length", "host_required"),
    *("default_host", "default_port", "default_path"),
)


def _url(reader: CoreReader, core: Core, *, is_multi_host: bool | None) -> Schema:
    arguments = {name: core.get(name) for name in _URL_ARGUMENTS}
    canonical = reader.is_canonical or None
    return language("url", **arguments, multi_host=is_multi_host, canonical=canonical)


# Dates and times


def date(reader: CoreReader, core: Core) -> Schema:
    """``date``: RFC 3339's ``full-date``."""
    bounds = {name: _iso(core.get(name)) for name in BOUNDS}
    today = datetime.date.today()
    match core.get("now_op"):
        case "past":
            bounds["lt"] = min(filter(None, (bounds["lt"], _iso(today))))
        case "future":
            # A day more, for an answer that is written around midnight.
            bounds["gt"] = max(filter(None, (bounds["gt"], _iso(today + _DAY))))
    return {**language("date", **bounds), "format": "date"}


def date_time(reader: CoreReader, core: Core) -> Schema:
    """``datetime``: RFC 3339's ``date-time`` without leap seconds, with or without an offset."""
    bounds = {name: _iso(core.get(name)) for name in BOUNDS}
    # Days around now, whatever the offset of a time is.
    midnight = datetime.datetime.now(datetime.UTC).replace(
        hour=0, minute=0, second=0, microsecond=0
    )
    clock = _clock(reader, core)
    schema = {**language("datetime", **bounds, **clock), "format": "date-time"}
    match core.get("now_op"):
        case "past":
            limit = {"lt": _iso(midnight - _DAY)}
        case "future":
            limit = {"gt": _iso(midnight + 3 * _DAY)}
        case _:
            return schema
    # Beside bounds of the type, which may have no offset and so no order with this one.
    return {**schema, "allOf": [language("datetime", **limit, **clock)]}


def time(reader: CoreReader, core: Core) -> Schema:
    """``time``: RFC 3339's ``full-time`` without leap seconds, with or without an offset."""
    bounds = {name: _iso(core.get(name)) for name in BOUNDS}
    return {**language("time", **bounds, **_clock(reader, core)), "format": "time"}


def _clock(reader: CoreReader, core: Core) -> Schema:
    """Return the arguments of times: the offset, and the reading of more than six decimals."""
    precision = core.get("microseconds_precision")
    return {
        # "aware", "naive", or an offset in seconds.
        "tz": core.get("tz_constraint"),
        "precision": precision if precision == "error" else None,
        "strict": reader.is_strict(core) or None if core["type"] == "datetime" else None,
        "canonical": reader.is_canonical or None,
    }


def duration(reader: CoreReader, core: Core) -> Schema:
    """``timedelta``: durations of ISO 8601."""
    bounds = {name: None if core.get(name) is None else _seconds(core[name]) for name in BOUNDS}
    canonical = reader.is_canonical or None
    schema = {**language("duration", **bounds, canonical=canonical), "format": "duration"}
    step = core.get("multiple_of")
    return schema if step is None else note(schema, GAPS, f"multiple_of={step!r} of a duration")


def _seconds(value: datetime.timedelta) -> str:
    """Return a duration in seconds, as a decimal."""
    whole = value.days * 86_400 + value.seconds
    return str(Decimal(whole) + Decimal(value.microseconds) / 1_000_000)


def _iso(value: Any) -> str | None:
    return None if value is None else str(value.isoformat())
