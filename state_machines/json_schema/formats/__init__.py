"""The formats that ``format`` asserts, each as a language of code points.

Modules: :mod:`~state_machines.json_schema.formats.calendar` (dates, times, durations),
:mod:`~state_machines.json_schema.formats.addresses` (IP addresses, host names, e-mail),
:mod:`~state_machines.json_schema.formats.international` (internationalized host names),
:mod:`~state_machines.json_schema.formats.resources` (URIs, IRIs, UUIDs, JSON Pointers),
:mod:`~state_machines.json_schema.formats.expressions` (regular expressions), and
:mod:`~state_machines.json_schema.formats.pydantic_types` (formats that pydantic generates). The
docstring of each module names its specification, and the requirements that are not regular.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from state_machines.caches import WeakValueLruCache
from state_machines.grammar.node import Node
from state_machines.json_schema.formats import (
    addresses,
    calendar,
    expressions,
    international,
    resources,
)
from state_machines.json_schema.formats.pydantic_types import PYDANTIC_FORMATS
from state_machines.limits import LIMITS

__all__ = ["FORMATS", "LEGACY_FORMATS", "format_language"]

FORMATS: Mapping[str, Callable[[], Node]] = {
    "date-time": calendar.date_time,
    "date": calendar.date,
    "time": calendar.time,
    "duration": calendar.duration,
    "email": addresses.email,
    "idn-email": addresses.idn_email,
    "hostname": addresses.hostname,
    "idn-hostname": international.idn_hostname,
    "ipv4": addresses.ipv4,
    "ipv6": addresses.ipv6,
    "uri": resources.uri,
    "uri-reference": resources.uri_reference,
    "iri": resources.iri,
    "iri-reference": resources.iri_reference,
    "uri-template": resources.uri_template,
    "uuid": resources.uuid,
    "json-pointer": resources.json_pointer,
    "relative-json-pointer": resources.relative_json_pointer,
    "regex": expressions.ecma_regex,
    **PYDANTIC_FORMATS,
}
"""The language of each format, by name; built by calling the function."""

LEGACY_FORMATS: Mapping[str, Callable[[], Node]] = {"hostname": addresses.legacy_hostname}
"""The formats that have another definition in drafts 4 and 6."""

_LANGUAGES: WeakValueLruCache[Callable[[], Node], Node] = WeakValueLruCache(LIMITS.held_languages)


def format_language(name: str, draft: str) -> Node | None:
    """Return the language of a format in a draft, or ``None`` for an unknown format.

    Languages are cached while they are in use.
    """
    make = FORMATS.get(name)
    if draft in ("4", "6"):
        make = LEGACY_FORMATS.get(name, make)
    return None if make is None else _LANGUAGES.get(make, make)
