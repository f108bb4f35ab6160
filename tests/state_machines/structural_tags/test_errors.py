"""Malformed and unsupported structural tags are refused, with a JSON Pointer."""

from __future__ import annotations

from typing import Any

import pytest

from state_machines import (
    InvalidSchemaError,
    InvalidStructuralTagError,
    MissingSourceError,
    ProxyError,
    SchemaError,
    StructuralTagError,
    UnsupportedStructuralTagError,
)
from state_machines.root import RootStateMachine

ANY = {"type": "any_text"}
TAG = {"type": "tag", "begin": "<a>", "content": ANY, "end": "</a>"}


@pytest.mark.parametrize(
    ("content", "pointer"),
    [
        ({"type": "nonsense"}, "/format/type"),
        ({}, "/format"),
        ([], "/format"),
        ({"type": "const_string"}, "/format"),
        ({"type": "const_string", "value": 1}, "/format/value"),
        ({"type": "const_string", "value": "\ud800"}, "/format/value"),
        ({"type": "const_string", "value": "a", "extra": 1}, "/format/extra"),
        ({**ANY, "excludes": [""]}, "/format/excludes/0"),
        ({**ANY, "excludes": "x"}, "/format/excludes"),
        ({**ANY, "max_chars": -1}, "/format/max_chars"),
        ({**ANY, "max_chars": True}, "/format/max_chars"),
        ({"type": "sequence", "elements": []}, "/format/elements"),
        ({"type": "or", "elements": [ANY, {"type": "x"}]}, "/format/elements/1/type"),
        ({**TAG, "end": ""}, "/format/end"),
        ({**TAG, "end": []}, "/format/end"),
        ({**TAG, "begin": 1}, "/format/begin"),
        ({"type": "repeat", "min": 3, "max": 2, "content": ANY}, "/format/max"),
        ({"type": "repeat", "min": -1, "max": 2, "content": ANY}, "/format/min"),
        ({"type": "triggered_tags", "triggers": ["<b"], "tags": [TAG]}, "/format/tags/0/begin"),
        (
            {"type": "triggered_tags", "triggers": ["<a", "<b"], "tags": [TAG]},
            "/format/triggers/1",
        ),
        ({"type": "dispatch", "rules": [["a"]]}, "/format/rules/0"),
        ({"type": "dispatch", "rules": [["", ANY]]}, "/format/rules/0/0"),
        ({"type": "json_schema", "json_schema": True, "style": "x"}, "/format/style"),
        ({"type": "json_schema", "json_schema": 1}, "/format/json_schema"),
    ],
)
def test_malformed_tags_are_located(content: Any, pointer: str) -> None:
    with pytest.raises(InvalidStructuralTagError) as caught:
        RootStateMachine.from_structural_tag({"type": "structural_tag", "format": content})
    assert caught.value.pointer == pointer
    assert pointer in str(caught.value)


@pytest.mark.parametrize(
    ("content", "pointer"),
    [
        ({"type": "regex", "pattern": "("}, "/format/pattern"),
        ({"type": "grammar", "grammar": "root ::= x"}, "/format/grammar"),
        (
            {"type": "dispatch", "rules": [["xaby", ANY], ["ab", ANY]]},
            "/format/rules/1",
        ),
    ],
)
def test_unsupported_tags_are_located(content: Any, pointer: str) -> None:
    with pytest.raises(UnsupportedStructuralTagError) as caught:
        RootStateMachine.from_structural_tag({"type": "structural_tag", "format": content})
    assert caught.value.pointer == pointer


@pytest.mark.parametrize(
    ("subschema", "kind"),
    [({"type": "text"}, InvalidSchemaError), ({"x-substring-of": "a"}, MissingSourceError)],
)
def test_errors_of_schemas_have_pointers_of_the_tag(
    subschema: Any, kind: type[SchemaError]
) -> None:
    schema = {"properties": {"a": subschema}}
    content = {"type": "tag", "begin": "<", "end": ">"}
    content["content"] = {"type": "json_schema", "json_schema": schema}
    with pytest.raises(kind) as caught:
        RootStateMachine.from_structural_tag({"type": "structural_tag", "format": content})
    assert caught.value.pointer.startswith("/format/content/json_schema/properties/a")


@pytest.mark.parametrize(
    "tag",
    [
        None,
        [],
        "{",
        "[]",
        {},
        {"type": "structural_tag"},
        {"type": "json_schema", "format": ANY},
        {"type": "structural_tag", "format": ANY, "triggers": ["a"]},
        {"type": "structural_tag", "structures": [{}], "triggers": ["a"]},
        {"type": "structural_tag", "structures": [], "triggers": ["a"]},
    ],
)
def test_values_that_are_no_structural_tags_are_refused(tag: Any) -> None:
    with pytest.raises(StructuralTagError):
        RootStateMachine.from_structural_tag(tag)


def test_deep_nesting_is_refused() -> None:
    content: dict[str, Any] = dict(ANY)
    for _ in range(5000):
        content = {"type": "optional", "content": content}
    with pytest.raises(ProxyError):
        RootStateMachine.from_structural_tag({"type": "structural_tag", "format": content})


@pytest.mark.soak
def test_very_large_tags_are_refused() -> None:
    elements = [{"type": "const_string", "value": "a"}] * 600_000
    content = {"type": "sequence", "elements": elements}
    with pytest.raises(UnsupportedStructuralTagError):
        RootStateMachine.from_structural_tag({"type": "structural_tag", "format": content})
