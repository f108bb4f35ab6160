"""The Python examples in the documentation run as they stand."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import mlx_vlm
import pytest
from live_server import serving_engine
from mlx_lm.tokenizer_utils import TokenizerWrapper
from tiny_models import make_tiny_model
from tiny_whisper import write_tiny_whisper
from vision_models import vision_checkpoint

from proxy_engine import InferenceEngine
from proxy_engine.models.embedded import SPEECH_MODEL
from proxy_engine.models.loading import LoadedModel, load_model
from proxy_engine.server.settings import ServerSettings

# Where the documents' server listens.
SERVER = "http://127.0.0.1:8000"
ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
# The model of a document's server; others use the embedded model.
MODELS = {
    "vision": "mlx-community/Qwen2.5-VL-3B-Instruct-4bit",
    "audio": SPEECH_MODEL,
}
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# tests/first_hour runs these with the embedded model, and compares the outputs that they show.
WITH_OUTPUTS = {ROOT / "README.md", ROOT / "docs" / "index.md"}
# Examples that import these packages run in `make test-runtimes`.
OTHER_RUNTIMES = re.compile(r"^from (llama_cpp|transformers) import", re.MULTILINE)


def python_blocks(path: Path) -> list[str]:
    """The code blocks, each after as many empty lines as there are lines before it in the file."""
    text = path.read_text(encoding="utf-8")
    found = re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [
        "\n" * text.count("\n", 0, block.start(1)) + block[1]
        for block in found
        if not OTHER_RUNTIMES.search(block[1])
    ]


def cells(path: Path) -> list[str]:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]


def blocks(path: Path) -> list[str]:
    return cells(path) if path.suffix == ".ipynb" else python_blocks(path)


@pytest.fixture(scope="session")
def small_models(tmp_path_factory: pytest.TempPathFactory) -> dict[str | None, Path]:
    """Checkpoints of small random models by the names of the models that they replace."""
    directory = tmp_path_factory.mktemp("small-models")
    return {
        MODELS["vision"]: vision_checkpoint("qwen2_5_vl", directory / "vision"),
        MODELS["audio"]: write_tiny_whisper(directory / "audio"),
        "mlx-community/gemma-4-e2b-it-4bit": vision_checkpoint("gemma4", directory / "chat"),
    }


@pytest.fixture(scope="module")
def document_model() -> Any:
    """A random model with room for the prompts of agents."""
    return make_tiny_model(context=2**15)


@pytest.mark.parametrize(
    "path",
    [p for p in (*DOCUMENTS, *NOTEBOOKS) if blocks(p) and p not in WITH_OUTPUTS],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_documented_examples_run(
    path: Path,
    document_model: Any,
    tiny_tokenizer: TokenizerWrapper,
    small_models: dict[str | None, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The form of an answer is guaranteed whatever the model; only its sense takes the real one.
    loaded = LoadedModel.of(document_model, tiny_tokenizer, name="tiny")

    def load(model: Any, *rest: Any) -> LoadedModel:
        return load_model(small_models[model], *rest) if model in small_models else loaded

    for module in ("engine.core", "engine.drafting"):
        monkeypatch.setattr(f"proxy_engine.{module}.load_model", load)
    # Paths are relative to the repository, and in a notebook to its directory.
    monkeypatch.chdir(path.parent if path in NOTEBOOKS else ROOT)
    monkeypatch.setattr("mlx_lm.load", lambda _: (document_model, tiny_tokenizer))
    load_vision = mlx_vlm.load
    monkeypatch.setattr("mlx_vlm.load", lambda name: load_vision(str(small_models[name])))
    namespace: dict[str, Any] = {"__name__": "__main__"}
    with contextlib.ExitStack() as stack:
        for block in blocks(path):
            if SERVER in block:
                engine = InferenceEngine(MODELS.get(path.stem))
                live = stack.enter_context(serving_engine(engine))
                block = block.replace(SERVER, live.url)
            exec(compile(block, str(path), "exec", dont_inherit=True), namespace)


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
@pytest.mark.parametrize("path", ["docs/quickstart.md", "docs/server.md", "examples/ask.sh"])
def test_documented_curl_commands_succeed(path: str, roomy_engine: InferenceEngine) -> None:
    text = (ROOT / path).read_text("utf-8")
    commands = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    commands = [text] if path.endswith(".sh") else commands
    assert commands
    with serving_engine(roomy_engine) as live:
        for command in commands:
            result = subprocess.run(
                ["sh", "-c", command.replace(SERVER, live.url)],
                capture_output=True,
                check=True,
                timeout=60,
            )
            (choice,) = json.loads(result.stdout)["choices"]
            assert choice["finish_reason"] == "stop"
            assert choice["message"]["content"]


def test_every_server_setting_is_documented() -> None:
    text = (ROOT / "docs" / "server.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| `--([a-z-]+)` \| `PROXY_ENGINE_([A-Z_]+)` \| ([^|]+) \|", text, re.MULTILINE
    )
    assert [name.replace("-", "_") for name, _, _ in rows] == list(ServerSettings.model_fields)
    for name, variable, default in rows:
        assert variable.lower() == name.replace("-", "_")
        stated = re.fullmatch("`(.+)`", default)
        real = ServerSettings.model_fields[variable.lower()].default
        assert (str(real).lower() if real not in (None, ()) else None) == (stated and stated[1])


def test_documentation_has_examples() -> None:
    assert all(len(cells(path)) >= 3 for path in NOTEBOOKS)
    assert NOTEBOOKS


def test_modules_named_in_the_documentation_exist() -> None:
    roots = [ROOT, *(ROOT / name for name in ("proxy_engine", "state_machines", "tests", "docs"))]
    missing = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in DOCUMENTS
        for name in re.findall(r"`((?:\w+/)+\w+\.(?:c|md|py))`", path.read_text(encoding="utf-8"))
        if not any((root / name).exists() for root in roots)
    }
    assert missing == set()


def test_makefile_targets_named_in_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+)", (ROOT / "README.md").read_text(), re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
