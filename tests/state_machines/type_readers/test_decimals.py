"""Numbers and texts that pydantic reads as decimals with constraints."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any

import pytest
from pydantic import Field, TypeAdapter
from type_draws import draw_texts

from state_machines import JsonSchemaStateMachine
from state_machines.type_readers.pydantic_reader import pydantic_schema


@pytest.mark.parametrize(
    ("constraints", "values", "others"),
    [
        ({}, ["-1.50", "1E5", '"-0.50"', f'"{"1" * 40}"'], ['"a"', '""', '"1_0"', '"NaN"']),
        ({"ge": 0}, ["0", "1.5", '"1"'], ["-1", '"-1"']),
        ({"gt": 0, "lt": 1}, ["0.5", '"0.5"'], ["0", "1", '"1"']),
        ({"multiple_of": Decimal("0.05")}, ["1.05", "-2"], ["1.01", "1e30", "1" * 16, '"1.01"']),
        ({"decimal_places": 2}, ["1.25", '"1.25"', '"1"'], ["1.255", '"1.255"']),
        ({"decimal_places": 0}, ["10", '"10"'], ["1.5", '"1.5"', '"1."']),
        ({"max_digits": 4}, ['"0.1234"', '"12.34"', '"1234"'], ['"12345"', '"0.01234"']),
        ({"max_digits": 3, "le": 50}, ["0.123", "-12.3", "50"], ["51", "1.234", '"51"']),
        ({"max_digits": 5, "decimal_places": 2}, ["999.99", '"-999.9"'], ["1000", '"1000"']),
        ({"max_digits": 5, "decimal_places": 2, "ge": 0}, ["999.99"], ["1000", "-1", "0.001"]),
        ({"max_digits": 18, "decimal_places": 2}, [f'"{"9" * 16}.99"'], ['"1.001"']),
        ({"max_digits": 18, "decimal_places": 2, "gt": 0}, ["9999999999999.99", "9" * 15], ["1.001", "9" * 16]),
        ({"max_digits": 38, "decimal_places": 18, "ge": 0}, ["12345.6789", f"0.{'1' * 15}"], ["-1"]),
        ({"multiple_of": Decimal("1E-8")}, ["20999999.5", "0.00000001"], ["0.000000001"]),
        ({"max_digits": 2, "decimal_places": 2}, ['"0.25"'], ['"0"', '"0.0"', '"1"', "0.001"]),
        ({"max_digits": 2, "decimal_places": 2, "ge": 0}, ["0.25"], ["0", "-0.1", "0.001"]),
        ({"max_digits": 4, "decimal_places": 1, "multiple_of": Decimal("0.25")}, ["1.5"], ["1.25"]),
    ],
)  # fmt: skip
def test_masks_admit_decimals_that_the_type_reads(
    constraints: dict[str, Any], values: list[str], others: list[str]
) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(Annotated[Decimal, Field(**constraints)])
    machine = JsonSchemaStateMachine(
        pydantic_schema(adapter).schema, whitespace="spaced", additional_properties="closed"
    )
    for text in (*values, *draw_texts(machine, str(constraints), 12)):
        assert machine.matches(text)
        adapter.validate_json(text)
    for text in others:
        assert not machine.matches(text), text
