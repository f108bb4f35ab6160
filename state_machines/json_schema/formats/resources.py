r"""URIs, IRIs, URI templates, UUIDs and JSON Pointers.

* ``uri``, ``uri-reference``: ``URI`` and ``URI-reference`` (RFC 3986, appendix A).
* ``iri``, ``iri-reference``: ``IRI`` and ``IRI-reference`` (RFC 3987, section 2.2).
* ``uri-template``: RFC 6570, section 2, all levels; an apostrophe is a literal (erratum 6937).
* ``uuid``: RFC 9562, section 4, any version and variant.
* ``json-pointer``: RFC 6901, section 3.
* ``relative-json-pointer``: draft-bhutton-relative-json-pointer-00, section 3.
"""

from __future__ import annotations

from dataclasses import dataclass

from state_machines.grammar.node import Node
from state_machines.json_schema.formats.addresses import IPV6
from state_machines.json_schema.formats.primitives import full_match

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


def uri() -> Node:
    """``URI`` (RFC 3986, appendix A)."""
    return full_match(_URI.uri)


def uri_reference() -> Node:
    """``URI-reference`` (RFC 3986, appendix A)."""
    return full_match(rf"{_URI.uri}|{_URI.relative}")


def iri() -> Node:
    """``IRI`` (RFC 3987, section 2.2)."""
    return full_match(_IRI.uri)


def iri_reference() -> Node:
    """``IRI-reference`` (RFC 3987, section 2.2)."""
    return full_match(rf"{_IRI.uri}|{_IRI.relative}")


def uri_template() -> Node:
    """``URI-Template`` (RFC 6570, section 2)."""
    character = rf"(?:[A-Za-z0-9_]|{_PERCENT_ENCODED})"
    variable = rf"{character}(?:\.?{character})*(?:\*|:[1-9][0-9]{{0,3}})?"
    expression = rf"\{{[+#./;?&=,!@|]?{variable}(?:,{variable})*\}}"
    literal = rf"[!#$&'()*+,\-./0-9:;=?@A-Z\[\]_a-z~{_UCSCHAR}{_IPRIVATE}]"
    return full_match(rf"(?:{literal}|{_PERCENT_ENCODED}|{expression})*")


def uuid() -> Node:
    """A UUID (RFC 9562, section 4)."""
    return full_match("[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")


_POINTER = "(?:/(?:[^~/]|~[01])*)*"


def json_pointer() -> Node:
    """``json-pointer`` (RFC 6901, section 3)."""
    return full_match(_POINTER)


def relative_json_pointer() -> Node:
    """``relative-json-pointer`` (draft-bhutton-relative-json-pointer-00, section 3)."""
    return full_match(rf"(?:0|[1-9][0-9]*)(?:[+\-][1-9][0-9]*)?(?:#|{_POINTER})")
