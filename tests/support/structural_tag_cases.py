"""The cases of XGrammar's tests of structural tags: formats with texts, accepted or not.

The test module of XGrammar's source distribution is executed with stubs in place of XGrammar, so
that its checks record what they are called with.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pytest
from data_files import xgrammar_tests

__all__ = ["TagCase", "refused_tags", "tag_cases"]


_PARAMETERS = type(pytest.param())


@dataclass(frozen=True)
class TagCase:
    """A structural tag and a text that XGrammar's tests expect to be accepted or refused.

    Attributes:
        name: The test and the number of the check in it.
        tag: The structural tag.
        text: The text.
        is_accepted: Whether the text is expected to be accepted.
    """

    name: str
    tag: dict[str, Any]
    text: str
    is_accepted: bool


@cache
def tag_cases() -> tuple[TagCase, ...]:
    """Return the cases; none where the source distribution is missing."""
    recorded: list[TagCase] = []
    with _stubs():
        for function, arguments in _calls(recorded):
            try:
                function(**arguments)
            except Exception:
                # The test uses more of XGrammar than its checks of texts.
                continue
    return tuple(recorded)


@cache
def refused_tags() -> tuple[dict[str, Any], ...]:
    """Return structural tags that XGrammar's tests expect to be refused."""
    module = _module()
    formats = [] if module is None else module["structural_tag_error_test_data"]
    return tuple({"type": "structural_tag", "format": each} for each in formats)


def _calls(recorded: list[TagCase]) -> Iterator[tuple[Callable[..., None], dict[str, Any]]]:
    """Yield each test with the arguments of one of its parameters."""
    module = _module()
    if module is None:
        return
    numbers: dict[str, Iterator[int]] = {}
    current = ""

    def record(tag: Any, instance: str, is_accepted: bool = True, **_: Any) -> None:
        if tag.get("type") != "structural_tag":
            tag = {"type": "structural_tag", "format": tag}
        number = next(numbers.setdefault(current, itertools.count()))
        recorded.append(TagCase(f"{current}[{number}]", tag, instance, is_accepted))

    module["check_stag_with_instance"] = record
    module["check_stag_with_grammar"] = lambda *_: None
    for name, function in list(module.items()):
        if name.startswith("test_") and callable(function):
            current = name.removeprefix("test_")
            marks = [m for m in getattr(function, "pytestmark", ()) if m.name == "parametrize"]
            yield from ((function, each) for each in _arguments(marks))


def _arguments(marks: list[Any]) -> Iterator[dict[str, Any]]:
    tables = []
    for mark in marks:
        names, rows = mark.args[:2]
        split = [name.strip() for name in names.split(",")] if isinstance(names, str) else names
        values = (
            row.values if isinstance(row, _PARAMETERS) else row if len(split) > 1 else (row,)
            for row in rows
        )
        tables.append([dict(zip(split, each, strict=True)) for each in values])
    for rows in itertools.product(*tables):
        yield {name: value for row in rows for name, value in row.items()}


@cache
def _module() -> dict[str, Any] | None:
    path = xgrammar_tests()
    if path is None:
        return None
    source = path / "test_structural_tag_converter.py"
    names: dict[str, Any] = {"__name__": "xgrammar_cases"}
    with _stubs():
        exec(compile(source.read_text(encoding="utf-8"), str(source), "exec"), names)
    return names


@contextmanager
def _stubs() -> Iterator[None]:
    package, tags, testing, tokenizers = map(
        ModuleType, ("xgrammar", "xgrammar.structural_tag", "xgrammar.testing", "tokenizer_utils")
    )
    models = {name: _model(kind) for name, kind in _MODELS.items()}
    vars(tags).update(models)
    vars(package).update(models | {"structural_tag": tags, "testing": testing})
    vars(testing)["_is_grammar_accept_string"] = None
    vars(tokenizers)["load_tokenizer"] = None
    modules = {each.__name__: each for each in (package, tags, testing, tokenizers)}
    with patch.dict(sys.modules, modules):
        yield


_MODELS = {
    "AnyTextFormat": "any_text",
    "ConstStringFormat": "const_string",
    "JSONSchemaFormat": "json_schema",
    "GrammarFormat": "grammar",
    "QwenXMLParameterFormat": "qwen_xml_parameter",
    "RegexFormat": "regex",
    "SequenceFormat": "sequence",
    "OrFormat": "or",
    "TagFormat": "tag",
    "TriggeredTagsFormat": "triggered_tags",
    "TagsWithSeparatorFormat": "tags_with_separator",
    "StructuralTag": "structural_tag",
}


def _model(kind: str) -> Callable[..., dict[str, Any]]:
    def make(**members: Any) -> dict[str, Any]:
        return {"type": kind, **members}

    return make
