r"""Characters on which readers of several versions of Unicode disagree.

A property such as ``\p{L}`` depends on the version of Unicode. Each validator that reads a text has
its own version: 16.0 in pydantic 2.14 (Rust's ``regex``), 15.0 in Node 20, and 18.0 in the
``regex`` package of 2026, from which this package takes its data. A character that a version does
not assign is in ``\P{L}`` there, and may be in ``\p{L}`` of the next. The sets of properties are
therefore the ones on which all versions from 15.0 on agree. A code point that 15.0 does not assign
is in neither ``\p{L}`` nor ``\P{L}``, and neither are the few characters whose property was changed
after that.

Sets that name their characters, such as ``[^a]``, do not depend on the version.
"""

from __future__ import annotations

import re
from functools import lru_cache

from state_machines.grammar.symbols import CodePointSet
from state_machines.regex.unicode_classes import loose_name

NOTHING = CodePointSet(())

_UNASSIGNED = """
oo.1 6.3 7 1 k b1 12.1 1e.1 3 1j.7 r.3 6.a 7i 1o.1 2t.d 1n.1 1d.1 f s.1 1 b.4 v 2.5 6k 8.1 2.1 m
7 1.2 4.1 9.1 2.1 4.7 1.3 2 5.1 p.1 3 6.3 2.1 m 7 2 2 2.1 1 5.3 2.1 3.2 1.6 4 1.6 h.9 3 9 3 m 7
2 5.1 a 3 3.1 1.e 4.1 c.6 7 3 8.1 2.1 m 7 2 5.1 9.1 2.1 3.6 3.3 2 5.1 i.9 2 6.2 3 4.2 2 1 2.2
2.2 3.2 c.3 5.2 3 4.1 1.5 1.d l.4 d 3 n g.1 9 3 4.6 2 3.1 1.1 4.1 a.6 m 3 n a 5.1 9 3 4.6 2.5 2
4.1 a 3.b d 3 1f 3 6.3 g.1 q 3 i.2 o 9 1.1 7.2 1.3 6 1 8.5 a.1 3.b 1m.3 t.10 2 1 5 o 1 n.1 5 1 7
a.1 4.v 20 10.3 13 10 f d.10 5i 1.4 1.1 ah 4.1 7 1 4.1 15 4.1 x 4.1 7 1 4.1 f 1l 4.1 1v.1 w.2
q.5 2e.1 6.1 il.2 2h.6 m.8 o.8 k.b d 3 2.b 2m.1 a.5 a.5 q.5 2h.6 17.4 1y.9 v c.3 c.3 1.2 16.1
5.a 18.3 q.5 b.2 1q.1 1t t.1 b.5 a.5 e.1 v.1c 25.2 1b 38.7 1o.2 f.2 1o.6 17.1 b.7 17.4 eu.1 6.1
12.1 6.1 8 1 1 1 v.1 1h f e.1 6 j.1 3 9 2t c.1 r d.2 x.e x.e 3w.3 if.o b.k 1ec.1 w 9p.4 19 1.4
1.1 1k.6 2.d o.8 7 7 7 7 7 7 7 7 3i.x q 2h.b 5y.p c.3 1s 2e.1 2v.4 17 2m 2c.b 1b mlp.2 1j.8 9o.j
54.7 5n.4 2 1 5.n 1n.2 a.5 1k.7 1y.7 c.5 38.a u.2 26 b.3 x 1j.8 e.1 a.1 2v.n s.9 6.1 6.1 6.8 7 7
1o.3 3i.1 a.5 8mc.b n.3 1d.3 6su.1 2y.11 7.b 5.4 q 5 1 2 2 3h.f cd.1 1i.6 23.5 1f j 4.3 5 3r.1 1
5a.2 6.1 6.1 6.1 3.2 7 7.9 j q j 2 f.1 e.x 3f.4 3.3 19.2 2g d.2 1.1a 1a.3l t.2 1d.e s.3 10.8 u.4
17.4 u 11.3 e.15 4e.1 a.5 10.3 10.3 14.7 1g.a c f 7 2 b f 7 2.1u 8n.8 m.9 8.n 6 16 9.1w 6.1 1 18
2.2 1.1 n 20.7 9.1b j 2.4 x.2 r.4 1.1r 1k.3 k.1 1e 2.4 8 3 t.1 3.3 a.6 9.6 1s.v 13.3 c.8 1i.2
t.1 r.4 q.6 4.b 7.27 21.1i 1f.c 1f.6 1a.7 a.85 v 16 3.1 2.22 17.7 16.l q.11 s.j n.8 26.3 10.8
1w.9 1.1 p.6 a.5 1h i.7 13.8 2o k.a i 1b.1p 7 1 4 f b.5 1n.4 a.5 4 8.1 2.1 m 7 2 5 a.1 2.1 3.1
1.5 1.4 7.1 7.2 5.3u 2k 5.t 20.7 a.4l 1i.1 12.x 1x.a a.5 d.i 1m.5 a.1h r.1 f.3 n.54 1o.2r 2b.b
8.1 1.1 8 2 u 2.1 c.8 a.1x 8.1 1a.1 b.q 20.7 2b.c 21.6 a.6t 9 19 e.9 t.2 w.1 m e.20 7 2 18.2 1 2
9.7 a.5 6 2 11 2 6.6 a.8l p.6 h 15.2 s.2d 1.e 1e.c pn.2t 33 5.a 5g.217 2r.c uu.33d g7.6ns ft.6 v
a.3 29 a.5 u.1 6.9 1y.9 a 7 l.4 j.j3 2j.2s 23.3 1l.6 h.1r 5.a 2.d 4qg.7 ye.15 9.6w6 4 7 2 83.e
1.s 3.1 1.d 4.7 b0.1s3 2z.4 d.2 9.6 a.1 8.3mj 1a.1 n.8 38.1n 6u.9 13.1 5e.k 1y.3d k.b k.b 2f.8
p.3q 2d 1z 2.1 1.1 2.1 4 c 1 7 1t 4.1 8 7 s 4 5 1.2 7 9g.1 84.1 ji.e 5 f.un v.5 6.5w 7 h.1 7 2
5.4 1q.w 1.33 19.2 e.1 a.3 2.8v v.g 1m.4 1.cv 16.kl 7 4 2 f 5h.1 g.14 24.3 a.3 2.ls 1w.23 1p.5d
4 r 2 1.1 1 a 4 1 1.5 1.3 1 1 1 3 2 1.1 1 1 1 1 1 2 1.1 4 7 4 4 1 a h.4 3 5 h.1f 2.7h 18.3 2s.b
f.1 f f 11.9 4u.1j t.c 18.3 9.6 2.d 6.49 rc.3 h.2 d.2 3b.3 2n.5 c.3 1.e c.3 1k.7 a.5 14.7 u.1
2.25 9g.b e.1 d.2 9.6 1a 7.7 e.3 9.6 9.6 43 1j.10 a.sj wyq.v 37e.5 66.1 4g2.d 5rl.2e6 f2.15r
3t9.4 38g.17il 2.1ekd 2.1ekd 2.1ekd 2.1ekd 2.1ekd 2.1ekd 2.1ekd 2.1ekd 2.1ekd 2.1ekd 2 1.t 2o.3j
6o.1e6l
"""
"""The code points that Unicode 15.0 does not assign, as runs ``gap.length`` in base 36.

``gap`` is the distance from the end of the run before, and a run has ``length`` more code points
than one. Code points of private use and noncharacters count as assigned, since they never change.
"""

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
"""Older characters whose property Unicode 15.1 to 18.0 changed, by the property's names."""


@lru_cache(maxsize=1)
def unassigned() -> CodePointSet:
    """Return the code points that Unicode 15.0 does not assign."""
    found: list[tuple[int, int]] = []
    first = 0
    for run in _UNASSIGNED.split():
        gap, _, more = run.partition(".")
        first += int(gap, 36)
        last = first + int(more or "0", 36)
        found.append((first, last))
        first = last + 1
    return CodePointSet(found)


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


@lru_cache(maxsize=64)
def without(members: CodePointSet, disputed: CodePointSet) -> CodePointSet:
    """Return the members that are not disputed."""
    return members & ~disputed
