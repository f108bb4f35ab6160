"""Arithmetic word problems of one to three steps, with numbers in digits or in words.

In digits, consecutive records of the kinds *direct* and *reasoned* have the same problem.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from fractions import Fraction
from functools import partial
from random import Random
from typing import Any, TypeAlias

from speculation_tasks.words import in_words

from quality_tasks.base import Record, object_schema, rng_of
from quality_tasks.words import CITIES, FIRST_NAMES, PRODUCTS

__all__ = ["make_calculation_record", "make_record", "make_record_in_words"]

TASK = "arithmetic"
TASK_IN_WORDS = "word_problems"
TASK_WITH_CALCULATION = "calculations"

_CALCULATION = "^[0-9]{1,4}( [-+*/] [0-9]{1,4}){1,4} = [0-9]{1,4}$"
_MIN_NUMBERS = 2
"""The fewest numbers of a problem that its calculation has."""

_Problem: TypeAlias = Callable[[Random, str, str], tuple[str, int, str]]
"""Draws a problem about a person and a thing: the text, the answer, the steps."""


def make_record(seed: int, number: int) -> Record:
    """Return a record of the task."""
    pair, is_reasoned = divmod(number, 2)
    rng = rng_of(TASK, seed, pair)
    problems = _LEVELS[pair % len(_LEVELS)]
    text, answer, _ = _problem(rng, problems)
    _, other, steps = _problem(rng, problems)
    properties: dict[str, Any] = {"answer": {"type": "integer"}}
    example: dict[str, Any] = {"answer": other}
    asked = "State it as JSON: answer (a whole number)."
    if is_reasoned:
        properties = {"reasoning": {"type": "string", "maxLength": 160}, **properties}
        example = {"reasoning": steps, **example}
        asked = (
            "Give as JSON: reasoning (the calculation, one sentence) and answer (a whole number)."
        )
    return Record(
        TASK,
        "reasoned" if is_reasoned else "direct",
        number,
        f"{text}\n\n{asked}",
        object_schema(properties),
        {"answer": answer},
        example,
        max_tokens=128 if is_reasoned else 24,
    )


def make_record_in_words(seed: int, number: int) -> Record:
    """Return a record of the task whose problems have their numbers in words."""
    rng = rng_of(TASK_IN_WORDS, seed, number)
    level = number % len(_LEVELS)
    text, answer, _ = _problem(rng, _LEVELS[level])
    _, other, _ = _problem(rng, _LEVELS[level])
    return Record(
        TASK_IN_WORDS,
        "one step" if level in (0, 1, 2, 4) else "two or three steps",
        number,
        f"{re.sub('[0-9]+', lambda found: in_words(int(found[0])), text)}\n\n"
        "State it as JSON: answer (a whole number).",
        object_schema({"answer": {"type": "integer"}}),
        {"answer": answer},
        {"answer": other},
        max_tokens=24,
    )


def make_calculation_record(seed: int, number: int) -> Record:
    """Return a record in words whose answer follows a calculation, which is not scored.

    Its check requires that the calculation is right, has numbers of the problem, and leads to the
    answer.
    """
    record = make_record_in_words(seed, number)
    text, _, _ = _problem(rng_of(TASK_IN_WORDS, seed, number), _LEVELS[number % len(_LEVELS)])
    numbers = {int(found) for found in re.findall("[0-9]+", text)}
    calculation = {"type": "string", "pattern": _CALCULATION}
    return replace(
        record,
        task=TASK_WITH_CALCULATION,
        question=record.question.replace(
            "answer (a whole number)",
            'calculation (such as "3 * 4 - 2 = 10") and answer (a whole number)',
        ),
        schema=object_schema({"calculation": calculation, **record.schema["properties"]}),
        example={"calculation": "3 * 4 - 2 = 10", "answer": 10},
        max_tokens=64,
        check=partial(_check_calculation, numbers),
    )


def _check_calculation(numbers: AbstractSet[int], value: Mapping[str, Any]) -> None:
    left, _, result = value["calculation"].partition(" = ")
    terms = left.split(" ")
    if len(numbers & {int(term) for term in terms[::2]}) < _MIN_NUMBERS:
        raise ValueError("the calculation does not use the numbers of the problem")
    if _value_of(terms) != int(result):
        raise ValueError(f"{left} is not {result}")
    if value["answer"] != int(result):
        raise ValueError("the answer is not the result of the calculation")


def _value_of(terms: Sequence[str]) -> Fraction | None:
    """Return the value of numbers with signs between them; ``None`` for a division by 0."""
    total, product, sign = Fraction(0), Fraction(terms[0]), 1
    for operator, term in zip(terms[1::2], terms[2::2], strict=True):
        if operator == "*":
            product *= int(term)
        elif operator == "/":
            if not int(term):
                return None
            product /= int(term)
        else:
            total += sign * product
            product, sign = Fraction(term), 1 if operator == "+" else -1
    return total + sign * product


def _problem(rng: Random, problems: Sequence[_Problem]) -> tuple[str, int, str]:
    return rng.choice(problems)(rng, rng.choice(FIRST_NAMES), rng.choice(PRODUCTS) + "s")


def _more(rng: Random, name: str, things: str) -> tuple[str, int, str]:
    a, b = rng.randint(1, 12), rng.randint(1, 9)
    text = f"{name} has {a} {things} and buys {b} more. How many {things} does {name} have now?"
    return text, a + b, f"{a} + {b} = {a + b}"


def _fewer(rng: Random, name: str, things: str) -> tuple[str, int, str]:
    b = rng.randint(1, 6)
    a = b + rng.randint(1, 12)
    text = f"A shop has {a} {things}. {name} buys {b} of them. How many {things} are left?"
    return text, a - b, f"{a} - {b} = {a - b}"


def _times(rng: Random, name: str, things: str) -> tuple[str, int, str]:
    a, b = rng.randint(2, 9), rng.randint(2, 9)
    text = f"{name} packs {a} boxes with {b} {things} each. How many {things} are that?"
    return text, a * b, f"{a} * {b} = {a * b}"


def _shared(rng: Random, name: str, things: str) -> tuple[str, int, str]:
    people, each = rng.randint(2, 9), rng.randint(2, 12)
    text = (
        f"{name} shares {people * each} {things} equally among {people} friends. "
        "How many does each get?"
    )
    return text, each, f"{people * each} / {people} = {each}"


def _change(rng: Random, name: str, things: str) -> tuple[str, int, str]:
    count, price = rng.randint(2, 6), rng.randint(3, 12)
    paid = count * price + rng.randint(2, 30)
    text = (
        f"{name} buys {count} {things} for {price} euros each and pays with {paid} euros. "
        "How many euros does the shop give back?"
    )
    return (
        text,
        paid - count * price,
        f"{count} * {price} = {count * price}, {paid} - {count * price} = {paid - count * price}",
    )


def _two_days(rng: Random, name: str, things: str) -> tuple[str, int, str]:
    first, more = rng.randint(5, 40), rng.randint(3, 20)
    text = (
        f"On Monday {name} sold {first} {things}, on Tuesday {more} more than on Monday. "
        "How many were sold on both days together?"
    )
    total = 2 * first + more
    return text, total, f"{first} + {more} = {first + more}, {first} + {first + more} = {total}"


def _bus(rng: Random, name: str, things: str) -> tuple[str, int, str]:
    start, off = rng.randint(20, 50), rng.randint(3, 15)
    on = rng.randint(2, 25)
    city = rng.choice(CITIES)
    text = (
        f"A bus leaves {city} with {start} people. At the first stop {off} get off and {on} get "
        "on. How many people are on the bus?"
    )
    end = start - off + on
    return text, end, f"{start} - {off} = {start - off}, {start - off} + {on} = {end}"


def _savings(rng: Random, name: str, things: str) -> tuple[str, int, str]:
    weekly, weeks, spent = rng.randint(4, 15), rng.randint(3, 9), rng.randint(5, 12)
    age = rng.randint(9, 16)
    text = (
        f"{name}, who is {age}, saves {weekly} euros a week. After {weeks} weeks, {name} spends "
        f"{spent} euros and then gets 20 euros as a present. How many euros does {name} have?"
    )
    saved = weekly * weeks
    end = saved - spent + 20
    return (
        text,
        end,
        f"{weekly} * {weeks} = {saved}, {saved} - {spent} = {saved - spent}, "
        f"{saved - spent} + 20 = {end}",
    )


def _rows(rng: Random, name: str, things: str) -> tuple[str, int, str]:
    rows, each, broken = rng.randint(3, 9), rng.randint(4, 12), rng.randint(2, 8)
    text = (
        f"{name} has {rows} rows of {each} {things}. Then {broken} {things} break, and half of the "
        f"original number are bought again. How many {things} are there?"
    )
    total = rows * each
    if total % 2:
        return _rows(rng, name, things)
    end = total - broken + total // 2
    return (
        text,
        end,
        f"{rows} * {each} = {total}, {total} - {broken} = {total - broken}, "
        f"{total - broken} + {total // 2} = {end}",
    )


_LEVELS: Sequence[Sequence[_Problem]] = (
    (_more, _fewer),
    (_times, _shared),
    (_more, _fewer, _times),
    (_change, _two_days, _bus),
    (_more, _fewer),
    (_savings, _rows),
)
"""Problems of consecutive pairs of records."""
