"""Generation settings: defaults of requests, options of the prompt cache, the configuration file."""

from __future__ import annotations

import asyncio
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from live_server import Live, make_settings, serving_engine
from pydantic_settings import SettingsError
from tiny_whisper import write_tiny_whisper

from proxy_engine import CacheOptions, InferenceEngine, InvalidOptionError
from proxy_engine.cli.main import main
from proxy_engine.options.overrides import OptionOverrides
from proxy_engine.server.app import load_engine, registry_of
from proxy_engine.server.errors import ApiError
from proxy_engine.server.generation_settings import merged_options
from proxy_engine.server.load_checks import LoadChecks
from proxy_engine.server.models import KnownModel
from proxy_engine.server.settings import ServerSettings, parse_settings

MODEL = "SmolLM2-135M-Instruct"


@pytest.fixture(scope="module")
def brief(roomy_engine: InferenceEngine) -> Iterator[Live]:
    """A server with settings for options that answers show."""
    with serving_engine(roomy_engine, max_tokens=3, temperature=0, top_p=0.5) as live:
        yield live


def chat(client: openai.OpenAI, **more: Any) -> Any:
    return client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "Hello"}], **more
    )


def test_settings_are_defaults_of_requests(brief: Live) -> None:
    client = brief.client()
    first, second = chat(client), chat(client)
    assert first.usage.completion_tokens == 3
    assert first.choices[0].message.content == second.choices[0].message.content
    completion = client.completions.create(model=MODEL, prompt="Hello")
    assert completion.usage is not None
    assert completion.usage.completion_tokens == 3
    response = client.responses.create(model=MODEL, input="Hello")
    assert response.usage is not None
    assert response.usage.output_tokens == 3
    assert (response.temperature, response.top_p) == (0, 0.5)


def test_fields_of_a_request_take_precedence(brief: Live) -> None:
    client = brief.client()
    assert chat(client, max_tokens=5).usage.completion_tokens == 5
    response = client.responses.create(
        model=MODEL,
        input="Hello",
        max_output_tokens=5,
        temperature=0.5,
        top_p=1,
        # Without a seed, the random model may end its answer before.
        extra_body={"seed": 1},
    )
    assert response.usage is not None
    assert response.usage.output_tokens == 5
    assert (response.temperature, response.top_p) == (0.5, 1)


def test_openais_defaults_apply_without_settings() -> None:
    settings = make_settings()
    # Clients validate the values, so the server itself asks for no answer again.
    plain = {"temperature": 1.0, "max_retries": 0, "confidence": False}
    assert settings.request_defaults() == {**plain, "parallel_tool_calls": True}
    assert settings.request_defaults(is_raw=True) == {**plain, "max_tokens": 16}
    assert settings.cache_options() == CacheOptions()


def test_raw_prompts_have_no_options_of_conversations() -> None:
    settings = make_settings(schema_in_prompt="outline", max_tokens=100)
    assert settings.request_defaults()["schema_in_prompt"] == "outline"
    assert make_settings(calls_in_text="off").request_defaults()["calls_in_text"] == "off"
    defaults = settings.request_defaults(is_raw=True)
    assert "schema_in_prompt" not in defaults
    assert defaults["max_tokens"] == 100


def test_cache_settings_are_read_from_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROXY_ENGINE_KV_BITS", "8")
    settings = parse_settings(["--kv-group-size", "32", "--prompt-cache-bytes", "1000"])
    expected = CacheOptions(kv_bits=8, kv_group_size=32, max_bytes=1000)
    assert settings.cache_options() == expected
    settings = parse_settings(["--prompt-cache-directory", "7", "--prompt-cache-disk-bytes", "9"])
    expected = CacheOptions(kv_bits=8, directory=Path("7"), max_disk_bytes=9)
    assert settings.cache_options() == expected


@pytest.mark.parametrize("text", ['{"enable_thinking": false, "other": [1]}', '{"a": "b"}'])
def test_template_variables_are_json(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_flag = parse_settings(["--chat-template-kwargs", text])
    monkeypatch.setenv("PROXY_ENGINE_CHAT_TEMPLATE_KWARGS", text)
    for settings in (by_flag, ServerSettings()):
        assert settings.request_defaults()["chat_template_kwargs"] == json.loads(text)
    assert "chat_template_kwargs" not in by_flag.request_defaults(is_raw=True)


def test_template_variables_in_the_file_are_a_table(tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_text("[chat_template_kwargs]\nenable_thinking = false\n")
    settings = ServerSettings(config=tmp_path / "settings.toml")
    assert settings.request_defaults()["chat_template_kwargs"] == {"enable_thinking": False}


def test_template_variables_of_a_request_are_added() -> None:
    defaults: OptionOverrides = {"chat_template_kwargs": {"a": 1, "b": 2}, "top_k": 3}
    given: OptionOverrides = {"chat_template_kwargs": {"b": 4}, "max_tokens": 5}
    merged = {"chat_template_kwargs": {"a": 1, "b": 4}, "top_k": 3, "max_tokens": 5}
    assert merged_options(given, defaults) == merged
    assert merged_options({}, defaults) == defaults
    assert merged_options(given, {}) == given


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "settings.toml"
    path.write_text(
        'max_tokens = 100\ntop-k = 7\nport = 1\nhost = "::1"\naliases = ["a", "b"]\n'
        "temperature = 0\n"
    )
    return path


def test_file_comes_after_flags_and_variables(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("PROXY_ENGINE_PORT=2\nPROXY_ENGINE_MAX_TOKENS=300\n")
    monkeypatch.setenv("PROXY_ENGINE_MAX_TOKENS", "200")
    monkeypatch.setenv("PROXY_ENGINE_CONFIG", str(file))
    for settings in (ServerSettings(top_k=9), parse_settings(["--top-k=9"])):  # type: ignore[call-arg]
        assert (settings.host, settings.port, settings.aliases) == ("::1", 2, ("a", "b"))
        expected = {"max_tokens": 200, "temperature": 0, "top_k": 9, "parallel_tool_calls": True}
        assert settings.request_defaults() == {**expected, "max_retries": 0, "confidence": False}
    assert parse_settings(["--config", str(file), "--port=3"]).port == 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("max_token = 3", "unknown setting 'max_token'. Did you mean 'max_tokens'?"),
        ("config = 'other.toml'", "unknown setting 'config'"),
        ("port = ", "cannot be read: Invalid value"),
        ("max_tokens = 0", "max-tokens: Input should be greater than or equal to 1"),
    ],
)
def test_invalid_file_is_refused(
    text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "settings.toml").write_text(text)
    assert main(["serve", "--config", str(tmp_path / "settings.toml")]) == 2
    assert words in capsys.readouterr().err


def test_documented_file_is_valid(tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "docs" / "server.md").read_text("utf-8")
    section = text.partition("\n## Settings\n")[2]
    (block,) = re.findall(r"^```toml\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    (tmp_path / "settings.toml").write_text(block)
    settings = ServerSettings(config=tmp_path / "settings.toml")
    assert set(tomllib.loads(block)) <= settings.model_fields_set


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        ServerSettings(config=tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--kv-bits", "7"], "kv-bits: Input should be 2, 3, 4, 5, 6 or 8"),
        (["--kv-bits", "8", "--max-kv-size", "100"], "kv_bits should be None if max_kv_size"),
        (["--temperature", "-1"], "temperature: Input should be greater than or equal to 0"),
        (["--tool-format", "hermse"], "hermes"),
        (["--chat-template-kwargs", "a=b"], "chat-template-kwargs: should be a JSON object"),
        (["--chat-template-kwargs", "3"], "chat-template-kwargs: should be a mapping"),
        (["--chat-template-kwargs", '{"tools": 1}'], "which the engine sets"),
    ],
)
def test_invalid_setting_is_refused_at_the_start(
    flags: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", *flags]) == 2
    assert words in capsys.readouterr().err


def test_cache_settings_reach_the_engine(tiny_model_directory: Path) -> None:
    settings = make_settings(model=str(tiny_model_directory), kv_bits=8, kv_group_size=128)
    with pytest.raises(InvalidOptionError, match="cannot be quantized"):
        load_engine(registry_of(settings).default(), settings)


def test_models_are_checked_with_the_cache_settings(tiny_model_directory: Path) -> None:
    model = KnownModel("tiny", str(tiny_model_directory), tiny_model_directory)
    asyncio.run(LoadChecks(CacheOptions(max_kv_size=100)).check_files(model))
    checks = LoadChecks(CacheOptions(kv_bits=8, kv_group_size=128))
    with pytest.raises(ApiError, match="'tiny' cannot be loaded: the model's cache"):
        asyncio.run(checks.check_files(model))
    assert checks.has_failed(model)


def test_cache_settings_do_not_concern_speech_models(tmp_path: Path) -> None:
    directory = write_tiny_whisper(tmp_path / "whisper")
    settings = make_settings(model=str(directory), kv_bits=8)
    model = registry_of(settings).default()
    checks = LoadChecks(settings.cache_options())
    asyncio.run(checks.check_files(model))
    assert not checks.has_failed(model)
    with load_engine(model, settings) as engine:
        assert engine.input_modalities == {"audio"}


def test_model_may_be_the_first_argument() -> None:
    settings = parse_settings(["some/model", "--port", "3", "--log-level", "DEBUG"])
    assert (settings.model, settings.port, settings.log_level) == ("some/model", 3, "debug")
