"""Errors inside the package."""

from __future__ import annotations


class UnsupportedModelError(Exception):
    """A model of mlx-vlm does not generate text token by token from a prompt with media."""
