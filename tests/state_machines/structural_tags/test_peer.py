"""Random structural tags accept and refuse what XGrammar does."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from structural_tags import LETTERS, random_format

from state_machines import StructuralTagError
from state_machines.root import RootStateMachine


def overlooks_triggers(content: Any, ends: tuple[str, ...] = ()) -> bool:
    """Whether XGrammar overlooks a trigger, since a longer string of the format contains it."""
    if isinstance(content, list):
        return any(overlooks_triggers(item, ends) for item in content)
    if not isinstance(content, dict):
        return False
    if content.get("type") == "tag":
        end = content["end"]
        ends = (end,) if isinstance(end, str) else tuple(end)
    triggers = content.get("triggers", [pattern for pattern, _ in content.get("rules", ())])
    others = (*triggers, *content.get("excludes", ()), *ends)
    if any(one != other and one in other for one in triggers for other in others):
        return True
    return any(overlooks_triggers(item, ends) for item in content.values())


def differences(seed: int, tags: int, texts: int) -> tuple[int, list[Any]]:
    """Return the number of compared texts, and the texts on which the engines differ."""
    xgrammar = pytest.importorskip("xgrammar")
    accepts = pytest.importorskip("xgrammar.testing")._is_grammar_accept_string
    random = Random(seed)
    compared, found = 0, []
    for _ in range(tags):
        content = random_format(random)
        if overlooks_triggers(content):
            continue
        tag = {"type": "structural_tag", "format": content}
        try:
            machine = RootStateMachine.from_structural_tag(tag)
        except StructuralTagError:
            machine = None
        try:
            peer = xgrammar.Grammar.from_structural_tag(tag)
        except Exception:
            peer = None
        if machine is None or peer is None:
            if (machine is None) != (peer is None):
                found.append(
                    (content, "refused here" if machine is None else "refused by XGrammar")
                )
            continue
        for _ in range(texts):
            text = "".join(random.choices(LETTERS, k=random.randint(0, 8)))
            compared += 1
            if machine.matches(text) != accepts(peer, text):
                found.append((content, text, machine.matches(text)))
                break
    return compared, found


def test_random_tags_agree_with_the_peer() -> None:
    compared, found = differences(seed=1, tags=60, texts=20)
    assert found == []
    assert compared > 300


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 12))
def test_many_random_tags_agree_with_the_peer(seed: int) -> None:
    _, found = differences(seed, tags=2000, texts=60)
    assert found == []
