"""Work is counted, and ends in an error rather than a hang."""

import pytest

from state_machines import GrammarBudgetError, JsonSchemaStateMachine, UnsupportedSchemaError
from state_machines.effort import bounded_effort, spend


def test_steps_beyond_the_bound_raise() -> None:
    with bounded_effort(10):
        for _ in range(10):
            spend()
        with pytest.raises(GrammarBudgetError) as caught:
            spend()
    assert caught.value.budget == 10


def test_without_a_bound_nothing_is_counted() -> None:
    spend(10**12)


def test_an_inner_bound_leaves_the_outer_one_alone() -> None:
    with bounded_effort(5):
        with bounded_effort(100):
            spend(50)
        spend(5)


def test_a_schema_that_explodes_is_refused_by_name() -> None:
    patterns = {f"x{i}": {"minimum": i} for i in range(30)}
    with pytest.raises(UnsupportedSchemaError, match="steps") as caught:
        JsonSchemaStateMachine({"patternProperties": patterns})
    assert (caught.value.keyword, caught.value.pointer) == (
        "patternProperties",
        "/patternProperties",
    )
