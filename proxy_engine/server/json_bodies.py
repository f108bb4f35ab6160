"""Limits on a request's body as JSON."""

from __future__ import annotations

MAX_VALUES = 300_000
"""The maximum number of JSON values in a body.

Parsing takes some 0.1 µs per value and cannot be interrupted; no thread generates meanwhile.
"""


MAX_MESSAGES = 8_192
"""The maximum number of messages or items of a conversation; OpenAI's is 2,048.

The event loop takes some 10 µs to validate one, and sends nothing to other clients meanwhile.
"""


def has_too_many_values(body: bytes) -> bool:
    """Count commas and opening brackets: first all of them, then only those outside of strings."""
    if _count_separators(body) <= MAX_VALUES:
        return False
    body = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    if body.count(b'"') > 2 * MAX_VALUES:
        return True
    return _count_separators(b"".join(body.split(b'"')[::2])) > MAX_VALUES


def _count_separators(text: bytes) -> int:
    return text.count(b",") + text.count(b"[") + text.count(b"{")
