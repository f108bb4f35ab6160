"""Commands on several ranks of this machine."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import adding_ranks
import httpx
import pytest
from pydantic import ValidationError
from ranks import ROOT, free_ports, ranks, run_ranks, seconds_until_end

from proxy_engine import CacheOptions, InferenceEngine, InvalidOptionError
from proxy_engine.cli.main import main
from proxy_engine.server.settings import ServerSettings

STREAM = {
    "messages": [{"role": "user", "content": "hello"}],
    "stream": True,
    "max_tokens": 400,
    "min_tokens": 400,
}
SCHEMA = {"type": "object", "properties": {"a": {"enum": ["b", "c"]}}, "required": ["a"]}
SCHEMA["additionalProperties"] = False


def test_settings_that_distributed_servers_do_not_support_are_refused() -> None:
    with pytest.raises(ValidationError, match="prompt caches on disk"):
        ServerSettings(distributed=True, prompt_cache_directory=Path("caches"))  # type: ignore[call-arg]


def test_distributed_requires_a_launcher(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidOptionError, match="no launcher") as raised:
        InferenceEngine(distributed=True)
    assert raised.value.option == "distributed"
    assert main(["extract", "--distributed", "--schema", "missing.json"]) == 2
    assert "mlx.launch" in capsys.readouterr().err


def test_prompt_caches_on_disk_are_refused_before_ranks_join(tmp_path: Path) -> None:
    with pytest.raises(InvalidOptionError, match="prompt caches on disk"):
        InferenceEngine(distributed=True, cache=CacheOptions(directory=tmp_path))


@pytest.mark.soak
def test_extract_writes_the_results_of_rank_0(tmp_path: Path, tiny_model_directory: Path) -> None:
    schema, text = tmp_path / "schema.json", tmp_path / "text.txt"
    schema.write_text(json.dumps(SCHEMA))
    text.write_text("hello")
    command = ["-m", "proxy_engine", "extract", "--distributed", "--quiet", str(text)]
    command += ["--schema", str(schema), "--model", str(tiny_model_directory)]
    first, second = run_ranks(2, command)
    assert set(json.loads(first)) == {"a"}
    assert second == ""


@pytest.mark.soak
@pytest.mark.parametrize("failed", [0, 1])
def test_killed_rank_ends_a_streamed_answer_with_an_error(
    tmp_path: Path, tiny_model_directory: Path, failed: int
) -> None:
    command = ["-m", "proxy_engine", "serve", "--distributed", "--port", "0"]
    command += ["--model", str(tiny_model_directory)]
    with ranks(command, 2, tmp_path) as started:
        started[0].wait_for("listening")
        url = re.findall(r"http://[\d.:]+", started[0].output)[0]
        with httpx.stream("POST", f"{url}/v1/chat/completions", json=STREAM, timeout=60) as reply:
            assert reply.status_code == 200
            lines = (line for line in reply.iter_lines() if line)
            received = [next(lines) for _ in range(3)]
            started[failed].send(signal.SIGKILL)
            try:
                received += lines
            except httpx.RemoteProtocolError:
                assert failed == 0
        assert seconds_until_end(started) < 10
        if failed:
            (error,) = (line for line in received if '"error"' in line)
            assert json.loads(error.removeprefix("data: "))["error"]["code"] == "rank_failed"
        assert started[1 - failed].status() == 1
        assert f"rank {failed} has failed" in started[1 - failed].output


# Rank 0 ends when another rank fails: test_session.py.
def test_launcher_ends_with_all_ranks(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import os, adding_ranks\n"
        "print('process', os.environ['MLX_RANK'], os.getpid(), flush=True)\n"
        "adding_ranks.main('run')\n"
    )
    (port, _) = free_ports(2)
    launch = [str(Path(sys.executable).with_name("mlx.launch")), "-n", "2", "--backend", "ring"]
    launch += ["--starting-port", str(port), "--", sys.executable, str(program)]
    path = os.pathsep.join([str(ROOT), str(Path(adding_ranks.__file__).parent)])
    with subprocess.Popen(
        launch,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    ) as process:
        assert process.stdout is not None
        pids, output = {}, ""
        for line in process.stdout:
            output += line
            if line.startswith("process"):
                _, rank, pid = line.split()
                pids[int(rank)] = int(pid)
            if "total" in line:
                break
        assert "total" in output, output
        os.kill(pids[0], signal.SIGKILL)
        # The output ends when all ranks have. The launcher terminates the other rank at once, so
        # whether that one has printed the failure is a matter of time.
        output += process.communicate(timeout=30)[0]
    assert "rank 0 " in output
