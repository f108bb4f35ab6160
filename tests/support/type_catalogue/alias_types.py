"""Aliases of pydantic's fields: other names, choices, paths, generators."""

from __future__ import annotations

from datetime import date

from pydantic import (
    AliasChoices,
    AliasGenerator,
    AliasPath,
    BaseModel,
    ConfigDict,
    Field,
    alias_generators,
)

from type_catalogue.entry import entry

__all__ = ["ENTRIES"]


class Aliased(BaseModel):
    name: str = Field(alias="full name")
    other: int = Field(default=1, validation_alias="the other", serialization_alias="unused")


class Choices(BaseModel):
    a: int = Field(validation_alias=AliasChoices("first", "second"))
    b: int = Field(default=0, validation_alias=AliasChoices("b", "B"))


class ChoicesWithPath(BaseModel):
    a: int = Field(validation_alias=AliasChoices("a", AliasPath("b", "c")))


class PathAlias(BaseModel):
    city: str = Field(validation_alias=AliasPath("address", "city"))


class PathToItem(BaseModel):
    first: int = Field(validation_alias=AliasPath("items", 0))


class PathsOfOneObject(BaseModel):
    city: str = Field(validation_alias=AliasPath("address", "city"))
    street: str = Field(default="", validation_alias=AliasPath("address", "street"))


class PathInClosed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    a: int = Field(validation_alias=AliasPath("x", "y"))


class OptionalPath(BaseModel):
    a: int
    city: str | None = Field(default=None, validation_alias=AliasPath("address", "city"))


class Camel(BaseModel):
    model_config = ConfigDict(alias_generator=alias_generators.to_camel)
    first_name: str
    birth_date: date | None = None


class GeneratedAliases(BaseModel):
    model_config = ConfigDict(
        alias_generator=AliasGenerator(validation_alias=str.upper, serialization_alias=str.title)
    )
    name: str
    count: int = 0


class ByName(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    name: str = Field(alias="n")


class ByNameOnly(BaseModel):
    model_config = ConfigDict(validate_by_alias=False, validate_by_name=True)
    name: str = Field(alias="n")
    count: int = Field(default=0, alias="c")


class ByNameClosed(BaseModel):
    model_config = ConfigDict(validate_by_name=True, extra="forbid")
    name: str = Field(alias="n")


ENTRIES = (
    entry("aliases", Aliased, ['{"full name": "a", "the other": 2}'], ['{"name": "a"}']),
    entry("AliasChoices", Choices, ['{"first": 1, "b": 2}'], ["{}"]),
    entry("AliasChoices with a path", ChoicesWithPath, ['{"a": 1}'], ["{}"]),
    entry("AliasPath", PathAlias, ['{"address": {"city": "a"}}'], ['{"city": "a"}', "{}"]),
    entry("AliasPath to an item", PathToItem, ['{"items": [1]}'], ['{"first": 1}']),
    entry(
        "AliasPaths of one object",
        PathsOfOneObject,
        ['{"address": {"city": "a", "street": "b"}}'],
        ['{"address": {}}'],
    ),
    entry("AliasPath in a closed model", PathInClosed, ['{"x": {"y": 1}}'], ['{"a": 1}']),
    entry("AliasPath with a default", OptionalPath, ['{"a": 1, "address": {"city": "x"}}'], ["{}"]),
    entry(
        "alias generator", Camel, ['{"firstName": "a", "birthDate": null}'], ['{"first_name": "a"}']
    ),
    entry("AliasGenerator", GeneratedAliases, ['{"NAME": "a", "COUNT": 1}'], ['{"name": "a"}']),
    entry("populate_by_name", ByName, ['{"n": "a"}'], ["{}"]),
    entry("names without aliases", ByNameOnly, ['{"name": "a", "count": 1}'], ['{"n": "a"}']),
    entry("names and aliases, closed", ByNameClosed, ['{"n": "a"}'], ["{}", '{"n": "a", "x": 1}']),
)
