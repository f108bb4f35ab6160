"""What a program that only generates imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PACKAGES = {"proxy_engine", "state_machines", "samplers"}
APPLICATIONS = (
    *("bridge", "cli", "distributed", "extraction", "integrations", "multimodal", "server"),
    "transcription",
)
MAX_MODULES = 315


def test_plain_request_imports_no_application(tiny_model_directory: Path) -> None:
    program = """
import sys
from proxy_engine import InferenceEngine
with InferenceEngine(sys.argv[1], on_progress=None) as engine:
    engine.generate("hello", max_tokens=3)
print(*sys.modules)
"""
    run = subprocess.run(
        [sys.executable, "-c", program, str(tiny_model_directory)],
        capture_output=True,
        text=True,
        check=True,
    )
    imported = [name for name in run.stdout.split() if name.partition(".")[0] in PACKAGES]
    folders = {tuple(name.split(".")[:2]) for name in imported}
    assert {name for name in APPLICATIONS if ("proxy_engine", name) in folders} == set()
    # The package itself has the limits of media, options of an engine; the decoders are not imported.
    assert not [name for name in imported if name.startswith("proxy_engine.media.")]
    assert len(imported) <= MAX_MODULES
