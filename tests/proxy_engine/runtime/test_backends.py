"""MLX's backends on Linux: none, one that cannot be loaded, several."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from proxy_engine import MissingExtraError
from proxy_engine.runtime.extras import installed_backends, requires_backend

ROOT = Path(__file__).parents[3]

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="MLX has backends on Linux only")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that alone is searched for distributions."""
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    return tmp_path


def install(site: Path, *names: str) -> None:
    """Write the metadata of distributions."""
    for name in names:
        directory = site / f"{name.replace('-', '_')}-1.0.dist-info"
        directory.mkdir()
        (directory / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")


def failure() -> MissingExtraError:
    with pytest.raises(MissingExtraError) as caught, requires_backend():
        raise ImportError("libmlx.so: cannot open shared object file")
    assert isinstance(caught.value.__cause__, ImportError)
    return caught.value


def test_installed_backends_are_read_from_metadata(site: Path) -> None:
    assert installed_backends() == []
    install(site, "mlx", "mlx-cuda-13", "mlx-cpu")
    assert installed_backends() == ["cpu", "cuda13"]


@linux_only
def test_missing_backend_names_the_extras(site: Path) -> None:
    install(site, "mlx")
    error = failure()
    assert error.extra == "cpu"
    for extra in ("cpu", "cuda12", "cuda13"):
        assert f"`pip install 'proxy-engine[{extra}]'`" in error.hint


@linux_only
def test_backend_that_cannot_be_loaded_is_named_with_the_cause(site: Path) -> None:
    install(site, "mlx-cuda-12")
    error = failure()
    assert error.extra == "cuda12"
    assert "mlx-cuda-12 cannot be loaded: libmlx.so" in str(error)


@linux_only
def test_several_backends_that_cannot_be_loaded_are_named(site: Path) -> None:
    install(site, "mlx-cpu", "mlx-cuda-12")
    error = failure()
    assert "mlx-cpu and mlx-cuda-12" in str(error)
    assert "Run `pip uninstall mlx-cpu mlx-cuda-12`, then " in error.hint


def test_several_backends_warn(site: Path) -> None:
    install(site, "mlx-cpu", "mlx-cuda-13")
    with (
        pytest.warns(RuntimeWarning, match="overwrite each other: mlx-cpu and mlx-cuda-13"),
        requires_backend(),
    ):
        pass


@pytest.mark.parametrize("names", [(), ("mlx-cpu",)])
def test_one_backend_or_a_build_of_mlx_from_source_does_not_warn(
    site: Path, names: tuple[str, ...]
) -> None:
    install(site, *names)
    with warnings.catch_warnings(), requires_backend():
        warnings.simplefilter("error")


@linux_only
def test_without_mlx_entry_points_raise_and_the_rest_works() -> None:
    program = """
import sys
sys.modules["mlx"] = None
import proxy_engine
import state_machines
from proxy_engine.cli.main import main
for name in proxy_engine.__all__:
    try:
        getattr(proxy_engine, name)
    except proxy_engine.MissingExtraError:
        print(name)
assert main(["extract", "--schema", "examples/person.json", "examples/person.txt"]) == 1
assert main(["extract", "--schema", "absent.json", "absent.txt"]) == 2
"""
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert result.stdout.split() == ["InferenceEngine", "generate_step"]
    assert "proxy-engine[cpu]" in result.stderr
