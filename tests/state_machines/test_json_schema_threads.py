"""Several threads use one machine; some of them pause during an evaluation."""

from __future__ import annotations

import json
import threading
from typing import Any

from small_vocabulary import small_vocabulary

from state_machines import JsonSchemaStateMachine
from state_machines.budgets import step_budget
from state_machines.json_schema.compiler import Compilation

SCHEMA: dict[str, Any] = {
    "type": "array",
    "uniqueItems": True,
    "items": {
        "oneOf": [
            {
                "properties": {"kind": {"const": kind}, "next": {"$ref": "#"}},
                "required": ["kind"],
                "patternProperties": {f"^{kind}": {"type": "integer"}},
            }
            for kind in "abc"
        ],
        "type": "object",
    },
}
TEXTS: dict[str, Any] = {"anyOf": [{"type": "string"}, {"type": "null"}]}
TEXT = json.dumps([{"kind": "a", "next": [{"kind": "b"}], "az": 1}, {"kind": "c", "c": 2}])


def write(machine: JsonSchemaStateMachine) -> bool:
    """Write a text token by token."""
    matcher = machine.matcher(small_vocabulary())
    for byte in TEXT.encode():
        matcher.advance(byte)
    return matcher.is_accepting


def test_evaluation_paused_in_a_checkpoint_does_not_block_other_threads() -> None:
    schema = {"allOf": [{"properties": {f"p{i}": TEXTS, "q": TEXTS}} for i in range(400)]}
    compilation = Compilation(schema)
    evaluator, term = compilation.evaluator, compilation.term
    found: list[bool] = []

    def checkpoint() -> None:
        def ask() -> None:
            found.append(evaluator.is_empty(term))

        other = threading.Thread(target=ask, daemon=True)
        other.start()
        other.join(20)
        assert not other.is_alive(), "the other thread waits for a lock"

    with step_budget(checkpoint=checkpoint):
        found.append(evaluator.is_empty(term))
    assert len(found) > 1, "the evaluation takes less than a checkpoint's steps"
    assert not any(found)
    assert evaluator.values(term) is evaluator.values(term)


def test_threads_share_one_machine() -> None:
    machine = JsonSchemaStateMachine(SCHEMA, property_order="any")
    start = threading.Barrier(8)
    accepted: list[bool] = []

    def work() -> None:
        start.wait(60)
        accepted.append(write(machine))

    threads = [threading.Thread(target=work, daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert accepted == [True] * 8
