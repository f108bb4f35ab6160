"""Engines in forked processes: every call raises, nothing waits for a thread that is gone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

# A child inherits a parent's threads' locks, so it is forked from a process of its own. Each check
# runs in a child that is stopped by SIGALRM if it waits.
PROGRAM = """
import asyncio, os, signal, sys, threading, warnings

warnings.simplefilter("ignore", DeprecationWarning)
from conftest import make_tiny_model, make_tiny_tokenizer
from proxy_engine import EngineForkedError, InferenceEngine

model, tokenizer = make_tiny_model(), make_tiny_tokenizer()
engine = InferenceEngine(model, tokenizer)
other = InferenceEngine(model, tokenizer)
long = {"max_tokens": 400, "min_tokens": 400}
engine.generate("warm", max_tokens=3)
streams = [engine.stream("a", **long) for _ in range(2)]
next(streams[0])
batch = engine.iter_batch(["b", "c"], ordered=False, **long)
first = threading.Thread(target=lambda: next(batch))

async def acall():
    await engine("x")

async def astream():
    async for _ in await engine.astream("x"):
        pass

def refused(call):
    try:
        call()
    except EngineForkedError as error:
        assert "spawn" in str(error)
    else:
        raise AssertionError("nothing was raised")

CHECKS = {
    "generate": lambda: refused(lambda: engine.generate("x")),
    "stream": lambda: refused(lambda: engine.stream("x")),
    "begun stream": lambda: refused(lambda: [*streams[0]]),
    "stream that was not begun": lambda: refused(lambda: next(streams[1])),
    "batch": lambda: refused(lambda: engine.generate_batch(["x"])),
    "batch that was not begun": lambda: refused(lambda: next(batch)),
    "call": lambda: refused(lambda: asyncio.run(acall())),
    "astream": lambda: refused(lambda: asyncio.run(astream())),
    "tools": lambda: refused(lambda: engine.run_tools("x", [])),
    "save": lambda: refused(lambda: engine.save_prompt("x.safetensors", "x")),
    "load": lambda: refused(lambda: engine.load_prompt("x.safetensors")),
    "new engine": lambda: refused(lambda: InferenceEngine(model, tokenizer)),
    "close": lambda: (engine.close(), engine.close()),
    "exit": lambda: None,
}
for name, check in CHECKS.items():
    # While the model works, and locks are held now and then.
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        check()
        if name == "exit":
            globals().pop("other")
            sys.exit(0)
        os._exit(0)
    status = os.waitpid(pid, 0)[1]
    print(name, os.waitstatus_to_exitcode(status), flush=True)
print("parent", len(engine.generate("x", max_tokens=4).token_ids), flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
def test_engine_in_forked_child_raises_and_does_not_hang() -> None:
    paths = [ROOT, ROOT / "tests", ROOT / "tests" / "support"]
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    outcomes = dict(line.rsplit(" ", 1) for line in run.stdout.splitlines())
    assert outcomes.pop("parent", None) == "4", run.stderr
    assert outcomes == dict.fromkeys(outcomes, "0"), run.stderr
    assert len(outcomes) == 14
