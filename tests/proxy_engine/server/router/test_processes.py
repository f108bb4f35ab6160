"""Worker processes: their start, their end, and the server around them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from live_server import make_settings

from proxy_engine.server.router import workers as workers_module
from proxy_engine.server.router.workers import (
    Workers,
    WorkersFailedError,
    environment,
    visible_gpus,
    worker_settings,
)

CHAT = "/v1/chat/completions"
SUPPORT = Path(__file__).parents[3] / "support"
SUPERVISOR = f"""
import sys
from proxy_engine.server.router.supervisor import supervise
from proxy_engine.server.settings import ServerSettings
settings = ServerSettings(workers=2, port=0, log_format="json", grace_seconds=0.2)
sys.exit(supervise(settings, [sys.executable, {str(SUPPORT / "stand_in_worker.py")!r}]))
"""


def start(directory: Path, *command: str, **variables: str) -> subprocess.Popen[str]:
    own = {k: v for k, v in os.environ.items() if not k.startswith("PROXY_ENGINE_")}
    path = str(Path(__file__).parents[4])
    return subprocess.Popen(
        [sys.executable, *command],
        stderr=subprocess.PIPE,
        text=True,
        cwd=directory,
        env={**own, "PYTHONPATH": path, "TMPDIR": str(directory), **variables},
    )


def line_of(process: subprocess.Popen[str], event: str) -> dict[str, Any]:
    """Return the next line of the supervisor for an event."""
    assert process.stderr is not None
    for line in process.stderr:
        facts: dict[str, Any] = json.loads(line)
        if facts["event"] == event and not str(facts.get("url", "")).startswith("unix:"):
            return facts
    raise AssertionError(f"the process ended without {event!r}")


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until(condition: Callable[[], bool]) -> None:
    for _ in range(2000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("the condition does not become true")


def chat(text: str, **fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], **fields}


def first_event(lines: Iterator[str]) -> dict[str, Any]:
    event: dict[str, Any] = json.loads(next(lines).removeprefix("data: "))
    return event


@pytest.fixture
def directory() -> Iterator[Path]:
    # A socket's path has about 100 characters.
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory)


def test_killed_workers_are_replaced_and_their_requests_answered(directory: Path) -> None:
    process = start(directory, "-c", SUPERVISOR, CUDA_VISIBLE_DEVICES="4,7")
    try:
        url = line_of(process, "listening")["url"]
        with httpx.Client(base_url=url, timeout=30) as client:
            found = [client.post(CHAT, json=chat(f"Hello {n}")).text for n in range(2)]
            events = [first_event(iter(text.splitlines())) for text in found]
            assert sorted((one["worker"], one["gpu"]) for one in events) == [(0, "4"), (1, "7")]
            messages = chat("wait")["messages"]
            with client.stream("POST", CHAT, json={"messages": messages}) as stream:
                lines = stream.iter_lines()
                killed = first_event(lines)
                # A continuation goes to the same worker, which it kills before its first byte.
                messages += [{"role": "assistant", "content": "x" * 100}]
                messages += [{"role": "user", "content": "die once"}]
                reply = client.post(CHAT, json={"messages": messages})
                other = first_event(iter(reply.text.splitlines()))
                rest = [line for line in lines if line]
            assert other["worker"] == 1 - killed["worker"]
            assert json.loads(rest[0].removeprefix("data: "))["error"]["code"] == "worker_lost"
            assert rest[1:] == ["data: [DONE]"]
            assert line_of(process, "worker ended")["status"] == -signal.SIGKILL
            line_of(process, "worker ready")
            found = [client.post(CHAT, json=chat(f"Later {n}")).text for n in range(2)]
            events = [first_event(iter(text.splitlines())) for text in found]
            assert {one["worker"] for one in events} == {0, 1}
            pids = [one["pid"] for one in events]
            assert killed["pid"] not in pids
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
        assert process.returncode in (0, -signal.SIGTERM)
        assert not any(map(is_running, pids))
        assert [*directory.glob("proxy-engine-*")] == []
    finally:
        process.kill()
        process.communicate()


def python(program: str) -> list[str]:
    return [sys.executable, "-S", "-E", "-c", program]


def test_worker_that_cannot_start_ends_the_server(directory: Path) -> None:
    async def main() -> None:
        workers = Workers(make_settings(workers=2), directory, command=["false"])
        with pytest.raises(ExceptionGroup) as caught:
            await workers.run(lambda: None)
        assert caught.group_contains(WorkersFailedError, match="cannot be started")
        await workers.stop(1)

    asyncio.run(main())


def test_restarts_are_delayed_and_end_after_five_failures(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = (
        "import os, socket, sys, time\n"
        "if os.path.exists('started'): sys.exit(1)\n"
        "open('started', 'w')\n"
        "listening = socket.socket(socket.AF_UNIX)\n"
        f"listening.bind({str(directory / '0.sock')!r})\n"
        "listening.listen()\n"
        "listening.accept()\n"
    )
    delays: list[float] = []
    ended: list[int] = []
    sleep = asyncio.sleep

    async def sleeping(seconds: float) -> None:
        if seconds >= 1:
            delays.append(seconds)
        await sleep(min(seconds, 0.01))

    async def main() -> None:
        workers = Workers(make_settings(), directory, ended.append, python(program))
        with pytest.raises(ExceptionGroup):
            await workers.run(lambda: None)
        await workers.stop(1)
        assert workers.starts == [6]

    monkeypatch.chdir(directory)
    monkeypatch.setattr(workers_module.asyncio, "sleep", sleeping)
    asyncio.run(main())
    assert delays == [1, 2, 4, 8]
    assert ended == [0] * 6


def test_workers_take_gpus_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [environment(n, ["0", "1"]) for n in range(3)] == [
        {"CUDA_VISIBLE_DEVICES": name} for name in ("0", "1", "0")
    ]
    assert environment(0, ["3"]) == environment(0, []) == {}
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a, GPU-b")
    assert visible_gpus() == ["GPU-a", "GPU-b"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert visible_gpus() == []


def test_workers_share_the_memory_limit_and_check_no_keys() -> None:
    settings = make_settings(workers=4, memory_limit_bytes=4000, api_key="key", host="0.0.0.0")
    own = worker_settings(settings)
    assert (own.memory_limit_bytes, own.api_key, own.workers) == (1000, None, 1)
    assert not own.checks_hosts
    assert worker_settings(make_settings(workers=4)).memory_limit_bytes is None


@pytest.mark.soak
def test_command_serves_with_workers_that_end_with_it(
    directory: Path, tiny_model_directory: Path
) -> None:
    flags = ["--workers=2", "--port=0", "--log-format=json", "--model", str(tiny_model_directory)]
    process = start(directory, "-m", "proxy_engine", "serve", *flags)
    try:
        url = line_of(process, "listening")["url"]
        client = openai.OpenAI(base_url=f"{url}/v1", api_key="none")
        model = client.models.list().data[0].id
        conversation = client.conversations.create()
        for _ in range(3):
            client.responses.create(
                model=model, input="Hi", conversation=conversation.id, max_output_tokens=2
            )
        pids = [
            int(pid)
            for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        ]
        assert len(pids) == 2
        process.kill()
        process.wait()
        wait_until(lambda: not any(map(is_running, pids)))
        assert [*directory.glob("proxy-engine-*")] == []
    finally:
        process.kill()
        process.communicate()
