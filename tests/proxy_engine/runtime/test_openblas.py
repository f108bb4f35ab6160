"""OpenBLAS in place of MLX's reference BLAS: for every entry point, in every order of imports."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from threading import Event

import pytest
from ranks import run_ranks

from proxy_engine.models.loading import load_model
from proxy_engine.runtime import blas, openblas

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="macOS has one BLAS")
needs_openblas = pytest.mark.skipif(
    sys.platform != "linux" or importlib.util.find_spec("scipy_openblas32") is None,
    reason="OpenBLAS comes with the extra cpu on Linux",
)

REPORT = """
import atexit, os, runpy, sys

@atexit.register
def report():
    from proxy_engine.runtime.openblas import uses_reference_blas
    print("BLAS: reference" if uses_reference_blas() else "BLAS: OpenBLAS", flush=True)

"""
_RUN = "runpy.run_module('proxy_engine', run_name='__main__', alter_sys=True)"
COMMAND = REPORT + _RUN
# The bridge ends without the functions of `atexit`.
BRIDGE = f"{REPORT}leave = os._exit\nos._exit = lambda status: (report(), leave(status))\n{_RUN}"


def environment(**variables: str) -> dict[str, str]:
    """The variables of a process without a BLAS that is preloaded."""
    return {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"} | variables


def output(program: str, *arguments: str | Path, **variables: str) -> str:
    """The standard output of a program."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    variables = environment(**variables)
    return subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=True, env=variables
    ).stdout


@needs_openblas
@pytest.mark.parametrize("order", ["mlx first", "engine first"])
def test_mlx_multiplies_with_openblas_in_every_order_of_imports(order: str) -> None:
    program = """
import ctypes, sys
if sys.argv[1] == "mlx first":
    import mlx.core as mx
    mx.set_default_device(mx.cpu)
    mx.eval(mx.ones((3, 4)) @ mx.ones((4, 3)))
from proxy_engine.runtime import openblas
from proxy_engine.runtime.extras import requires_backend
with requires_backend():
    import mlx.core as mx
print(openblas.uses_reference_blas())
mx.set_default_device(mx.cpu)
a = mx.arange(12.0).reshape(3, 4)
print((a @ a.T).tolist())
# MLX calls the function in its table: another one there is called as well.
called = ctypes.CFUNCTYPE(None)(lambda: print("called"))
openblas._slot().value = ctypes.cast(called, ctypes.c_void_p).value
mx.eval(a @ a.T)
"""
    product = "[[14.0, 38.0, 62.0], [38.0, 126.0, 214.0], [62.0, 214.0, 366.0]]"
    assert output(program, order).splitlines() == ["False", product, "called"]


@needs_openblas
@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_preloaded_blas_stays(tmp_path: Path) -> None:
    source, library = tmp_path / "blas.c", tmp_path / "blas.so"
    source.write_text("int is_preloaded = 1;\nvoid cblas_sgemm(void) {}\n")
    subprocess.run(["cc", "-fPIC", "-shared", "-o", str(library), str(source)], check=True)
    program = """
import ctypes
from proxy_engine.runtime import openblas
from proxy_engine.runtime.extras import requires_backend
with requires_backend():
    import mlx.core
own = ctypes.cast(ctypes.CDLL(None).cblas_sgemm, ctypes.c_void_p)
print(openblas.uses_reference_blas(), openblas._slot().value == own.value)
"""
    assert output(program, LD_PRELOAD=str(library)).split() == ["False", "True"]


@needs_openblas
def test_commands_run_openblas(tmp_path: Path, tiny_model_directory: Path) -> None:
    schema, text = tmp_path / "schema.json", tmp_path / "text.txt"
    schema.write_text(json.dumps({"enum": ["yes", "no"]}))
    text.write_text("hello")
    model = ("--model", tiny_model_directory)
    extract = ("extract", "--quiet", text, "--schema", schema, *model)
    assert output(COMMAND, *extract).endswith("BLAS: OpenBLAS\n")
    # The model is loaded before its kind is refused.
    transcribe = [sys.executable, "-c", COMMAND, "transcribe", str(text), *map(str, model)]
    failed = subprocess.run(transcribe, capture_output=True, text=True, env=environment())
    assert failed.stdout.endswith("BLAS: OpenBLAS\n"), failed.stderr


@needs_openblas
def test_bridge_runs_openblas(tiny_model_directory: Path) -> None:
    load = json.dumps({"cmd": "load", "path": str(tiny_model_directory)})
    run = subprocess.run(
        [sys.executable, "-c", BRIDGE, "bridge"],
        input=f'{load}\n{{"cmd": "info"}}\n{{"cmd": "quit"}}\n',
        capture_output=True,
        text=True,
        env=environment(),
    )
    assert '"ok": true' in run.stdout, run.stdout
    # Standard output has the replies alone.
    assert run.stderr.endswith("BLAS: OpenBLAS\n")


@needs_openblas
def test_server_runs_openblas(tmp_path: Path, tiny_model_directory: Path) -> None:
    flags = ["serve", "--port=0", "--model", str(tiny_model_directory)]
    running = subprocess.Popen(
        [sys.executable, "-c", COMMAND, *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=environment(),
    )
    try:
        assert running.stderr is not None
        assert any("listening" in line for line in running.stderr)
        running.send_signal(signal.SIGINT)
        out, log = running.communicate(timeout=60)
    finally:
        running.kill()
        running.communicate()
    assert out.endswith("BLAS: OpenBLAS\n"), log


@needs_openblas
def test_actors_of_ray_run_openblas(tiny_model_directory: Path) -> None:
    program = f"""{REPORT}
from proxy_engine.integrations.ray.actors import ActorSettings, Extractor
Extractor(ActorSettings({{"enum": ["yes", "no"]}}, engine={{"model": sys.argv[1]}}))
"""
    assert output(program, tiny_model_directory) == "BLAS: OpenBLAS\n"


@needs_openblas
@pytest.mark.soak
def test_all_ranks_run_openblas(tiny_model_directory: Path) -> None:
    program = f"""{REPORT}
from proxy_engine import InferenceEngine
with InferenceEngine(sys.argv[1], distributed=True, on_progress=None):
    pass
"""
    for printed in run_ranks(2, ["-c", program, str(tiny_model_directory)]):
        assert printed.endswith("BLAS: OpenBLAS\n")


@linux_only
def test_reference_blas_is_announced_once_with_the_remedy(
    tiny_model_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blas, "uses_reference_blas", lambda: True)
    monkeypatch.setattr(blas, "_announced", Event())
    announced: list[str] = []
    for _ in range(2):
        load_model(tiny_model_directory, announced.append)
    (line,) = announced
    assert line == f"MLX runs on the CPU with its slow reference BLAS; faster: {openblas.remedy()}"
    monkeypatch.setitem(sys.modules, "scipy_openblas32", None)
    assert openblas.remedy() == "`pip install scipy-openblas32`"
