"""Structural tags: XGrammar's interchange format of constraints, as languages.

Tags are parsed here, in either of XGrammar's forms. Each type of format has a function that reads
its fields and returns its language. Schemas, patterns and grammars are compiled with it, so that an
error has its JSON Pointer. Reading order:
:mod:`~state_machines.structural_tags.formats` and :mod:`~state_machines.structural_tags.dispatch`
(languages that depend on their place), :mod:`~state_machines.structural_tags.fields` (members of
JSON objects), :mod:`~state_machines.structural_tags.schema_styles` (the styles of a JSON schema).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from state_machines.budgets import derivative_budget
from state_machines.context_free import GrammarStateMachine
from state_machines.errors import (
    GrammarBudgetError,
    GrammarError,
    InvalidStructuralTagError,
    PatternError,
    SchemaError,
    UnsupportedStructuralTagError,
)
from state_machines.grammar.node import Node
from state_machines.grammar.nodes import repetition
from state_machines.grammar.tokens import MAX_TOKEN_ID
from state_machines.json_schema.machine import PropertyOrder
from state_machines.limits import LIMITS
from state_machines.machine import RegexStateMachine
from state_machines.structural_tags.dispatch import (
    grouped_rules,
    grouped_tags,
    separated_tags,
    text_dispatch,
    token_dispatch,
    triggered_tags,
)
from state_machines.structural_tags.fields import FieldReader
from state_machines.structural_tags.formats import (
    Format,
    OneToken,
    Place,
    Tag,
    Token,
    any_text,
    choice,
    const,
    free_format,
    other_token,
    repeat,
    series,
    texts_of,
)
from state_machines.structural_tags.schema_styles import STYLE_NAMES, json_machine, style_language

__all__ = ["Format", "bounded", "parse"]


T = TypeVar("T")


def parse(tag: Any) -> Format:
    """Return the format of a structural tag, given as parsed JSON or as its text.

    Raises:
        StructuralTagError: The tag is malformed, or a part of it cannot be enforced.
        SchemaError: A schema is refused. Its pointer is one of the structural tag.
    """
    if isinstance(tag, str):
        try:
            tag = json.loads(tag)
        except (ValueError, RecursionError) as error:
            raise InvalidStructuralTagError(f"not JSON: {error}", pointer="") from error
    with bounded():
        reader = FieldReader(tag, "", "a structural tag")
        reader.choice("type", ["structural_tag"])
        if reader.has("structures") or reader.has("triggers"):
            found = _legacy(reader)
        else:
            found = _format(reader.member("format"), reader.at("format"), 0)
        reader.end()
        return found


@contextmanager
def bounded() -> Iterator[None]:
    """Apply the step budget of a compilation."""
    try:
        with derivative_budget(LIMITS.compile_steps):
            yield
    except GrammarBudgetError as error:
        raise UnsupportedStructuralTagError(
            error.what, pointer="", hint="Simplify the structural tag"
        ) from error


def _format(value: object, pointer: str, depth: int) -> Format:
    if depth > LIMITS.nested_groups:
        raise UnsupportedStructuralTagError(
            f"formats are nested more than {LIMITS.nested_groups} deep", pointer=pointer
        )
    reader = FieldReader(value, pointer, "a format")
    kind = reader.choice("type", _FORMATS)
    reader.what = f"a format of type {kind!r}"
    found = _FORMATS[kind](reader, depth + 1)
    reader.end()
    return found


# Texts of schemas, patterns and grammars.


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


def _in_style(reader: FieldReader, style: str = "") -> Format:
    style = style or reader.choice("style", ["json", *STYLE_NAMES], "json")
    schema = reader.member("json_schema")
    if not isinstance(schema, Mapping | bool):
        raise reader.error(
            f"a JSON Schema is an object or a boolean, not {type(schema).__name__}", "json_schema"
        )
    any_order = reader.boolean("any_order", False)
    max_whitespace = reader.limit("max_whitespace_cnt")
    excludes = tuple(sorted(set(reader.strings("excludes"))))
    order: PropertyOrder = "any" if any_order else "schema"
    with _located(reader.at("json_schema")):
        if style == "json":
            return texts_of(json_machine(schema, order, max_whitespace, excludes))
        compiled = style_language(schema, style, order, max_whitespace, excludes)
        return Format(language=lambda place: compiled(place.writer.spell))


def _regex(reader: FieldReader, _: int) -> Format:
    pattern = reader.checked_string(reader.member("pattern"), "pattern")
    with _located(reader.at("pattern")):
        return texts_of(RegexStateMachine(pattern))


def _grammar(reader: FieldReader, _: int) -> Format:
    text = reader.checked_string(reader.member("grammar"), "grammar")
    with _located(reader.at("grammar")):
        return texts_of(GrammarStateMachine(text))


# Texts, and their composition.


def _elements(reader: FieldReader, depth: int) -> tuple[Format, ...]:
    return tuple(
        _format(value, reader.at("elements", index), depth)
        for index, value in reader.items("elements")
    )


def _content(reader: FieldReader, depth: int) -> Format:
    return _format(reader.member("content"), reader.at("content"), depth)


def _repeat(reader: FieldReader, depth: int) -> Format:
    min_count = reader.integer(reader.member("min"), "min")
    max_count: int | None = reader.integer(reader.member("max"), "max", minimum=-1)
    if max_count == -1:
        max_count = None
    elif max_count is not None and max_count < min_count:
        raise reader.error("max is smaller than min", "max", hint="-1 stands for no bound")
    return repeat(_content(reader, depth), min_count, max_count)


def _dispatch(reader: FieldReader, depth: int) -> Format:
    rules = list(_rules(reader, depth, "pattern", FieldReader.checked_string))
    grouped = grouped_rules(rules, reader.at("rules"))
    return text_dispatch(grouped, reader.boolean("loop", True), reader.strings("excludes"))


def _rules(
    reader: FieldReader, depth: int, what: str, read: Callable[..., T]
) -> Iterator[tuple[T, Format]]:
    """Yield what begins each rule, which ``read`` checks, with the format after it."""
    for index, pair in reader.items("rules"):
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise reader.error(f"a rule is a list of a {what} and a format", "rules", index)
        found = read(reader, pair[0], "rules", index, 0)
        yield found, _format(pair[1], reader.at("rules", index, 1), depth)


# Tags.


def _one_tag(reader: FieldReader, depth: int) -> Format:
    tag = _tag(reader, depth)
    return Format(language=tag.node, ends_in_text=tag.ends_in_text)


def _tag(reader: FieldReader, depth: int) -> Tag:
    begin = _delimiter(reader, reader.member("begin"), "begin")
    content = _content(reader, depth)
    end = reader.member("end")
    ends: tuple[str, ...] | OneToken
    if isinstance(end, list | tuple):
        ends = tuple(
            reader.checked_string(text, "end", index, allows_empty=True)
            for index, text in reader.items("end")
        )
    else:
        delimiter = _delimiter(reader, end, "end")
        ends = (delimiter,) if isinstance(delimiter, str) else delimiter
    is_open = not isinstance(ends, OneToken) and not any(ends)
    if is_open and content.is_unlimited and not content.has_excludes:
        raise reader.error(
            "a tag around a text without bounds needs an end that is not empty", "end"
        )
    return Tag(reader.pointer, begin, content, ends)


def _delimiter(reader: FieldReader, value: object, name: str) -> str | OneToken:
    if not isinstance(value, Mapping):
        return reader.checked_string(value, name, allows_empty=True)
    token = FieldReader(value, reader.at(name), "a token")
    token.choice("type", ["token"], "token")
    found = OneToken(_checked_token(token, token.member("token"), "token"))
    token.end()
    return found


def _tags(reader: FieldReader, depth: int) -> list[Tag]:
    found = []
    for index, value in reader.items("tags"):
        tag = FieldReader(value, reader.at("tags", index), "a tag")
        tag.choice("type", ["tag"], "tag")
        found.append(_tag(tag, depth + 1))
        tag.end()
    return found


def _triggers(reader: FieldReader) -> list[str]:
    return [
        reader.checked_string(value, "triggers", index) for index, value in reader.items("triggers")
    ]


def _legacy(reader: FieldReader) -> Format:
    """Read the old form of structural tags."""
    triggers, tags = _triggers(reader), []
    for index, item in reader.items("structures"):
        structure = FieldReader(item, reader.at("structures", index), "a structure")
        schema = structure.member("schema")
        if isinstance(schema, str):
            try:
                schema = json.loads(schema)
            except (ValueError, RecursionError) as error:
                raise structure.error(f"the schema is not JSON: {error}", "schema") from error
        begin, end = structure.string("begin"), structure.string("end")
        structure.end()
        with _located(structure.at("schema")):
            content = texts_of(json_machine(schema))
        tags.append(Tag(structure.pointer, begin, content, (end,)))
    return triggered_tags(grouped_tags(triggers, tags, reader.at("triggers")))


def _triggered_tags(reader: FieldReader, depth: int) -> Format:
    triggers = _triggers(reader)
    groups = grouped_tags(triggers, _tags(reader, depth), reader.at("triggers"))
    return triggered_tags(groups, reader.strings("excludes"), *_counts(reader))


def _counts(reader: FieldReader) -> tuple[bool, bool]:
    """Read the fields ``at_least_one`` and ``stop_after_first`` of tags in free text."""
    return reader.boolean("at_least_one", False), reader.boolean("stop_after_first", False)


# Tokens.


def _checked_token(reader: FieldReader, value: object, *names: str | int) -> Token:
    if isinstance(value, str):
        return reader.checked_string(value, *names)
    token_id = reader.integer(value, *names)
    if token_id > MAX_TOKEN_ID:
        raise reader.error(f"no token has a number above {MAX_TOKEN_ID}", *names)
    return token_id


def _token_list(
    reader: FieldReader, name: str = "exclude_tokens", *, required: bool = False
) -> tuple[Token, ...]:
    items = reader.items(name, required=required)
    return tuple(_checked_token(reader, value, name, index) for index, value in items)


def _token(reader: FieldReader, _: int) -> Format:
    token = _checked_token(reader, reader.member("token"), "token")
    return Format(language=lambda place: place.writer.token((token,)))


def _exclude_token(reader: FieldReader, _: int) -> Format:
    excludes = _token_list(reader)
    return Format(language=lambda place: other_token(excludes, place), ends_in_text=True)


def _any_tokens(reader: FieldReader, _: int) -> Format:
    excludes, max_tokens = _token_list(reader), reader.limit("max_tokens")
    return free_format(
        lambda place: repetition(other_token(excludes, place), 0, max_tokens), excludes
    )


def _token_triggered_tags(reader: FieldReader, depth: int) -> Format:
    triggers = _token_list(reader, "trigger_tokens", required=True)
    rules: dict[Token, list[Callable[[Place], Node]]] = {trigger: [] for trigger in triggers}
    for tag in _tags(reader, depth):
        token = tag.begin[0] if isinstance(tag.begin, OneToken) else None
        if token is None or token not in rules:
            raise InvalidStructuralTagError(
                "the tag does not begin with one of the trigger tokens",
                pointer=f"{tag.pointer}/begin",
                hint='Its begin is {"type": "token", "token": …}, with the same text or number',
            )
        rules[token].append(tag.rest)
    for number, trigger in enumerate(triggers):
        if not rules[trigger]:
            raise reader.error(
                f"no tag begins with the token {trigger!r}", "trigger_tokens", number
            )
    at_least_one, stop_after_first = _counts(reader)
    return token_dispatch(
        rules, not stop_after_first, _token_list(reader), at_least_one, knows_end=True
    )


def _token_dispatch(reader: FieldReader, depth: int) -> Format:
    rules: dict[Token, list[Callable[[Place], Node]]] = {}
    for token, content in _rules(reader, depth, "token", _checked_token):
        rules.setdefault(token, []).append(content.node)
    return token_dispatch(rules, reader.boolean("loop", True), _token_list(reader))


_FORMATS: Mapping[str, Callable[[FieldReader, int], Format]] = {
    "const_string": lambda reader, _: const(reader.string("value")),
    "json_schema": lambda reader, _: _in_style(reader),
    "qwen_xml_parameter": lambda reader, _: _in_style(reader, "qwen_xml"),
    "any_text": lambda reader, _: any_text(
        reader.strings("excludes"), reader.limit("max_chars"), reader.limit("max_tokens")
    ),
    "regex": _regex,
    "grammar": _grammar,
    "sequence": lambda reader, depth: series(_elements(reader, depth)),
    "or": lambda reader, depth: choice(_elements(reader, depth)),
    "tag": _one_tag,
    "triggered_tags": _triggered_tags,
    "tags_with_separator": lambda reader, depth: separated_tags(
        _tags(reader, depth), reader.string("separator"), *_counts(reader)
    ),
    "optional": lambda reader, depth: repeat(_content(reader, depth), 0, 1),
    "plus": lambda reader, depth: repeat(_content(reader, depth), 1, None),
    "star": lambda reader, depth: repeat(_content(reader, depth), 0, None),
    "repeat": _repeat,
    "dispatch": _dispatch,
    "token": _token,
    "exclude_token": _exclude_token,
    "any_tokens": _any_tokens,
    "token_triggered_tags": _token_triggered_tags,
    "token_dispatch": _token_dispatch,
}
