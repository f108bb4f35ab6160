"""Runs of several processes: their failures and their ends."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import adding_ranks
import engine_answers
import pytest
from ranks import Rank, ranks, run_ranks, seconds_until_end
from written_models import written_model

from proxy_engine import InferenceEngine

PROGRAM = adding_ranks.__file__


def check_failure(started: list[Rank], failed: int, reason: str) -> None:
    """Check the ends of all ranks but the failed one."""
    others = [rank for number, rank in enumerate(started) if number != failed]
    assert seconds_until_end(others) < 10
    for rank in others:
        assert rank.status() == 1, rank.output
        assert f"rank {failed} has failed: {reason}" in rank.output
    if failed:
        assert f"caller: rank {failed}" in started[0].output


def test_killed_rank_ends_all_others_and_fails_calls_in_progress(tmp_path: Path) -> None:
    with ranks([PROGRAM, "run"], 2, tmp_path) as started:
        started[0].wait_for("total 1")
        started[1].send(signal.SIGKILL)
        check_failure(started, 1, "")


@pytest.mark.soak
def test_rank_0_ends_though_a_thread_holds_the_interpreter_lock(tmp_path: Path) -> None:
    with ranks([PROGRAM, "hold"], 2, tmp_path) as started:
        started[0].wait_for("total")
        started[1].send(signal.SIGKILL)
        check_failure(started, 1, "")


@pytest.mark.soak
@pytest.mark.parametrize("mode", ["run", "idle"])
@pytest.mark.parametrize("failed", [0, 1, 2])
def test_killed_rank_ends_all_others(tmp_path: Path, mode: str, failed: int) -> None:
    with ranks([PROGRAM, mode], 3, tmp_path) as started:
        started[0].wait_for("total")
        started[failed].send(signal.SIGKILL)
        check_failure(started, failed, "")


@pytest.mark.soak
@pytest.mark.parametrize("failed", [0, 1])
def test_stopped_rank_ends_all_others(tmp_path: Path, failed: int) -> None:
    with ranks([PROGRAM, "run"], 3, tmp_path) as started:
        started[0].wait_for("total")
        started[failed].send(signal.SIGSTOP)
        check_failure(started, failed, "no heartbeat for 6 s")
        started[failed].send(signal.SIGCONT)
        assert started[failed].status() == 1


@pytest.mark.soak
def test_rank_that_cannot_load_ends_all_others(tmp_path: Path) -> None:
    with ranks([PROGRAM, "load"], 3, tmp_path) as started:
        started[0].wait_for("has failed")
        check_failure(started, 1, "ValueError: no room for the weights")
        assert started[1].status() == 1


@pytest.mark.soak
def test_other_ranks_end_with_status_0_after_rank_0(tmp_path: Path) -> None:
    with ranks([PROGRAM, "once"], 3, tmp_path) as started:
        assert [rank.status() for rank in started] == [0, 0, 0], started[0].output


@pytest.mark.soak
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, -signal.SIGINT)]
)
def test_signal_to_rank_0_ends_the_run_in_order(
    tmp_path: Path, number: signal.Signals, status: int
) -> None:
    with ranks([PROGRAM, "run"], 2, tmp_path) as started:
        started[0].wait_for("total")
        started[0].send(number)
        assert started[0].status() == status
        assert started[1].status() == 0, started[1].output


def test_error_of_rank_0_s_program_ends_the_other_ranks_in_order(tmp_path: Path) -> None:
    with ranks([PROGRAM, "raise"], 2, tmp_path) as started:
        assert started[0].status() == 1
        assert "an error of the program" in started[0].output
        assert started[1].status() == 0, started[1].output
        assert "failed" not in started[1].output


# An engine whose model several ranks share.


@pytest.mark.parametrize(
    ("size", "name", "changes"),
    [
        (2, "qwen3", {"num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 16}),
        # More ranks than the cores of most machines that test: they wait for each other.
        pytest.param(
            *(3, "qwen3", {"num_attention_heads": 6, "num_key_value_heads": 3, "head_dim": 16}),
            marks=pytest.mark.soak,
        ),
        # Three heads do not divide by two ranks: a pipeline.
        (2, "qwen2", {"num_attention_heads": 3, "num_key_value_heads": 3}),
    ],
)
def test_ranks_generate_the_tokens_of_one_process(
    tmp_path: Path, tiny_model_directory: Path, size: int, name: str, changes: dict[str, int]
) -> None:
    # As wide as a multiple of three.
    changes = {**changes, "intermediate_size": 96}
    directory = written_model(tmp_path / name, tiny_model_directory, name, **changes)
    printed = run_ranks(size, [engine_answers.__file__, str(directory)])[0]
    (line,) = (line for line in printed.splitlines() if line.startswith("[["))
    with InferenceEngine(directory, batch_size=4) as engine:
        expected = engine_answers.answers(engine)
    assert json.loads(line) == json.loads(json.dumps(expected))
