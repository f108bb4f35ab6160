"""A file with settings in TOML."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_settings import PydanticBaseSettingsSource, SettingsError, TomlConfigSettingsSource

from ..checks.problems import suggestion
from ..checks.texts import short_repr

SETTING = "config"
"""The setting that names the file."""


class ConfigurationFile(PydanticBaseSettingsSource):
    """The source of the settings in the file that sources before it name; none without one.

    A key is the name of a setting, written with underscores or hyphens.
    """

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """Not called: all values of a file are read at once."""
        raise NotImplementedError

    def __call__(self) -> dict[str, Any]:
        """Return the settings in the file by name.

        Raises:
            SettingsError: The file cannot be read, is not TOML, or has an unknown key.
        """
        path = self.current_state.get(SETTING)
        if path is None:
            return {}
        file = Path(path).expanduser()
        if not file.is_file():
            raise SettingsError(f"config: there is no file {str(file)!r}")
        try:
            found = TomlConfigSettingsSource(self.settings_cls, file).toml_data
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise SettingsError(f"config: {str(file)!r} cannot be read: {error}") from error
        known = [name for name in self.settings_cls.model_fields if name != SETTING]
        values: dict[str, Any] = {}
        for key, value in found.items():
            name = key.replace("-", "_")
            if name not in known:
                raise SettingsError(
                    f"config: {str(file)!r} has the unknown setting {short_repr(key)}. "
                    + suggestion(name, known)
                )
            if name in values:
                raise SettingsError(f"config: {str(file)!r} has the setting {name!r} twice")
            values[name] = value
        return values
