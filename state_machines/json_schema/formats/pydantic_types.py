r"""Formats that pydantic generates and no specification registers.

Every string of these languages validates as a value of the field's type. The types also accept
undocumented spellings, which the languages leave out.

* ``uuid1``, ``uuid3`` to ``uuid8``: RFC 9562, sections 4.1 (variant 10) and 4.2 (versions).
* ``ipvanyaddress``: an ``ipv4`` or ``ipv6`` address.
* ``ipv4interface``, ``ipv6interface``, ``ipvanyinterface``: an address with an optional prefix
  length (RFC 4632, section 3.1; RFC 4291, section 2.3).
* ``ipv4network``, ``ipv6network``, ``ipvanynetwork``: the same, with zeros in all bits after the
  prefix, as Python's ``ipaddress`` requires. In an IPv6 network with a prefix length below 128,
  ``::`` is accepted at the end only.
* ``base64``, ``base64url``: RFC 4648, sections 4 and 5, with padding.
* ``fraction``: a subset of what Python's ``fractions.Fraction`` reads: a sign, digits, and a
  denominator or decimals. Exponents are left out, because a large one makes a huge integer.

``password``, ``binary``, ``path``, ``file-path`` and ``directory-path`` do not constrain the
string.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from state_machines.grammar.node import Node
from state_machines.json_schema.formats.addresses import IPV4, IPV6, OCTET
from state_machines.json_schema.formats.primitives import full_match

_HEX = "[0-9A-Fa-f]"
_PREFIX_4 = r"(?:/(?:[12]?[0-9]|3[0-2]))?"
_PREFIX_6 = r"(?:/(?:[1-9]?[0-9]|1[01][0-9]|12[0-8]))?"
_INTERFACE_4 = rf"{IPV4}{_PREFIX_4}"
_INTERFACE_6 = rf"{IPV6}{_PREFIX_6}"
_MAX_DIGITS = 4300
"""Digits that Python converts to an integer (``sys.int_info.default_max_str_digits``)."""


def _any_of(patterns: Iterable[str]) -> str:
    return f"(?:{'|'.join(patterns)})"


def _uuid(version: int) -> str:
    return rf"{_HEX}{{8}}-{_HEX}{{4}}-{version}{_HEX}{{3}}-[89ABab]{_HEX}{{3}}-{_HEX}{{12}}"


def _network_4() -> str:
    networks = [rf"{IPV4}(?:/32)?"]
    for length in range(32):
        whole, bits = divmod(length, 8)
        partial = _any_of(str(value) for value in range(0, 256, 1 << (8 - bits)))
        octets = r"\.".join((*[OCTET] * whole, partial, *["0"] * (3 - whole)))
        networks.append(f"{octets}/{length}")
    return _any_of(networks)


def _network_6() -> str:
    return _any_of((rf"{IPV6}(?:/128)?", f"::/{_from(0)}", _network_6_after(0)))


def _network_6_after(groups: int) -> str:
    """Return the rest of a network after ``groups`` groups, each with a colon, of the prefix."""
    remaining = 7 - groups
    networks = [rf"0{{1,4}}{_zeros(remaining)}/{16 * groups}"]
    networks.extend(
        f"{_group(bits)}{_zeros(remaining)}/{16 * groups + bits}" for bits in range(1, 16)
    )
    if remaining:
        shortened = f"::/{_from(16 * (groups + 1))}"
        networks.append(rf"{_HEX}{{1,4}}(?:{shortened}|:{_network_6_after(groups + 1)})")
    return _any_of(networks)


def _zeros(groups: int) -> str:
    """Return the spellings of trailing groups of an address that are all zero."""
    if groups == 0:
        return ""
    return rf"(?:(?::0{{1,4}}){{{groups}}}|(?::0{{1,4}}){{0,{groups - 1}}}::)"


def _from(length: int) -> str:
    """Return the prefix lengths from ``length`` to 128."""
    return _any_of(str(longer) for longer in range(length, 129))


def _group(bits: int) -> str:
    """Return the spellings of a group in which only the first ``bits`` bits may be 1."""
    whole, part = divmod(bits, 4)
    digit = f"[{''.join(f'{value:x}' for value in range(0, 16, 1 << (4 - part)))}]"
    digit = _any_of((digit, digit.upper()))
    if part:
        return rf"(?:{_HEX}{{0,{whole}}}{digit}0{{{3 - whole}}}|0{{1,4}})"
    return rf"(?:{_HEX}{{1,{whole}}}0{{{4 - whole}}}|0{{1,4}})"


def _base64(alphabet: str) -> str:
    symbol = f"[{alphabet}]"
    return rf"(?:{symbol}{{4}})*(?:{symbol}{{2}}==|{symbol}{{3}}=)?"


def _fraction() -> str:
    digits = rf"[0-9]{{1,{_MAX_DIGITS}}}"
    denominator = rf"0{{0,{_MAX_DIGITS // 2}}}[1-9][0-9]{{0,{_MAX_DIGITS // 2 - 1}}}"
    return rf"[+\-]?{digits}(?:/{denominator}|\.{digits})?"


def _language(make: Callable[[], str]) -> Callable[[], Node]:
    return lambda: full_match(make())


def _uuid_language(version: int) -> Callable[[], Node]:
    return _language(lambda: _uuid(version))


PYDANTIC_FORMATS: Mapping[str, Callable[[], Node]] = {
    **{f"uuid{version}": _uuid_language(version) for version in (1, 3, 4, 5, 6, 7, 8)},
    "ipvanyaddress": _language(lambda: _any_of((IPV4, IPV6))),
    "ipv4interface": _language(lambda: _INTERFACE_4),
    "ipv6interface": _language(lambda: _INTERFACE_6),
    "ipvanyinterface": _language(lambda: _any_of((_INTERFACE_4, _INTERFACE_6))),
    "ipv4network": _language(_network_4),
    "ipv6network": _language(_network_6),
    "ipvanynetwork": _language(lambda: _any_of((_network_4(), _network_6()))),
    "base64": _language(lambda: _base64(r"A-Za-z0-9+/")),
    "base64url": _language(lambda: _base64(r"A-Za-z0-9\-_")),
    "fraction": _language(_fraction),
}
"""The language of each format, by name; built by calling the function."""
