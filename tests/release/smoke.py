"""Run in an environment that contains the installed package and nothing of the checkout.

``python -I smoke.py [--compiled] [--without-backend]``. Imports the package, computes a mask without
MLX, and checks that the compiled loop is there, or what the engine raises without a backend.
"""

from __future__ import annotations

import argparse
import sys
from importlib import metadata
from pathlib import Path

import proxy_engine
import state_machines
from proxy_engine import MissingExtraError
from state_machines import RegexStateMachine, Vocabulary
from state_machines.masks.kernel import KERNEL


def check_files() -> None:
    """The packages come from the environment and are typed."""
    for package in (proxy_engine, state_machines):
        directory = Path(package.__file__ or "").parent
        assert directory.is_relative_to(sys.prefix), directory
        assert (directory / "py.typed").is_file()
    files = metadata.files("proxy-engine") or []
    assert not [file for file in files if file.parts[0] in {"tests", "benchmarks", "docs"}]


def check_masks() -> None:
    """Masks are computed without MLX."""
    vocabulary = Vocabulary([b"a", b"b", b"ab", b"<end>"], end_token_ids=[3])
    matcher = RegexStateMachine("(ab)+").matcher(vocabulary)
    assert matcher.allowed_tokens().tolist() == [True, False, True, False]
    matcher.advance(2)
    assert matcher.allowed_tokens().tolist() == [True, False, True, True]
    assert "mlx" not in sys.modules


def check_engine(*, without_backend: bool) -> None:
    """The engine can be imported, or the error names the extra."""
    try:
        from proxy_engine import InferenceEngine  # noqa: F401, PLC0415
    except MissingExtraError as error:
        assert without_backend, error
        assert error.extra == "cpu"
        assert "proxy-engine[cpu]" in error.hint
    else:
        assert not without_backend


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--without-backend", action="store_true")
    arguments = parser.parse_args()
    assert (KERNEL is not None) == arguments.compiled, KERNEL
    check_files()
    check_masks()
    check_engine(without_backend=arguments.without_backend)


if __name__ == "__main__":
    main()
