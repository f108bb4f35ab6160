"""Mutated copies of real schemas, each different from all others.

A copy gets one more property, with a new name and schema, in each list of properties. All states of
these objects are new, while the instances stay valid.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

__all__ = ["different_lines", "with_one_more_property"]


def different_lines(lines: list[str], count: int, seed: int) -> Iterator[str]:
    """Yield ``count`` lines of cases: those given in random order, then changed copies of them.

    A schema that lists no properties cannot be changed; copies of it are left out. Yields fewer
    lines if none can be changed.
    """
    chance = random.Random(seed)
    order = list(range(len(lines)))
    made, copy = 0, 0
    while made < count:
        chance.shuffle(order)
        before = made
        for position in order:
            if made == count:
                return
            record = json.loads(lines[position])
            if copy:
                record["name"] += f"+{copy}"
                schema = with_one_more_property(record["schema"], f"{copy}_{position}", chance)
                if schema is None:
                    continue
                record["schema"] = schema
            made += 1
            yield json.dumps(record)
        if made == before:
            return
        copy += 1


def with_one_more_property(schema: Any, mark: str, chance: random.Random) -> Any:
    """Return a copy of a schema with one more property in each list; ``None`` without any list.

    No two marks give the same schema. Only where the instances have the new property, which is
    named for the mark, could their being valid change.
    """
    count = 0

    def copied(value: Any) -> Any:
        nonlocal count
        if isinstance(value, list):
            return [copied(item) for item in value]
        if not isinstance(value, dict):
            return value
        result = {key: copied(item) for key, item in value.items()}
        properties = value.get("properties")
        if isinstance(properties, dict) and all(
            isinstance(item, dict | bool) for item in properties.values()
        ):
            count += 1
            result["properties"][f"extra_{mark}_{count}"] = _random_schema(chance)
        return result

    changed = copied(schema)
    return changed if count else None


def _random_schema(chance: random.Random) -> dict[str, Any]:
    words = ["".join(chance.choices("abcdefghijklmnop", k=chance.randint(3, 9))) for _ in range(4)]
    return chance.choice(
        [
            {"enum": words},
            {"type": "string", "maxLength": chance.randint(5, 5000)},
            {"type": "string", "pattern": f"^{words[0]}[0-9]{{1,{chance.randint(2, 20)}}}$"},
            {"type": "integer", "minimum": chance.randint(-(10**6), 10**6)},
            {"type": "array", "items": {"enum": words}, "maxItems": chance.randint(2, 50)},
        ]
    )
