"""MaskBench: selection of cases, figures and reports."""

from __future__ import annotations

import json
from typing import Any

from cases import Case, Instance
from engines import RefusedSchemaError
from report import common_positions, engine_figures, notes
from supervisor import EngineRun, read_results
from worker import CaseResult, Verdict, compile_case, walk_case


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


def test_common_cases_are_right_for_all_engines() -> None:
    right = result_of("x", [1000])
    refused = CaseResult("x", "refused", "no")
    wrong = result_of("x", [1000], wrong=[Verdict(0, True, 1, 4)])
    runs = [engine_run("ours", right, right, right, wrong), engine_run("b", right, refused, right)]
    assert common_positions(runs) == {0, 2}
    assert common_positions([]) == set()
    assert engine_figures(runs[0], {0, 2})["passes"][0]["schemas"] == 2
