r"""Characters on which readers of several versions of Unicode disagree.

A property such as ``\p{L}`` depends on the version of Unicode. The validators that read a text have
versions of their own: 16.0 in pydantic 2.14 (Rust's ``regex``), 17.0 in Node 20 of Debian, 18.0 in
the ``regex`` package, from which this package takes its data. A character that a version does not
assign is in ``\P{L}`` there, and may be in ``\p{L}`` of the next. The sets of properties are
therefore those that all versions from :data:`unicodedata.unidata_version` on agree upon: that is
the version of the Python that runs, 14.0 to 16.0 with Python 3.11 to 3.14. All other characters
are in neither ``\p{L}`` nor ``\P{L}``. So are the few whose property was changed after that.

Sets that name their characters, such as ``[^a]``, do not depend on the version.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from itertools import groupby

from state_machines.grammar.symbols import CodePointSet
from state_machines.regex.unicode_classes import loose_name, property_set

NOTHING = CodePointSet(())

_ASSIGNED_PLANES = (range(0x40000), range(0xE0000, 0xE1000))
"""No version assigns other code points; those of private use and noncharacters never change."""

_STABLE_NAMES = """
any ascii asciihexdigit ahex hexdigit hex joincontrol joinc noncharactercodepoint nchar
patternsyntax patsyn patternwhitespace patws whitespace space cc control cntrl cs surrogate
co privateuse
"""
_STABLE = frozenset(_STABLE_NAMES.split())
"""Properties that no version changes, in loose spelling."""

_REVISED = {
    "ll lowercaseletter lo otherletter lc casedletter cased lowercase lower": "295",
    "casefolding changeswhencasemapped cwcm changeswhentitlecased cwt changeswhenuppercased cwu": (
        "19b 264 277 27c a7d3 a7d5 ab4b-ab4c"
    ),
    "diacritic dia": "5a2 5c5 5c7 656 6e2 8d3 1d9b-1dbe",
    "extendedpictographic extpict": """
        2388 2605 2607-260d 260f-2610 2612 2616-2617 2619-261c 261e-261f 2621 2624-2625
        2627-2629 262b-262d 2630-2637 263b-263f 2641 2643-2647 2654-265e 2661-2662 2664 2667
        2669-267a 267c-267d 2680-2685 2690-2691 2698 269a 269d-269f 26a2-26a6 26a8-26a9
        26ac-26af 26b2-26bc 26bf-26c3 26c6-26c7 26c9-26cd 26d0 26d2 26d5-26e8 26eb-26ef 26f6
        26fb-26fc 26fe-2701 2703-2704 270e 2710-2711 2765-2767 1f000-1f003 1f005-1f02b
        1f030-1f093 1f0a0-1f0ae 1f0b1-1f0bf 1f0c1-1f0ce 1f0d1-1f0f5 1f10d-1f10f 1f12f
        1f16c-1f16f 1f1ad 1f260-1f265 1f322-1f323 1f394-1f395 1f398 1f39c-1f39d 1f3f1-1f3f2
        1f3f6 1f4fe 1f546-1f548 1f54f 1f568-1f56e 1f571-1f572 1f57b-1f586 1f588-1f589
        1f58e-1f58f 1f591-1f594 1f597-1f5a3 1f5a6-1f5a7 1f5a9-1f5b0 1f5b3-1f5bb 1f5bd-1f5c1
        1f5c5-1f5d0 1f5d4-1f5db 1f5df-1f5e0 1f5e2 1f5e4-1f5e7 1f5e9-1f5ee 1f5f0-1f5f2
        1f5f4-1f5f9 1f6c6-1f6ca 1f6d3-1f6d4 1f6e6-1f6e8 1f6ea 1f6f1-1f6f2 1f774-1f776
        1f77b-1f77f 1f7d5-1f7d9 1f8b0-1f8bb 1f8c0-1f8c1 1fa00-1fa53 1fa60-1fa6d
    """,
    "scriptextensions scx": (
        "306 308 320 323 331 951-952 b83 1cd5-1cd8 1ce2 1ce9-1ceb 1ced 1cf5-1cf6"
    ),
}
"""Older characters of which Unicode 15.0 to 18.0 changed a property, by the property's names."""


@lru_cache(maxsize=1)
def unassigned() -> CodePointSet:
    """Return the code points that may be assigned by a version after the oldest reader's."""
    found: list[tuple[int, int]] = []
    for points in _ASSIGNED_PLANES:
        first = points.start
        for category, run in groupby(map(unicodedata.category, map(chr, points))):
            after = first + sum(1 for _ in run)
            if category == "Cn":
                found.append((first, after - 1))
            first = after
    later = property_set("Cn")
    assert later is not None
    in_planes = CodePointSet((points.start, points.stop - 1) for points in _ASSIGNED_PLANES)
    noncharacters = property_set("Noncharacter_Code_Point")
    assert noncharacters is not None
    return (CodePointSet(found) | (later & in_planes)) & ~noncharacters


def disputed(name: str, value: str | None = None) -> CodePointSet:
    """Return the characters whose value of a property depends on the version of Unicode.

    Args:
        name: The name of the property, of a general category or of a script, spelled as in a
            pattern.
        value: The value of the property, if it is no binary one.
    """
    kind = loose_name(name)
    key = kind if value is None or kind in ("scriptextensions", "scx") else loose_name(value)
    if key in _STABLE:
        return NOTHING
    return _disputed(key)


@lru_cache(maxsize=64)
def _disputed(key: str) -> CodePointSet:
    return unassigned() | _revised().get(key, NOTHING)


@lru_cache(maxsize=1)
def _revised() -> dict[str, CodePointSet]:
    return {
        name: CodePointSet(
            (int(first, 16), int(last or first, 16))
            for first, last in re.findall(r"(\w+)(?:-(\w+))?", ranges)
        )
        for names, ranges in _REVISED.items()
        for name in names.split()
    }
