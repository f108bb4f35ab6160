"""JSON Schemas of pydantic types, without what pydantic would accept and drop."""

from __future__ import annotations

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

__all__ = ["ClosedJsonSchema"]


class ClosedJsonSchema(GenerateJsonSchema):
    """Pydantic's JSON Schema, without the properties that pydantic would accept and drop.

    Models, dataclasses and typed dicts that allow extra ones say so in their schema, and keep it.
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
