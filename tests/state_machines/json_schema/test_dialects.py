"""Custom metaschemas: their draft and their vocabularies."""

from __future__ import annotations

from typing import Any

import pytest
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012
from schema_checks import assert_texts

from state_machines import InvalidSchemaError, JsonSchemaStateMachine, UnsupportedSchemaError

HERE = "http://example.com/meta"
DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_2019 = "https://json-schema.org/draft/2019-09/schema"
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"
VOCABULARY_2019 = "https://json-schema.org/draft/2019-09/vocab/"
VOCABULARY_2020 = "https://json-schema.org/draft/2020-12/vocab/"


def registry(**metaschemas: Any) -> Registry[Any]:
    """Return a registry of documents under ``http://example.com/``."""
    return Registry().with_resources(
        (f"http://example.com/{name}", DRAFT202012.create_resource(document))
        for name, document in metaschemas.items()
    )


def using(*names: str, draft: str = DRAFT_2020, **more: bool) -> Registry[Any]:
    """Return a registry with a metaschema that declares vocabularies."""
    prefix = VOCABULARY_2019 if draft == DRAFT_2019 else VOCABULARY_2020
    declared = {f"{prefix}{name}": True for name in ("core", *names)}
    declared |= {f"{prefix}{name.replace('_', '-')}": value for name, value in more.items()}
    return registry(meta={"$schema": draft, "$vocabulary": declared})


def test_keywords_of_unused_vocabularies_are_ignored() -> None:
    schema = {
        "$schema": HERE,
        "properties": {"a": {"minimum": 3}, "b": False},
        "required": ["c"],
        "items": {"type": "null"},
    }
    admitted, refused = ['{"a": 1}', "{}", "[1]"], ['{"b": 1}', '{"a": 1, "b": 1}']
    assert_texts(schema, admitted, refused, registry=using("applicator"), judged=False)


def test_adjacent_keywords_of_unused_vocabularies_are_not_read() -> None:
    """``contains`` reads ``minContains``, and ``unevaluatedProperties`` reads ``properties``."""
    schema = {"$schema": HERE, "contains": {"$ref": "#/$defs/no"}, "minContains": 0}
    schema["$defs"] = {"no": {"not": True}}
    assert_texts(schema, ["1"], ["[]", "[1]"], registry=using("applicator"), judged=False)
    schema = {"$schema": HERE, "properties": {"a": True}, "unevaluatedProperties": False}
    assert_texts(schema, ["{}"], ['{"a": 1}'], registry=using("unevaluated"), judged=False)


def test_metaschema_without_vocabularies_uses_all() -> None:
    known = registry(meta={"$schema": DRAFT_2020})
    assert_texts({"$schema": HERE, "type": "null"}, ["null"], ["1"], registry=known, judged=False)


def test_draft_is_inherited_through_metaschemas() -> None:
    known = registry(meta={"$schema": "http://example.com/base"}, base={"$schema": DRAFT_4})
    schema = {"$schema": f"{HERE}#", "minimum": 3, "exclusiveMinimum": True}
    assert_texts(schema, ["4"], ["3"], registry=known, judged=False)


@pytest.mark.parametrize(
    ("known", "asserted"),
    [
        (using("applicator"), None),
        (using("format-annotation"), False),
        (using("format-assertion"), True),
        (using(format_assertion=False), True),
        (using("format", draft=DRAFT_2019), True),
        (using(format=False, draft=DRAFT_2019), False),
    ],
)
def test_metaschema_decides_whether_formats_are_asserted(
    known: Registry[Any], asserted: bool | None
) -> None:
    """``asserted`` is ``None`` for never, ``False`` for as the option says, ``True`` for always."""
    schema = {"$schema": HERE, "format": "ipv4"}
    for option in (True, False):
        machine = JsonSchemaStateMachine(schema, registry=known, assert_formats=option)
        is_asserted = option if asserted is False else bool(asserted)
        assert machine.matches('"a"') is not is_asserted
        assert machine.matches('"1.2.3.4"')


def test_unknown_format_is_refused_if_the_metaschema_asserts_formats() -> None:
    schema = {"$schema": HERE, "items": {"format": "colour"}}
    with pytest.raises(UnsupportedSchemaError) as caught:
        JsonSchemaStateMachine(schema, registry=using("format-assertion", "applicator"))
    assert (caught.value.keyword, caught.value.pointer) == ("format", "/items/format")
    JsonSchemaStateMachine(schema, registry=using("format-annotation", "applicator"))


def test_strict_refuses_keywords_of_other_vocabularies() -> None:
    schema = {"$schema": HERE, "properties": {"a": {"minimum": 3}}}
    with pytest.raises(UnsupportedSchemaError, match=HERE) as caught:
        JsonSchemaStateMachine(schema, registry=using("applicator"), strict=True)
    assert (caught.value.keyword, caught.value.pointer) == ("minimum", "/properties/a/minimum")


def test_unknown_required_vocabulary_is_refused() -> None:
    def declaring(is_required: bool) -> Registry[Any]:
        declared = {f"{VOCABULARY_2020}validation": True, "http://example.com/v": is_required}
        return registry(meta={"$schema": DRAFT_2020, "$vocabulary": declared})

    schema = {"$schema": HERE, "type": "null"}
    assert_texts(schema, ["null"], ["1"], registry=declaring(False), judged=False)
    with pytest.raises(UnsupportedSchemaError, match=r"http://example\.com/v") as caught:
        JsonSchemaStateMachine(schema, registry=declaring(True))
    assert (caught.value.keyword, caught.value.pointer) == ("$schema", "/$schema")


@pytest.mark.parametrize(
    "metaschema",
    [
        {},
        {"$schema": 7},
        {"$schema": HERE},
        {"$schema": "http://example.com/none"},
        {"$schema": DRAFT_2020, "$vocabulary": []},
        {"$schema": DRAFT_2020, "$vocabulary": {f"{VOCABULARY_2020}core": "yes"}},
    ],
)
def test_malformed_metaschema_is_refused(metaschema: Any) -> None:
    with pytest.raises(InvalidSchemaError) as caught:
        JsonSchemaStateMachine({"$schema": HERE}, registry=registry(meta=metaschema))
    assert (caught.value.keyword, caught.value.pointer) == ("$schema", "/$schema")


def test_embedded_schema_may_have_another_dialect() -> None:
    part = {"$id": "http://example.com/part", "$schema": HERE, "type": "null", "not": False}
    schema = {"items": {"$ref": "http://example.com/part"}, "minItems": 1, "$defs": {"p": part}}
    assert_texts(schema, ["[1]", "1"], ["[]"], registry=using("applicator"), judged=False)


def test_registry_document_may_have_another_dialect() -> None:
    known = using("applicator").with_resource(
        "http://example.com/part",
        Resource(contents={"$schema": HERE, "type": "null"}, specification=DRAFT202012),
    )
    schema = {"$ref": "http://example.com/part", "type": "integer"}
    assert_texts(schema, ["1"], ["null"], registry=known, judged=False)
