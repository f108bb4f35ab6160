"""Integrations whose framework is not installed."""

from __future__ import annotations

import importlib
import sys

import pytest

from proxy_engine import MissingExtraError


@pytest.mark.parametrize(
    ("module", "framework", "extra"),
    [
        ("openai", "openai", "openai"),
        ("application", "starlette.types", "openai"),
        ("langchain", "langchain_openai", "langchain"),
        ("smolagents", "smolagents.models", "smolagents"),
        ("pydantic_ai", "pydantic_ai.models.openai", "pydantic-ai"),
        ("dspy", "dspy", "dspy"),
        ("ray.datasets", "ray", "ray"),
    ],
)
def test_import_without_the_framework_names_the_extra(
    module: str, framework: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, f"proxy_engine.integrations.{module}", raising=False)
    # The value with which Python marks a module that cannot be imported.
    monkeypatch.setitem(sys.modules, framework, None)
    with pytest.raises(
        MissingExtraError, match=rf"pip install 'proxy-engine\[{extra}\]'"
    ) as caught:
        importlib.import_module(f"proxy_engine.integrations.{module}")
    assert isinstance(caught.value, ImportError)
    assert caught.value.extra == extra
