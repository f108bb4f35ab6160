"""Prompt lookup continues the longest repeated suffix."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from proxy_engine.speculation import PromptLookup
from proxy_engine.speculation.prompt_lookup import TOKENS_PER_UPDATE

TOKENS = st.lists(st.integers(0, 3), max_size=50)


def proposal(
    tokens: list[int], draft: list[int], at_most: int = 4, min_match: int = 2
) -> list[int]:
    lookup = PromptLookup(min_match)
    lookup.update(tokens)
    return list(lookup.propose([*tokens, *draft], None, at_most))


def test_proposal_continues_the_last_occurrence() -> None:
    assert proposal([1, 2, 3, 4, 9, 1, 2, 5, 6, 7, 8, 1, 2], []) == [5, 6, 7, 8]


def test_short_match_gives_no_proposal() -> None:
    assert proposal([1, 2, 3, 4, 1], []) == []


def test_proposal_continues_behind_draft_tokens_that_agree_with_the_source() -> None:
    tokens = [1, 2, 3, 4, 5, 6, 9, 3, 4, 0, 8, 1, 2]
    lookup = PromptLookup(2)
    lookup.update(tokens)
    assert lookup.propose(tokens, None, 2) == [3, 4]
    # The last occurrence of 3, 4 is another one.
    assert lookup.propose([*tokens, 3, 4], None, 2) == [5, 6]
    assert lookup.propose([*tokens, 3], None, 2) == [4, 5]


def test_draft_tokens_that_leave_the_source_are_looked_up_as_well() -> None:
    tokens = [1, 2, 3, 4, 9, 7, 7, 8, 0, 1, 2]
    lookup = PromptLookup(2)
    lookup.update(tokens)
    assert lookup.propose(tokens, None, 2) == [3, 4]
    assert list(lookup.propose([*tokens, 7, 7], None, 2)) == [8, 0]
    assert list(lookup.propose([*tokens, 6], None, 2)) == []


def test_proposal_repeats_itself_beyond_the_text() -> None:
    assert proposal([5, 1, 2, 3, 1, 2, 3], [], at_most=5) == [1, 2, 3, 1, 2]


def test_longer_match_gives_a_longer_proposal() -> None:
    text = list(range(40))
    assert proposal([*text, 0, 1], [], at_most=16) == [2, 3, 4, 5]
    assert proposal([*text, 0, 1, 2, 3], [], at_most=16) == list(range(4, 12))
    assert proposal([*text, 0, 1, 2, 3], [4, 5, 6, 7, 8], at_most=16) == [9, 10, 11]


@given(TOKENS, TOKENS, st.integers(0, 6))
def test_proposal_is_what_followed_an_occurrence(
    tokens: list[int], draft: list[int], at_most: int
) -> None:
    found = proposal(tokens, draft, at_most)
    assert len(found) <= at_most
    whole = [*tokens, *draft]
    text = [*whole, *found]
    if found:
        end = whole[-2:]
        assert any(
            text[i : i + 2] == end and text[i + 2 : i + 2 + len(found)] == found
            for i in range(len(whole) - 2)
        )


def test_update_takes_a_bounded_number_of_tokens_and_proposes_once_it_has_all() -> None:
    tokens = [*range(TOKENS_PER_UPDATE + 100), 0, 1, 2]
    lookup = PromptLookup()
    lookup.update(tokens)
    assert not lookup.propose(tokens, None, 4)
    lookup.update(tokens)
    assert list(lookup.propose(tokens, None, 4)) == [3, 4, 5, 6]
    assert lookup.expects_draft(None)


def test_lookup_without_tokens_proposes_nothing() -> None:
    lookup = PromptLookup()
    assert not lookup.propose([1, 2, 3], None, 4)
    assert not lookup.expects_draft(None)
