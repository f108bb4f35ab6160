"""Hostile load: kinds of requests, figures and targets."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import hostile_load
import pytest
from hostile_inputs import CONTROL, KINDS, HostileKind, HostileRequest, chat_body, kinds_named
from hostile_load_clients import OVER, Attack, StreamProbe, outcome, probes
from hostile_load_figures import Figures, combined, missed, rows
from hostile_load_server import Launch, Pause, descendants, last_work, processor_seconds
from hostile_load_soak import MIXED, body, soak_rows

from proxy_engine.server.schemas.chat import ChatRequest
from proxy_engine.server.settings import ServerSettings

MIB = 1 << 20


@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
def test_hostile_requests_differ_and_are_within_the_servers_limits(kind: HostileKind) -> None:
    first, second = kind.make(1), kind.make(2)
    assert first.body != second.body
    assert len(first.body) <= ServerSettings(_env_file=None).body_bytes  # type: ignore[call-arg]
    # The server reads the body: a refusal names the constraint, not the format.
    ChatRequest.model_validate_json(first.body)


def test_kinds_are_selected_by_distinct_names() -> None:
    names = [kind.name for kind in KINDS]
    assert len(set(names)) == len(names)
    assert KINDS[0] is CONTROL
    assert [kind.name for kind in kinds_named("doubling a, nested")] == [
        "40 doubling arrays",
        "40 doubling allOf",
        "nested groups",
    ]
    with pytest.raises(ValueError, match="no kind"):
        kinds_named("doubling,nothing like it")


def test_mixed_requests_are_read_by_the_server_and_mostly_new() -> None:
    bodies = [body(number) for number in range(4 * len(MIXED))]
    for each in bodies:
        ChatRequest.model_validate_json(each)
    assert len(set(bodies)) == len(bodies)
    assert body(7) == body(7)


def figures(name: str = "kind", **given: object) -> Figures:
    """Figures of a kind that meets all targets except for the given values."""
    quiet = {"gap": 0.05, "plain": 1.0, "known": 1.0, "new": 1.0}
    loaded = {"gap": 0.2, "plain": 1.9, "known": 1.9, "new": 1.9}
    fields = {"outcomes": ["400 invalid_schema"], "idle_seconds": 0.1, "cpu_seconds": 1.2, **given}
    return Figures(name, quiet=quiet, loaded={**loaded, **fields.pop("loaded", {})}, **fields)  # type: ignore[arg-type, dict-item]


CONTROL_FIGURES = figures("harmless", cpu_seconds=0.4)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, []),
        ({"loaded": {"gap": 0.25}}, ["gap"]),
        ({"loaded": {"plain": 2.4, "new": 2.2}}, ["plain"]),
        ({"unanswered": ["known"]}, ["known"]),
        ({"cpu_seconds": 1.5}, ["cpu"]),
        ({"is_over": True}, ["cpu"]),
        ({"alone_bytes": 257 * MIB}, ["memory"]),
        ({"idle_seconds": 0.3}, ["idle"]),
        ({"idle_seconds": None}, ["idle"]),
        ({"outcomes": ["200 stop", "500 internal"]}, ["outcome"]),
        ({"outcomes": ["422 invalid_value", "closed", "200 length"]}, []),
        ({"outcomes": [OVER]}, ["outcome"]),
    ],
)
def test_targets(given: dict[str, object], expected: list[str]) -> None:
    # Beside harmless requests a plain one takes 1.9 s: 2.28 s are no miss.
    assert missed(figures(**given), CONTROL_FIGURES) == expected


def test_repeats_are_combined_by_medians_and_failures_stay() -> None:
    found = combined(
        [
            figures(cpu_seconds=1.0, idle_seconds=0.1),
            figures(cpu_seconds=3.0, idle_seconds=0.2, unanswered=["plain"], pause_seconds=0.3),
            figures(cpu_seconds=2.0, idle_seconds=0.3, loaded={"gap": 0.6}),
        ]
    )
    assert (found.cpu_seconds, found.idle_seconds, found.loaded["gap"]) == (2.0, 0.2, 0.2)
    assert (found.unanswered, found.pause_seconds) == (["plain"], 0.3)
    assert len(found.outcomes) == 3
    assert combined([figures(), figures(idle_seconds=None)]).idle_seconds is None


def test_table_shows_quiet_loaded_and_unfinished_figures() -> None:
    over = figures("slow", unanswered=["plain"], idle_seconds=None, is_over=True)
    head, first, second = rows([CONTROL_FIGURES, over], deadline=20)
    assert len(head) == len(first) == len(second)
    assert first[:4] == ["harmless", "400 invalid_schema", "50/200", "1.00/1.90"]
    assert second[3] == "1.00/over 20"
    assert second[6] == "over 1.20"
    assert second[-1] == "plain cpu idle"
    record = over.as_record(CONTROL_FIGURES)
    assert record["missed"] == ["plain", "cpu", "idle"]
    json.dumps(record, allow_nan=False)


def test_soak_table() -> None:
    found = {
        "points": [[10, 100 * MIB], [20, 101 * MIB]],
        "tokens": 10_000,
        "largest_gap": 0.05,
        "pauses": [[1, 0.02, 0.004], [0, 0.003, 0.002]],
        "idle_pause": 0.03,
        "long_pauses": 0,
    }
    table = soak_rows(found)
    assert ["20", "101.0"] in table
    assert ["longest GC pause, CPU ms", "4.0"] in table


@pytest.mark.parametrize(
    ("status", "text", "words"),
    [
        (200, '{"choices": [{"finish_reason": "stop"}]}', "200 stop"),
        (400, '{"error": {"code": "invalid_schema"}}', "400 invalid_schema"),
        (404, '{"detail": "x"}', "404 None"),
        (500, "Internal Server Error", "500 ?"),
        (200, "[]", "200 ?"),
    ],
)
def test_outcomes_in_words(status: int, text: str, words: str) -> None:
    assert outcome(status, text.encode()) == words


def test_gaps_are_between_tokens_of_one_measurement() -> None:
    stream = StreamProbe()
    now = time.monotonic()
    for moment in (now - 9.0, now - 5.0, now - 4.0):
        stream.note(moment)
    assert stream.largest_gap == pytest.approx(4.0)
    stream.forget()
    stream.note(now - 1.0)
    assert stream.largest_gap == pytest.approx(3.0)
    assert stream.tokens == 1


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A server that takes connections, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def test_hostile_clients_leave_or_wait_until_the_deadline(listener: socket.socket) -> None:
    attack = Attack(listener.getsockname(), seconds=0.2)
    attack.begin(0, HostileRequest(b"{}"), leave_after=0.05)
    attack.begin(1, HostileRequest(b"{}"))
    attack.begin(2, HostileRequest(b"{}", "slow headers"))
    assert not attack.wait()
    time.sleep(0.1)
    assert attack.said() == ["left", OVER, OVER]


def test_a_connection_that_the_server_closes_is_an_outcome(listener: socket.socket) -> None:
    def refuse() -> None:
        for _ in range(11):
            connection, _ = listener.accept()
            connection.close()

    threading.Thread(target=refuse, daemon=True).start()
    attack = Attack(listener.getsockname(), seconds=10)
    attack.begin(0, HostileRequest(chat_body(), "half-closed"))
    attack.begin(1, HostileRequest(b"", "slow headers"))
    assert attack.wait()
    assert attack.said() == ["closed", "closed"]


def test_probes_ask_for_known_and_for_new_schemas() -> None:
    plain, known, new = probes("a")
    assert plain.body(1) == plain.body(2)
    assert known.body(1) == known.body(2)
    assert len({new.body(1), new.body(2), probes("b")[2].body(1)}) == 3


def test_server_runs_the_code_of_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROXY_ENGINE_MAX_RUNNING", "1")
    launch = Launch("python", Path("/checkout"), "model", has_prompt_cache=False)
    variables = launch.variables()
    assert variables["PYTHONPATH"] == "/checkout"
    assert "PROXY_ENGINE_MAX_RUNNING" not in variables
    assert launch.command()[-2:] == ["--model", "model"]


def test_full_collections_of_an_idle_server_count_as_idle() -> None:
    busy = [(1.0, 1.1), (1.1, 1.2), (1.5, 1.6)]
    young, full = Pause(1, 0.05, 0.05, ended=1.55), Pause(2, 0.08, 0.05, ended=1.59)
    assert last_work(busy, [young], began=0.5) == 1.6
    assert last_work(busy, [full], began=0.5) == 1.2
    assert last_work([], [full], began=0.5) == 0.5


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_processor_time_is_read_per_process() -> None:
    assert processor_seconds(os.getpid()) >= time.process_time() / 2 > 0
    assert os.getpid() in descendants(os.getppid())
    assert processor_seconds(1 << 22) == 0


def test_command_line_refuses_unknown_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        hostile_load.main(["--kinds", "nothing like it"])
    assert "no kind of hostile request" in capsys.readouterr().err
