"""What a server can be told: by flags, by the environment, by a file ``.env``."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

__all__ = ["ServerSettings", "read_settings"]


class ServerSettings(BaseSettings):
    """Each is a flag (``--max-queue 8``), or else a variable (``PROXY_ENGINE_MAX_QUEUE=8``).

    Variables may stand in a file ``.env`` in the working directory. Lists are separated by commas.
    ``docs/server.md`` says what each is for. Raises ``pydantic.ValidationError``.
    """

    model_config = SettingsConfigDict(
        env_prefix="PROXY_ENGINE_",
        env_file=".env",
        extra="ignore",
        frozen=True,
        # So that "model_…" is no complaint of pydantic's.
        protected_namespaces=(),
    )

    model: str | None = None
    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)
    api_key: SecretStr | None = None
    model_directories: Annotated[tuple[Path, ...], NoDecode] = ()
    aliases: Annotated[tuple[str, ...], NoDecode] = ()
    max_running: int = Field(default=8, ge=1)
    max_queue: int = Field(default=64, ge=0)
    max_choices: int = Field(default=16, ge=1)
    max_body_bytes: int = Field(default=8 << 20, ge=1)
    max_prompt_characters: int = Field(default=1_000_000, ge=1)
    max_compile_seconds: float = Field(default=1, gt=0)
    header_seconds: float = Field(default=10, gt=0)
    body_seconds: float = Field(default=30, gt=0)
    write_seconds: float = Field(default=60, gt=0)
    keep_alive_seconds: float = Field(default=15, gt=0)
    grace_seconds: float = Field(default=10, ge=0)
    memory_limit_bytes: int | None = Field(default=None, ge=1)
    stored_responses: int = Field(default=256, ge=0)
    allowed_hosts: Annotated[tuple[str, ...], NoDecode] = ()
    cors_origins: Annotated[tuple[str, ...], NoDecode] = ()
    log_format: Literal["text", "json"] = "text"
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_prompts: bool = False

    @field_validator("model_directories", "aliases", "allowed_hosts", "cors_origins", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        if isinstance(value, str):
            return tuple(item.strip() for item in value.split(",") if item.strip())
        return value

    @field_validator("api_key")
    @classmethod
    def _usable_key(cls, value: SecretStr | None) -> SecretStr | None:
        # An empty variable would otherwise open the server, or look as if it were closed.
        key = None if value is None else value.get_secret_value()
        if key == "":
            raise ValueError("the key is empty; leave it out for a server without one")
        # A header cannot have such a value; nobody would get in.
        if key is not None and (key != key.strip() or not key.isprintable()):
            raise ValueError("the key has spaces around it, or characters that none can see")
        return value

    @property
    def checks_hosts(self) -> bool:
        """Whether clients must call the server by a name that it knows."""
        return "*" not in self.allowed_hosts and (self.is_local or bool(self.allowed_hosts))

    @property
    def is_local(self) -> bool:
        """Whether only this computer reaches the server."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False


def read_settings(given: Mapping[str, str]) -> ServerSettings:
    """Return the settings, of which ``given`` ones go first.

    Raises ``ValueError``, which says what is wrong in a line.
    """
    try:
        return ServerSettings(**given)  # type: ignore[arg-type]
    except ValidationError as error:
        lines = [
            f"{'.'.join(map(str, item['loc'])).replace('_', '-')}: {item['msg']}"
            for item in error.errors(include_url=False)
        ]
        raise ValueError("; ".join(lines)) from error
