"""Settings of the server, from flags, environment variables, and files."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    CliApp,
    DotEnvSettingsSource,
    EnvSettingsSource,
    InitSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from state_machines.errors import CompositionError
from state_machines.tool_calls import format_named

from ..checks import short_repr, suggestion
from ..media import MediaOptions
from ..models.load_options import LoadArguments, LoadOptions
from ..options.generation import MAX_DRAFT_TOKENS
from ..options.overrides import OptionOverrides
from ..prompt_cache import CacheOptions
from .generation_settings import (
    cache_options,
    check_defaults,
    request_defaults,
    with_generation_settings,
)

_BYTES_PER_CHARACTER = 6
"""JSON writes a character outside of ASCII as ``\\u00e9``."""
_MAX_OTHER_BYTES = 2 << 20
"""Size of schemas, tools and options."""
_MAX_ALL_BODIES_BYTES = 256 << 20

_MAX_IMAGES_BYTES = 50 << 20
"""Size of the images of a request together, as in OpenAI's API, unless one image may be larger."""


@with_generation_settings
class ServerSettings(BaseSettings):
    """The settings of a server; ``docs/server.md`` explains each.

    Each is a flag (``--max-queue 8``), an environment variable (``PROXY_ENGINE_MAX_QUEUE=8``),
    which may stand in a file ``.env`` in the working directory, or a key of the file ``config``
    (``max_queue = 8``), in this order of precedence. Lists are separated by commas; the file may
    have them as arrays.

    Raises:
        pydantic.ValidationError: A value is invalid.
        pydantic_settings.SettingsError: A file or a variable cannot be read.
    """

    model_config = SettingsConfigDict(
        env_prefix="PROXY_ENGINE_",
        env_file=".env",
        extra="ignore",
        frozen=True,
        # Permits names that begin with "model_".
        protected_namespaces=(),
        use_attribute_docstrings=True,
    )

    config: Path | None = None
    """file in TOML with further settings, by name"""
    model: str | None = None
    """default model: a directory or a Hugging Face repo id (embedded model if not given)"""
    draft_model: str | None = None
    """draft model of the default model: a directory, a Hugging Face repo id, or 'own' for the heads
    in its checkpoint"""
    adapter_path: Path | None = None
    """directory of the default model's adapter, as mlx_lm.lora writes it"""
    adapter_directories: Annotated[tuple[Path, ...], NoDecode] = ()
    """directories with adapters that requests can name, separated by commas"""
    trust_remote_code: bool = False
    """whether code of a model's files is run, for its architecture and its tokenizer"""
    distributed: bool = False
    """whether ranks that mlx.launch has started share the model"""
    wired_memory: bool = True
    """whether macOS keeps the memory of the device resident while models run"""
    chat_template: str | None = None
    """chat template of every model, in Jinja, or the name of its file"""
    num_draft_tokens: int | None = Field(default=None, ge=1, le=MAX_DRAFT_TOKENS)
    """tokens that draft models draft per forward pass (by acceptance rate if not given)"""
    tool_format: str | None = None
    """format of tool calls, by name (detected from each tokenizer if not given)"""
    speculation: Literal["auto", "off"] = "auto"
    """whether forward passes verify drafts, if a request does not say"""
    host: str = "127.0.0.1"
    """address to listen on"""
    port: int = Field(default=8000, ge=0, le=65535)
    """port to listen on; 0 for any free port"""
    uds: Path | None = None
    """Unix socket to listen on in place of the port; only this user can connect"""
    api_key: SecretStr | None = None
    """key that clients send as 'Authorization: Bearer KEY' or 'x-api-key: KEY'"""
    open_metrics: bool = False
    """whether /metrics needs no key"""
    model_directories: Annotated[tuple[Path, ...], NoDecode] = ()
    """directories with further models, separated by commas"""
    aliases: Annotated[tuple[str, ...], NoDecode] = ()
    """further names of the default model, separated by commas; '*' for every unknown name"""
    max_running: int = Field(default=8, ge=1)
    """answers generated at a time"""
    max_queue: int = Field(default=64, ge=0)
    """answers waiting at a time; further answers get status 503"""
    max_choices: int = Field(default=16, ge=1)
    """answers per request"""
    max_body_bytes: int | None = Field(default=None, ge=1)
    """size of a request's body; 413 beyond (8 MB and up to 50 MiB of images if not given)"""
    max_all_bodies_bytes: int | None = Field(default=None, ge=1)
    """size of all bodies above 64 KiB in memory; 503 beyond (256 MiB if not given)"""
    max_connections: int = Field(default=1000, ge=1)
    """open connections, within half of the limit on file descriptors"""
    max_prompt_characters: int = Field(default=1_000_000, ge=1)
    """size of a prompt; longer prompts get status 413"""
    allow_image_urls: bool = False
    """whether images at http and https URLs are fetched, from public addresses"""
    max_images: int = Field(default=MediaOptions().max_images, ge=0)
    """images in a prompt"""
    max_image_bytes: int = Field(default=MediaOptions().max_image_bytes, ge=1)
    """size of an image's file"""
    max_image_pixels: int = Field(default=MediaOptions().max_image_pixels, ge=1)
    """pixels of an image, checked before it is decoded"""
    max_audio_bytes: int = Field(default=MediaOptions().max_audio_bytes, ge=1)
    """size of a recording's file"""
    max_audio_seconds: float = Field(default=MediaOptions().max_audio_seconds, gt=0)
    """length of a recording, checked before and while it is decoded"""
    max_compile_seconds: float = Field(default=1, gt=0)
    """processor time to compile a response format and tools; status 400 beyond"""
    header_seconds: float = Field(default=10, gt=0)
    """time for a request's headers to arrive"""
    body_seconds: float = Field(default=30, gt=0)
    """time for a request's body to arrive"""
    write_seconds: float = Field(default=60, gt=0)
    """time for a client to accept a piece of a stream"""
    keep_alive_seconds: float = Field(default=15, gt=0)
    """silence of a stream before a comment is sent"""
    grace_seconds: float = Field(default=10, ge=0)
    """time for running answers to end on shutdown"""
    unknown_fields: Literal["ignore", "reject"] = "ignore"
    """whether unknown fields of requests are ignored or refused"""
    memory_limit_bytes: int | None = Field(default=None, ge=1)
    """memory for the model (all of the device's if not given)"""
    idle_seconds: float | None = Field(default=None, gt=0)
    """time without requests after which the model is unloaded (never if not given)"""
    stored_responses: int = Field(default=256, ge=0)
    """responses that are stored, up to 256 MiB"""
    allowed_hosts: Annotated[tuple[str, ...], NoDecode] = ()
    """host names of the server besides localhost, separated by commas; '*' for any"""
    cors_origins: Annotated[tuple[str, ...], NoDecode] = ()
    """origins whose pages may use the server, separated by commas; '*' for any"""
    log_format: Literal["text", "json"] = "text"
    """format of log lines"""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """lowest level that is logged"""
    log_prompts: bool = False
    """whether prompts are logged"""

    @field_validator(
        "model_directories",
        "adapter_directories",
        "aliases",
        "allowed_hosts",
        "cors_origins",
        mode="before",
    )
    @classmethod
    def _split(cls, value: Any) -> Any:
        if isinstance(value, str):
            return tuple(item.strip() for item in value.split(",") if item.strip())
        return value

    @field_validator("log_level", mode="before")
    @classmethod
    def _in_lower_case(cls, value: Any) -> Any:
        return value.lower() if isinstance(value, str) else value

    @field_validator("tool_format")
    @classmethod
    def _known_tool_format(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                format_named(value)
            except CompositionError as error:
                raise ValueError(str(error)) from error
        return value

    @field_validator("api_key")
    @classmethod
    def _usable_key(cls, value: SecretStr | None) -> SecretStr | None:
        # An empty variable would leave the server open although a key seems to be set.
        key = None if value is None else value.get_secret_value()
        if key == "":
            raise ValueError("the key is empty; leave it out for a server without a key")
        # An HTTP header cannot carry such a key.
        if key is not None and (key != key.strip() or not key.isprintable()):
            raise ValueError("the key has spaces around it or unprintable characters")
        return value

    @model_validator(mode="after")
    def _usable_limits(self) -> Self:
        # Each raises a ValueError for a value that is out of range.
        self.media_options()
        cache = self.cache_options()
        if self.distributed:
            cache.check_distributed()
        check_defaults(self)
        self.load_arguments()
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources of settings, in order of precedence."""
        return init_settings, env_settings, dotenv_settings, ConfigurationFile(settings_cls)

    def request_defaults(self, *, is_raw: bool = False) -> OptionOverrides:
        """Return the options of requests that do not give them.

        Args:
            is_raw: Whether the request continues a text without a chat template.
        """
        return request_defaults(self, is_raw=is_raw)

    def cache_options(self) -> CacheOptions:
        """Return the options of the engines' prompt caches."""
        return cache_options(self)

    def load_arguments(
        self, adapter: Path | None = None, *, transcribes: bool = False
    ) -> LoadArguments:
        """Return the arguments of ``InferenceEngine`` that state how a model is loaded.

        Args:
            adapter: The directory of the model's adapter.
            transcribes: Whether it is a speech model, which has no chat template.

        Raises:
            InvalidOptionError: A setting is invalid.
        """
        arguments = LoadArguments(
            adapter_path=adapter,
            trust_remote_code=self.trust_remote_code,
            distributed=self.distributed,
            wired_memory=self.wired_memory,
        )
        if not transcribes:
            arguments["chat_template"] = self.chat_template
        # Reads and checks the template.
        LoadOptions.of(arguments)
        return arguments

    def media_options(self) -> MediaOptions:
        """Return the limits on media for engines."""
        return MediaOptions(
            max_images=self.max_images,
            max_image_bytes=self.max_image_bytes,
            max_image_pixels=self.max_image_pixels,
            max_audio_bytes=self.max_audio_bytes,
            max_audio_seconds=self.max_audio_seconds,
            allow_urls=self.allow_image_urls,
        )

    @property
    def text_body_bytes(self) -> int:
        """The size of the largest body for models that read text only."""
        if self.max_body_bytes is not None:
            return self.max_body_bytes
        return _BYTES_PER_CHARACTER * self.max_prompt_characters + _MAX_OTHER_BYTES

    @property
    def body_bytes(self) -> int:
        """The size of the largest body for models that read images."""
        if self.max_body_bytes is not None:
            return self.max_body_bytes
        images = min(
            self.max_images * self.max_image_bytes, max(self.max_image_bytes, _MAX_IMAGES_BYTES)
        )
        # Base64 writes three bytes as four characters.
        return self.text_body_bytes + (images + 2 * self.max_images) // 3 * 4

    @property
    def upload_bytes(self) -> int:
        """The size of the largest body with a recording in a form."""
        if self.max_body_bytes is not None:
            return self.max_body_bytes
        return self.text_body_bytes + self.max_audio_bytes

    @property
    def all_bodies_bytes(self) -> int:
        """The size of all bodies that are in memory at a time."""
        if self.max_all_bodies_bytes is not None:
            return self.max_all_bodies_bytes
        return max(_MAX_ALL_BODIES_BYTES, self.body_bytes)

    @property
    def all_uploads_bytes(self) -> int:
        """The size of all recordings in forms that are on disk at a time."""
        return self.max_running * self.upload_bytes

    @property
    def checks_hosts(self) -> bool:
        """Whether the ``Host`` header of requests is checked."""
        if self.uds is not None:
            # No page of a browser reaches it.
            return False
        return "*" not in self.allowed_hosts and (self.is_local or bool(self.allowed_hosts))

    @property
    def is_local(self) -> bool:
        """Whether the server listens on a loopback address or a Unix socket."""
        if self.uds is not None or self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False


class _CommandLine(ServerSettings):
    """Serves OpenAI's chat completions, completions and responses, Anthropic's messages, Ollama's
    chats, and a page to try them at /. The model may also be the first argument: 'serve MODEL
    --port 8080'.

    A setting that is not given as a flag is read from the environment (PROXY_ENGINE_MODEL,
    PROXY_ENGINE_PORT and so on), from a file .env in the working directory, or from the file of
    --config. Give the API key in the environment: other users of this computer can read command
    lines.
    """

    model_config = SettingsConfigDict(
        cli_prog_name="proxy-engine serve",
        cli_kebab_case=True,
        cli_hide_none_type=True,
        cli_avoid_json=True,
        cli_implicit_flags=True,
        cli_exit_on_error=False,
    )


def parse_settings(arguments: Sequence[str]) -> ServerSettings:
    """Return the settings; flags take precedence over variables. ``--help`` ends the process.

    An argument before all flags is the model.

    Raises:
        ValueError: A flag or variable is invalid; the message is one line.
    """
    if arguments and not arguments[0].startswith("-"):
        arguments = ["--model", *arguments]
    try:
        return CliApp.run(_CommandLine, cli_args=list(arguments))
    except ValidationError as error:
        raise ValueError("; ".join(map(_line, error.errors(include_url=False)))) from error


def _line(fact: ErrorDetails) -> str:
    message = fact["msg"].removeprefix("Value error, ")
    name = ".".join(map(str, fact["loc"])).replace("_", "-")
    return f"{name}: {message}" if name else message


# Variables of other parts of the project: caches, the build of a wheel, tests.
_OTHERS = frozenset({"cache", "wheel", "require_model", "tokenizers"})


class ConfigurationFile(InitSettingsSource):
    """The source of the settings in the file that sources before it name as ``config``.

    A key is the name of a setting, written with underscores or hyphens.
    """

    def __init__(self, settings_cls: type[BaseSettings]) -> None:
        super().__init__(settings_cls, {})

    def __call__(self) -> dict[str, Any]:
        """Return the settings in the file by name.

        Raises:
            SettingsError: The file cannot be read, is not TOML, or has an unknown key.
        """
        path = self.current_state.get("config")
        if path is None:
            return {}
        file = Path(path).expanduser()
        try:
            found = tomllib.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise SettingsError(f"config: {str(file)!r} cannot be read: {error}") from error
        known = self.settings_cls.model_fields.keys() - {"config"}
        values = {key.replace("-", "_"): value for key, value in found.items()}
        for name in values.keys() - known:
            problem = f"config: {str(file)!r} has the unknown setting {short_repr(name)}"
            raise SettingsError(f"{problem}. {suggestion(name, sorted(known))}")
        return values


def unknown_variables(settings: type[BaseSettings]) -> dict[str, str]:
    """Return a hint for each variable with the settings' prefix that is no setting, by name.

    The environment and the file ``.env`` are read. The settings ignore unknown variables, since
    parts of a program share the environment.
    """
    prefix: str = settings.model_config["env_prefix"]
    # Sources without case sensitivity write all names in lower case.
    found = {*EnvSettingsSource(settings).env_vars, *DotEnvSettingsSource(settings).env_vars}
    names = {name[len(prefix) :] for name in found if name.startswith(prefix.lower())}
    hints = {}
    for name in sorted(names - settings.model_fields.keys() - _OTHERS):
        # Without the prefix, which would make all names similar.
        near = difflib.get_close_matches(name[:80], settings.model_fields, n=1)
        hint = "'proxy-engine serve --help' lists all settings."
        if near:
            hint = f"Did you mean {(prefix + near[0]).upper()}?"
        hints[(prefix + name).upper()] = hint
    return hints
