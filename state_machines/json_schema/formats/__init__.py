"""The formats that ``format`` asserts, each as a language of code points.

Modules: :mod:`~state_machines.json_schema.formats.calendar` (dates, times, durations),
:mod:`~state_machines.json_schema.formats.identifiers` (addresses, host names, URIs, UUIDs, JSON
Pointers, encodings), and :mod:`~state_machines.json_schema.formats.expressions` (regular
expressions). The docstring of each module names its specification, and the requirements that are
not regular.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TypeAlias

from state_machines.grammar.node import Node
from state_machines.json_schema.formats import (
    calendar,
    expressions,
    identifiers,
)
from state_machines.regex import compile_pattern

__all__ = ["FORMATS", "LEGACY_FORMATS", "format_language"]

_Format: TypeAlias = str | Callable[[], str | Node]

FORMATS: Mapping[str, _Format] = {
    "date-time": calendar.date_time,
    "date": calendar.DATE,
    "time": calendar.time,
    "duration": calendar.DURATION,
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
    "regex": expressions.ecma_regex,
    "base64": identifiers.BASE64,
    "base64url": identifiers.BASE64_URL,
    "fraction": identifiers.FRACTION,
}
"""The regular expression of each format by name, or a function that returns it or its language."""

LEGACY_FORMATS: Mapping[str, _Format] = {"hostname": identifiers.legacy_hostname}
"""The formats that have another definition in drafts 4 and 6."""


@cache
def _language(definition: _Format) -> Node:
    made = definition if isinstance(definition, str) else definition()
    return compile_pattern(made, search=False) if isinstance(made, str) else made


def format_language(name: str, draft: str) -> Node | None:
    """Return the language of a format in a draft, or ``None`` for an unknown format."""
    definition = FORMATS.get(name)
    if draft in ("4", "6"):
        definition = LEGACY_FORMATS.get(name, definition)
    return None if definition is None else _language(definition)
