"""JSON Schemas of pydantic types that match what validation keeps."""

from __future__ import annotations

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema


class ClosedJsonSchema(GenerateJsonSchema):
    """Pydantic's JSON Schema, with ``additionalProperties: false`` where extra properties are
    dropped.

    Types that allow extra properties have a schema that says so; it is unchanged.
    """

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        return _closed(super().model_schema(schema))

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        return _closed(super().dataclass_schema(schema))

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> JsonSchemaValue:
        return _closed(super().typed_dict_schema(schema))


def _closed(schema: JsonSchemaValue) -> JsonSchemaValue:
    if "properties" in schema:
        schema.setdefault("additionalProperties", False)
    return schema
