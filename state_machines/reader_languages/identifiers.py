r"""Addresses, host names, URIs, UUIDs, JSON Pointers and encodings.

* ``ipv4``: ``dotted-quad`` (RFC 2673, section 3.2), without leading zeros.
* ``ipv6``: all three forms of RFC 4291, section 2.2, without zone and prefix length.
* ``hostname``: RFC 1123, section 2.1: letters, digits and hyphens, at most 63 characters in a label
  and 253 in the name, no trailing dot. That is the definition of drafts 4 and 6
  (:func:`legacy_hostname`). Since draft 7, a label that starts with ``xn--`` must be a valid
  A-label (RFC 5890). The valid A-labels are not a regular language, so no such label is accepted.
* ``idn-hostname``: RFC 5890 to 5893, a subset: labels of letters and digits of ASCII, hyphens, and
  letters of :data:`IDN_SCRIPTS` that are PVALID (RFC 5892). No rule about the context, the
  direction or the normalisation of characters restricts these. Marks and other scripts are left
  out, and so are A-labels. The A-label of a U-label must have at most 63 octets, which is not
  regular; a U-label has at most :data:`MAX_U_LABEL` characters instead, which no valid one exceeds.
* ``email``: ``Mailbox`` (RFC 5321, section 4.1.2) with the length limits of section 4.5.3.1,
  without general address literals, since none is registered.
* ``idn-email``: ``Mailbox`` as extended by RFC 6531, section 3.3: a non-ASCII character may take
  the place of a letter. Labels of the domain need not be U-labels; RFC 6531 leaves that check to
  the lookup.
* ``uri``, ``uri-reference``: ``URI`` and ``URI-reference`` (RFC 3986, appendix A).
* ``iri``, ``iri-reference``: ``IRI`` and ``IRI-reference`` (RFC 3987, section 2.2).
* ``uri-template``: RFC 6570, section 2, all levels; an apostrophe is a literal (erratum 6937).
* ``uuid``: RFC 9562, section 4, any version and variant.
* ``json-pointer``: RFC 6901, section 3.
* ``relative-json-pointer``: draft-bhutton-relative-json-pointer-00, section 3.

pydantic generates these formats, which no specification registers. Every string of these languages
validates as a value of the field's type. The types also accept undocumented spellings, which the
languages leave out.

* ``ipvanyaddress``: an ``ipv4`` or ``ipv6`` address.
* ``ipv4interface``, ``ipv6interface``, ``ipvanyinterface``: an address with an optional prefix
  length (RFC 4632, section 3.1; RFC 4291, section 2.3).
* ``ipv4network``, ``ipv6network``, ``ipvanynetwork``: the same, with zeros in all bits after the
  prefix, as Python's ``ipaddress`` requires. In an IPv6 network with a prefix length below 128,
  ``::`` is accepted at the end only.
* ``uuid1``, ``uuid3`` to ``uuid8``: RFC 9562, sections 4.1 (variant 10) and 4.2 (versions).
* ``base64``, ``base64url``: RFC 4648, sections 4 and 5, with padding and zeros in unused bits.
* ``fraction``: a subset of what Python's ``fractions.Fraction`` reads: a sign, digits, and a
  denominator or decimals. Exponents are left out, because a large one makes a huge integer.

``password``, ``binary``, ``path``, ``file-path`` and ``directory-path`` do not constrain the
string.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from unicodedata import category, is_normalized

from state_machines.grammar.boolean import intersection
from state_machines.grammar.lazy import reference
from state_machines.grammar.node import EMPTY, EPSILON, Node
from state_machines.grammar.nodes import branch, concatenation, repetition, symbols, union
from state_machines.grammar.symbols import ANY_CODE_POINT, CodePointSet, code_points
from state_machines.regex import compile_pattern
from state_machines.regex.unicode_classes import property_set

full_match = partial(compile_pattern, search=False)


def any_of(patterns: Iterable[str]) -> str:
    """Return the alternation of several regular expressions."""
    return f"(?:{'|'.join(patterns)})"


MAX_NAME = 253
"""Characters of a host name: 255 octets in a message (RFC 1035), without the first and last."""

MAX_U_LABEL = 58
"""Characters of a U-label: an A-label has 63 octets, 4 of them ``xn--``, and Punycode is longer."""

IDN_SCRIPTS = (
    *("Latin", "Greek", "Cyrillic", "Armenian", "Georgian"),
    *("Han", "Bopomofo", "Hiragana", "Katakana", "Hangul"),
)
"""The scripts of U-labels."""

# RFC 5892, sections 2.6 and 2.9. The sound mark of kana (U+30FC) belongs to no script.
_EXCEPTIONS = CodePointSet.of("\u00df\u03c2\u3007\u30fc")
_DISALLOWED = CodePointSet.of("\u302e\u302f\u3031\u3032\u3033\u3034\u3035\u303b")
_JAMO = CodePointSet([(0x1100, 0x11FF), (0xA960, 0xA97C), (0xD7B0, 0xD7FB)])

_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
IPV4 = rf"{_OCTET}(?:\.{_OCTET}){{3}}"
"""``dotted-quad`` (RFC 2673, section 3.2), as a regular expression."""

_GROUP = r"[0-9A-Fa-f]{1,4}"
_LAST_TWO = rf"(?:{_GROUP}:{_GROUP}|{IPV4})"
_LEFT = [rf"(?:(?:{_GROUP}:){{0,{groups}}}{_GROUP})?::" for groups in range(7)]
IPV6 = any_of(
    (
        rf"(?:{_GROUP}:){{6}}{_LAST_TWO}",
        rf"::(?:{_GROUP}:){{5}}{_LAST_TWO}",
        *(rf"{left}(?:{_GROUP}:){{{4 - n}}}{_LAST_TWO}" for n, left in enumerate(_LEFT[:5])),
        rf"{_LEFT[5]}{_GROUP}",
        _LEFT[6],
    )
)
"""``IPv6address`` (RFC 3986, section 3.2.2), as a regular expression."""

INTERFACE_4 = rf"{IPV4}(?:/(?:[12]?[0-9]|3[0-2]))?"
INTERFACE_6 = rf"{IPV6}(?:/(?:[1-9]?[0-9]|1[01][0-9]|12[0-8]))?"

_HEX = "[0-9A-Fa-f]"
_LABEL = r"[0-9A-Za-z](?:[0-9A-Za-z\-]{0,61}[0-9A-Za-z])?"
_ATOM_TEXT = r"0-9A-Za-z!#$%&'*+/=?^_`{|}~\-"
_QUOTED_TEXT = r" !#-\[\]-~"
_MAX_LOCAL_PART = 64
_MAX_DOMAIN = 255
_NON_ASCII = r"\u{80}-\u{10FFFF}"


def legacy_hostname() -> Node:
    """A host name (RFC 1123, section 2.1), with any labels."""
    return _host_name(full_match(_LABEL))


def hostname() -> Node:
    """A host name (RFC 1123, section 2.1) without A-labels."""
    return _host_name(full_match(rf"(?![Xx][Nn]--){_LABEL}"))


def idn_hostname() -> Node:
    """A host name of U-labels in :data:`IDN_SCRIPTS` and labels of ASCII."""
    digits = CodePointSet.of("0123456789")
    ascii_label = _idn_label(digits | _property("ASCII") & _property("Alphabetic"), 63)
    label = union((ascii_label, _idn_label(digits | idn_letters(), MAX_U_LABEL)))
    return _host_name(label, ".\u3002\uff0e\uff61")


def _host_name(label: Node, dots: str = ".") -> Node:
    more = concatenation(symbols(CodePointSet.of(dots)), label)
    return max_characters(MAX_NAME, concatenation(label, repetition(more, 0, None)))


def idn_letters() -> CodePointSet:
    """Return the letters of :data:`IDN_SCRIPTS` that are PVALID."""
    scripts = [property_set("Script", script) or CodePointSet(()) for script in IDN_SCRIPTS]
    letters = CodePointSet(span for members in scripts for span in members.ranges)
    letters &= (_property("Ll") | _property("Lo") | _property("Lm")) & ~_JAMO & ~_DISALLOWED
    # Other characters are unstable (RFC 5892, section 2.2), or unassigned in Python's data.
    stable = (
        (point, point)
        for point in letters
        if is_normalized("NFKC", mark := chr(point))
        and mark.casefold() == mark
        and category(mark) != "Cn"
    )
    return CodePointSet(stable) | _EXCEPTIONS


def _idn_label(members: CodePointSet, longest: int) -> Node:
    """Return the labels of some characters, with hyphens that no prefix as ``xn--`` needs."""
    end, inner = symbols(members), repetition(symbols(members | code_points("-")), 0, longest - 2)
    label = concatenation(end, union((EPSILON, concatenation(inner, end))))
    return intersection((label, full_match("(?!..--).*")))


def _property(name: str) -> CodePointSet:
    return property_set(name) or CodePointSet(())


def email() -> Node:
    """``Mailbox`` (RFC 5321, section 4.1.2)."""
    return _mailbox("", rf"{_LABEL}(?:\.{_LABEL})*")


def idn_email() -> Node:
    """``Mailbox`` (RFC 6531, section 3.3)."""
    letter = rf"[0-9A-Za-z{_NON_ASCII}]"
    label = rf"{letter}(?:[0-9A-Za-z{_NON_ASCII}\-]{{0,61}}{letter})?"
    return _mailbox(_NON_ASCII, rf"{label}(?:\.{label})*")


def _mailbox(more: str, domain: str) -> Node:
    """Return ``Mailbox`` with the characters ``more`` in local parts."""
    atom = rf"[{_ATOM_TEXT}{more}]+"
    quoted = rf'"(?:[{_QUOTED_TEXT}{more}]|\\[ -~])*"'
    local = full_match(rf"{atom}(?:\.{atom})*|{quoted}")
    name = max_characters(_MAX_DOMAIN, full_match(domain))
    literal = full_match(rf"\[(?:{IPV4}|IPv6:{IPV6})\]")
    # In ASCII, octets are characters.
    if more:
        local = intersection((local, octets(0, _MAX_LOCAL_PART)))
    else:
        local = max_characters(_MAX_LOCAL_PART, local)
    return concatenation(
        local,
        symbols(code_points("@")),
        union((name, literal)),
    )


def network_4(*, has_length: bool = False) -> str:
    """An IPv4 network, as a regular expression.

    Args:
        has_length: Whether the prefix length is written, although the network is one address.
    """
    networks = [rf"{IPV4}/32" if has_length else rf"{IPV4}(?:/32)?"]
    for length in range(32):
        whole, bits = divmod(length, 8)
        partial = any_of(str(value) for value in range(0, 256, 1 << (8 - bits)))
        digits = r"\.".join((*[_OCTET] * whole, partial, *["0"] * (3 - whole)))
        networks.append(f"{digits}/{length}")
    return any_of(networks)


def network_6() -> str:
    """An IPv6 network, as a regular expression."""
    return any_of((rf"{IPV6}(?:/128)?", f"::/{_from(0)}", _network_6_after(0)))


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
    return any_of(networks)


def _zeros(groups: int) -> str:
    """Return the spellings of trailing groups of an address that are all zero."""
    if groups == 0:
        return ""
    return rf"(?:(?::0{{1,4}}){{{groups}}}|(?::0{{1,4}}){{0,{groups - 1}}}::)"


def _from(length: int) -> str:
    """Return the prefix lengths from ``length`` to 128."""
    return any_of(str(longer) for longer in range(length, 129))


def _group(bits: int) -> str:
    """Return the spellings of a group in which only the first ``bits`` bits may be 1."""
    whole, part = divmod(bits, 4)
    digit = f"[{''.join(f'{value:x}' for value in range(0, 16, 1 << (4 - part)))}]"
    digit = any_of((digit, digit.upper()))
    if part:
        return rf"(?:{_HEX}{{0,{whole}}}{digit}0{{{3 - whole}}}|0{{1,4}})"
    return rf"(?:{_HEX}{{1,{whole}}}0{{{4 - whole}}}|0{{1,4}})"


def max_characters(count: int, language: Node) -> Node:
    """Return the strings of a language that have at most ``count`` characters."""
    return intersection((language, repetition(symbols(ANY_CODE_POINT), 0, count)))


_UTF8_WIDTHS = (
    (1, code_points(0, 0x7F)),
    (2, code_points(0x80, 0x7FF)),
    (3, code_points(0x800, 0xFFFF)),
    (4, code_points(0x10000, 0x10FFFF)),
)


def octets(low: int, high: int | None) -> Node:
    """Return the strings with a number of bytes in UTF-8.

    Args:
        low: Smallest number of bytes.
        high: Largest number of bytes; ``None`` for any.
    """
    if high is None:
        if low <= 0:
            return repetition(symbols(ANY_CODE_POINT), 0, None)
    elif high < max(low, 0):
        return EMPTY
    elif high == 0:
        return EPSILON
    low = max(low, 0)

    def make() -> Node:
        return branch(
            (
                (members, octets(low - width, None if high is None else high - width))
                for width, members in _UTF8_WIDTHS
            ),
            nullable=low == 0,
        )

    return reference(("octets", low, high), make, nullable=low == 0, min_length=-(-low // 4) or 1)


_UCSCHAR = (
    r"\u{A0}-\u{D7FF}\u{F900}-\u{FDCF}\u{FDF0}-\u{FFEF}"
    + "".join(rf"\u{{{plane:X}0000}}-\u{{{plane:X}FFFD}}" for plane in range(1, 14))
    + r"\u{E1000}-\u{EFFFD}"
)
_IPRIVATE = r"\u{E000}-\u{F8FF}\u{F0000}-\u{FFFFD}\u{100000}-\u{10FFFD}"
_UNRESERVED = r"A-Za-z0-9\-._~"
_SUB_DELIMS = r"!$&'()*+,;="
_PERCENT_ENCODED = r"%[0-9A-Fa-f]{2}"


@dataclass(frozen=True)
class _Syntax:
    """The rules of RFC 3986 as regular expressions.

    Attributes:
        more: Further unreserved characters.
        private: Further characters of queries.
    """

    more: str = ""
    private: str = ""

    @property
    def authority(self) -> str:
        userinfo = self._many(":")
        future = rf"[Vv][0-9A-Fa-f]+\.[{_UNRESERVED}{_SUB_DELIMS}:]+"
        host = rf"(?:\[(?:{IPV6}|{future})\]|{self._many('')})"
        return rf"(?:{userinfo}@)?{host}(?::[0-9]*)?"

    @property
    def uri(self) -> str:
        return rf"[A-Za-z][A-Za-z0-9+\-.]*:{self._after_scheme(self._some(':@'))}"

    @property
    def relative(self) -> str:
        return self._after_scheme(self._some("@"))

    def _after_scheme(self, first: str) -> str:
        """Return a URI without its scheme; ``first`` begins paths without a slash in front."""
        segments = rf"(?:/{self._many(':@')})*"
        absolute = rf"/(?:{self._some(':@')}{segments})?"
        query, fragment = self._many(":@/?", self.private), self._many(":@/?")
        tail = rf"(?:\?{query})?(?:#{fragment})?"
        return rf"(?://{self.authority}{segments}|{absolute}|{first}{segments}|){tail}"

    def _many(self, extra: str, private: str = "") -> str:
        members = rf"[{_UNRESERVED}{self.more}{_SUB_DELIMS}{extra}{private}]"
        return rf"(?:{members}|{_PERCENT_ENCODED})*"

    def _some(self, extra: str) -> str:
        return self._many(extra)[:-1] + "+"


_URI = _Syntax()
_IRI = _Syntax(_UCSCHAR, _IPRIVATE)


URI = _URI.uri
URI_REFERENCE = rf"{_URI.uri}|{_URI.relative}"
IRI = _IRI.uri
IRI_REFERENCE = rf"{_IRI.uri}|{_IRI.relative}"

_VARIABLE_CHARACTER = rf"(?:[A-Za-z0-9_]|{_PERCENT_ENCODED})"
_VARIABLE = rf"{_VARIABLE_CHARACTER}(?:\.?{_VARIABLE_CHARACTER})*(?:\*|:[1-9][0-9]{{0,3}})?"
_EXPRESSION = rf"\{{[+#./;?&=,!@|]?{_VARIABLE}(?:,{_VARIABLE})*\}}"
_LITERAL = rf"[!#$&'()*+,\-./0-9:;=?@A-Z\[\]_a-z~{_UCSCHAR}{_IPRIVATE}]"
URI_TEMPLATE = rf"(?:{_LITERAL}|{_PERCENT_ENCODED}|{_EXPRESSION})*"


def uuid_groups(version: int | None = None) -> tuple[str, ...]:
    """Return the groups of a UUID as regular expressions, with ``H`` for a hexadecimal digit."""
    if version is None:
        return ("H{8}", "H{4}", "H{4}", "H{4}", "H{12}")
    return ("H{8}", "H{4}", f"{version}H{{3}}", "[89ABab]H{3}", "H{12}")


UUID = "-".join(uuid_groups()).replace("H", _HEX)
UUID_VERSIONS = {
    f"uuid{version}": "-".join(uuid_groups(version)).replace("H", _HEX)
    for version in (1, 3, 4, 5, 6, 7, 8)
}

JSON_POINTER = "(?:/(?:[^~/]|~[01])*)*"
RELATIVE_JSON_POINTER = rf"(?:0|[1-9][0-9]*)(?:[+\-][1-9][0-9]*)?(?:#|{JSON_POINTER})"

_MAX_DIGITS = 4300
"""Digits that Python converts to an integer (``sys.int_info.default_max_str_digits``)."""

_DIGITS = rf"[0-9]{{1,{_MAX_DIGITS}}}"
_DENOMINATOR = rf"0{{0,{_MAX_DIGITS // 2}}}[1-9][0-9]{{0,{_MAX_DIGITS // 2 - 1}}}"
FRACTION = rf"[+\-]?{_DIGITS}(?:/{_DENOMINATOR}|\.{_DIGITS})?"
