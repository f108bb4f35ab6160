"""Texts near known texts of a type, of which a machine admits a part.

A probe changes a JSON text in one or two places: a scalar becomes an unusual scalar, a member or an item
is left out, or an item is written twice with another spelling. Random walks seldom find such texts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from random import Random
from typing import Any

from json_trees import JsonTree, Members, Scalar, parse, places, replaced, spelled, string_value
from unusual_texts import NUMBERS, SPECIAL_CHARACTERS, STRINGS

from state_machines import GrammarBudgetError, JsonSchemaStateMachine

__all__ = ["admitted_probes"]

_NEAR = Decimal("1e-25")
_LONG = 150
_LONG_PROBES = 40
_LITERALS = ("null", "true", "false", "0", '""', "[]", "{}")


def admitted_probes(
    machine: JsonSchemaStateMachine, texts: Iterable[str], random: Random, count: int
) -> Iterator[str]:
    """Yield the probes that a machine admits.

    Args:
        machine: The machine.
        texts: JSON texts to change.
        random: The source of the changes.
        count: The number of probes to try.
    """
    trees = [parse(text) for text in texts]
    if not trees:
        return
    known = {scalar for tree in trees for scalar in _scalars(tree)}
    edges = sorted(known | set(_values(machine.schema)))
    probes = _Probes(random, [text for text in edges if text[0] in "-0123456789"], edges)
    seen = {spelled(tree) for tree in trees}
    long = count // _LONG_PROBES
    for _ in range(count):
        tree = probes.changed(random.choice(trees))
        if random.random() < 0.2:
            tree = probes.changed(tree)
        text = spelled(tree)
        if text in seen:
            continue
        seen.add(text)
        # The masks of unique items compare their digits, so a few long numbers take seconds.
        long -= len(text) > _LONG
        if long < 0 and len(text) > _LONG:
            continue
        with suppress(GrammarBudgetError):
            if machine.matches(text):
                yield text


class _Probes:
    """Changes of trees.

    Args:
        random: The source of the changes.
        numbers: The numbers of the type.
        scalars: All scalars of the type.
    """

    def __init__(self, random: Random, numbers: Sequence[str], scalars: Sequence[str]) -> None:
        self._random = random
        self._numbers = numbers
        self._scalars = scalars

    def changed(self, tree: JsonTree) -> JsonTree:
        """Return a tree with a change in a random place."""
        path, part, is_name = self._random.choice([*places(tree)])
        if isinstance(part, Members):
            return replaced(tree, path, self._changed_members(part))
        if is_name or part.is_string:
            return replaced(tree, path, self._changed_string(part, is_name))
        return replaced(tree, path, self._changed_number(part))

    def _changed_members(self, part: Members) -> JsonTree:
        random = self._random
        step = 2 if part.is_object else 1
        items = [part.items[at : at + step] for at in range(0, len(part.items), step)]
        choice = random.random()
        if not items or choice < 0.1:
            return Scalar(random.choice(_LITERALS))
        at = random.randrange(len(items))
        if choice < 0.5:
            del items[at]
        elif choice < 0.9:
            again = items[at]
            with suppress(IndexError):
                place = random.randrange(len(again)) if step == 1 else 0
                again = (*again[:place], self._respelled(again[place]), *again[place + 1 :])
            other = random.randrange(len(items) + 1)
            items[other : other + random.randrange(2)] = [again]
        else:
            random.shuffle(items)
        return Members(part.is_object, tuple(item for group in items for item in group))

    def _respelled(self, tree: JsonTree) -> JsonTree:
        """Return a tree with an equal or nearly equal value."""
        if isinstance(tree, Members):
            return self.changed(tree)
        text = tree.text
        if tree.is_string:
            value = string_value(tree)
            spellings = [
                *(
                    f" {value}",
                    f"{value} ",
                    value.swapcase(),
                    value.upper(),
                    f"{value}0",
                    f"0{value}",
                ),
                *(
                    f"{value}.0",
                    value.replace("Z", "+00:00"),
                    value.replace("1H", "60M"),
                    f"+{value}",
                ),
                *(f"{value}/", f"{value}.0", value.replace("-", "")),
            ]
            return Scalar(_quoted(self._random.choice(spellings)))
        spellings = [
            text,
            f"{text}.0",
            f"{text}0",
            f"{text}e0",
            f'"{text}"',
            f"-{text}",
            "true",
            "1",
            "1.0",
        ]
        return Scalar(self._random.choice(spellings))

    def _changed_number(self, part: Scalar) -> Scalar:
        random = self._random
        choice = random.random()
        if choice < 0.5:
            return Scalar(random.choice(NUMBERS))
        if choice < 0.6:
            return Scalar(random.choice((*_LITERALS, *self._scalars)))
        text = random.choice((part.text, *self._numbers))
        with suppress(InvalidOperation):
            number = Decimal(text)
            if abs(number.adjusted()) < 400:
                near = (number + _NEAR, number - _NEAR, number + 1, number - 1, -number, number / 2)
                edges = (number * (1 + _NEAR), number * (1 - _NEAR))
                spelling = random.choice(("f", "f", "e"))
                return Scalar(format(random.choice((*near, *edges)), spelling))
        return Scalar(f"{text}.0")

    def _changed_string(self, part: Scalar, is_name: bool) -> Scalar:
        random = self._random
        choice = random.random()
        if choice < 0.6:
            return Scalar(_quoted(random.choice(STRINGS)))
        if choice < 0.7:
            text = random.choice((*_LITERALS, *NUMBERS, *self._scalars))
            return Scalar(_quoted(text) if is_name and text[0] != '"' else text)
        value = string_value(part)
        at = random.randint(0, len(value))
        special = random.choice(SPECIAL_CHARACTERS)
        changed = random.choice(
            (
                *(special + value, value + special, value[:at] + special + value[at:]),
                *(value[:at] + special + value[at + 1 :], value[:at] + value[at + 1 :], value[:at]),
                *(value.swapcase(), value * 2, value * 20, value + value[-1:]),
            )
        )
        return Scalar(_quoted(changed))


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _scalars(tree: JsonTree) -> Iterator[str]:
    for _, part, _ in places(tree):
        if isinstance(part, Scalar):
            yield part.text


def _values(schema: Any) -> Iterator[str]:
    """Yield the texts of the scalars of a schema."""
    if isinstance(schema, dict):
        for value in schema.values():
            yield from _values(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _values(value)
    else:
        yield _quoted(schema)
