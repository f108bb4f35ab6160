"""Recognition and loading of Whisper checkpoints of every form, by construction."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx import nn
from mlx.utils import tree_flatten
from mlx_audio.stt import load
from recordings import speech_file
from tiny_parakeet import CTC_CONFIG
from tiny_whisper import DIMENSIONS, tiny_whisper_weights, write_tiny_processor, write_tiny_whisper

from proxy_engine import InferenceEngine, InvalidOptionError, MissingExtraError, ModelFormatError
from proxy_engine.models.kinds import is_speech_model

SHORT = speech_file()


def answer(directory: Path, **options: Any) -> str:
    with InferenceEngine(directory, on_progress=None) as engine:
        assert engine.model_type
        return engine.transcribe(SHORT, response_format={"type": "boolean"}, **options).text


@pytest.mark.parametrize(
    ("config", "is_speech"),
    [
        ({"model_type": "whisper"}, True),
        (DIMENSIONS, True),
        (CTC_CONFIG, True),
        ({"model_type": "parakeet_tdt"}, True),
        (
            {"target": "nemo.collections.asr.models.aed_multitask_models.EncDecMultiTaskModel"},
            False,
        ),
        ({"model_type": "llama", "vocab_size": 32_000}, False),
        ({}, False),
    ],
)
def test_speech_models_are_recognised_by_their_configuration(
    config: dict[str, Any], is_speech: bool
) -> None:
    assert is_speech_model(config) is is_speech


def test_weights_may_be_in_an_npz_file(tmp_path: Path) -> None:
    write_tiny_whisper(tmp_path, weights_file="weights.npz")
    assert answer(tmp_path) in ("true", "false")


def test_directory_name_does_not_decide_the_type(tmp_path: Path) -> None:
    directory = write_tiny_whisper(tmp_path / "parakeet-voxtral")
    config = json.loads((directory / "config.json").read_text())
    del config["model_type"]
    (directory / "config.json").write_text(json.dumps(config))
    assert answer(directory) in ("true", "false")


def test_large_v3_has_128_mel_bands_and_one_more_language(tmp_path: Path) -> None:
    write_tiny_whisper(tmp_path, n_mels=128, n_vocab=51866)
    assert answer(tmp_path, language="en") in ("true", "false")


def test_english_model_knows_no_other_language(tmp_path: Path) -> None:
    write_tiny_whisper(tmp_path, n_vocab=51864)
    with InferenceEngine(tmp_path, on_progress=None) as engine:
        assert engine.transcribe(SHORT, temperature=0.0).language == "en"
        for wrong in ({"language": "de"}, {"task": "translate"}):
            with pytest.raises(InvalidOptionError):
                engine.transcribe(SHORT, **wrong)


def test_quantized_checkpoint_is_loaded(tmp_path: Path) -> None:
    write_tiny_whisper(tmp_path)
    model = load(tmp_path)
    nn.quantize(model, group_size=32, bits=8)
    weights = {
        name: value
        for name, value in tree_flatten(model.parameters())
        if not name.split(".")[-1].startswith("_")
    }
    mx.save_safetensors(str(tmp_path / "model.safetensors"), weights)
    config = json.loads((tmp_path / "config.json").read_text())
    config["quantization"] = {"group_size": 32, "bits": 8}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert answer(tmp_path) in ("true", "false")


def test_transformers_checkpoint_is_loaded_as_mlx_audio_does(
    tmp_path: Path, whisper_directory: Path
) -> None:
    names = {
        "blocks.": "layers.",
        ".attn_ln.": ".self_attn_layer_norm.",
        ".cross_attn_ln.": ".encoder_attn_layer_norm.",
        ".mlp_ln.": ".final_layer_norm.",
        ".mlp1.": ".fc1.",
        ".mlp2.": ".fc2.",
        ".cross_attn.query.": ".encoder_attn.q_proj.",
        ".cross_attn.key.": ".encoder_attn.k_proj.",
        ".cross_attn.value.": ".encoder_attn.v_proj.",
        ".cross_attn.out.": ".encoder_attn.out_proj.",
        ".attn.query.": ".self_attn.q_proj.",
        ".attn.key.": ".self_attn.k_proj.",
        ".attn.value.": ".self_attn.v_proj.",
        ".attn.out.": ".self_attn.out_proj.",
        "encoder.ln_post.": "encoder.layer_norm.",
        "decoder.ln.": "decoder.layer_norm.",
        "decoder.token_embedding.": "decoder.embed_tokens.",
        "decoder.positional_embedding": "decoder.embed_positions.weight",
    }
    weights = {}
    for name, value in tiny_whisper_weights(DIMENSIONS, 17).items():
        other = name
        for own, theirs in names.items():
            other = other.replace(own, theirs)
        weights["model." + other] = value.transpose(0, 2, 1) if value.ndim == 3 else value
    mx.save_safetensors(str(tmp_path / "model.safetensors"), weights)
    config = {
        "model_type": "whisper", "num_mel_bins": 80, "max_source_positions": 1500, "d_model": 32,
        "encoder_attention_heads": 2, "encoder_layers": 0, "vocab_size": 51865,
        "max_target_positions": 48, "decoder_attention_heads": 2, "decoder_layers": 2,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    write_tiny_processor(tmp_path)
    with (
        InferenceEngine(tmp_path, on_progress=None) as engine,
        InferenceEngine(whisper_directory, on_progress=None) as same,
    ):
        assert engine.context_length == 48
        assert engine.transcribe(SHORT).segments == same.transcribe(SHORT).segments


def test_tokens_of_times_are_added_to_a_tokenizer_without_them(
    tmp_path: Path, whisper_engine: InferenceEngine
) -> None:
    write_tiny_whisper(tmp_path)
    remove_times(tmp_path)
    with InferenceEngine(tmp_path, on_progress=None) as engine:
        found = engine.transcribe(SHORT, temperature=0.0)
    assert found.segments == whisper_engine.transcribe(SHORT, temperature=0.0).segments


def test_tokenizer_of_another_size_is_refused_for_its_times(tmp_path: Path) -> None:
    write_tiny_whisper(tmp_path, n_vocab=51866)
    remove_times(tmp_path)
    with pytest.raises(ModelFormatError, match=r"lacks the tokens of times.* model 51866"):
        InferenceEngine(tmp_path, on_progress=None)


def remove_times(directory: Path) -> None:
    """Write the tokenizer as faster-whisper's models have it."""
    file = directory / "tokenizer.json"
    content = json.loads(file.read_text())
    tokens = content["added_tokens"]
    content["added_tokens"] = [one for one in tokens if not one["content"][2].isdigit()]
    content["model"]["vocab"] = {
        token: number
        for token, number in content["model"]["vocab"].items()
        if not (token.startswith("<|") and token[2].isdigit())
    }
    file.write_text(json.dumps(content))


@pytest.mark.parametrize("missing", ["tokenizer.json", "preprocessor_config.json"])
def test_checkpoint_without_tokenizer_is_refused(tmp_path: Path, missing: str) -> None:
    write_tiny_whisper(tmp_path)
    (tmp_path / missing).unlink()
    with pytest.raises(ModelFormatError, match="tokenizer"):
        InferenceEngine(tmp_path, on_progress=None)


def test_checkpoint_without_weights_is_refused(tmp_path: Path) -> None:
    write_tiny_whisper(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(ModelFormatError, match="npz"):
        InferenceEngine(tmp_path, on_progress=None)


def test_damaged_weights_are_refused(tmp_path: Path) -> None:
    write_tiny_whisper(tmp_path)
    file = tmp_path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(ModelFormatError):
        InferenceEngine(tmp_path, on_progress=None)


def test_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy_engine.runtime.extras.is_installed", lambda extra: False)
    write_tiny_whisper(tmp_path)
    with pytest.raises(MissingExtraError) as caught:
        InferenceEngine(tmp_path, on_progress=None)
    assert caught.value.extra == "audio"
    assert "pip install" in str(caught.value)
