"""A worker without a model, as a process: ``python stand_in_worker.py``.

It answers in pieces of an event stream. A last message whose content is ``die`` kills the process
before the first byte, ``die once`` only the first process, ``die later`` after one event; ``wait`` never ends. Other requests get one
event with the number of the worker, the id of the process, and selected variables.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import Receive, Scope, Send

from proxy_engine.server.listening import uvicorn_config
from proxy_engine.server.router.worker import read_start
from proxy_engine.server.settings import ServerSettings


class StandInWorker:
    """The ASGI application.

    Attributes:
        seen: The bodies of requests, in order of arrival.
        cancelled: The number of requests whose client has disconnected.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.server: uvicorn.Server | None = None
        self.seen: list[Any] = []
        self.targets: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.cancelled = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if scope["path"] == "/metrics":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body"})
            return
        body = b""
        while (message := await receive()).get("more_body"):
            body += message["body"]
        body += message.get("body", b"")
        self.targets.append(f"{scope['method']} {scope['raw_path'].decode()}")
        self.headers.append({k.decode(): v.decode() for k, v in scope["headers"]})
        request = json.loads(body) if body.startswith(b"{") else {}
        self.seen.append(request or len(body))
        messages = request.get("messages")
        what = messages[-1].get("content") if isinstance(messages, list) else None
        if what == "die" or (what == "die once" and not self._has_died()):
            await self._die()
            return
        kind = b"text/event-stream" if request.get("stream", True) else b"application/json"
        headers = [(b"content-type", kind)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._send(send, "first")
        if what == "die later":
            await asyncio.sleep(0.05)
            await self._die()
            return
        if what == "wait":
            while (await receive())["type"] != "http.disconnect":
                pass
            self.cancelled += 1
            return
        for _ in range(request.get("events", 0)):
            await self._send(send, "x" * request.get("size", 1))
        await self._send(send, "last", is_last=True)

    def _has_died(self) -> bool:
        """Whether a worker in this directory was here before."""
        try:
            open("died", "x").close()
        except FileExistsError:
            return True
        return False

    async def _die(self) -> None:
        """Kill this process or, on a thread of the tests, break its connections."""
        if self.server is None:
            os.kill(os.getpid(), signal.SIGKILL)
        else:
            for connection in self.server.server_state.connections:
                connection.transport.abort()

    async def _send(self, send: Send, text: str, *, is_last: bool = False) -> None:
        event = {
            "text": text,
            "worker": self.number,
            "pid": os.getpid(),
            "gpu": os.environ.get("CUDA_VISIBLE_DEVICES"),
            "sequence_number": 7,
        }
        data = f"data: {json.dumps(event, separators=(',', ':'))}\n\n".encode()
        await send({"type": "http.response.body", "body": data, "more_body": not is_last})


def stand_in_server(app: StandInWorker, settings: ServerSettings, path: Path) -> uvicorn.Server:
    """Return a server that listens on a Unix socket."""
    return uvicorn.Server(uvicorn_config(app, settings, path))


def main() -> int:
    start = read_start()
    if os.environ.get("STAND_IN_FAILS") == str(start.number):
        return 1
    stand_in_server(StandInWorker(start.number), start.settings, start.socket_path).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
