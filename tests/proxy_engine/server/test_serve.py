"""The server process and its settings."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from live_server import make_settings
from pydantic import ValidationError

from proxy_engine import ModelFormatError
from proxy_engine.cli.main import main
from proxy_engine.server import serve
from proxy_engine.server.settings import ServerSettings, unknown_variables

NODE = shutil.which("node")
LONG = {
    "messages": [{"role": "user", "content": "Hello"}],
    "max_tokens": 450,
    "logit_bias": {"263": -100, "264": -100},
    "stream": True,
}


def start(directory: Path, *flags: str, **variables: str) -> subprocess.Popen[str]:
    own = {k: v for k, v in os.environ.items() if not k.startswith("PROXY_ENGINE_")}
    cache = {k: v for k, v in os.environ.items() if k == "PROXY_ENGINE_CACHE"}
    return subprocess.Popen(
        [sys.executable, "-m", "proxy_engine", "serve", *flags],
        stderr=subprocess.PIPE,
        text=True,
        cwd=directory,
        env={**own, **cache, "PYTHONPATH": str(Path(__file__).parents[3]), **variables},
    )


@pytest.fixture
def process(tmp_path: Path, tiny_model_directory: Path) -> Iterator[tuple[str, Any]]:
    """A server with settings from flags, environment and file, and its URL."""
    (tmp_path / ".env").write_text("PROXY_ENGINE_LOG_FORMAT=json\nPROXY_ENGINE_PORT=1\nOTHER=2\n")
    running = start(
        tmp_path,
        "--model",
        str(tiny_model_directory),
        "--port=0",
        PROXY_ENGINE_GRACE_SECONDS="0.2",
        PROXY_ENGINE_API_KEY="key",
    )
    try:
        assert running.stderr is not None
        for line in running.stderr:
            facts = json.loads(line)
            if facts["event"] == "listening":
                break
        yield facts["url"], running
    finally:
        running.kill()
        running.communicate()


def test_signal_ends_streams_and_the_process(process: tuple[str, Any]) -> None:
    url, running = process
    headers = {"Authorization": "Bearer key"}
    assert httpx.get(f"{url}/v1/models").status_code == 401
    with httpx.stream(
        "POST", f"{url}/v1/chat/completions", json=LONG, headers=headers, timeout=30
    ) as reply:
        lines = reply.iter_lines()
        next(lines)
        running.send_signal(signal.SIGTERM)
        rest = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    assert rest[-1] == "[DONE]"
    assert json.loads(rest[-2])["error"]["code"] == "shutting_down"
    _, log = running.communicate(timeout=20)
    assert running.returncode in (0, -signal.SIGTERM)
    events = [json.loads(line) for line in log.splitlines()]
    assert [event["event"] for event in events][-2:] == ["request", "stopped"] or {
        "stopping",
        "stopped",
        "request",
    } <= {event["event"] for event in events}
    request = next(event for event in events if event.get("path") == "/v1/chat/completions")
    assert request["error"] == "shutting_down"
    assert "key" not in log


def test_unix_socket_serves_this_user_and_is_removed(
    tmp_path: Path, tiny_model_directory: Path
) -> None:
    path = tmp_path / "engine.sock"
    with socket.socket(socket.AF_UNIX) as killed:
        # The file that a killed server leaves.
        killed.bind(str(path))
    flags = ["--model", str(tiny_model_directory), "--uds", str(path), "--log-format=json"]
    running = start(tmp_path, *flags)
    try:
        assert running.stderr is not None
        facts = next(facts for facts in map(json.loads, running.stderr) if "url" in facts)
        assert facts["url"] == f"unix:{path}"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        transport = httpx.HTTPTransport(uds=str(path))
        body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 3}
        with httpx.Client(transport=transport, base_url="http://engine", timeout=30) as client:
            assert client.post("/v1/chat/completions", json=body).status_code == 200
        if NODE is not None:
            client = str(Path(__file__).parents[3] / "examples" / "unix-socket-client.mjs")
            # Node must not preload the library that MLX needs.
            own = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
            shown = subprocess.check_output([NODE, client, str(path)], timeout=60, env=own)
            assert json.loads(shown).keys() == {"name", "age"}
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=20)
    finally:
        running.kill()
        running.communicate()
    assert not path.exists()


def test_one_of_several_servers_takes_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "engine.sock"
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(path))

    def bind(_: int) -> socket.socket | str:
        try:
            return serve.unix_socket(path)
        except OSError as error:
            return str(error)

    with ThreadPoolExecutor(8) as threads:
        found = [*threads.map(bind, range(16))]
    (taken,) = (one for one in found if isinstance(one, socket.socket))
    with taken:
        assert found.count(f"another server listens on {path}") == 15
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(OSError, match="in use"):
        serve.unix_socket(tmp_path)


_NEVER_LOADS = """
import sys, threading
sys.path[:0] = {path!r}
from proxy_engine import ModelFormatError
from proxy_engine.cli.main import main
from proxy_engine.server import serve

# Only the first model is loaded.
loads = iter([serve.load_engine])
never = lambda model, settings: threading.Event().wait()
serve.load_engine = lambda model, settings: next(loads, never)(model, settings)
serve._DELIVERY_SECONDS = 0.5
sys.exit(main(sys.argv[1:]))
"""


def test_hanging_load_does_not_keep_the_process_alive(
    tmp_path: Path, tiny_model_directory: Path
) -> None:
    shutil.copytree(tiny_model_directory, tmp_path / "models" / "other")
    flags = ["--model", str(tiny_model_directory), "--model-directories", str(tmp_path / "models")]
    flags += ["--port=0", "--grace-seconds=0", "--log-format=json"]
    program = _NEVER_LOADS.format(path=[str(Path(__file__).parents[3])])
    running = subprocess.Popen(
        [sys.executable, "-c", program, "serve", *flags],
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        assert running.stderr is not None
        lines = map(json.loads, running.stderr)
        url = next(facts["url"] for facts in lines if facts["event"] == "listening")
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{url}/v1/chat/completions", json={**LONG, "model": "other"}, timeout=1)
        assert httpx.get(f"{url}/health").json()["status"] == "loading"
        running.send_signal(signal.SIGINT)
        assert running.wait(20) == 1
    finally:
        running.kill()
        running.communicate()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--max-token", "5"], "unrecognized arguments: --max-token 5"),
        (["--no-port"], "unrecognized arguments: --no-port"),
        (["--port", "many"], "port: Input should be a valid integer"),
        (["--log-format", "xml"], "log-format: Input should be 'text' or 'json'"),
        (["--api-key", ""], "the key is empty"),
        (["--num-draft-tokens", "0"], "num-draft-tokens: Input should be greater than or equal"),
        (["--num-draft-tokens", "65"], "num-draft-tokens: Input should be less than or equal"),
        (["--speculation", "on"], "speculation: Input should be 'auto' or 'off'"),
        (["--api-key", "a "], "spaces around it"),
    ],
)
def test_invalid_flag_is_named(
    flags: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", *flags]) == 2
    assert words in capsys.readouterr().err


def test_missing_packages_are_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["serve"]) == 2
    assert "pip install 'proxy-engine[server]'" in capsys.readouterr().err


@pytest.fixture
def quiet_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that runs in this process neither takes it over nor changes its logs."""
    monkeypatch.setattr("proxy_engine.server.serve.configure_logs", lambda *_: None)
    monkeypatch.setattr("proxy_engine.runtime.process_runtime.take_over", lambda: None)


@pytest.mark.usefixtures("quiet_process")
def test_missing_model_and_open_network_are_reported(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PROXY_ENGINE_MAX_QUEU", "3")
    assert main(["serve", "--host", "0.0.0.0", "--model", "/no/such/model"]) == 1
    shown = capsys.readouterr().err
    assert "there is no directory" in shown
    assert "Traceback" not in shown
    assert [record.message.partition(":")[0] for record in caplog.records] == [
        "listening on a network without an API key",
        "unknown environment variable",
    ]
    hint = caplog.records[1].fields["hint"]  # type: ignore[attr-defined]
    assert hint == "Did you mean PROXY_ENGINE_MAX_QUEUE?"


def test_variables_that_are_no_settings_are_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("PROXY_ENGINE_")]:
        monkeypatch.delenv(name)
    for name in ("PORT", "CACHE", "TOKENIZERS", "REQUIRE_MODEL", "WHEEL", "KV_BITS"):
        monkeypatch.setenv(f"PROXY_ENGINE_{name}", "1")
    assert unknown_variables(ServerSettings) == {}
    monkeypatch.setenv("PROXY_ENGINE_TEMPERATUR", "1")
    (tmp_path / ".env").write_text("PROXY_ENGINE_QQQQ=1\nOTHER_PORTS=2\n")
    assert unknown_variables(ServerSettings) == {
        "PROXY_ENGINE_TEMPERATUR": "Did you mean PROXY_ENGINE_TEMPERATURE?",
        "PROXY_ENGINE_QQQQ": "'proxy-engine serve --help' lists all settings.",
    }


@pytest.mark.usefixtures("quiet_process")
def test_default_model_larger_than_the_memory_is_reported(
    tiny_model_directory: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def load(*_: object) -> None:
        raise ModelFormatError("not loaded", model="tiny")

    monkeypatch.setattr(serve, "_load", load)
    for limit, count in ((1, 1), (1 << 50, 0)):
        caplog.clear()
        settings = make_settings(model=str(tiny_model_directory), memory_limit_bytes=limit)
        with pytest.raises(ModelFormatError):
            serve.serve(settings)
        assert [record.message for record in caplog.records] == [
            "the default model may not fit into memory"
        ] * count


def test_every_setting_is_a_flag_with_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["serve", "--help"])
    assert caught.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    for name, field in ServerSettings.model_fields.items():
        assert f"--{name.replace('_', '-')} " in shown
        assert field.description is not None
        assert " ".join(field.description.split()) in shown


def test_settings_come_from_arguments_environment_and_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("PROXY_ENGINE_HOST=::1\nPROXY_ENGINE_MAX_QUEUE=3\n")
    monkeypatch.setenv("PROXY_ENGINE_MAX_QUEUE", "4")
    monkeypatch.setenv("PROXY_ENGINE_ALIASES", "gpt-4o, gpt-5 ,")
    settings = ServerSettings(port=5)
    assert (settings.host, settings.port, settings.max_queue) == ("::1", 5, 4)
    assert settings.aliases == ("gpt-4o", "gpt-5")
    assert settings.is_local
    assert "secret" not in repr(ServerSettings(api_key="secret"))  # type: ignore[arg-type]
    for host, is_local in (
        ("localhost", True),
        ("127.1.2.3", True),
        ("0.0.0.0", False),
        ("a.b", False),
    ):
        assert ServerSettings(host=host).is_local == is_local
    with pytest.raises(ValidationError):
        ServerSettings(port=70_000)


def test_bodies_have_room_for_the_allowed_images() -> None:
    def body_bytes(**given: int) -> int:
        return ServerSettings(_env_file=None, **given).body_bytes  # type: ignore[arg-type, call-arg]

    text = body_bytes(max_images=0)
    assert 3 * 16 <= body_bytes(max_images=3, max_image_bytes=10) - text <= 3 * 20
    largest = 50 << 20
    assert largest * 4 / 3 <= body_bytes(max_images=100) - text < largest * 1.4
    assert body_bytes(max_images=2, max_image_bytes=2 * largest) - text >= 2 * largest * 4 / 3
    assert body_bytes(max_body_bytes=100) == 100
