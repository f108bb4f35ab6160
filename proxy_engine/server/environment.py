"""Environment variables that are named like settings but are none."""

from __future__ import annotations

import difflib

from pydantic_settings import BaseSettings, DotEnvSettingsSource, EnvSettingsSource

# Variables of other parts of the project: caches, the build of a wheel, tests.
_OTHERS = frozenset({"cache", "wheel", "require_model", "tokenizers"})


def unknown_variables(settings: type[BaseSettings]) -> dict[str, str]:
    """Return a hint for each variable with the settings' prefix that is no setting, by name.

    The environment and the file ``.env`` are read. The settings ignore unknown variables, since
    parts of a program share the environment.
    """
    prefix: str = settings.model_config["env_prefix"]
    # Sources without case sensitivity write all names in lower case.
    found = {*EnvSettingsSource(settings).env_vars, *DotEnvSettingsSource(settings).env_vars}
    names = {name[len(prefix) :] for name in found if name.startswith(prefix.lower())}
    unknown = sorted(names - settings.model_fields.keys() - _OTHERS)
    return {(prefix + name).upper(): _hint(name, prefix, settings) for name in unknown}


def _hint(name: str, prefix: str, settings: type[BaseSettings]) -> str:
    # Without the prefix, which would make all names similar.
    near = difflib.get_close_matches(name[:80], settings.model_fields, n=1)
    if near:
        return f"Did you mean {(prefix + near[0]).upper()}?"
    return "'proxy-engine serve --help' lists all settings."
