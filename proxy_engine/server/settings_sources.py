"""Where settings come from besides flags: a file in TOML, and variables of the environment."""

from __future__ import annotations

import difflib
import tomllib
from pathlib import Path
from typing import Any

from pydantic_settings import (
    BaseSettings,
    DotEnvSettingsSource,
    EnvSettingsSource,
    InitSettingsSource,
    SettingsError,
)

from ..checks import short_repr, suggestion

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
