"""The formats that ``format`` asserts, each as a language of code points.

Modules: :mod:`~state_machines.json_schema.formats.calendar` (dates, times, durations),
:mod:`~state_machines.json_schema.formats.addresses` (IP addresses, host names, e-mail),
:mod:`~state_machines.json_schema.formats.resources` (URIs, IRIs, UUIDs, JSON Pointers), and
:mod:`~state_machines.json_schema.formats.expressions` (regular expressions). The docstring of each
module names its specification, and the requirements that are not regular.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TypeAlias

from state_machines.grammar.node import Node
from state_machines.json_schema.formats import (
    addresses,
    calendar,
    expressions,
    resources,
)
from state_machines.json_schema.formats.primitives import full_match

__all__ = ["FORMATS", "LEGACY_FORMATS", "format_language"]

_Format: TypeAlias = str | Callable[[], str | Node]

FORMATS: Mapping[str, _Format] = {
    "date-time": calendar.date_time,
    "date": calendar.DATE,
    "time": calendar.time,
    "duration": calendar.DURATION,
    "email": addresses.email,
    "idn-email": addresses.idn_email,
    "hostname": addresses.hostname,
    "idn-hostname": addresses.idn_hostname,
    "ipv4": addresses.IPV4,
    "ipv6": addresses.IPV6,
    "ipvanyaddress": addresses.any_of((addresses.IPV4, addresses.IPV6)),
    "ipv4interface": addresses.INTERFACE_4,
    "ipv6interface": addresses.INTERFACE_6,
    "ipvanyinterface": addresses.any_of((addresses.INTERFACE_4, addresses.INTERFACE_6)),
    "ipv4network": addresses.network_4,
    "ipv6network": addresses.network_6,
    "ipvanynetwork": lambda: addresses.any_of((addresses.network_4(), addresses.network_6())),
    "uri": resources.URI,
    "uri-reference": resources.URI_REFERENCE,
    "iri": resources.IRI,
    "iri-reference": resources.IRI_REFERENCE,
    "uri-template": resources.URI_TEMPLATE,
    "uuid": resources.UUID,
    **resources.UUID_VERSIONS,
    "json-pointer": resources.JSON_POINTER,
    "relative-json-pointer": resources.RELATIVE_JSON_POINTER,
    "regex": expressions.ecma_regex,
    "base64": resources.BASE64,
    "base64url": resources.BASE64_URL,
    "fraction": resources.FRACTION,
}
"""The regular expression of each format by name, or a function that returns it or its language."""

LEGACY_FORMATS: Mapping[str, _Format] = {"hostname": addresses.legacy_hostname}
"""The formats that have another definition in drafts 4 and 6."""


@cache
def _language(definition: _Format) -> Node:
    made = definition if isinstance(definition, str) else definition()
    return full_match(made) if isinstance(made, str) else made


def format_language(name: str, draft: str) -> Node | None:
    """Return the language of a format in a draft, or ``None`` for an unknown format."""
    definition = FORMATS.get(name)
    if draft in ("4", "6"):
        definition = LEGACY_FORMATS.get(name, definition)
    return None if definition is None else _language(definition)
