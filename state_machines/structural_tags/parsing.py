"""Reads a structural tag, in either of XGrammar's forms, as a typed tree.

Schemas, patterns and grammars are compiled with it, so that an error has its JSON Pointer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from state_machines.budgets import recursion_budget, step_budget
from state_machines.errors import (
    GrammarBudgetError,
    InvalidStructuralTagError,
    UnsupportedStructuralTagError,
)
from state_machines.grammar.tokens import MAX_TOKEN_ID
from state_machines.limits import LIMITS
from state_machines.structural_tags.bounds import has_excludes, is_unlimited
from state_machines.structural_tags.contents import (
    grammar,
    json_schema,
    json_text,
    qwen_xml_parameter,
    regex,
)
from state_machines.structural_tags.fields import FieldReader
from state_machines.structural_tags.formats import (
    Alternatives,
    AnyText,
    AnyTokens,
    ConstString,
    Dispatch,
    Format,
    OneToken,
    OtherToken,
    Repeated,
    SeparatedTags,
    Series,
    Tag,
    Token,
    TokenDispatch,
    TriggeredTags,
)
from state_machines.structural_tags.triggers import grouped_rules, grouped_tags, grouped_token_tags


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
    try:
        with step_budget(LIMITS.compile_steps), recursion_budget():
            return _root(tag)
    except GrammarBudgetError as error:
        raise UnsupportedStructuralTagError(
            error.what, pointer="", hint="Simplify the structural tag"
        ) from error


def _root(tag: Any) -> Format:
    reader = FieldReader(tag, "", "a structural tag")
    reader.choice("type", ["structural_tag"])
    if reader.has("structures") or reader.has("triggers"):
        return _legacy(reader)
    content = _format(reader.member("format"), reader.at("format"), 0)
    reader.end()
    return content


def _legacy(reader: FieldReader) -> Format:
    triggers = _triggers(reader)
    tags = []
    for index, item in reader.items("structures"):
        pointer = reader.at("structures", index)
        structure = FieldReader(item, pointer, "a structure")
        schema = structure.member("schema")
        if isinstance(schema, str):
            try:
                schema = json.loads(schema)
            except (ValueError, RecursionError) as error:
                raise structure.error(f"the schema is not JSON: {error}", "schema") from error
        begin, end = structure.string("begin"), structure.string("end")
        structure.end()
        content = json_text(schema, structure.at("schema"), pointer)
        tags.append(Tag(pointer=pointer, begin=begin, content=content, ends=(end,)))
    reader.end()
    return TriggeredTags(
        pointer=reader.pointer,
        triggers=grouped_tags(triggers, tags, reader.at("triggers")),
    )


def _format(value: object, pointer: str, depth: int) -> Format:
    if depth > LIMITS.nested_groups:
        raise UnsupportedStructuralTagError(
            f"formats are nested more than {LIMITS.nested_groups} deep", pointer=pointer
        )
    reader = FieldReader(value, pointer, "a format")
    kind = reader.choice("type", _PARSERS)
    reader.what = f"a format of type {kind!r}"
    found = _PARSERS[kind](reader, depth + 1)
    reader.end()
    return found


def _const_string(reader: FieldReader, depth: int) -> Format:
    return ConstString(pointer=reader.pointer, value=reader.string("value"))


def _any_text(reader: FieldReader, depth: int) -> Format:
    excludes = reader.strings("excludes")
    return AnyText(
        pointer=reader.pointer,
        excludes=excludes,
        max_chars=reader.limit("max_chars"),
        max_tokens=reader.limit("max_tokens"),
    )


def _elements(reader: FieldReader, depth: int) -> tuple[Format, ...]:
    return tuple(
        _format(value, reader.at("elements", index), depth)
        for index, value in reader.items("elements")
    )


def _sequence(reader: FieldReader, depth: int) -> Format:
    return Series(pointer=reader.pointer, elements=_elements(reader, depth))


def _or(reader: FieldReader, depth: int) -> Format:
    return Alternatives(pointer=reader.pointer, elements=_elements(reader, depth))


def _content(reader: FieldReader, depth: int) -> Format:
    return _format(reader.member("content"), reader.at("content"), depth)


def _repeated(min_count: int, max_count: int | None) -> Callable[[FieldReader, int], Format]:
    def parse_repeated(reader: FieldReader, depth: int) -> Format:
        return Repeated(
            pointer=reader.pointer,
            content=_content(reader, depth),
            min_count=min_count,
            max_count=max_count,
        )

    return parse_repeated


def _repeat(reader: FieldReader, depth: int) -> Format:
    min_count = reader.integer(reader.member("min"), "min")
    max_count: int | None = reader.integer(reader.member("max"), "max", minimum=-1)
    if max_count == -1:
        max_count = None
    elif max_count is not None and max_count < min_count:
        raise reader.error("max is smaller than min", "max", hint="-1 stands for no bound")
    return Repeated(
        pointer=reader.pointer,
        content=_content(reader, depth),
        min_count=min_count,
        max_count=max_count,
    )


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
    is_open = isinstance(ends, tuple) and not any(ends)
    if is_open and is_unlimited(content) and not has_excludes(content):
        raise reader.error(
            "a tag around a text without bounds needs an end that is not empty", "end"
        )
    return Tag(pointer=reader.pointer, begin=begin, content=content, ends=ends)


def _delimiter(reader: FieldReader, value: object, name: str) -> str | OneToken:
    if not isinstance(value, Mapping):
        return reader.checked_string(value, name, allows_empty=True)
    token = FieldReader(value, reader.at(name), "a token")
    token.choice("type", ["token"], "token")
    found = _token(token, 0)
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


def _triggers(reader: FieldReader) -> tuple[str, ...]:
    return tuple(
        reader.checked_string(value, "triggers", index) for index, value in reader.items("triggers")
    )


def _triggered_tags(reader: FieldReader, depth: int) -> Format:
    triggers = _triggers(reader)
    tags = _tags(reader, depth)
    return TriggeredTags(
        pointer=reader.pointer,
        triggers=grouped_tags(triggers, tags, reader.at("triggers")),
        excludes=reader.strings("excludes"),
        at_least_one=reader.boolean("at_least_one", False),
        stop_after_first=reader.boolean("stop_after_first", False),
    )


def _tags_with_separator(reader: FieldReader, depth: int) -> Format:
    return SeparatedTags(
        pointer=reader.pointer,
        tags=tuple(_tags(reader, depth)),
        separator=reader.string("separator"),
        at_least_one=reader.boolean("at_least_one", False),
        stop_after_first=reader.boolean("stop_after_first", False),
    )


def _dispatch(reader: FieldReader, depth: int) -> Format:
    rules = []
    for index, pair in reader.items("rules"):
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise reader.error("a rule is a list of a pattern and a format", "rules", index)
        pattern = reader.checked_string(pair[0], "rules", index, 0)
        rules.append((pattern, _format(pair[1], reader.at("rules", index, 1), depth)))
    return Dispatch(
        pointer=reader.pointer,
        rules=grouped_rules(rules, reader.at("rules")),
        loop=reader.boolean("loop", True),
        excludes=reader.strings("excludes"),
    )


def _token(reader: FieldReader, depth: int) -> OneToken:
    token = _checked_token(reader, reader.member("token"), "token")
    return OneToken(pointer=reader.pointer, tokens=(token,))


def _checked_token(reader: FieldReader, value: object, *names: str | int) -> Token:
    if isinstance(value, str):
        return reader.checked_string(value, *names)
    token_id = reader.integer(value, *names)
    if token_id > MAX_TOKEN_ID:
        raise reader.error(f"no token has a number above {MAX_TOKEN_ID}", *names)
    return token_id


def _token_list(reader: FieldReader, name: str, *, required: bool = False) -> tuple[Token, ...]:
    items = reader.items(name, required=required)
    return tuple(_checked_token(reader, value, name, index) for index, value in items)


def _exclude_token(reader: FieldReader, depth: int) -> Format:
    return OtherToken(pointer=reader.pointer, excludes=_token_list(reader, "exclude_tokens"))


def _any_tokens(reader: FieldReader, depth: int) -> Format:
    return AnyTokens(
        pointer=reader.pointer,
        excludes=_token_list(reader, "exclude_tokens"),
        max_tokens=reader.limit("max_tokens"),
    )


def _token_triggered_tags(reader: FieldReader, depth: int) -> Format:
    triggers = _token_list(reader, "trigger_tokens", required=True)
    return TokenDispatch(
        pointer=reader.pointer,
        rules=grouped_token_tags(triggers, _tags(reader, depth), reader.at("trigger_tokens")),
        loop=not reader.boolean("stop_after_first", False),
        at_least_one=reader.boolean("at_least_one", False),
        excludes=_token_list(reader, "exclude_tokens"),
        knows_end=True,
    )


def _token_dispatch(reader: FieldReader, depth: int) -> Format:
    rules: dict[Token, list[Format]] = {}
    for index, pair in reader.items("rules"):
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise reader.error("a rule is a list of a token and a format", "rules", index)
        token = _checked_token(reader, pair[0], "rules", index, 0)
        content = _format(pair[1], reader.at("rules", index, 1), depth)
        rules.setdefault(token, []).append(content)
    return TokenDispatch(
        pointer=reader.pointer,
        rules=tuple((token, tuple(contents)) for token, contents in rules.items()),
        loop=reader.boolean("loop", True),
        excludes=_token_list(reader, "exclude_tokens"),
    )


_PARSERS: Mapping[str, Callable[[FieldReader, int], Format]] = {
    "const_string": _const_string,
    "json_schema": json_schema,
    "qwen_xml_parameter": qwen_xml_parameter,
    "any_text": _any_text,
    "regex": regex,
    "grammar": grammar,
    "sequence": _sequence,
    "or": _or,
    "tag": _tag,
    "triggered_tags": _triggered_tags,
    "tags_with_separator": _tags_with_separator,
    "optional": _repeated(0, 1),
    "plus": _repeated(1, None),
    "star": _repeated(0, None),
    "repeat": _repeat,
    "dispatch": _dispatch,
    "token": _token,
    "exclude_token": _exclude_token,
    "any_tokens": _any_tokens,
    "token_triggered_tags": _token_triggered_tags,
    "token_dispatch": _token_dispatch,
}
