"""Benchmark of grammars: texts, measurement, figures and tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from engines import RefusedSchemaError, TokenizerSource, load_engine
from grammar_cases import NAMES, NOTATIONS, load_cases, warm_up_case
from grammar_figures import case_figures, engine_rows, ratio_rows, slowest_rows
from grammar_worker import GrammarResult, PassTimes, walk_texts
from small_tokenizers import byte_level_tokenizer
from tokenizers import Tokenizer

from state_machines import GrammarStateMachine


@pytest.mark.parametrize("name", [*NAMES, "log"])
def test_grammars_admit_their_texts(name: str) -> None:
    (case,) = load_cases([name], ["gbnf"])
    machine = GrammarStateMachine(case.grammar)
    assert all(map(machine.matches, case.texts.values()))


def test_each_grammar_is_in_both_notations_with_the_same_texts() -> None:
    cases = load_cases()
    assert len(cases) == len(NAMES) * len(NOTATIONS)
    for gbnf, lark in zip(cases[::2], cases[1::2], strict=True):
        assert (gbnf.notation, lark.notation) == ("gbnf", "lark")
        assert (gbnf.name, gbnf.texts) == (lark.name, lark.texts)
        assert 3 <= len(gbnf.texts) <= 6


class Letters:
    """A compiled grammar that admits one text of tokens, and its matcher."""

    def __init__(self, text: list[int]) -> None:
        self.text = text
        self.at = 0

    def matcher(self) -> Letters:
        return Letters(self.text)

    def mask(self) -> None:
        if self.text[self.at : self.at + 1] == [0]:
            raise ValueError("too much work")

    def allows(self, token_id: int) -> bool:
        return self.text[self.at : self.at + 1] == [token_id]

    def advance(self, token_id: int) -> None:
        self.at += 1

    def accepts_end(self) -> bool:
        return self.at == len(self.text)


def test_texts_that_are_not_admitted_are_reported() -> None:
    times, refused = walk_texts(
        Letters([1, 2]), {"whole": [1, 2], "wrong": [1, 4, 2], "short": [1]}
    )
    assert refused == [("wrong", 1, 4, ""), ("short", 1, None, "")]
    error = walk_texts(Letters([1, 0]), {"slow": [1, 0]})[1]
    assert error == [("slow", 1, 0, "ValueError: too much work")]
    assert len(times.mask_ns) == len(times.places) == 3 + 2 + 2
    assert len(times.advance_ns) == len(times.between_ns) == 2 + 1 + 1


def result(*between: int, passes: int = 2, **facts: Any) -> GrammarResult:
    times = PassTimes(
        mask_ns=[*(ns - 1000 for ns in between), 500],
        advance_ns=[1000] * len(between),
        between_ns=list(between),
        places=[("t", position) for position in range(len(between) + 1)],
    )
    return GrammarResult("1", compile_ns=7000, passes=[times] * passes, **facts)


def figures_of(**results: list[GrammarResult]) -> dict[str, Any]:
    return {"name": "json", "notation": "gbnf", **case_figures(results)}


def test_ratios_are_to_the_faster_peer_of_each_repeat() -> None:
    case = figures_of(
        ours=[result(2000, 4000), result(8000, 16000)],
        slow=[result(9000, 9000), result(4000, 8000)],
        fast=[result(1000, 2000), result(90000, 90000)],
    )
    assert [ratios["mean"]["value"] for ratios in case["ratios"]] == [2, 2]
    assert case["engines"]["ours"]["passes"][0]["mean"] == 7.5
    assert case["engines"]["ours"]["slowest"][0] == {
        "microseconds": 9.0,
        "text": "t",
        "position": 1,
    }
    _, row = ratio_rows([case])
    assert row[:3] == ["json", "gbnf", "2.00"]
    assert engine_rows([case])[1][:5] == ["json", "gbnf", "ours", "2", "7.00 µs"]
    _, slowest, *_ = slowest_rows([case], lambda case, text, position: f"{case} {position}")
    assert slowest == ["json", "gbnf", "t", "1", "'json 1'", "9.00 µs"]


@pytest.fixture
def source(tmp_path: Path) -> TokenizerSource:
    tokenizer = byte_level_tokenizer()
    path = tmp_path / "tokenizer.json"
    tokenizer.save(str(path))
    return TokenizerSource(path, (tokenizer.token_to_id("<|im_end|>"),))


def encoded(source: TokenizerSource, text: str) -> list[int]:
    ids: list[int] = Tokenizer.from_file(str(source.path)).encode(text).ids
    return ids


@pytest.mark.parametrize("notation", NOTATIONS)
def test_engine_walks_grammars_and_refuses_bad_ones(source: TokenizerSource, notation: str) -> None:
    adapter, case = load_engine("ours", source), warm_up_case(notation)
    compiled = adapter.compile_grammar(case.grammar, notation)
    texts = {name: encoded(source, text) for name, text in case.texts.items()}
    assert walk_texts(compiled, texts)[1] == []
    broken = encoded(source, "%2024/x")
    assert walk_texts(compiled, {"broken": broken})[1] == [("broken", 6, broken[6], "")]
    with pytest.raises(RefusedSchemaError):
        adapter.compile_grammar({"gbnf": "root ::= (", "lark": "start: ("}[notation], notation)
