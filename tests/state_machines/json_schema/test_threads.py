"""Several threads use one machine; some of them pause during an evaluation."""

from __future__ import annotations

import threading
from typing import Any

from state_machines.budgets import step_budget
from state_machines.json_schema.emptiness.evaluation import generated, is_empty
from state_machines.json_schema.machine import Compilation

TEXTS: dict[str, Any] = {"anyOf": [{"type": "string"}, {"type": "null"}]}


def test_evaluation_paused_in_a_checkpoint_does_not_block_other_threads() -> None:
    schema = {"allOf": [{"properties": {f"p{i}": TEXTS, "q": TEXTS}} for i in range(400)]}
    compilation = Compilation(schema)
    context, term = compilation.context, compilation.term
    found: list[bool] = []

    def checkpoint() -> None:
        def ask() -> None:
            found.append(is_empty(context, term))

        other = threading.Thread(target=ask, daemon=True)
        other.start()
        other.join(20)
        assert not other.is_alive(), "the other thread waits for a lock"

    with step_budget(checkpoint=checkpoint):
        found.append(is_empty(context, term))
    assert len(found) > 1, "the evaluation takes less than a checkpoint's steps"
    assert not any(found)
    assert generated(context, term) is generated(context, term)
