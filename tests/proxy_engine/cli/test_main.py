"""The command line as a whole."""

from __future__ import annotations

import importlib.metadata

import pytest

from proxy_engine.cli.main import main


def test_version_is_that_of_the_installed_package(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"proxy-engine {importlib.metadata.version('proxy-engine')}\n"
