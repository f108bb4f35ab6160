"""Formats with the texts of a schema, a pattern or a grammar, which are compiled when read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from state_machines.context_free import GrammarStateMachine
from state_machines.errors import (
    GrammarError,
    PatternError,
    SchemaError,
    UnsupportedStructuralTagError,
)
from state_machines.machine import RegexStateMachine
from state_machines.structural_tags.fields import FieldReader
from state_machines.structural_tags.formats import Arguments, Format, MachineText
from state_machines.structural_tags.json_values import JsonValueStateMachine
from state_machines.structural_tags.xml_arguments import (
    NESTED_STYLES,
    STYLES,
    argument_language,
)


def json_schema(reader: FieldReader, _: int) -> Format:
    """Read a format of the type ``json_schema``."""
    return _schema_text(reader, reader.choice("style", ["json", *STYLES, *NESTED_STYLES], "json"))


def qwen_xml_parameter(reader: FieldReader, _: int) -> Format:
    """Read a format of the type ``qwen_xml_parameter``."""
    return _schema_text(reader, "qwen_xml")


def _schema_text(reader: FieldReader, style: str) -> Format:
    schema = reader.member("json_schema")
    if not isinstance(schema, Mapping | bool):
        raise reader.error(
            f"a JSON Schema is an object or a boolean, not {type(schema).__name__}", "json_schema"
        )
    any_order = reader.boolean("any_order", False)
    max_whitespace = reader.limit("max_whitespace_cnt")
    excludes = tuple(sorted(set(reader.strings("excludes"))))
    with _located(reader.at("json_schema")):
        if style == "json":
            machine = JsonValueStateMachine(
                schema, any_order=any_order, max_whitespace=max_whitespace, excludes=excludes
            )
            return MachineText(pointer=reader.pointer, machine=machine)
        language = argument_language(
            schema, style, any_order=any_order, max_whitespace=max_whitespace, excludes=excludes
        )
        return Arguments(pointer=reader.pointer, compile=language)


def json_text(schema: Any, at: str, pointer: str) -> Format:
    """Return the JSON texts of a schema at a pointer."""
    with _located(at):
        machine = JsonValueStateMachine(schema, any_order=False, max_whitespace=None, excludes=())
    return MachineText(pointer=pointer, machine=machine)


def regex(reader: FieldReader, _: int) -> Format:
    """Read a format of the type ``regex``."""
    pattern = reader.checked_string(reader.member("pattern"), "pattern")
    with _located(reader.at("pattern")):
        return MachineText(pointer=reader.pointer, machine=RegexStateMachine(pattern))


def grammar(reader: FieldReader, _: int) -> Format:
    """Read a format of the type ``grammar``."""
    text = reader.checked_string(reader.member("grammar"), "grammar")
    with _located(reader.at("grammar")):
        return MachineText(pointer=reader.pointer, machine=GrammarStateMachine(text))


@contextmanager
def _located(pointer: str) -> Iterator[None]:
    """Locate the errors of a schema, a pattern or a grammar in the structural tag."""
    try:
        yield
    except SchemaError as error:
        raise error.located(pointer + error.pointer, None) from error
    except (PatternError, GrammarError) as error:
        raise UnsupportedStructuralTagError(
            error.summary, pointer=pointer, hint=error.hint
        ) from error
