"""JSON Schemas of pydantic types that match what validation keeps."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

_EXACT_DIGITS = 15
"""Different decimals with up to 15 digits are different doubles, which JSON numbers are read as."""
_BOUNDS = ("ge", "gt", "le", "lt", "multiple_of")


class ClosedJsonSchema(GenerateJsonSchema):
    """Pydantic's JSON Schema, with ``additionalProperties: false`` where extra properties are
    dropped, and without texts and numbers that are refused as decimals.

    Types that allow extra properties have a schema that says so; it is unchanged.
    """

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        return _closed(super().model_schema(schema))

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        return _closed(super().dataclass_schema(schema))

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> JsonSchemaValue:
        return _closed(super().typed_dict_schema(schema))

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        described = super().decimal_schema(schema)
        if self.mode != "validation":
            return described
        number = described["anyOf"][0]
        digits, places = schema.get("max_digits"), schema.get("decimal_places")
        # A pattern has no bounds, which only numbers have then.
        is_bounded = any(schema.get(name) is not None for name in _BOUNDS)
        branches = list(_numbers(number, digits, places, is_bounded=is_bounded))
        if not is_bounded:
            branches.append({"type": "string", "pattern": _pattern(digits, places)})
        return branches[0] if len(branches) == 1 else {"anyOf": branches}


def _closed(schema: JsonSchemaValue) -> JsonSchemaValue:
    if "properties" in schema:
        schema.setdefault("additionalProperties", False)
    return schema


def _numbers(
    number: JsonSchemaValue, digits: int | None, places: int | None, *, is_bounded: bool
) -> Iterator[JsonSchemaValue]:
    """Yield the schemas of numbers with a maximum of digits and decimal places.

    Numbers that are not exact as doubles are left out, and where texts are an alternative also
    those whose schema would be long.

    Args:
        number: The schema of numbers with the other constraints.
        digits: The number of digits; ``None`` for any.
        places: The number of digits behind the point; ``None`` for any.
        is_bounded: Whether texts are no alternative.
    """
    if digits is None and "multipleOf" not in number:
        yield number if places is None else _limited(number, None, places)
        return
    if not is_bounded and (digits is None or places is None or digits > _EXACT_DIGITS):
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


def _limited(number: JsonSchemaValue, before: int | None, behind: int) -> JsonSchemaValue:
    """Return the schema of those numbers with limited digits before and behind the point."""
    limited: dict[str, Any] = dict(number)
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


def _pattern(digits: int | None, places: int | None) -> str:
    """Return the pattern of decimals without an exponent, as a regular expression of ECMA-262."""
    fraction = rf"(\.[0-9]{'+' if places is None else f'{{1,{places}}}'})?" if places != 0 else ""
    if digits is None:
        return rf"^-?(0|[1-9][0-9]*){fraction}$"
    if places is None:
        more = rf"(?!(\.?[0-9]){{{digits + 1}}})[1-9][0-9]*{fraction}"
        return rf"^-?(0(\.[0-9]{{1,{digits}}})?|{more})$"
    if digits <= places:
        # pydantic counts the digit of a zero as one before the point.
        return rf"^-?0\.(?!0+$)[0-9]{{1,{digits}}}$"
    return rf"^-?(0|[1-9][0-9]{{0,{digits - places - 1}}}){fraction}$"
