r"""Names of resources: URIs, IRIs, URI templates, UUIDs and JSON Pointers.

* ``uri`` and ``uri-reference``: RFC 3986, appendix A; ``uri`` is ``URI``, a fragment included;
* ``iri`` and ``iri-reference``: RFC 3987, section 2.2;
* ``uri-template``: RFC 6570, section 2, all levels; an apostrophe is a literal (erratum 6937);
* ``uuid``: RFC 9562, section 4, any version and variant;
* ``json-pointer``: RFC 6901, section 3;
* ``relative-json-pointer``: draft-bhutton-relative-json-pointer-00, section 3.
"""

from __future__ import annotations

from dataclasses import dataclass

from state_machines.grammar.node import Node
from state_machines.json_schema.formats.addresses import IPV6
from state_machines.regex import compile_pattern

__all__ = [
    "iri",
    "iri_reference",
    "json_pointer",
    "relative_json_pointer",
    "uri",
    "uri_reference",
    "uri_template",
    "uuid",
]

_UCSCHAR = (
    r"\u{A0}-\u{D7FF}\u{F900}-\u{FDCF}\u{FDF0}-\u{FFEF}"
    + "".join(rf"\u{{{plane:X}0000}}-\u{{{plane:X}FFFD}}" for plane in range(1, 14))
    + r"\u{E1000}-\u{EFFFD}"
)
_IPRIVATE = r"\u{E000}-\u{F8FF}\u{F0000}-\u{FFFFD}\u{100000}-\u{10FFFD}"
_UNRESERVED = r"A-Za-z0-9\-._~"
_SUB_DELIMS = r"!$&'()*+,;="
_ESCAPED = r"%[0-9A-Fa-f]{2}"


@dataclass(frozen=True)
class _Syntax:
    """RFC 3986's rules, with ``more`` unreserved characters and ``private`` ones in queries."""

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
        return rf"(?:{members}|{_ESCAPED})*"

    def _some(self, extra: str) -> str:
        return self._many(extra)[:-1] + "+"


_URI = _Syntax()
_IRI = _Syntax(_UCSCHAR, _IPRIVATE)


def uri() -> Node:
    """``URI`` (RFC 3986, appendix A)."""
    return _language(_URI.uri)


def uri_reference() -> Node:
    """``URI-reference`` (RFC 3986, appendix A)."""
    return _language(rf"{_URI.uri}|{_URI.relative}")


def iri() -> Node:
    """``IRI`` (RFC 3987, section 2.2)."""
    return _language(_IRI.uri)


def iri_reference() -> Node:
    """``IRI-reference`` (RFC 3987, section 2.2)."""
    return _language(rf"{_IRI.uri}|{_IRI.relative}")


def uri_template() -> Node:
    """``URI-Template`` (RFC 6570, section 2)."""
    character = rf"(?:[A-Za-z0-9_]|{_ESCAPED})"
    variable = rf"{character}(?:\.?{character})*(?:\*|:[1-9][0-9]{{0,3}})?"
    expression = rf"\{{[+#./;?&=,!@|]?{variable}(?:,{variable})*\}}"
    literal = rf"[!#$&'()*+,\-./0-9:;=?@A-Z\[\]_a-z~{_UCSCHAR}{_IPRIVATE}]"
    return _language(rf"(?:{literal}|{_ESCAPED}|{expression})*")


def uuid() -> Node:
    """A UUID in hexadecimal and dashes (RFC 9562, section 4)."""
    return _language("[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")


_POINTER = "(?:/(?:[^~/]|~[01])*)*"


def json_pointer() -> Node:
    """``json-pointer`` (RFC 6901, section 3)."""
    return _language(_POINTER)


def relative_json_pointer() -> Node:
    """``relative-json-pointer`` (draft-bhutton-relative-json-pointer-00, section 3)."""
    return _language(rf"(?:0|[1-9][0-9]*)(?:[+\-][1-9][0-9]*)?(?:#|{_POINTER})")


def _language(pattern: str) -> Node:
    return compile_pattern(pattern, search=False)
