"""Strings of pydantic: lengths, transformations, patterns."""

from __future__ import annotations

import re
from typing import Annotated, Any

import annotated_types as at
import pydantic
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from type_catalogue.entry import entry

__all__ = ["ENTRIES"]


def text(**constraints: Any) -> Any:
    """Return a string with constraints."""
    return Annotated[str, StringConstraints(**constraints)]


def matching(pattern: str | re.Pattern[str]) -> Any:
    """Return a string with a pattern."""
    return Annotated[str, Field(pattern=pattern)]


class Stripped(BaseModel):
    """Strings of a model that strips them."""

    model_config = ConfigDict(str_strip_whitespace=True, str_min_length=1, str_max_length=5)
    a: str
    b: list[str] = []


class Lowered(BaseModel):
    """Strings of a model that lowers them."""

    model_config = ConfigDict(str_to_lower=True)
    a: Annotated[str, Field(pattern="^[a-z]+$")]


class Uppered(BaseModel):
    """Strings of a model that uppers them."""

    model_config = ConfigDict(str_to_upper=True)
    code: Annotated[str, Field(pattern="^[A-Z]{2,3}$")]


class PythonPatterns(BaseModel):
    """A model whose patterns are Python's."""

    model_config = ConfigDict(regex_engine="python-re")
    a: Annotated[str, Field(pattern=r"^(?=.*\d)[a-z\d]{2,6}$")]
    b: Annotated[str, Field(pattern=r"^(\w)\1$")] = "aa"


class PythonPattern(BaseModel):
    """A model with one pattern of Python."""

    model_config = ConfigDict(regex_engine="python-re")
    a: Annotated[str, Field(pattern=r"^\w+\Z")]


class Numbered(BaseModel):
    """Strings that numbers are converted to."""

    model_config = ConfigDict(coerce_numbers_to_str=True)
    a: str
    b: Annotated[str, Field(min_length=2, max_length=3)]


ENTRIES = (
    entry("str", str, ['"a"', '""', '"é\\n"', '"\\ud83d\\ude00"'], ["1"]),
    entry("StrictStr", pydantic.StrictStr, ['"a"'], ["1"]),
    entry("str, length", text(min_length=2, max_length=5), ['"ab"', '"é😀"'], ['"a"', '"abcdef"']),
    entry("str, MinLen", Annotated[str, at.MinLen(1)], ['"a"'], ['""']),
    entry("str, Len", Annotated[str, at.Len(1, 3)], ['"abc"'], ['"abcd"']),
    entry("str, max_length 0", text(max_length=0), ['""'], ['"a"']),
    entry("constr", pydantic.constr(min_length=1, max_length=3), ['"abc"'], ['""']),
    entry("str, combining characters", text(min_length=1, max_length=2), ['"e\u0301"'], ['"e\u0301e"']),
    entry("str, stripped", text(strip_whitespace=True), ['"a"', '"a b"'], ["1"]),
    entry("str, stripped with min_length", text(strip_whitespace=True, min_length=1), ['"a"'], ['" "', '"\\u3000"']),
    entry("str, stripped with max_length", text(strip_whitespace=True, max_length=3), ['"abc"'], ['"abcd"']),
    entry(
        "str, stripped with both lengths",
        text(strip_whitespace=True, min_length=2, max_length=3),
        ['"ab"', '"a b"'],
        ['" a"', '"abcd"'],
    ),
    entry("str, stripped with pattern", text(strip_whitespace=True, pattern="^[a-z]+$"), ['"abc"'], ['"a b"']),
    entry("str, lower", text(to_lower=True), ['"abc"'], ["1"]),
    entry("str, lower with pattern", text(to_lower=True, pattern="^[a-z]+$"), ['"abc"'], ['"a1"']),
    entry("str, upper with pattern", text(to_upper=True, pattern="^[A-Z]+$"), ['"ABC"'], ['"a1"']),
    entry("str, upper with length", text(to_upper=True, max_length=2), ['"AB"'], ['"abc"'], "the length of the upper-cased text"),
    entry("str, lower with length", text(to_lower=True, min_length=2, max_length=2), ['"ab"'], ['"abc"']),
    entry(
        "str, stripped, lower and pattern",
        text(strip_whitespace=True, to_lower=True, pattern=r"^[a-z]{2}\d$"),
        ['"ab1"'],
        ['"ab"'],
    ),
    entry("str, ascii only", text(ascii_only=True), ['"abc"'], ['"é"']),
    entry("str, ascii only with length", text(ascii_only=True, min_length=1, max_length=4), ['"abc"'], ['"é"', '""']),
    entry("stripped model", Stripped, ['{"a": "ab", "b": ["c"]}'], ['{"a": " "}', '{"a": "abcdef"}']),
    entry("lowered model", Lowered, ['{"a": "abc"}'], ['{"a": "1"}']),
    entry("uppered model", Uppered, ['{"code": "AB"}'], ['{"code": "a"}']),
    entry("numbers to str", Numbered, ['{"a": "x", "b": "12"}'], ['{"a": true, "b": "1"}']),
    entry("model of Python's patterns", PythonPatterns, ['{"a": "a1", "b": "aa"}'], ['{"a": "ab", "b": "aa"}']),
    entry("model of a pattern with \\Z", PythonPattern, ['{"a": "é1"}'], ['{"a": "-"}']),
    entry("pattern, plain", matching(r"^[A-Z]{2}\d{3}(-[a-z]+)?$"), ['"AB123"', '"AB123-x"'], ['"ab123"']),
    entry("pattern, not anchored", matching("ab"), ['"xaby"'], ['"a"']),
    entry("pattern, POSIX class", matching("^[[:alpha:]]+$"), ['"ab"'], ['":]"', '"1"']),
    entry("pattern, negated POSIX class", matching("^[[:^digit:]]+$"), ['"ab"'], ['"1"']),
    entry("pattern, intersection", matching("^[a-z&&[^aeiou]]+$"), ['"bcd"'], ['"a"', '"&"']),
    entry("pattern, difference", matching("^[a-z--b-d]+$"), ['"ae"'], ['"b"', '"-"']),
    entry("pattern, symmetric difference", matching("^[a-d~~c-f]+$"), ['"ae"'], ['"c"', '"~"']),
    entry("pattern, nested class", matching("^[ab[0-9]]+$"), ['"a1"'], ['"]"']),
    entry("pattern, \\d", matching(r"^\d{2}$"), ['"12"'], ['"a1"']),
    entry("pattern, \\D", matching(r"^\D+$"), ['"ab"'], ['"1"', '"\u0661"']),
    entry("pattern, \\w", matching(r"^\w+$"), ['"ab1"', '"é"'], ['"-"']),
    entry("pattern, \\W", matching(r"^\W+$"), ['"--"'], ['"a"', '"é"']),
    entry("pattern, [^\\w]", matching(r"^[^\w]+$"), ['"- "'], ['"ß"']),
    entry("pattern, \\s", matching(r"^a\sb$"), ['"a b"'], ['"ab"']),
    entry("pattern, \\S", matching(r"^\S+$"), ['"ab"'], ['"a b"', '"\u0085"']),
    entry("pattern, \\b", matching(r"^\bab\b.*$"), ['"ab cd"'], ['"abc"', '"abé"']),
    entry("pattern, \\B", matching(r"^a\Bb$"), ['"ab"'], ['"a"']),
    entry("pattern, dot", matching("^.{2}$"), ['"ab"', '"a\u2028"'], ['"a"', '"\\n\\n"']),
    entry("pattern, (?s)", matching("(?s)^a.b$"), ['"a\\nb"', '"axb"'], ['"ab"']),
    entry("pattern, (?i)", matching("(?i)^straße$"), ['"STRAßE"', '"straße"'], ['"strasse"']),
    entry("pattern, (?i) of k", matching("(?i)^k$"), ['"K"', '"k"'], ['"x"']),
    entry("pattern, (?x)", matching("(?x)^ a \\ b # note\n$"), ['"a b"'], ['" a b"']),
    entry("pattern, (?m)", matching("(?m)^a$"), ['"a"', '"b\\na"'], ['"ab"']),
    entry("pattern, \\A and \\z", matching(r"\Aab?\z"), ['"a"', '"ab"'], ['"a\\n"']),
    entry("pattern, dollar before a line feed", matching("^a$"), ['"a"'], ['"a\\n"']),
    entry("pattern, \\p{L}", matching(r"^\p{L}+$"), ['"aé"'], ['"1"']),
    entry("pattern, \\p{Greek}", matching(r"^\p{Greek}+$"), ['"αβ"'], ['"a"']),
    entry("pattern, \\pN and \\PL", matching(r"^\pN\PL$"), ['"1-"'], ['"1a"']),
    entry("pattern, \\x{...}", matching(r"^\x{1F600}\x41$"), ['"😀A"'], ['"A"']),
    entry("pattern, flags of a group", matching("^(?i:a)b$"), ['"Ab"'], ['"AB"']),
    entry("pattern, ungreedy", matching("(?U)^a+b$"), ['"aab"'], ['"b"']),
    entry("pattern, named group", matching(r"^(?P<year>\d{4})-(?<month>0[1-9]|1[0-2])$"), ['"2024-01"'], ['"2024-13"']),
    entry("pattern, class with ] first", matching("^[]a]+$"), ['"]a"'], ['"b"']),
    entry("pattern, class with hyphen", matching("^[a-c-]+$"), ['"a-"'], ['"d"']),
    entry("pattern, octal and escapes", matching(r"^\t\n\x20\u0041$"), ['"\\t\\n A"'], ['"A"']),
    entry("pattern, (?-u) digits", matching(r"^(?-u:\d)+$"), ['"12"'], ['"\u0661"']),
    entry("pattern, word starts", matching(r"^\b{start}ab\b{end}$"), ['"ab"'], ['"a"']),
    entry("pattern with length", text(pattern=r"^a+b?$", min_length=2, max_length=4), ['"ab"', '"aaaa"'], ['"a"']),
    entry("pattern in a list", list[matching(r"^\w{1,3}$")], ['["ab", "é"]'], ['["-"]']),
    entry("compiled pattern", matching(re.compile(r"^\d+$")), ['"12"'], ['"a"']),
    entry("compiled pattern, end before a line feed", matching(re.compile("^ab$")), ['"ab"'], ['"abc"']),
    entry("compiled pattern, re.X", matching(re.compile("^ a b # c\n$", re.X)), ['"ab"'], ['" a b"']),
    entry("compiled pattern, re.I", matching(re.compile("^ab$", re.I)), ['"aB"'], ['"ac"']),
    entry("compiled pattern, re.S", matching(re.compile("^a.b$", re.S)), ['"a\\nb"'], ['"ab"']),
    entry("compiled pattern, re.M", matching(re.compile("^a$", re.M)), ['"b\\na"'], ['"ab"']),
    entry("compiled pattern, re.A", matching(re.compile(r"^\w+$", re.A)), ['"ab"'], ['"é"']),
    entry("compiled pattern, re.I and re.A", matching(re.compile("^k+$", re.I | re.A)), ['"kK"'], ['"\u212a"']),
    entry("compiled pattern, look-ahead", matching(re.compile("^(?!admin)[a-z]+$")), ['"user"'], ['"admin"']),
    entry("compiled pattern, look-behind", matching(re.compile("^[a-z]+(?<!x)$")), ['"ab"'], ['"ax"']),
    entry("compiled pattern, possessive", matching(re.compile("^a++b$")), ['"aab"'], ['"aa"']),
    entry("compiled pattern, class syntax of Rust", matching(re.compile("^[a&b|c]+$")), ['"a&"'], ['"x"']),
    entry("compiled pattern, \\s of Python", matching(re.compile(r"^\S\s$")), ['"a "'], ['"ab"', '"\\u001c "']),
)  # fmt: skip
