"""Growth benchmark: families of schemas."""

from __future__ import annotations

import pytest
from families import FAMILIES, Family, Member
from judging import Judge


def text_of(member: Member) -> bytes:
    return "".join(piece.text * piece.times for piece in member.pieces).encode()


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_members_admit_their_texts(family: Family) -> None:
    for size in family.sizes[:3]:
        member = family.member(size)
        assert Judge(member.schema).admits_text(text_of(member)), size
