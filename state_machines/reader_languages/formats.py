r"""The formats that ``format`` asserts, each as a language of code points.

Here are dates, times and durations, regular expressions, and the table of all formats.
:mod:`~state_machines.reader_languages.identifiers` has addresses, host names, URIs, UUIDs, JSON
Pointers and encodings. Requirements that are not regular are named here and there.

RFC 3339:

* ``date``, ``time``, ``date-time``: the ABNF of section 5.6 with the restrictions of sections 5.7
  and 5.8, which are regular: the days of each month, 29 February in leap years only, and second 60
  only for 23:59:60 UTC. In a ``date-time``, second 60 is further restricted to the ends of June and
  December, when all leap seconds so far were inserted. ``T`` and ``Z`` may be lower case. Year 0000
  is left out, because few programs can read it and ISO 8601 allows it by mutual agreement only.
* ``duration``: appendix A, the ABNF of ISO 8601 durations.

``regex``: ECMA-262, section 22.2.1, with the ``u`` flag. Unnecessary escapes, ``}`` and a ``-``
next to a class are accepted as in section B.1.2, as :mod:`state_machines.regex.parser` does. The
syntax is not a regular language. A regular subset is accepted:

* Groups are nested at most :data:`MAX_NESTED_GROUPS` deep.
* In ``{m,n}`` the bounds are in order, ``m`` has at most two digits and ``n`` at most nine.
* A range of a character class has two ASCII characters in order, or an ASCII and a non-ASCII
  character. Escapes and other non-ASCII characters are single members.
* Scripts are those of :data:`SCRIPTS`, group names are ASCII, and ``\0`` is left out.

Two requirements are not enforced: the names of groups are unique, and the group of a back-reference
exists.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import TypeAlias

from state_machines.grammar.lazy import reference
from state_machines.grammar.node import Node
from state_machines.grammar.nodes import concatenation, optional, repetition, symbols, union
from state_machines.grammar.symbols import CodePointSet, code_points
from state_machines.grammar.word_lists import literals, word_list
from state_machines.reader_languages import identifiers
from state_machines.reader_languages.encodings import base64
from state_machines.reader_languages.identifiers import full_match
from state_machines.reader_languages.temporal import DATE, HOUR_MINUTE, YEAR

_MINUTES_PER_DAY = 24 * 60
_SYMBOLS, _UTC = CodePointSet.of("0123456789:.+-"), CodePointSet.of("Zz")

_FRACTION = r"(?:\.[0-9]+)?"
_OFFSET = rf"(?:[Zz]|[+\-]{HOUR_MINUTE})"
_TIME = rf"{HOUR_MINUTE}:[0-5][0-9]{_FRACTION}{_OFFSET}"

_DURATION_TIME = r"T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
_DURATION_DATE = r"(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)"
DURATION = rf"P(?:{_DURATION_DATE}(?:{_DURATION_TIME})?|{_DURATION_TIME}|[0-9]+W)"


def time() -> Node:
    """``full-time`` (RFC 3339, section 5.6)."""
    return union((full_match(_TIME), _leap_second(0), _leap_second(1)))


def date_time() -> Node:
    """``date-time`` (RFC 3339, section 5.6)."""
    mark = full_match("[Tt]")
    same_day = concatenation(full_match(f"{YEAR}-(?:06-30|12-31)"), mark, _leap_second(0))
    next_day = concatenation(full_match(f"{YEAR}-(?:07-01|01-01)"), mark, _leap_second(1))
    return union((concatenation(full_match(DATE), mark, full_match(_TIME)), same_day, next_day))


def _leap_second(days: int) -> Node:
    """Return the local times, with offset, of 23:59:60 UTC.

    There are 2,880 offsets, so tens of minutes are unfolded lazily.

    Args:
        days: The local date minus the UTC date: 0 or 1.
    """
    return word_list(
        (f"{hour:02}:{ten}", _minutes(hour, ten, days)) for hour in range(24) for ten in range(6)
    )


def _minutes(hour: int, ten: int, days: int) -> Node:
    """Return the rest ``M:60``, fraction of a second, offset of the times that are 23:59 UTC."""

    def make() -> Node:
        fraction = full_match(_FRACTION)
        return word_list(
            (f"{minute}:60", concatenation(fraction, literals(offsets)))
            for minute in range(10)
            if (offsets := _offsets(hour * 60 + ten * 10 + minute, days))
        )

    is_utc = (hour, ten, days) == (23, 5, 0)
    return reference(
        ("leap second", hour, ten, days),
        make,
        min_length=4 + (1 if is_utc else 6),
        symbols=_SYMBOLS | _UTC if is_utc else _SYMBOLS,
    )


def _offsets(minute: int, days: int) -> list[str]:
    """Return the offsets for which a minute of the local date is 23:59 UTC."""
    ahead = minute + 1 - (1 - days) * _MINUTES_PER_DAY
    if ahead == 0:
        return ["Z", "z", "+00:00", "-00:00"]
    if abs(ahead) >= _MINUTES_PER_DAY or (ahead > 0) != (days == 1):
        return []
    hours, minutes = divmod(abs(ahead), 60)
    return [f"{'+' if days else '-'}{hours:02}:{minutes:02}"]


MAX_NESTED_GROUPS = 4
"""The nesting depth of groups."""

SCRIPTS = (
    *("Arabic", "Armenian", "Bengali", "Common", "Cyrillic", "Devanagari", "Ethiopic", "Georgian"),
    *("Greek", "Gujarati", "Gurmukhi", "Han", "Hangul", "Hebrew", "Hiragana", "Kannada"),
    *("Katakana", "Khmer", "Lao", "Latin", "Malayalam", "Mongolian", "Myanmar", "Sinhala"),
    *("Tamil", "Telugu", "Thai", "Tibetan"),
)

_HEX = "[0-9A-Fa-f]"
_NAME = r"[A-Za-z_$][0-9A-Za-z_$]*"
_CATEGORY = (
    r"(?:C[cfno]?|L[Clmotu]?|M[cen]?|N[dlo]?|P[cdefios]?|S[ckmo]?|Z[lps]?|Letter|Mark|Number"
    r"|Punctuation|Symbol|Separator|Uppercase_Letter|Lowercase_Letter|Decimal_Number)"
)
_BINARY = "(?:ASCII|Alphabetic|Any|Assigned|Emoji|ID_Continue|ID_Start|Lowercase|Uppercase)"
_SCRIPT = rf"(?:Script|sc|Script_Extensions|scx)=(?:{'|'.join(SCRIPTS)})"
_SET = rf"\\(?:[dDwWsS]|[pP]\{{(?:{_CATEGORY}|{_BINARY}|{_SCRIPT})\}})"
_CHARACTER_ESCAPE = (
    rf"\\(?:[tnvfr]|c[A-Za-z]|x{_HEX}{{2}}|u{_HEX}{{4}}"
    rf"|u\{{0{{0,4}}(?:{_HEX}{{1,5}}|10{_HEX}{{4}})\}}|[^0-9A-Za-z])"
)
_BACK_REFERENCE = rf"\\(?:[1-9]|k<{_NAME}>)"
_PLAIN = r"[^\\^$.*+?()\[\]{|]"
_ASSERTION = r"\^|\$|\\[bB]"
_GROUP = rf"\((?:\?:|\?<{_NAME}>)?"
_LOOK_AROUND = r"\(\?<?[=!]"

_ENDPOINTS = [chr(point) for point in range(0x20, 0x7F) if chr(point) not in "\\]-"]


def ecma_regex() -> Node:
    """``Pattern`` (ECMA-262, section 22.2.1); see the module's docstring."""
    atom = union(
        (
            full_match(rf"{_PLAIN}|\.|{_SET}|{_CHARACTER_ESCAPE}|{_BACK_REFERENCE}"),
            _character_class(),
        )
    )
    closing, quantifier = literals((")",)), optional(_quantifier())
    always = union((literals(("|",)), full_match(_ASSERTION), concatenation(atom, quantifier)))
    disjunction = repetition(always, 0, None)
    for _ in range(MAX_NESTED_GROUPS):
        group = concatenation(full_match(_GROUP), disjunction, closing, quantifier)
        look_around = concatenation(full_match(_LOOK_AROUND), disjunction, closing)
        disjunction = repetition(union((always, group, look_around)), 0, None)
    return disjunction


def _character_class() -> Node:
    hyphen = optional(literals(("-",)))
    ranges = word_list(
        (
            f"{first}-",
            symbols(CodePointSet.of("".join(_ENDPOINTS[index:])) | code_points(0x80, 0x10FFFF)),
        )
        for index, first in enumerate(_ENDPOINTS)
    )
    # A hyphen after a range or a set starts no range, so it is a literal hyphen.
    closed = concatenation(union((full_match(_SET), ranges)), hyphen)
    single = full_match(rf"[^\\\]\-]|{_CHARACTER_ESCAPE}|\\b")
    items = repetition(union((closed, single)), 0, None)
    return concatenation(full_match(r"\[\^?"), hyphen, items, hyphen, literals(("]",)))


def _quantifier() -> Node:
    intervals = word_list(
        (f"{{{least},", reference(("bounds from", least), partial(_from, least)))
        for least in range(100)
    )
    return concatenation(
        union((full_match(r"[*+?]|\{[0-9]{1,9},?\}"), intervals)), optional(literals(("?",)))
    )


def _from(least: int) -> Node:
    """Return the rest of ``{m,n}`` after the comma."""
    longer = full_match(r"[1-9][0-9]{2,8}\}")
    return union((literals(f"{n}}}" for n in range(least, 100)), longer))


_Format: TypeAlias = str | Callable[[], str | Node]

STRING_FORMATS: Mapping[str, _Format] = {
    "date-time": date_time,
    "date": DATE,
    "time": time,
    "duration": DURATION,
    "email": identifiers.email,
    "idn-email": identifiers.idn_email,
    "hostname": identifiers.hostname,
    "idn-hostname": identifiers.idn_hostname,
    "ipv4": identifiers.IPV4,
    "ipv6": identifiers.IPV6,
    "ipvanyaddress": identifiers.any_of((identifiers.IPV4, identifiers.IPV6)),
    "ipv4interface": identifiers.INTERFACE_4,
    "ipv6interface": identifiers.INTERFACE_6,
    "ipvanyinterface": identifiers.any_of((identifiers.INTERFACE_4, identifiers.INTERFACE_6)),
    "ipv4network": identifiers.network_4,
    "ipv6network": identifiers.network_6,
    "ipvanynetwork": lambda: identifiers.any_of((identifiers.network_4(), identifiers.network_6())),
    "uri": identifiers.URI,
    "uri-reference": identifiers.URI_REFERENCE,
    "iri": identifiers.IRI,
    "iri-reference": identifiers.IRI_REFERENCE,
    "uri-template": identifiers.URI_TEMPLATE,
    "uuid": identifiers.UUID,
    **identifiers.UUID_VERSIONS,
    "json-pointer": identifiers.JSON_POINTER,
    "relative-json-pointer": identifiers.RELATIVE_JSON_POINTER,
    "regex": ecma_regex,
    "base64": base64,
    "base64url": partial(base64, alphabet="url"),
    "fraction": identifiers.FRACTION,
}
"""The regular expression of each format by name, or a function that returns it or its language."""

LEGACY_FORMATS: Mapping[str, _Format] = {"hostname": identifiers.legacy_hostname}
"""The formats that have another definition in drafts 4 and 6."""


@cache
def _language(definition: _Format) -> Node:
    made = definition if isinstance(definition, str) else definition()
    return full_match(made) if isinstance(made, str) else made


def format_language(name: str, draft: str) -> Node | None:
    """Return the language of a format in a draft, or ``None`` for an unknown format."""
    definition = STRING_FORMATS.get(name)
    if draft in ("4", "6"):
        definition = LEGACY_FORMATS.get(name, definition)
    return None if definition is None else _language(definition)
