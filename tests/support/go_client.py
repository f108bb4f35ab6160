"""A client of the protocol of mlx-lm bridges, as a Go program has it.

``bufio.Scanner`` reads lines of at most 1 MiB, and ``encoding/json`` decodes them into a struct: a
value of another type than the field's stays the zero value. The client waits for the last line of a
command before it writes the next one, and counts on it that no other line comes in between.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

MAX_LINE_BYTES = 1 << 20


@dataclass
class Response:
    """A line. ``ok``, ``done`` and ``error`` end a command, as does the reply to ``info``."""

    ok: bool = False
    done: bool = False
    error: str = ""
    token: str = ""
    token_id: int = 0
    tokens_generated: int = 0
    model_type: str = ""
    vocab_size: int = 0
    layers: int = 0
    hidden_size: int = 0

    @classmethod
    def unmarshal(cls, line: bytes) -> Self:
        """Decode a line; unknown fields are skipped."""
        response = cls()
        for name, value in json.loads(line).items():
            kinds = {field.name: type(getattr(response, field.name)) for field in fields(cls)}
            if type(value) is kinds.get(name):
                setattr(response, name, value)
        return response


class GoBridge:
    """A bridge in a subprocess.

    Args:
        command: The command line of the subprocess.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def load(self, path: str) -> Response:
        """Load a model."""
        self._write({"cmd": "load", "path": path})
        response = self._scan()
        if response.error:
            raise RuntimeError(response.error)
        assert response.ok
        return response

    def info(self) -> Response:
        """Ask for the model's dimensions."""
        self._write({"cmd": "info"})
        response = self._scan()
        if response.error:
            raise RuntimeError(response.error)
        return response

    def generate(
        self,
        prompt: str,
        on_token: Callable[[str], None] = lambda token: None,
        **options: Any,
    ) -> tuple[str, int]:
        """Continue a text; return the joined tokens and their number."""
        return self._stream({"cmd": "generate", "prompt": prompt} | _options(options), on_token)

    def chat(
        self,
        messages: list[dict[str, str]],
        on_token: Callable[[str], None] = lambda token: None,
        **options: Any,
    ) -> tuple[str, int]:
        """Answer a conversation; return the joined tokens and their number."""
        return self._stream({"cmd": "chat", "messages": messages} | _options(options), on_token)

    def cancel(self) -> None:
        """End the running generation. No reply is read."""
        self._write({"cmd": "cancel"})

    def quit(self) -> int:
        """End the bridge; return its exit status. No reply may come."""
        self._write({"cmd": "quit"})
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.close()
        assert self.process.stdout.read() == b""
        return self.process.wait(60)

    def _stream(self, command: dict[str, Any], on_token: Callable[[str], None]) -> tuple[str, int]:
        self._write(command)
        texts: list[str] = []
        while True:
            response = self._scan()
            if response.error:
                raise RuntimeError(response.error)
            if response.done:
                return "".join(texts), response.tokens_generated
            assert not response.ok
            texts.append(response.token)
            on_token(response.token)

    def _write(self, command: dict[str, Any]) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(command).encode() + b"\n")
        self.process.stdin.flush()

    def _scan(self) -> Response:
        assert self.process.stdout
        line = self.process.stdout.readline(MAX_LINE_BYTES)
        assert line.endswith(b"\n"), "bufio.Scanner: token too long, or the end of the output"
        return Response.unmarshal(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe
            pipe.close()


def _options(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options as the client sends them: always the common ones, all numbers floats."""
    given = {"max_tokens": 256, "temperature": 0.0, "top_p": 1.0} | options
    if given.get("repeat_penalty", 1.0) <= 1:
        given.pop("repeat_penalty", None)
    return {
        name: float(value) if isinstance(value, int) and not isinstance(value, bool) else value
        for name, value in given.items()
    }
