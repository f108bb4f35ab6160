"""``__all__``, the exception tree, and what can be imported."""

from __future__ import annotations

import re

import pytest

import proxy_engine
from proxy_engine import errors


def test_every_public_name_can_be_had() -> None:
    assert proxy_engine.__all__ == sorted(proxy_engine.__all__)
    for name in proxy_engine.__all__:
        assert getattr(proxy_engine, name) is not None
    assert set(proxy_engine.__all__) == set(proxy_engine._MODULE_OF)
    assert set(proxy_engine.__all__) <= set(dir(proxy_engine))
    with pytest.raises(AttributeError):
        _ = proxy_engine.nothing_of_that_name


def test_the_drawn_exception_tree_is_the_real_one() -> None:
    assert errors.__doc__ is not None
    drawn = set(re.findall(r"\b(\w+Error)\b", errors.__doc__)) - {"ProxyError"}
    real = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.EngineError)
    }
    assert drawn == real == set(errors.__all__)
    assert real <= set(proxy_engine.__all__) | {"EngineError"}
