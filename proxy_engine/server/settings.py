"""What a server can be told: by flags, by the environment, by a file ``.env``."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

__all__ = ["ServerSettings"]


class ServerSettings(BaseSettings):
    """Each is a flag (``--max-queue 8``), or else a variable (``PROXY_ENGINE_MAX_QUEUE=8``).

    Variables may stand in a file ``.env`` in the working directory. Lists are separated by commas.
    Raises ``pydantic.ValidationError``.
    """

    model_config = SettingsConfigDict(
        env_prefix="PROXY_ENGINE_",
        env_file=".env",
        extra="ignore",
        frozen=True,
        # So that "model_…" is no complaint of pydantic's.
        protected_namespaces=(),
    )

    model: str | None = Field(
        default=None,
        description="the model to begin with: a directory or a hub id; else the embedded one",
    )
    host: str = Field(default="127.0.0.1", description="the address to listen at")
    port: int = Field(
        default=8000, ge=0, le=65535, description="the port to listen at; 0: any free one"
    )
    api_key: SecretStr | None = Field(
        default=None, description="what clients must show as `Authorization: Bearer …`"
    )
    model_directories: Annotated[tuple[Path, ...], NoDecode] = Field(
        default=(), description="directories whose subdirectories are models that may be asked for"
    )
    aliases: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(), description="other names of the model to begin with"
    )
    max_running: int = Field(
        default=8, ge=1, description="answers that are generated at the same time"
    )
    max_queue: int = Field(
        default=64, ge=0, description="answers that wait; beyond that: status 503"
    )
    max_choices: int = Field(default=16, ge=1, description="answers that one request may ask for")
    max_body_bytes: int = Field(
        default=8 << 20, ge=1, description="size of a request; beyond: status 413"
    )
    max_prompt_characters: int = Field(
        default=1_000_000, ge=1, description="size of a prompt; beyond: status 413"
    )
    body_seconds: float = Field(
        default=30, gt=0, description="time for a request's body to come in"
    )
    write_seconds: float = Field(
        default=60, gt=0, description="time for a client to take what is sent"
    )
    keep_alive_seconds: float = Field(
        default=15, gt=0, description="silence in a stream after which a comment is sent"
    )
    grace_seconds: float = Field(
        default=10, ge=0, description="time for running answers to end when the server is stopped"
    )
    memory_limit_bytes: int | None = Field(
        default=None, ge=1, description="memory for a model; else what the device has"
    )
    stored_responses: int = Field(
        default=256, ge=0, description="responses kept for `previous_response_id`"
    )
    cors_origins: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(), description="origins whose pages may use the server; `*`: any"
    )
    log_format: Literal["text", "json"] = Field(default="text", description="text or json")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="debug, info, warning or error"
    )
    log_prompts: bool = Field(default=False, description="write what clients send into the log")

    @field_validator("model_directories", "aliases", "cors_origins", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        if isinstance(value, str):
            return tuple(item.strip() for item in value.split(",") if item.strip())
        return value

    @field_validator("api_key")
    @classmethod
    def _no_empty_key(cls, value: SecretStr | None) -> SecretStr | None:
        # An empty variable would otherwise open the server, or look as if it were closed.
        if value is not None and not value.get_secret_value():
            raise ValueError("the key is empty; leave it out for a server without one")
        return value

    @property
    def is_local(self) -> bool:
        """Whether only this computer reaches the server."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False
