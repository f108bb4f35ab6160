r"""URLs, as pydantic's parser reads them, which follows the URL standard of the WHATWG.

Observed with pydantic 2.14.4 (pydantic-core 2.50.5). These texts are written:

* ``scheme://``, a user and a password or none, a host, a port from 0 to 65535 or none, a path, a
  query and a fragment or none. Characters are those of RFC 3986; a ``%`` precedes two hexadecimal
  digits. Path, query and fragment may have characters beyond ASCII.
* A host is an address of IPv4, one of IPv6 in brackets, or labels of letters, digits, hyphens and
  underscores. No label begins with ``xn--``. The last label begins with a letter, since the parser
  takes others for numbers of IPv4.
* Several hosts with commas in between, for types that have several.
* Where no host is required and the scheme is none of the standard's: an empty host, and
  ``mailto:x`` or ``urn:x``.
* ``file://``, a host or none, a path.

Left out, although read: white space around the text, ``http:example.com``, ``http:///example.com``,
host names in Unicode, short IPv4 addresses (``http://1.2.3``), an empty port, stray characters that
the parser encodes.

The largest length is that of the text in UTF-8, not of the URL that the parser makes of it; with
it, all characters are ASCII.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from state_machines.grammar.node import EMPTY, EPSILON, Node
from state_machines.grammar.nodes import concatenation, optional, repetition, symbols, union
from state_machines.grammar.symbols import code_points
from state_machines.reader_languages.digits import integers
from state_machines.reader_languages.identifiers import IPV4, IPV6, full_match, max_characters

_SPECIAL = {"http": 80, "https": 443, "ws": 80, "wss": 443, "ftp": 21}
"""The schemes of the standard whose URLs have hosts, with their ports."""

_WITHOUT_HOST = ("mailto", "urn", "tel", "sms", "data", "news", "about")
"""Schemes whose URLs have no host."""

_OTHER_SCHEME = r"(?!(?:https?|wss?|ftp|file)$)[a-z][a-z0-9+\-.]*"
_MAX_PORT = 65535

_UNRESERVED = r"A-Za-z0-9\-._~"
_DELIMITERS = "!$&()*+;="
_ENCODED = "%[0-9A-Fa-f]{2}"
_NON_ASCII = r"\u{A1}-\u{D7FF}\u{F900}-\u{FDCF}\u{FDF0}-\u{FFEF}\u{10000}-\u{1FFFD}"

_COLON, _COMMA, _AT = (symbols(code_points(mark)) for mark in ":,@")


def url(
    *,
    allowed_schemes: Sequence[str] | None = None,
    host_required: bool | None = None,
    max_length: int | None = None,
    default_host: str | None = None,
    default_port: int | None = None,
    default_path: str | None = None,
    multi_host: bool = False,
    canonical: bool = False,
) -> Node:
    """Return the texts of URLs. The arguments are those of ``pydantic.UrlConstraints``.

    Args:
        allowed_schemes: The schemes; ``None`` for any.
        host_required: Whether the host must not be empty.
        max_length: Largest number of bytes.
        default_host: The host of texts without one.
        default_port: The port of texts without one.
        default_path: The path of texts without one.
        multi_host: Whether several hosts are read.
        canonical: Whether texts are spelled as pydantic spells them.
    """
    has_path = canonical and default_path is not None
    writer = _UrlWriter(
        canonical, max_length is None, multi_host, default_port is not None, has_path
    )
    may_lack_host = default_host is not None or not (host_required or default_port is not None)
    is_opaque = default_host is None and may_lack_host
    texts = union(writer.texts(allowed_schemes, may_lack_host, is_opaque))
    return texts if max_length is None else max_characters(max_length, texts)


class _UrlWriter:
    """Writes the URLs of a scheme.

    Args:
        canonical: Whether nothing is left for the parser to change.
        has_non_ascii: Whether there are characters beyond ASCII.
        multi_host: Whether there may be several hosts.
        has_default_port: Whether the parser adds a port.
        has_path: Whether the path must not be empty.
    """

    def __init__(
        self,
        canonical: bool,
        has_non_ascii: bool,
        multi_host: bool,
        has_default_port: bool,
        has_path: bool,
    ) -> None:
        self.canonical = canonical
        self.multi_host = multi_host
        self.has_default_port = has_default_port
        self.needs_path = has_path
        if canonical:
            segment, more = rf"[A-Za-z0-9\-_~{_DELIMITERS}:@][{_UNRESERVED}]*", "+"
            extra = f"[{_UNRESERVED}{_DELIMITERS}:@/]"
        else:
            others = _NON_ASCII if has_non_ascii else ""
            segment, more = rf"(?:[{_UNRESERVED}{_DELIMITERS}',:@{others}]|{_ENCODED})*", "*"
            extra = rf"(?:[{_UNRESERVED}{_DELIMITERS}',:@/?{others}]|{_ENCODED})"
        self.segments = rf"(?:/{segment})"
        self.tail = full_match(rf"(?:\?{extra}{more})?(?:#{extra}{more})?")
        comma = "" if multi_host else ","
        self.opaque = full_match(rf"[{_UNRESERVED}{_DELIMITERS}:@{comma}]+")

    def texts(
        self, schemes: Sequence[str] | None, may_lack_host: bool, is_opaque: bool
    ) -> Iterator[Node]:
        """Yield the URLs of schemes; ``None`` for any scheme."""
        for scheme in (*_SPECIAL, "file", None) if schemes is None else schemes:
            if scheme in _SPECIAL:
                yield self._with_host(full_match(scheme), _SPECIAL[scheme])
            elif scheme == "file":
                yield self._file(may_lack_host)
            elif scheme is None or scheme == scheme.lower():
                # The parser writes schemes in lower case.
                start = full_match(_OTHER_SCHEME if scheme is None else _literal(scheme))
                yield self._with_host(start, None)
                if may_lack_host and not self.canonical:
                    yield concatenation(start, full_match("://"), self._path(), self.tail)
                if is_opaque and (scheme is None or scheme in _WITHOUT_HOST):
                    yield concatenation(start, _COLON, self.opaque)

    def _file(self, may_lack_host: bool) -> Node:
        """Return the URLs of files, which have neither a user nor a port."""
        if self.multi_host or self.has_default_port:
            return EMPTY
        host = _host(self.canonical)
        if may_lack_host:
            host = EPSILON if self.canonical else optional(host)
        return concatenation(full_match("file://"), host, self._path("/"), self.tail)

    def _path(self, least: str = "") -> Node:
        """Return paths.

        Args:
            least: Empty for all paths, ``/`` for paths that are not empty, ``/x`` for paths that
                are neither empty nor ``/``.
        """
        segments = self.segments
        if not self.canonical:
            return full_match(f"{segments}{'+' if least else '*'}")
        if least in ("", "/"):
            return full_match(f"{segments}*{least or '/?'}|{segments}+")
        return full_match(f"{segments}+/?")

    def _with_host(self, scheme: Node, standard_port: int | None) -> Node:
        """Return the URLs with a host of a scheme, whose port the parser leaves away."""
        address = concatenation(_host(self.canonical), self._port(standard_port))
        hosts = address
        if self.multi_host:
            hosts = concatenation(hosts, repetition(concatenation(_COMMA, address), 0, None))
        is_written = standard_port is not None and self.canonical
        return concatenation(
            scheme,
            full_match("://"),
            self._user(),
            hosts,
            self._path("/x" if self.needs_path else "/" if is_written else ""),
            self.tail,
        )

    def _user(self) -> Node:
        if self.canonical:
            return full_match(rf"(?:[{_UNRESERVED}]+(?::[{_UNRESERVED}]+)?@)?")
        name = rf"(?:[{_UNRESERVED}{_DELIMITERS}]|{_ENCODED})*"
        return full_match(rf"(?:{name}(?::{name})?@)?")

    def _port(self, standard: int | None) -> Node:
        numbers = integers(0, _MAX_PORT)
        if standard is not None and self.canonical:
            numbers = union((integers(0, standard - 1), integers(standard + 1, _MAX_PORT)))
        port = concatenation(_COLON, numbers)
        return port if self.canonical and self.has_default_port else optional(port)


def _literal(scheme: str) -> str:
    """Return the regular expression of a scheme; none matches if it is not in lower case."""
    return "".join(f"\\{mark}" if mark in "+-." else mark for mark in scheme)


@cache
def _host(canonical: bool) -> Node:
    """Return host names and addresses."""
    letter = "a-z" if canonical else "A-Za-z"
    inner = rf"[0-9{letter}_\-]{{0,61}}[0-9{letter}_]"
    label = rf"(?:(?![Xx][Nn]--)[0-9{letter}_](?:{inner})?)"
    name = concatenation(
        repetition(full_match(rf"{label}\."), 0, None),
        full_match(rf"(?![Xx][Nn]--)[{letter}](?:{inner})?"),
    )
    if canonical:
        return union((name, full_match(IPV4)))
    return union((name, full_match(rf"{IPV4}|\[{IPV6}\]")))
