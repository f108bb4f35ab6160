"""Docstrings of three styles."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy_engine.tools.definitions import read_docstring

GOOGLE = """Look up the weather.

    Uses: the nearest station.

    Args:
        city (str): The city, as in "Bonn": a name.
        days (Optional[int], optional): How many days
            to look ahead.

        *rest: More.
    Returns:
        forecast: not a parameter.
    """

NUMPY = """
    Look up the weather.

    Uses: the nearest station.

    Parameters
    ----------
    city : str
        The city, as in "Bonn": a name.
    days, weeks : int, optional
        How many days

        to look ahead.
    rest

    Returns
    -------
    forecast : str
        Not a parameter.
    """

REST = """Look up the weather.

    Uses: the nearest station.

    :param str city: The city, as in "Bonn": a name.
    :param days: How many days
        to look ahead.
    :type days: int
    :returns: not a parameter.
    """


@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, REST])
def test_docstring_styles(docstring: str) -> None:
    text, parameters = read_docstring(docstring)
    assert text == "Look up the weather.\n\nUses: the nearest station."
    assert parameters["city"] == 'The city, as in "Bonn": a name.'
    assert parameters["days"] == "How many days to look ahead."
    assert set(parameters) <= {"city", "days", "weeks", "rest"}


def test_numpy_describes_several_at_once() -> None:
    assert read_docstring(NUMPY)[1]["weeks"] == "How many days to look ahead."


def test_sections_that_are_none() -> None:
    text = "A list:\n- one\n\nNote:\n    Mind the step."
    assert read_docstring(text) == (text, {})


@pytest.mark.parametrize("docstring", [None, "", "   \n  "])
def test_empty_docstrings(docstring: str | None) -> None:
    assert read_docstring(docstring) == ("", {})


PIECES = """\
Args:|Returns:|Parameters|----------|Returns|:param x: y|:type x: int|x: text|x, y : int|*args: all|
    x (int): text|        more|  ||text"""
pieces = st.sampled_from(PIECES.split("|"))


@given(st.lists(pieces | st.text(), max_size=12))
def test_any_text_can_be_read(lines: list[str]) -> None:
    text, parameters = read_docstring("\n".join(lines))
    assert all(parameters.values())
    assert text == text.strip()
