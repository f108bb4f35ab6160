"""End-to-end benchmark: equal texts, selection of documents, figures."""

from __future__ import annotations

import gzip
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from alternation import ratio_of
from arguments import NamedTokenizer
from documents import choose
from mlx_lm.tokenizer_utils import TokenizerWrapper
from object_schemas import closed_object
from random_models import Size, make_random_model
from scripted_model import ScriptedModel, script_of
from stacks import SEEDED
from subject import LeftScriptError, Subject, random_subject

from proxy_engine.generation.cache_layers import extract_row, merge, right_padded

SENTENCE = "the quick brown fox jumps over the lazy dog and goes home"
STRUCTURE = {"numbers": [[n, n + 1] for n in range(18)], "ok": True}
TEXT = {"story": " ".join([SENTENCE] * 3)}
SCHEMAS: dict[str, Any] = {
    "structure": closed_object(
        numbers={"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
        ok={"type": "boolean"},
    ),
    "text": closed_object(story={"type": "string"}),
}
STACKS = ["ours", "mlx-lm"] + (["llguidance"] if find_spec("llguidance") else [])


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    records = [
        {"name": "short", "schema": {}, "tests": [{"valid": True, "data": [1]}]},
        {
            "name": "numbers",
            "schema": SCHEMAS["structure"],
            "tests": [{"valid": False, "data": TEXT}, {"valid": True, "data": STRUCTURE}],
        },
        {"name": "story", "schema": SCHEMAS["text"], "tests": [{"valid": True, "data": TEXT}]},
    ]
    file = tmp_path_factory.mktemp("cases") / "cases.jsonl.gz"
    file.write_bytes(gzip.compress("\n".join(map(json.dumps, records)).encode()))
    return file


@pytest.fixture(scope="module")
def tokenizer(
    tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: TokenizerWrapper
) -> NamedTokenizer:
    file = tmp_path_factory.mktemp("tiny") / "tokenizer.json"
    tiny_tokenizer.backend_tokenizer.save(str(file))
    return NamedTokenizer("tiny", file)


@pytest.fixture(scope="module")
def subject(tokenizer: NamedTokenizer) -> Any:
    one = random_subject(Size(1, 32), tokenizer, STACKS)
    yield one
    one.close()


def test_scripted_model_raises_the_next_token_at_every_position() -> None:
    forms = [b"a", b"b", b"ab", b"ba", None, b"\xff</s>"]
    model = ScriptedModel(make_random_model(Size(1, 32), 64), [1, 1, 2, 2, 0, 0] + [0] * 58)
    prompts = [[9, 9, 9], [8, 9]]
    scripts = [script_of(b"abab", [2, 2], forms, 5), script_of(b"babaa", [3, 3, 0], forms, 5)]
    model.follow_all(list(zip(prompts, scripts, strict=True)))

    def next_ids(caches: list[Any], tokens: list[list[int]]) -> list[list[int]]:
        found: list[list[int]] = mx.argmax(model(mx.array(tokens), cache=caches), -1).tolist()
        return found

    alone = model.make_cache()
    assert next_ids(alone, [[9, 9, 9, 2, 0, 1]])[0][2:] == [2, 2, 1, 5]
    # Rows of a batch follow the scripts of their own prompts, whatever their padding.
    caches = [model.make_cache() for _ in prompts]
    for cache, prompt in zip(caches, prompts, strict=True):
        model(mx.array([prompt]), cache=cache)
    rows = merge(caches)
    assert next_ids(rows, [[2, 2], [3, 3]]) == [[2, 5], [3, 0]]
    for layer in rows:
        layer.trim(1)
    with right_padded(rows, [1, 2]):
        first, second = next_ids(rows, [[0, 0], [3, 0]])
    assert (first[0], second) == (1, [0, 5])
    assert next_ids(extract_row(rows, 0), [[1]]) == [[5]]
    # A prompt without a script is continued freely.
    other = model.make_cache()
    logits = model(mx.array([[7, 7, 7]]), cache=other)
    assert mx.max(logits).item() < 1000


@pytest.mark.parametrize("stack", STACKS)
def test_every_stack_writes_the_document(subject: Subject, data: Path, stack: str) -> None:
    for document in choose(data, subject.can_write):
        for sampling in (None, SEEDED):
            request, script = subject.about(document, *([sampling] if sampling else []))
            written = subject.write(stack, request, script)
            assert written.text == document.text
            assert written.tokens <= script.tokens + 1
            assert 0 < written.first_seconds < written.seconds
    request, script = subject.about(document)
    assert subject.first_token(stack, request, script) > 0


def test_deviating_text_raises(subject: Subject) -> None:
    script = subject.script('["a"]')
    request = subject.request(subject.prompt("Write."), {"const": [1]}, 64)
    with pytest.raises(LeftScriptError, match=r"\[1\]"):
        subject.write("ours", request, script)


def test_ratios_have_the_median_and_the_quartiles_of_the_repeats() -> None:
    ratio = ratio_of([1, 4, 3], [2, 2, 10])
    assert (ratio.value, ratio.ours, ratio.theirs, ratio.repeats) == (0.5, 3, 2, 3)
    assert (ratio.low, ratio.high) == (0.4, 1.25)
    for wrong in ([], [1.0]):
        with pytest.raises(ValueError, match="values of ours"):
            ratio_of(wrong, [])
