"""The formats that ``format`` asserts, each a language of code points.

Reading order: :mod:`~state_machines.json_schema.formats.calendar` (dates and times),
:mod:`~state_machines.json_schema.formats.addresses` (hosts and mail),
:mod:`~state_machines.json_schema.formats.international` (host names beyond ASCII),
:mod:`~state_machines.json_schema.formats.resources` (URIs, UUIDs, pointers),
:mod:`~state_machines.json_schema.formats.expressions` (regular expressions),
:mod:`~state_machines.json_schema.formats.pydantic_types` (what pydantic writes). Each says in its
docstring which document it follows, and what of it is no regular property.
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
"""The formats by name; each function makes the language."""

LEGACY_FORMATS: Mapping[str, Callable[[], Node]] = {"hostname": addresses.legacy_hostname}
"""What a name meant in drafts 4 and 6, where that was something else."""


def format_language(name: str, draft: str) -> Node | None:
    """Return the language of a format in a draft; ``None``: the format is unknown."""
    make = FORMATS.get(name)
    if draft in ("4", "6"):
        make = LEGACY_FORMATS.get(name, make)
    return None if make is None else _LANGUAGES.get(make, make)


_LANGUAGES: WeakValueLruCache[Callable[[], Node], Node] = WeakValueLruCache(LIMITS.held_languages)
