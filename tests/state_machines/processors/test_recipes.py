"""The examples of the documentation that need a runtime outside of the development environment."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from proxy_engine import ModelFetchError
from proxy_engine.models.embedded import embedded_gguf, embedded_model

DOCUMENT = Path(__file__).parents[3] / "docs" / "logits-processors.md"


def blocks(package: str) -> list[str]:
    """The Python examples that import a package."""
    text = DOCUMENT.read_text(encoding="utf-8")
    found = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [block for block in found if re.search(rf"^from {package} import", block, re.MULTILINE)]


def run(found: list[str]) -> None:
    assert found
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in found:
        exec(compile(block, str(DOCUMENT), "exec", dont_inherit=True), namespace)


def test_recipes_for_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    try:
        directory = embedded_model()
    except ModelFetchError as error:
        pytest.skip(str(error))
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(directory))
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=1,
        num_attention_heads=4, initializer_range=1.0, eos_token_id=tokenizer.eos_token_id,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).eval()
    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", lambda _: tokenizer)
    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", lambda _: model)
    run(blocks("transformers"))


@pytest.mark.model
def test_recipes_for_llama_cpp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("llama_cpp")
    try:
        path = embedded_gguf(tmp_path)
    except ModelFetchError as error:
        pytest.skip(str(error))
    monkeypatch.chdir(path.parent)
    run(blocks("llama_cpp"))
