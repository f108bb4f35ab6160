r"""Network addresses, UUIDs and e-mail addresses.

Observed with pydantic 2.14.4 (pydantic-core 2.50.5), msgspec 0.22 and email-validator 2.4.0.

* ``uuid``: 32 hexadecimal digits in either case, with the hyphens of RFC 9562 or without. Left out:
  ``urn:uuid:`` and braces. A version implies the variant of RFC 9562.
* ``ip``: addresses as ``identifiers`` beside this module has them, alone, with a prefix
  length (``interface``), or with zeros behind the prefix (``network``). Left out: zones
  (``fe80::1%eth0``), netmasks, prefix lengths with leading zeros.
* ``email``: letters, digits and the other characters of an atom of RFC 5322 in the local part, at
  most 64; a domain of at least two labels, at most 189 characters. The last label has letters at
  its ends and is no special-use name of email-validator. Letters of :data:`NON_ASCII` may be in the
  local part, and in labels but the last of a domain of at most 40 characters. Left out: names,
  white space, quoted local parts, A-labels (``xn--``); address literals are refused.
* ``name_email``: ``Name <address>`` with words or a quoted string as the name, or the address.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal

from state_machines.grammar.boolean import intersection
from state_machines.grammar.node import Node
from state_machines.grammar.nodes import concatenation, symbols, union
from state_machines.grammar.symbols import code_points
from state_machines.reader_languages import identifiers as formats
from state_machines.reader_languages.identifiers import any_of, full_match, max_characters, octets

NON_ASCII = (
    r"\u{E0}-\u{F6}\u{F8}-\u{FF}\u{430}-\u{44F}\u{451}\u{3041}-\u{3096}\u{30A1}-\u{30FA}"
    r"\u{4E00}-\u{9FA5}\u{AC00}-\u{D7A3}"
)
"""Letters of Latin-1, Russian, Japanese, Chinese and Korean, as members of a character class."""

_HEX = "[0-9A-Fa-f]"
_SPECIAL_USE = ("arpa", "invalid", "local", "localhost", "onion", "test")
_MAX_DOMAIN = 189
"""Characters of a domain that leave room for a local part: an address has at most 254."""

_MAX_NON_ASCII_DOMAIN = 40
"""Characters of a domain with such labels: its A-labels have four to five times as many."""

_MAX_LOCAL_PART = 64
_MAX_NON_ASCII_LABEL = 10
"""Characters of a label with other letters than ASCII: its A-label has at most 63."""


def uuid(*, version: int | None = None, canonical: bool = False) -> Node:
    """Return the texts of UUIDs.

    Args:
        version: The version; ``None`` for any UUID.
        canonical: Whether the texts have hyphens, and digits in lower case.
    """
    if version is not None and f"uuid{version}" not in formats.UUID_VERSIONS:
        raise ValueError(f"there is no version {version!r} of UUIDs")
    groups = formats.uuid_groups(version)
    if canonical:
        written = "-".join(groups).replace("AB", "")
        return full_match(written.replace("H", "[0-9a-f]"))
    return full_match(any_of(("-".join(groups), "".join(groups))).replace("H", _HEX))


def ip(
    *,
    version: Literal[4, 6] | None = None,
    kind: Literal["address", "interface", "network"] = "address",
    canonical: bool = False,
) -> Node:
    """Return the texts of addresses of the Internet Protocol.

    Args:
        version: The version; ``None`` for both.
        kind: Whether an address, an interface or a network is read.
        canonical: Whether texts are spelled as ``ipaddress`` spells them.
    """
    versions = (4, 6) if version is None else (version,)
    if any((each, kind) not in _ADDRESSES for each in versions):
        raise ValueError(f"no kind of address is {kind!r} of version {version!r}")
    patterns = _WRITTEN if canonical else _ADDRESSES
    return union(full_match(patterns[each, kind]()) for each in versions)


_ADDRESSES: Mapping[tuple[int, str], Callable[[], str]] = {
    (4, "address"): lambda: formats.IPV4,
    (6, "address"): lambda: formats.IPV6,
    (4, "interface"): lambda: formats.INTERFACE_4,
    (6, "interface"): lambda: formats.INTERFACE_6,
    (4, "network"): formats.network_4,
    (6, "network"): formats.network_6,
}
"""The regular expression of each kind of address, by version and kind."""

_GROUP = "[1-9a-f][0-9a-f]{0,3}"
_WRITTEN_6 = any_of(
    (
        rf"{_GROUP}(?::{_GROUP}){{7}}",
        # One run of zeros, of at least two groups, and no address that holds one of IPv4.
        rf"(?!::ffff:)::(?:{_GROUP}(?::{_GROUP}){{0,5}})?",
        *(
            rf"{_GROUP}(?::{_GROUP}){{{groups - 1}}}::(?:{_GROUP}(?::{_GROUP}){{0,{5 - groups}}})?"
            for groups in range(1, 6)
        ),
        rf"{_GROUP}(?::{_GROUP}){{5}}::",
    )
)
"""Addresses as ``ipaddress`` writes them, a part: no single group is zero."""

_LENGTH_6 = "(?:[1-9]?[0-9]|1[01][0-9]|12[0-8])"
_WRITTEN: Mapping[tuple[int, str], Callable[[], str]] = {
    (4, "address"): lambda: formats.IPV4,
    (6, "address"): lambda: _WRITTEN_6,
    (4, "interface"): lambda: f"{formats.IPV4}/(?:[12]?[0-9]|3[0-2])",
    (6, "interface"): lambda: f"{_WRITTEN_6}/{_LENGTH_6}",
    (4, "network"): partial(formats.network_4, has_length=True),
    (6, "network"): lambda: any_of(
        (f"{_WRITTEN_6}/128", f"::/{_LENGTH_6}", *map(_whole_groups, range(1, 7)))
    ),
}
"""The regular expression of each kind of address as ``ipaddress`` writes it, or a part of it."""


def _whole_groups(groups: int) -> str:
    """Return networks with 0 behind the first ``groups`` groups: ``2001:db8::/32``."""
    lengths = any_of(str(length) for length in range(16 * groups, 129))
    return rf"{_GROUP}(?::{_GROUP}){{{groups - 1}}}::/{lengths}"


def email(*, canonical: bool = False) -> Node:
    """Return the texts of e-mail addresses.

    Args:
        canonical: Whether the domain is in lower case and ASCII.
    """
    atom = r"[0-9A-Za-z!#$%&'*+/=?^_`{|}~\-" + ("" if canonical else NON_ASCII) + "]+"
    local = intersection((full_match(rf"{atom}(?:\.{atom})*"), octets(0, _MAX_LOCAL_PART)))
    return concatenation(local, symbols(code_points("@")), _domain(canonical))


def _domain(canonical: bool) -> Node:
    """Return domains without A-labels, and without special-use names."""
    letter = "a-z" if canonical else "A-Za-z"
    label = _label(f"[0-9{letter}]", f"[0-9{letter}]")
    special = "|".join("".join(f"[{mark}{mark.upper()}]" for mark in name) for name in _SPECIAL_USE)
    last = rf"(?!(?:{special})$){_label(f'[{letter}]', f'[0-9{letter}]')}"
    names = max_characters(_MAX_DOMAIN, full_match(rf"(?:{label}\.)+{last}"))
    if canonical:
        return names
    label = rf"(?:{label}|[0-9{letter}{NON_ASCII}]{{1,{_MAX_NON_ASCII_LABEL}}})"
    others = max_characters(_MAX_NON_ASCII_DOMAIN, full_match(rf"(?:{label}\.)+{last}"))
    return union((names, others))


def _label(end: str, other: str) -> str:
    """Return the labels whose third and fourth character are not both hyphens.

    Args:
        end: The characters at the ends.
        other: All characters but the hyphen.
    """
    inner = rf"(?:{other}|-)"
    longer = rf"(?:{other}{inner}|-{other}){inner}{{0,58}}{end}"
    return rf"(?:{end}(?:{inner}?{end})?|{end}{inner}(?:{inner}{end}|{longer}))"


_WORD = rf"[0-9A-Za-z{NON_ASCII}'_\-]+"
_LETTER = f"0-9A-Za-z{NON_ASCII}"
_QUOTED = rf'"[{_LETTER}](?:[{_LETTER}\' ,.()\-]*[{_LETTER}.)])?"'
_NAMES = f"(?:{_WORD}(?: {_WORD})*|{_QUOTED}) <"


def name_email(*, canonical: bool = False) -> Node:
    """Return the texts of e-mail addresses with the names of their owners.

    Args:
        canonical: Whether texts are spelled as pydantic spells them, with a name of words.
    """
    address = email(canonical=canonical)
    names = full_match(rf"{_WORD}(?: {_WORD})* <" if canonical else _NAMES)
    named = concatenation(names, address, symbols(code_points(">")))
    return named if canonical else union((address, named))
