r"""Internet addresses: IPv4, IPv6, host names and e-mail addresses.

* ``ipv4``: ``dotted-quad`` of RFC 2673, section 3.2, without leading zeros;
* ``ipv6``: RFC 4291, section 2.2, all three forms, no zone and no prefix length;
* ``hostname``: RFC 1123, section 2.1 (letters, digits and hyphens; at most 63 characters a label
  and 253 in all, no final dot). Drafts 4 and 6 say no more (:func:`legacy_hostname`). Since draft
  7 a label that begins with ``xn--`` must be a valid A-label (RFC 5890); which ones are is no
  regular property, so that none is admitted;
* ``email``: ``Mailbox`` of RFC 5321, section 4.1.2, with the length limits of section 4.5.3.1;
  general address literals are left out, since none is registered;
* ``idn-email``: the same as extended by RFC 6531, section 3.3: characters beyond ASCII may stand
  wherever a letter may. That a domain's labels are U-labels is not asked, as RFC 6531 leaves that
  to the lookup.
"""

from __future__ import annotations

from state_machines.grammar.boolean import intersection
from state_machines.grammar.node import EPSILON, Node
from state_machines.grammar.nodes import branch, concatenation, repetition, symbols, union
from state_machines.grammar.symbols import ANY_CODE_POINT, code_points
from state_machines.regex import compile_pattern

__all__ = [
    "IPV4",
    "IPV6",
    "MAX_NAME",
    "at_most",
    "email",
    "hostname",
    "idn_email",
    "ipv4",
    "ipv6",
    "legacy_hostname",
    "octets_at_most",
]

MAX_NAME = 253
"""Characters of a host name: 255 octets on the wire (RFC 1035), without the first and last."""

_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
IPV4 = rf"{_OCTET}(?:\.{_OCTET}){{3}}"

_GROUP = r"[0-9A-Fa-f]{1,4}"
_LAST_TWO = rf"(?:{_GROUP}:{_GROUP}|{IPV4})"
IPV6 = "(?:{})".format(
    "|".join(
        (
            rf"(?:{_GROUP}:){{6}}{_LAST_TWO}",
            rf"::(?:{_GROUP}:){{5}}{_LAST_TWO}",
            rf"(?:{_GROUP})?::(?:{_GROUP}:){{4}}{_LAST_TWO}",
            rf"(?:(?:{_GROUP}:){{0,1}}{_GROUP})?::(?:{_GROUP}:){{3}}{_LAST_TWO}",
            rf"(?:(?:{_GROUP}:){{0,2}}{_GROUP})?::(?:{_GROUP}:){{2}}{_LAST_TWO}",
            rf"(?:(?:{_GROUP}:){{0,3}}{_GROUP})?::{_GROUP}:{_LAST_TWO}",
            rf"(?:(?:{_GROUP}:){{0,4}}{_GROUP})?::{_LAST_TWO}",
            rf"(?:(?:{_GROUP}:){{0,5}}{_GROUP})?::{_GROUP}",
            rf"(?:(?:{_GROUP}:){{0,6}}{_GROUP})?::",
        )
    )
)
"""``IPv6address`` of RFC 3986, section 3.2.2, as an expression."""

_LABEL = r"[0-9A-Za-z](?:[0-9A-Za-z\-]{0,61}[0-9A-Za-z])?"
_ATOM_TEXT = r"0-9A-Za-z!#$%&'*+/=?^_`{|}~\-"
_QUOTED_TEXT = r" !#-\[\]-~"
_MAX_LOCAL_PART = 64
_MAX_DOMAIN = 255
_BEYOND_ASCII = r"\u{80}-\u{10FFFF}"


def ipv4() -> Node:
    """``dotted-quad`` (RFC 2673, section 3.2)."""
    return compile_pattern(IPV4, search=False)


def ipv6() -> Node:
    """An IPv6 address (RFC 4291, section 2.2)."""
    return compile_pattern(IPV6, search=False)


def legacy_hostname() -> Node:
    """A host name (RFC 1123, section 2.1), whatever its labels may stand for."""
    return at_most(MAX_NAME, compile_pattern(rf"{_LABEL}(?:\.{_LABEL})*", search=False))


def hostname() -> Node:
    """A host name (RFC 1123, section 2.1) without A-labels."""
    label = compile_pattern(rf"(?![Xx][Nn]--){_LABEL}", search=False)
    more = concatenation(symbols(code_points(".")), label)
    return at_most(MAX_NAME, concatenation(label, repetition(more, 0, None)))


def email() -> Node:
    """``Mailbox`` (RFC 5321, section 4.1.2)."""
    return _mailbox("", rf"{_LABEL}(?:\.{_LABEL})*")


def idn_email() -> Node:
    """``Mailbox`` (RFC 6531, section 3.3)."""
    letter = rf"[0-9A-Za-z{_BEYOND_ASCII}]"
    label = rf"{letter}(?:[0-9A-Za-z{_BEYOND_ASCII}\-]{{0,61}}{letter})?"
    return _mailbox(_BEYOND_ASCII, rf"{label}(?:\.{label})*")


def _mailbox(more: str, domain: str) -> Node:
    atom = rf"[{_ATOM_TEXT}{more}]+"
    quoted = rf'"(?:[{_QUOTED_TEXT}{more}]|\\[ -~])*"'
    local = compile_pattern(rf"{atom}(?:\.{atom})*|{quoted}", search=False)
    name = at_most(_MAX_DOMAIN, compile_pattern(domain, search=False))
    literal = compile_pattern(rf"\[(?:{IPV4}|IPv6:{IPV6})\]", search=False)
    return concatenation(
        intersection((local, octets_at_most(_MAX_LOCAL_PART))),
        symbols(code_points("@")),
        union((name, literal)),
    )


def at_most(length: int, language: Node) -> Node:
    """Return the words of at most ``length`` characters."""
    return intersection((language, repetition(symbols(ANY_CODE_POINT), 0, length)))


def octets_at_most(length: int) -> Node:
    """Return the texts of at most ``length`` octets of UTF-8."""
    widths = (
        (1, code_points(0, 0x7F)),
        (2, code_points(0x80, 0x7FF)),
        (3, code_points(0x800, 0xFFFF)),
        (4, code_points(0x10000, 0x10FFFF)),
    )
    nodes = [EPSILON]
    for octets in range(1, length + 1):
        row = ((members, nodes[octets - width]) for width, members in widths if width <= octets)
        nodes.append(branch(row, nullable=True))
    return nodes[length]
