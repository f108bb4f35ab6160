"""The bridge process: pipes, signals, and output of libraries."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from adapters import mlx_lm_answer, write_adapter
from bridge_clients import BridgeProcess

from proxy_engine import RawPrompt
from proxy_engine.bridge.commands import LoadCommand
from proxy_engine.bridge.process import load_engine

# Loads what `make_engine` says in place of a model.
_PROGRAM = """
import os, subprocess, sys, threading, time
sys.path[:0] = {path!r}
import proxy_engine
from bridge_clients import FakeEngine
from proxy_engine import TokenGenerated
from proxy_engine.bridge import process
from proxy_engine.cli.main import main

process._GRACE_SECONDS = {seconds}
token = TokenGenerated(part="text", token_id=4, text="a")

def make_engine(path, **options):
    {make_engine}

proxy_engine.InferenceEngine = make_engine
sys.exit(main(["bridge", *sys.argv[1:]]))
"""
_LOAD = {"cmd": "load", "path": "p"}
_GENERATE = {"cmd": "generate", "prompt": "x"}


def bridge_with(make_engine: str, *arguments: str, seconds: float = 20) -> BridgeProcess:
    path = [str(Path(__file__).parents[2] / "support"), *filter(None, sys.path)]
    program = _PROGRAM.format(path=path, make_engine=make_engine, seconds=seconds)
    return BridgeProcess(*arguments, program=program)


def running(bridge: BridgeProcess) -> None:
    """Start a request, and read until it has begun."""
    bridge.send(_LOAD, _GENERATE)
    assert bridge.receive()["ok"]
    assert bridge.receive()["token"] == "a"


def test_bridge_process_loads_a_model_and_generates(tiny_model_directory: Path) -> None:
    load = {"cmd": "load", "path": str(tiny_model_directory)}
    long = {**_GENERATE, "max_tokens": 400, "min_tokens": 400, "temperature": 1.0}
    with BridgeProcess("--max-line-bytes", "4000") as bridge:
        bridge.send(b"garbage", b'{"cmd": "' + b"x" * 300_000 + b'"}')
        assert "not JSON" in bridge.receive()["error"]
        assert "more than 4000 bytes" in bridge.receive()["error"]
        for wrong, error in (
            ({"draft_model": "./none"}, "none"),
            ({"num_draft_tokens": 0}, "num_draft_tokens"),
            ({"adapter_path": "./none"}, "adapter"),
            ({"revision": "main"}, "revision"),
        ):
            bridge.send({**load, **wrong})
            assert error in bridge.receive()["error"]
        draft = {"draft_model": str(tiny_model_directory), "num_draft_tokens": 2}
        bridge.send({**load, **draft}, {**long, "max_tokens": 50, "min_tokens": 50})
        assert bridge.receive()["model_type"] == "llama"
        assert bridge.last() == {"done": True, "tokens_generated": 50}
        bridge.send(long)
        bridge.receive()
        bridge.send({"cmd": "cancel"}, {**_GENERATE, "response_format": {"const": "yes"}})
        assert 0 < bridge.last()["tokens_generated"] < 400
        text = ""
        while "token" in (reply := bridge.receive()):
            text += reply["token"]
        assert text == '"yes"'
        bridge.send({"cmd": "quit"})
        status, rest, err = bridge.end()
        assert (status, rest) == (0, [])
        assert "Traceback" not in err


def test_load_command_states_how_a_model_is_loaded(
    tiny_model_directory: Path, tmp_path: Path
) -> None:
    adapter = write_adapter(tmp_path / "adapter", tiny_model_directory)
    command = LoadCommand(
        cmd="load",
        path=str(tiny_model_directory),
        adapter_path=str(adapter),
        chat_template="{{ messages[-1]['content'] }}",
        tokenizer_config={"eos_token": "<|start|>"},
        trust_remote_code=False,
    )
    prompt = [72, 101]
    expected = mlx_lm_answer(tiny_model_directory, prompt, 5, adapter_path=str(adapter))
    with load_engine(command) as engine:
        assert list(engine.generate(RawPrompt(prompt), max_tokens=5).token_ids) == expected
        assert engine.generate("ab", max_tokens=1).usage.prompt_tokens == 1
        assert engine.vocabulary.end_token_ids == {263}


def test_only_replies_are_written_to_standard_output() -> None:
    noise = """
    print("printed")
    os.write(1, b"written\\n")
    subprocess.run(["echo", "echoed"])
    assert sys.stdin.read() == ""
    return FakeEngine(token)
    """.strip()
    with bridge_with(noise) as bridge:
        running(bridge)
        status, rest, err = bridge.end()
        assert (status, rest) == (0, [{"done": True, "tokens_generated": 1}])
        assert {"printed", "written", "echoed"} <= set(err.split())


def test_end_of_input_waits_for_a_slow_reader() -> None:
    with bridge_with("return FakeEngine(*[token] * 20_000)", seconds=0.05) as bridge:
        bridge.send(_LOAD, _GENERATE)
        assert bridge.process.stdin
        assert bridge.process.stdout
        bridge.process.stdin.close()
        assert bridge.receive()["ok"]
        # More than a pipe holds, for longer than a bridge that quits would wait.
        time.sleep(0.5)
        lines = bridge.process.stdout.read().splitlines()
        assert len(lines) == 20_001
        assert bridge.process.wait(60) == 0


@pytest.mark.parametrize(
    ("number", "expected"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=["TERM", "INT"]
)
def test_signal_ends_the_process_with_its_exit_status(number: int, expected: int) -> None:
    with bridge_with("return FakeEngine(token, is_endless=True)") as bridge:
        running(bridge)
        bridge.signal(number)
        # The input is still open.
        assert bridge.last()["done"]
        assert bridge.process.wait(60) == expected
        assert bridge.end()[2] == ""


def test_closed_output_ends_the_process() -> None:
    with bridge_with("return FakeEngine(*[token] * 20_000, is_endless=True)") as bridge:
        running(bridge)
        assert bridge.process.stdout
        bridge.process.stdout.close()
        assert bridge.process.wait(60) == 141
        assert bridge.end()[2] == ""


def test_closed_output_is_noticed_without_writing() -> None:
    with bridge_with("return FakeEngine(token)") as bridge:
        bridge.send(_LOAD)
        assert bridge.receive()["ok"]
        assert bridge.process.stdout
        bridge.process.stdout.close()
        # The input is still open, as where another process has it, too.
        assert bridge.process.wait(60) == 141
        assert bridge.end()[2] == ""


def test_fast_client_is_slowed_down() -> None:
    commands = b'{"cmd": "cancel"}\n' * 20_000 + b'{"cmd": "info"}\n'
    with bridge_with("return FakeEngine(token)") as bridge:
        out, _ = bridge.process.communicate(commands)
        assert bridge.process.returncode == 0
        assert out.count(b"\n") == 1


def test_hanging_load_does_not_keep_the_process_alive() -> None:
    with bridge_with("threading.Event().wait()", seconds=0.2) as bridge:
        bridge.send({"cmd": "info"}, _LOAD)
        assert "no model" in bridge.receive()["error"]
        time.sleep(0.5)
        bridge.signal(signal.SIGTERM)
        assert bridge.receive()["error"] == "load: the bridge has ended"
        assert bridge.process.wait(60) == 143


def test_blocked_reader_does_not_keep_the_process_alive() -> None:
    with bridge_with("return FakeEngine(*[token] * 20_000)", seconds=0.2) as bridge:
        running(bridge)
        time.sleep(0.2)
        bridge.signal(signal.SIGTERM)
        assert bridge.process.wait(60) == 143


@pytest.mark.parametrize("closed", [0, 1])
def test_closed_standard_stream_is_a_command_line_error(closed: int) -> None:
    command = f"exec {sys.executable} -m proxy_engine bridge {closed}<&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "is closed" in done.stderr
