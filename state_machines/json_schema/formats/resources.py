r"""URIs, IRIs, URI templates, UUIDs, JSON Pointers and encodings, as regular expressions.

* ``uri``, ``uri-reference``: ``URI`` and ``URI-reference`` (RFC 3986, appendix A).
* ``iri``, ``iri-reference``: ``IRI`` and ``IRI-reference`` (RFC 3987, section 2.2).
* ``uri-template``: RFC 6570, section 2, all levels; an apostrophe is a literal (erratum 6937).
* ``uuid``: RFC 9562, section 4, any version and variant.
* ``json-pointer``: RFC 6901, section 3.
* ``relative-json-pointer``: draft-bhutton-relative-json-pointer-00, section 3.

pydantic generates these formats, which no specification registers. Every string of these languages
validates as a value of the field's type. The types also accept undocumented spellings, which the
languages leave out.

* ``uuid1``, ``uuid3`` to ``uuid8``: RFC 9562, sections 4.1 (variant 10) and 4.2 (versions).
* ``base64``, ``base64url``: RFC 4648, sections 4 and 5, with padding.
* ``fraction``: a subset of what Python's ``fractions.Fraction`` reads: a sign, digits, and a
  denominator or decimals. Exponents are left out, because a large one makes a huge integer.

``password``, ``binary``, ``path``, ``file-path`` and ``directory-path`` do not constrain the
string.
"""

from __future__ import annotations

from dataclasses import dataclass

from state_machines.json_schema.formats.addresses import IPV6

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
        segments = rf"(?:/{self._many(':@')})*"
        first = rf"{self._some(':@')}{segments}"
        hierarchy = rf"(?://{self.authority}{segments}|/(?:{first})?|{first}|)"
        return rf"[A-Za-z][A-Za-z0-9+\-.]*:{hierarchy}{self._tail}"

    @property
    def relative(self) -> str:
        segments = rf"(?:/{self._many(':@')})*"
        first = rf"{self._some(':@')}{segments}"
        no_scheme = rf"{self._some('@')}{segments}"
        return rf"(?://{self.authority}{segments}|/(?:{first})?|{no_scheme}|){self._tail}"

    @property
    def _tail(self) -> str:
        query = self._many(":@/?", self.private)
        return rf"(?:\?{query})?(?:#{self._many(':@/?')})?"

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

_HEX = "[0-9A-Fa-f]"
UUID = rf"{_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}"
UUID_VERSIONS = {
    f"uuid{version}": (
        rf"{_HEX}{{8}}-{_HEX}{{4}}-{version}{_HEX}{{3}}-[89ABab]{_HEX}{{3}}-{_HEX}{{12}}"
    )
    for version in (1, 3, 4, 5, 6, 7, 8)
}

JSON_POINTER = "(?:/(?:[^~/]|~[01])*)*"
RELATIVE_JSON_POINTER = rf"(?:0|[1-9][0-9]*)(?:[+\-][1-9][0-9]*)?(?:#|{JSON_POINTER})"

BASE64 = r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"
BASE64_URL = r"(?:[A-Za-z0-9\-_]{4})*(?:[A-Za-z0-9\-_]{2}==|[A-Za-z0-9\-_]{3}=)?"

_MAX_DIGITS = 4300
"""Digits that Python converts to an integer (``sys.int_info.default_max_str_digits``)."""

_DIGITS = rf"[0-9]{{1,{_MAX_DIGITS}}}"
_DENOMINATOR = rf"0{{0,{_MAX_DIGITS // 2}}}[1-9][0-9]{{0,{_MAX_DIGITS // 2 - 1}}}"
FRACTION = rf"[+\-]?{_DIGITS}(?:/{_DENOMINATOR}|\.{_DIGITS})?"
