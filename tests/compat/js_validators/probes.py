"""Texts that validators of JavaScript are known to refuse, for the types whose masks admit them."""

from __future__ import annotations

import json

_ASTRAL = "\N{GRINNING FACE}"

STRINGS = (
    # Lengths and single characters of strings are counted in UTF-16 units.
    *(_ASTRAL * count for count in range(1, 6)),
    *("a" * count + _ASTRAL for count in range(1, 5)),
    f"a{_ASTRAL}b",
    # Spaces that are trimmed, and characters that are normalized.
    *(" ", "  ", "\u00a0", "\ufeff", "a ", " a"),
    *("\u00c5", "\u00c5\u00c5\u00c5", "\u0130"),
    # Syntax of addresses.
    *("http:", "http://", "http://a:99999", "http://a%00b/", "http://1.2.3.4.5.6/", "a:", "a:b"),
    *("https:", "https://a%zz", "mailto:x", "//", "/", "?"),
    *("a@b", "a@b.c", '"a"@b.cc', "a@[1.2.3.4]", "a}@b.cc", "a@b-c.dd", "a@1.22", "a.@b.cc"),
    *("::1.2.3.4", "1::2:8.9.8.9", "1:2:3:4:5:6:1.2.3.4", "::", "A::B"),
    # Dates and times of RFC 3339.
    *("2020-01-01T00:00:00Z", "2020-01-01t00:00:00Z", "2020-01-01T00:00:00z"),
    *("2016-12-31T23:59:60Z", "2020-01-01T00:00:00+23:59", "2020-01-01T00:00:00-00:00"),
    *("2020-01-01T00:00:00.1234567890Z", "0001-01-01T00:00:00Z", "2024-02-29"),
    *("00:00:00Z", "23:59:60Z", "12:00:00+01:00", "12:00:00.123456789Z", "P1Y2W", "P1W", "PT1S"),
    # Identifiers and encodings.
    *("00000000-0000-0000-0000-000000000000", "12345678-1234-9234-0234-123456789012"),
    *("QQ==", "QR==", "QQ", "[]", "{}", "1", "-0", "01"),
    # Patterns as values.
    *("}", "]", r"\-", "a{", "(?<n>a)", r"\k<n>", r"\1"),
)

TEXTS = (
    *(json.dumps(text, ensure_ascii=False) for text in STRINGS),
    *("1e-324", "-1e-324", "0.09999999999999999999", "1.0000000000000000001", "1e308", "-0"),
    *("9007199254740993", "-9007199254740993", "0.3", "0.7", "1.1", "0.30000000000000000001"),
    *("[]", "[1, 1]", "[1, 1.0]", "[0, -0]", '["a", "a"]', "[null]", "{}"),
    *('{"": 1}', '{"1": "a"}', '{"01": "a"}', '{"1.0": "a"}', '{"9007199254740993": "a"}'),
    *('{"__proto__": 1}', '{"__proto__": "a"}', '{"constructor": "a"}', '{"toString": 1}'),
    *('{"x": 1}', '{"x": null}', '{"k": 1}', '{"a": "x", "__proto__": 1}'),
)
"""JSON texts, in the spelling of the masks."""
