"""Matching of calls with the answers of the Berkeley Function Calling Leaderboard (Python).

An answer lists the accepted values of each argument; an empty string among them makes the argument
optional. Strings are compared without case, spaces and some punctuation, as the leaderboard does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["are_right_calls", "has_right_names", "is_right_call"]

_TYPES: Mapping[str, type] = {
    "string": str,
    "integer": int,
    "float": float,
    "boolean": bool,
    "array": list,
    "tuple": list,
    "dict": dict,
    "any": str,
}
_LISTS = ("array", "tuple")
_OMITTED = ""
_IGNORED = re.compile(r"[ ,./\-_*^]")


def are_right_calls(
    calls: Sequence[Mapping[str, Any]],
    functions: Sequence[Mapping[str, Any]],
    answers: Sequence[Mapping[str, Any]],
) -> bool:
    """Return whether calls are the expected ones, in any order.

    Args:
        calls: ``name`` and ``arguments`` of each call.
        functions: The descriptions of the functions, with the leaderboard's names of types.
        answers: For each call the accepted values by argument, by the function's name.
    """
    described = {function["name"]: function for function in functions}
    left = list(calls)
    for answer in answers:
        ((name, values),) = answer.items()
        match = next((c for c in left if is_right_call(c, described[name], values)), None)
        if match is None:
            return False
        left.remove(match)
    return not left


def has_right_names(
    calls: Sequence[Mapping[str, Any]], answers: Sequence[Mapping[str, Any]]
) -> bool:
    """Return whether the expected functions are called, each as often as expected."""
    return sorted(call["name"] for call in calls) == sorted(next(iter(each)) for each in answers)


def is_right_call(
    call: Mapping[str, Any], function: Mapping[str, Any], answer: Mapping[str, Sequence[Any]]
) -> bool:
    """Return whether a call has the expected name and accepted arguments."""
    arguments, parameters = call["arguments"], function["parameters"]
    if call["name"] != function["name"]:
        return False
    if any(name not in arguments for name in parameters.get("required", ())):
        return False
    if any(name not in arguments and _OMITTED not in answer[name] for name in answer):
        return False
    properties = parameters["properties"]
    return all(
        name in properties and name in answer and _is_right(value, properties[name], answer[name])
        for name, value in arguments.items()
    )


def _is_right(value: Any, parameter: Mapping[str, Any], options: Sequence[Any]) -> bool:
    kind = parameter["type"]
    expected = _TYPES[kind]
    items = _TYPES[parameter["items"]["type"]] if kind in _LISTS else None
    if kind == "float" and type(value) is int:
        value = float(value)
    answered = _type_of(options)
    found: type = type(value)
    if found is expected and (items is None or _has_items(value, items, options)):
        # An answer of another type is a variable, which is compared as it is.
        is_literal = answered in (None, expected)
    elif found is answered:
        is_literal = False
    else:
        return False
    if not is_literal:
        return value in options
    if expected is dict:
        return any(_is_right_object(value, option) for option in options if option != _OMITTED)
    if items is dict:
        return any(_are_right_objects(value, option) for option in options)
    if expected is str:
        return _normalized(value) in [_normalized(each) for each in options if type(each) is str]
    if expected is list:
        return _normalized_items(value) in [_normalized_items(option) for option in options]
    return value in options


def _type_of(options: Sequence[Any]) -> type | None:
    return next((type(option) for option in options if option != _OMITTED), None)


def _has_items(value: Sequence[Any], kind: type, options: Sequence[Any]) -> bool:
    return any(
        not isinstance(option, list)
        or all(type(item) is kind or type(item) is _type_of(option) for item in value)
        for option in options
    )


def _are_right_objects(value: Sequence[Any], option: Sequence[Any]) -> bool:
    return len(value) == len(option) and all(map(_is_right_object, value, option))


def _is_right_object(value: Mapping[str, Any], option: Mapping[str, Sequence[Any]]) -> bool:
    """Return whether each member has one of its values. Members of members are not compared."""
    return all(name in value or _OMITTED in accepted for name, accepted in option.items()) and all(
        name in option and _normalized(member) in _normalized_items(option[name])
        for name, member in value.items()
    )


def _normalized_items(values: Sequence[Any]) -> list[Any]:
    return [_normalized(value) for value in values]


def _normalized(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return _IGNORED.sub("", value).lower().replace("'", '"')
