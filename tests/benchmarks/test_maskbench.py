"""MaskBench: selection of cases, figures and reports."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

import pytest
from arguments import counts_by_engine, engine_names, named_tokenizer
from cases import Case, Instance, sample_positions
from engines import RefusedSchemaError
from hypothesis import given
from hypothesis import strategies as st
from report import common_positions, engine_figures, notes, render_report
from supervisor import Ending, EngineRun, read_results, run_engine
from worker import CaseResult, Job, Verdict, compile_case, walk_case


@given(total=st.integers(0, 200), count=st.none() | st.integers(1, 250), seed=st.integers(0, 99))
def test_sample_has_distinct_cases_in_order(total: int, count: int | None, seed: int) -> None:
    positions = sample_positions(total, count, seed)
    assert len(positions) == (total if count is None else min(count, total))
    assert positions == sorted(set(positions))
    assert all(0 <= position < total for position in positions)
    assert positions == sample_positions(total, count, seed)


def test_seed_determines_the_sample() -> None:
    assert sample_positions(1000, 10, seed=0) != sample_positions(1000, 10, seed=1)


def test_arguments_are_read(tmp_path: Any) -> None:
    assert engine_names("ours,xgrammar") == ["ours", "xgrammar"]
    assert counts_by_engine("xgrammar=20,ours=5") == {"xgrammar": 20, "ours": 5}
    file = tmp_path / "tokenizer.json"
    file.touch()
    assert named_tokenizer(f"Some-1={file}").name == "Some-1"
    assert named_tokenizer(str(file)).name == tmp_path.name


@pytest.mark.parametrize("text", ["nobody", "ours,", "xgrammar"])
def test_wrong_arguments_are_refused(text: str) -> None:
    for read in (counts_by_engine, named_tokenizer):
        with pytest.raises((argparse.ArgumentTypeError, ValueError)):
            read(text)


class Letters:
    """An engine that admits one text of tokens, and is wrong about token 9."""

    version = "1"

    def __init__(self, text: list[int]) -> None:
        self.text = text
        self.at = 0

    def compile(self, schema: Any) -> Letters:
        if schema is None:
            raise RefusedSchemaError("no schema")
        if schema == "broken":
            raise ZeroDivisionError("broken")
        return self

    def matcher(self) -> Letters:
        return Letters(self.text)

    def mask(self) -> None:
        pass

    def allows(self, token_id: int) -> bool:
        return token_id == 9 or self.text[self.at : self.at + 1] == [token_id]

    def advance(self, token_id: int) -> None:
        self.at += 1

    def accepts_end(self) -> bool:
        return self.at == len(self.text)


def run_case(schema: Any, *instances: Instance) -> CaseResult:
    engine, case = Letters([1, 2, 3]), Case("case", schema, list(instances), 0)
    result = CaseResult(case.name)
    compiled = compile_case(engine, case, result)
    if compiled is not None:
        walk_case(compiled, case, result)
    return result


def test_every_token_has_a_mask_and_there_is_one_more_at_the_end() -> None:
    result = run_case({}, Instance(True, [1, 2, 3]), Instance(False, [1, 5, 3]))
    assert (result.outcome, result.wrong) == ("done", [])
    assert len(result.mask_ns) == 4 + 2
    assert len(result.advance_ns) == len(result.between_ns) == 3 + 1
    assert result.first_mask_ns is not None
    assert result.compile_ns is not None


def test_wrong_instances_report_the_token() -> None:
    result = run_case({}, Instance(True, [1, 4]), Instance(False, [9, 9, 9]), Instance(True, [1]))
    assert result.wrong == [
        Verdict(0, True, 1, 4),
        Verdict(1, False, 3, None),
        Verdict(2, True, 1, None),
    ]


def test_refusals_and_crashes_are_distinguished() -> None:
    assert run_case(None).outcome == "refused"
    crash = run_case("broken")
    assert (crash.outcome, crash.reason) == ("crashed", "ZeroDivisionError: broken")


def test_dead_worker_is_identified_by_its_last_case() -> None:
    result = {"name": "a", "wrong": [{"instance": 0, "valid": True, "after": 1, "token": 2}]}
    records = [
        {"setup": {"version": "1"}},
        {"begin": 3},
        {"end": 3, "result": result},
        {"begin": 5},
        {"end": 5, "result": None},
    ]
    ending = read_results(map(json.dumps, records))
    assert ending.died_at is None
    assert ending.results == {3: CaseResult("a", wrong=[Verdict(0, True, 1, 2)])}
    ending = read_results(map(json.dumps, [*records, {"begin": 8}]))
    assert (ending.died_at, list(ending.results)) == (8, [3])
    assert read_results([]).setup is None


def test_dead_process_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Case 3 kills it in the first pass, case 1 in the second, case 4 is not in the sample."""
    started: list[tuple[bool, list[int]]] = []

    def process(job: Job, names: Sequence[str], run: EngineRun) -> Ending:
        started.append((job.again, job.skip))
        ending = Ending(setup={})
        for position in sorted(set(range(6)) - set(job.skip)):
            ending.results[position] = CaseResult(names[position])
            ending.results[position].compile_ns = None if job.again else 1
            if position == (1 if job.again else 3):
                ending.results[position].outcome = "crashed"
                ending.died_at = position
                break
        return ending

    monkeypatch.setattr("supervisor._run_process", process)
    job = Job("ours", "", [0], "", case_seconds=1)
    run = run_engine(job, list("abcdef"), [0, 1, 2, 3, 5], passes=2)
    assert started == [
        (False, [4]),
        (False, [4, 0, 1, 2, 3]),
        (True, [4, 3]),
        (True, [4, 1, 3]),
    ]
    outcomes = [{i: r.outcome for i, r in results.items()} for results in run.passes]
    assert outcomes[0] == {0: "done", 1: "done", 2: "done", 3: "crashed", 5: "done"}
    assert outcomes[1] == {0: "done", 1: "crashed", 2: "done", 3: "crashed", 5: "done"}
    # Figures of a crashed case of the first pass do not count in the second.
    assert {result.compile_ns for result in run.second.values()} == {None}


def result_of(name: str, times: list[int], **facts: Any) -> CaseResult:
    return CaseResult(
        name,
        compile_ns=5000,
        first_mask_ns=times[0],
        mask_ns=[*times, 1000],
        advance_ns=[500] * len(times),
        between_ns=[time + 500 for time in times],
        peak_bytes=2**20,
        **facts,
    )


def engine_run(name: str, *results: CaseResult) -> EngineRun:
    return EngineRun(name, version="1", case_seconds=3, first=dict(enumerate(results)))


def test_figures_of_an_engine() -> None:
    wrong = [Verdict(0, True, 1, 4)]
    run = engine_run(
        "ours",
        result_of("a", [1000, 3000]),
        result_of("b", [2000], wrong=wrong),
        CaseResult("c", "refused", "no"),
        CaseResult("d", "timed out", "took more than 3 s"),
    )
    figures = engine_figures(run, of=10)
    (first,) = figures["passes"]
    assert [first[key] for key in ("schemas", "right", "refused", "timed_out")] == [4, 1, 1, 1]
    assert (first["valid_rejected"], first["invalid_accepted"]) == (1, 0)
    assert (first["tokens"], first["masks"]) == (3, 5)
    assert first["microseconds"]["between_masks"]["mean"] == 2.5
    assert first["microseconds"]["time_to_first_mask"]["max"] == 7
    assert first["slowest_mask"] == {"microseconds": 3, "schema": "a", "mask": 1}
    assert (figures["sample"], figures["of"], figures["kept_peak_bytes"]) == (4, 10, None)
    assert notes([figures]) == [
        "ours was given 4 of the 10 schemas, by chance.",
        "ours took more than 3 s for 1 schemas; they were stopped there, and their times are "
        "not among the figures.",
    ]


def test_second_pass_measures_no_compilation() -> None:
    run = engine_run("ours", result_of("a", [1000]))
    again = result_of("a", [100])
    again.compile_ns = None
    run.second = {0: again}
    figures = engine_figures(run)
    second = figures["passes"][1]["microseconds"]
    assert (second["compile"], second["time_to_first_mask"]) == (None, None)
    assert second["between_masks"]["mean"] == 0.6
    assert figures["kept_peak_bytes"] == 2**20


def test_common_cases_are_right_for_all_engines() -> None:
    right = result_of("x", [1000])
    refused = CaseResult("x", "refused", "no")
    wrong = result_of("x", [1000], wrong=[Verdict(0, True, 1, 4)])
    runs = [engine_run("ours", right, right, right, wrong), engine_run("b", right, refused, right)]
    assert common_positions(runs) == {0, 2}
    assert common_positions([]) == set()
    assert engine_figures(runs[0], {0, 2})["passes"][0]["schemas"] == 2


def test_the_report_names_engines_passes_and_the_slowest_mask() -> None:
    runs = [engine_run("ours", result_of("slow one", [1000])), engine_run("b", result_of("x", [1]))]
    engines = [engine_figures(run) for run in runs]
    part = {"tokenizer": "T", "vocabulary_size": 5, "engines": engines}
    part["common"] = {"schemas": 1, "engines": engines}
    text = render_report({"tokenizers": [part]})
    assert "T, 5 tokens" in text
    assert "slow one" in text
    assert "The 1 schemas that every engine was given and got right" in text
