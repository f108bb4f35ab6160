"""Formats are compared with the official suite, tables of examples, and other parsers."""

from __future__ import annotations

import ipaddress
import re
import uuid
from base64 import b64decode, urlsafe_b64decode
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from fractions import Fraction
from functools import partial
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

import email_validator
import idna.idnadata
import pydantic
import pytest
from data_files import NO_SUITE, suite_groups
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from schema_strategies import examples

from state_machines import JsonSchemaStateMachine
from state_machines.budgets import step_budget
from state_machines.errors import InvalidPatternError, UnsupportedPatternError
from state_machines.grammar.boolean import intersection
from state_machines.grammar.node import Node
from state_machines.grammar.text_languages import after_text, contains_word
from state_machines.reader_languages.formats import STRING_FORMATS, format_language
from state_machines.reader_languages.identifiers import idn_letters
from state_machines.regex import compile_pattern
from state_machines.regex.parser import parse


def accepts(name: str, text: str, draft: str = "2020-12") -> bool:
    language = format_language(name, draft)
    assert language is not None
    return contains_word(language, text)


# The official suite


def _official() -> Iterator[tuple[str, str, str, bool]]:
    seen = set()
    for group in suite_groups():
        name = group["schema"].get("format") if isinstance(group["schema"], dict) else None
        if "optional/format/" not in group["file"] or name not in STRING_FORMATS:
            continue
        for test in group["tests"]:
            draft = group["draft"].removeprefix("draft")
            key = (name, test["data"] if isinstance(test["data"], str) else None, draft)
            if isinstance(test["data"], str) and key not in seen:
                seen.add(key)
                yield name, test["data"], draft, test["valid"]


OFFICIAL = list(_official())


def is_a_label(text: str) -> bool:
    """Return whether a label starts with ``xn--``; such labels are never accepted."""
    return any(label.lower().startswith("xn--") for label in text.split("."))


@pytest.mark.skipif(not OFFICIAL, reason=NO_SUITE)
@pytest.mark.parametrize("name", sorted(STRING_FORMATS))
def test_official_suite_passes(name: str) -> None:
    wrong = [
        (text, draft, valid)
        for format_name, text, draft, valid in OFFICIAL
        if format_name == name and accepts(name, text, draft) is not valid
    ]
    if name != "idn-hostname":  # Some scripts and all contextual characters are left out.
        assert [case for case in wrong if not is_a_label(case[0])] == []
    assert [case for case in wrong if not case[2]] == []


# Tables


UUID_VERSIONS = (1, 3, 4, 5, 6, 7, 8)

VALID = {
    "date": ["2024-02-29", "2000-02-29", "1999-12-31", "0001-01-01", "9999-12-31"],
    "time": ["00:00:00Z", "23:59:60Z", "01:59:60+02:00", "12:00:00.5-03:30", "12:00:00z"],
    "date-time": [
        "2024-02-29T00:00:00Z",
        "2016-12-31T23:59:60Z",
        "2017-01-01T08:59:60+09:00",
        "2016-06-30T15:59:60.5-08:00",
    ],
    "duration": ["P1W", "P1Y2M3DT4H5M6S", "PT0S"],
    "email": ["a@b", "a.b+c@example.com", '"a b\\""@example.com', "x@[IPv6:::1]", "a@1.2.3.4"],
    "idn-email": ["ö@ö.example", "a@b.c"],
    "hostname": ["a", "a.b-c.d9", "9.9", "a--b", "r4---sn"],
    "idn-hostname": ["bücher.example", "Example.COM", "日本語。jp", "россия.рф", "한국.kr"],
    "ipv4": ["0.0.0.0", "255.255.255.255"],
    "ipv6": ["::", "1::", "::ffff:1.2.3.4", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7::"],
    "uri": ["a:", "http://a", "urn:isbn:0", "http://a:/?#", "x://[v1.a]/", "mailto:a@b"],
    "uri-reference": ["", "a/b?c#d", "//h", "?", "#"],
    "iri": ["http://ö/ö?ö#ö", "http://a/?\ue000"],
    "iri-reference": ["ö", "//ö"],
    "uri-template": ["", "/{a}{?b*,c:3}", "{+x}"],
    "uuid": ["00000000-0000-0000-0000-000000000000"],
    "json-pointer": ["", "/", "/a~0b~1c/0", "/ö"],
    "relative-json-pointer": ["0", "1#", "2/a", "0+1/a", "10-2#"],
    "regex": [
        *("", "^a|b$", "(a(b(c(d))))", "[a-z0-9_-]+", r"[\w-.]", r"\p{L}", r"\u{1F600}", "}"),
        *("a{2}b{2,}c{2,10}d{99,100}", "(?<n>a)", "(?<!a)b(?=c)", r"[^]\/"),
    ],
    **{f"uuid{v}": [f"01234567-89ab-{v}def-8123-456789abcdef"] for v in UUID_VERSIONS},
    "ipvanyaddress": ["1.2.3.4", "::1"],
    "ipv4interface": ["1.2.3.4", "1.2.3.4/0", "1.2.3.4/32"],
    "ipv6interface": ["::1", "::1/0", "1::ffff/128", "::1.2.3.4/99"],
    "ipvanyinterface": ["1.2.3.4/5", "::1/64"],
    "ipv4network": ["1.2.3.4", "10.0.0.0/8", "0.0.0.0/0", "192.168.16.0/20", "1.2.3.4/32"],
    "ipv6network": [
        *("::1", "::/0", "2001:db8::/32", "fe80::/10", "80::/12", "1:2:3:4:5:6:7::/112"),
        *("1:2:3:4:5:6:7:8/128", "FC00::/7", "0:0:0:0:0:0:0:0/17", "1:2:3:4:5:6:7:8000/113"),
    ],
    "ipvanynetwork": ["10.0.0.0/8", "2001:db8::/32"],
    "base64": ["", "QQ==", "QUI=", "QUJD", "+/+/"],
    "base64url": ["", "QQ==", "-_-_"],
    "fraction": ["1", "-3/4", "+1/10", "0.5", "7/007"],
}

INVALID = {
    "date": ["2023-02-29", "0000-01-01", "1900-02-29", "2024-04-31", "2024-1-01", "2024-01-01 "],
    "time": ["24:00:00Z", "12:00:00", "23:59:60+02:00", "12:00Z", "12:00:00+24:00"],
    "date-time": [
        "2016-11-30T23:59:60Z",
        "2017-01-01T23:59:60Z",
        "2016-12-31T08:59:60+09:00",
        "2024-01-01 00:00:00Z",
        "2024-01-01T00:00:00",
    ],
    "duration": ["P", "PT", "1D", "P1S", "P1Y1D", "P1W1D"],
    "email": ["a", "@b", "a@", "a@b-", "a..b@c", "a" * 65 + "@b", "ö@b", "a@b@c", "a@[1.2.3]"],
    "idn-email": ["a b@c", "é" * 33 + "@b"],
    "hostname": ["", "-a", "a-", "a..b", "a.", "a_b", "xn--a", "a" * 64, "a." * 127 + "a"],
    "idn-hostname": ["xn--bcher-kva", "a·b", "ab--ü", "bÜcher", "aב", "e\u0301", "ü" * 59],
    "ipv4": ["1.2.3", "1.2.3.256", "01.2.3.4", "1.2.3.4.5"],
    "ipv6": ["", ":", ":::", "1::2::3", "1:2:3:4:5:6:7", "::1.2.3", "1:2:3:4:5:6:7:8::", "::g"],
    "uri": ["", "a", "//a", "http://a b", "http://[::1", "http://a/%zz", "1a:b"],
    "uri-reference": ["a b", ":a", "1:a", "%"],
    "iri": ["ö", "http://a/#\ue000"],
    "iri-reference": ["a b", "[]"],
    "uri-template": ["{", "}", "{}", "{a:0}", "{a b}"],
    "uuid": ["0" * 32, "{00000000-0000-0000-0000-000000000000}"],
    "json-pointer": ["a", "/~", "/~2", "#/a"],
    "relative-json-pointer": ["", "/a", "01", "-1", "1##"],
    "regex": [
        *(
            *("]", "[^]]", "(", ")", "a)", "[a", "*a", "a**", r"\q", "[b-a]", "a{3,2}"),
            *("a{10,9}", "(?i)a", "^*"),
        ),
        *(r"[\u00ff-\u0000]", r"\u12", "(?<1>a)", "{", "[a-\\d]", r"\p{Nope}", "\\"),
    ],
    **{f"uuid{v}": [f"01234567-89ab-{v % 8 + 1}def-8123-456789abcdef"] for v in UUID_VERSIONS},
    "ipvanyaddress": ["", "1.2.3", "::1/64"],
    "ipv4interface": ["1.2.3.4/33", "1.2.3.4/", "1.2.3.4/01"],
    "ipv6interface": ["::1/129", "::1%1"],
    "ipvanyinterface": ["1.2.3.4/33"],
    "ipv4network": ["10.0.0.1/8", "192.168.24.0/20", "0.0.0.0/33"],
    "ipv6network": ["::1/64", "2001:db8::/28", "::/129", "1:2:3:4:5:6:7:8::/128", "1:2/32"],
    "ipvanynetwork": ["10.0.0.1/8", "::1/64"],
    "base64": ["Q", "QQ", "QQ=", "QUI==", "-_-_", "QQ==QQ=="],
    "base64url": ["QQ", "+/+/"],
    "fraction": ["", "1/0", "1/-2", "1.", "a", "1 / 2", "1e5"],
}


def test_tables_cover_all_formats() -> None:
    assert set(VALID) == set(INVALID) == set(STRING_FORMATS)


@pytest.mark.parametrize(("name", "text"), [(n, t) for n, texts in VALID.items() for t in texts])
def test_valid_text_is_accepted(name: str, text: str) -> None:
    assert accepts(name, text)


@pytest.mark.parametrize(("name", "text"), [(n, t) for n, ts in INVALID.items() for t in ts])
def test_invalid_text_is_rejected(name: str, text: str) -> None:
    assert not accepts(name, text)


def test_hostname_of_draft_6_accepts_a_labels() -> None:
    assert accepts("hostname", "xn--a", "6")
    assert not accepts("hostname", "xn--a", "7")


# Texts that other libraries write are accepted

_offsets = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(st.integers(1, 9999), st.integers(1, 12), st.integers(1, 31))
def test_date_is_accepted_exactly_if_the_calendar_has_it(year: int, month: int, day: int) -> None:
    text = f"{year:04}-{month:02}-{day:02}"
    try:
        date.fromisoformat(text)
    except ValueError:
        assert not accepts("date", text)
    else:
        assert accepts("date", text)


@given(st.datetimes(timezones=_offsets))
def test_datetimes_of_python_are_accepted(value: datetime) -> None:
    assert accepts("date-time", value.isoformat())
    assert accepts("time", value.timetz().isoformat())


def test_pattern_beside_date_time_is_decided_without_all_leap_seconds() -> None:
    language = format_language("date-time", "2020-12")
    assert language is not None
    both = intersection((language, compile_pattern("[0-9]T[0-9]", search=True)))
    with step_budget(10_000):
        assert after_text(both, "2015-06-30t").is_empty
        assert not after_text(both, "2015-06-30T23:59:60").is_empty


def test_long_patterns_intersect_in_few_steps() -> None:
    classes = "".join(f"[{'abcdefghij'[at % 10]}xyz]" for at in range(1_200))
    patterns = f"^{classes}$", "^[a-z]*x[a-z]{0,3}$"
    with step_budget(100_000):
        assert not intersection([compile_pattern(each, search=True) for each in patterns]).is_empty


@given(st.integers(-1439, 1439), st.integers(0, 1439), st.sampled_from((6, 12)))
def test_leap_second_is_accepted_only_at_its_utc_minute(
    offset: int, minute: int, month: int
) -> None:
    last = datetime(2015, month, 30 if month == 6 else 31, 23, 59, tzinfo=UTC)
    local = last.astimezone(timezone(timedelta(minutes=offset)))
    text = local.isoformat()
    assert accepts("date-time", text[:17] + "60" + text[19:])
    other = local.replace(hour=minute // 60, minute=minute % 60)
    if other != local:
        text = other.isoformat()
        assert not accepts("date-time", text[:17] + "60" + text[19:])


@given(st.ip_addresses())
def test_addresses_of_python_are_accepted(
    value: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    assert accepts(f"ipv{value.version}", str(value))
    assert accepts(f"ipv{value.version}", value.exploded)
    assert not accepts(f"ipv{10 - value.version}", str(value))


@given(st.uuids())
def test_uuids_of_python_are_accepted(value: uuid.UUID) -> None:
    assert accepts("uuid", str(value))


@examples(40)
@given(st.lists(st.text(max_size=5), max_size=4))
def test_pointers_from_paths_are_accepted(path: list[str]) -> None:
    escaped = (part.replace("~", "~0").replace("/", "~1") for part in path)
    assert accepts("json-pointer", "".join(f"/{part}" for part in escaped))


@examples(40)
@given(st.from_regex(r"[a-z]{1,8}(\.[a-z]{1,8}){0,3}", fullmatch=True))
def test_plain_host_names_are_accepted(name: str) -> None:
    assert all(accepts(kind, name) for kind in ("hostname", "idn-hostname"))
    assert accepts("email", f"{name}@{name}")
    assert accepts("uri", f"https://{name}/{name}?{name}#{name}")


# Generated texts are read by other libraries


def words(name: str) -> st.SearchStrategy[str]:
    """Draw words of a format: a random walk that takes the shortest path to the end after a while."""

    @st.composite
    def walk(draw: st.DrawFn) -> str:
        node = format_language(name, "2020-12")
        assert node is not None
        steps = draw(st.integers(0, 24))
        word = []
        while not (node.nullable and (steps <= 0 or not node.transitions)):
            transitions = (
                node.transitions
                if steps > 0
                else [min(node.transitions, key=lambda pair: _to_end(pair[1]))]
            )
            members, node = draw(st.sampled_from(list(transitions)))
            ranges = members.ranges
            first, last = draw(st.sampled_from(ranges[:200]))
            word.append(chr(draw(st.integers(first, last))))
            steps -= 1
        return "".join(word)

    return walk()


def _to_end(node: Node) -> int:
    """Return the length of the shortest word, with a lookahead of ten symbols."""
    layer = [node]
    for distance in range(10):
        if any(state.nullable for state in layer):
            return distance
        layer = list(dict.fromkeys(islice((t for s in layer for _, t in s.transitions), 200)))
    return 10 + node.min_length


def _read_date_time(text: str) -> None:
    whole = text.upper().replace("T", " ")
    moment, offset = re.fullmatch(r"(.*?)(Z|[+-]\d\d:\d\d)", whole).groups()  # type: ignore[union-attr]
    moment = re.sub(r"\.(\d{1,6})\d*", lambda m: "." + m[1].ljust(6, "0"), moment)
    moment = re.sub(r":60\b", ":59", moment)
    datetime.fromisoformat(moment + offset.replace("Z", "+00:00"))


def _read_regex(text: str) -> None:
    try:
        parse(text)
    except UnsupportedPatternError:
        pass
    except InvalidPatternError as error:
        # The existence of a back-reference's group is not enforced.
        if "reference" not in error.what:
            raise


READERS: dict[str, Any] = {
    "date": date.fromisoformat,
    "date-time": _read_date_time,
    "time": lambda text: _read_date_time(f"2000-01-01T{text}"),
    "ipv4": ipaddress.IPv4Address,
    "ipv6": ipaddress.IPv6Address,
    "ipv4interface": ipaddress.IPv4Interface,
    "ipv6interface": ipaddress.IPv6Interface,
    "ipv4network": ipaddress.IPv4Network,
    "ipv6network": ipaddress.IPv6Network,
    "ipvanyaddress": ipaddress.ip_address,
    "ipvanyinterface": ipaddress.ip_interface,
    "ipvanynetwork": ipaddress.ip_network,
    "uuid": uuid.UUID,
    **{
        f"uuid{version}": TypeAdapter(getattr(pydantic, f"UUID{version}")).validate_python
        for version in (1, 3, 4, 5, 6, 7, 8)
    },
    "base64": partial(b64decode, validate=True),
    "base64url": urlsafe_b64decode,
    "fraction": Fraction,
    "uri": lambda text: urlsplit(text).geturl(),
    "regex": _read_regex,
}


@pytest.mark.parametrize("name", sorted(READERS))
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_generated_texts_are_read_by_other_parsers(name: str, data: st.DataObject) -> None:
    text = data.draw(words(name))
    assert accepts(name, text)
    if name == "uri" and "//[" in text:
        return  # urllib refuses address literals of future versions
    READERS[name](text)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_generated_email_addresses_are_valid(data: st.DataObject) -> None:
    text = data.draw(words("email"))
    try:
        email_validator.validate_email(
            text,
            check_deliverability=False,
            allow_quoted_local=True,
            allow_domain_literal=True,
            test_environment=True,
            globally_deliverable=False,
        )
    except email_validator.EmailSyntaxError as error:
        # It requires decodable A-labels and a non-empty quoted string; RFC 5321 does not.
        assert "--" in text or text.startswith('""@'), error


@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_generated_host_names_are_encoded_by_idna(data: st.DataObject) -> None:
    text = data.draw(words("idn-hostname"))
    try:
        idna.encode(text.lower() if text.isascii() else text, uts46=False)
    except idna.IDNAError as error:
        # The length is not a regular property, and the package has an older Unicode version.
        assert "too long" in str(error) or "Unassigned" in str(error) or "unassigned" in str(error)


def test_letters_of_host_names_are_those_of_idna() -> None:
    known = {
        point
        for spans in idna.idnadata.codepoint_classes.values()
        for span in spans
        for point in range(span >> 32, span & 0xFFFFFFFF)
    }
    assert set(idn_letters()) <= known


# The keyword


def test_format_is_asserted_by_default() -> None:
    schema = {"format": "date"}
    assert not JsonSchemaStateMachine(schema).matches('"2023-02-29"')
    assert JsonSchemaStateMachine(schema, assert_formats=False).matches('"2023-02-29"')


def test_unknown_format_is_an_annotation() -> None:
    assert JsonSchemaStateMachine({"format": "int32"}).matches('"x"')


def test_format_pattern_and_length_are_combined() -> None:
    machine = JsonSchemaStateMachine(
        {"type": "string", "format": "date", "pattern": "-29$", "not": {"pattern": "^2"}}
    )
    assert machine.matches('"1996-02-29"')
    assert not machine.matches('"1997-02-29"')
    assert not machine.matches('"2000-02-29"')
    assert not machine.matches('"1996-02-28"')
