"""Measure what the router of ``serve --workers`` adds to a request and to each token of a stream.

See ``README.md`` beside this file. A stand-in worker without a model answers the same requests
directly and through a router, in turns.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import psutil
from arguments import environment, positive
from records import write_record
from starlette.types import Receive, Scope, Send
from uvicorn import Server

from proxy_engine.server import logs
from proxy_engine.server.listening import uvicorn_config
from proxy_engine.server.router.supervisor import supervise
from proxy_engine.server.router.worker import read_start
from proxy_engine.server.settings import ServerSettings

PATH = "/v1/chat/completions"
TOKEN = b'data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":" word"}}]}\n\n'


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer by as many tokens as the header ``x-tokens`` states, ``x-pause`` seconds apart."""
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    headers = dict(scope["headers"])
    pause = float(headers.get(b"x-pause", b"0"))
    kind = [(b"content-type", b"text/event-stream")]
    await send({"type": "http.response.start", "status": 200, "headers": kind})
    for _ in range(int(headers.get(b"x-tokens", b"0"))):
        await send({"type": "http.response.body", "body": TOKEN, "more_body": True})
        await asyncio.sleep(pause)
    await send({"type": "http.response.body", "body": b""})


def serve_directly() -> None:
    """Listen on a free port, whose URL is logged."""
    settings = ServerSettings(port=0)
    logs.configure("json", "info")
    server = Server(uvicorn_config(answer, settings))

    async def run() -> None:
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        host, port = server.servers[0].sockets[0].getsockname()
        print(json.dumps({"event": "listening", "url": f"http://{host}:{port}"}), file=sys.stderr)
        await serving

    asyncio.run(run())


def serve_as_worker() -> None:
    """Listen on the socket that the supervisor names."""
    start = read_start()
    Server(uvicorn_config(answer, start.settings, start.socket_path)).run()


def serve_through_router() -> None:
    """Run a router with two workers."""
    settings = ServerSettings(port=0, workers=2, log_format="json", max_running=64)
    supervise(settings, [sys.executable, __file__, "--role", "worker"])


ROLES = {"direct": serve_directly, "worker": serve_as_worker, "router": serve_through_router}


@contextlib.contextmanager
def running(role: str) -> Iterator[tuple[httpx.Client, psutil.Process]]:
    """Yield a client of a server, and the server's process."""
    process = subprocess.Popen(
        [sys.executable, __file__, "--role", role],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        assert process.stderr is not None
        facts = (json.loads(line) for line in process.stderr)
        url = next(fact["url"] for fact in facts if fact["event"] == "listening")
        with httpx.Client(base_url=url, timeout=60) as client:
            yield client, psutil.Process(process.pid)
    finally:
        process.terminate()
        process.communicate()


def body_of(kilobytes: int) -> bytes:
    """Return a request whose prompt has this size."""
    messages = [{"role": "user", "content": "word " * 200}] * kilobytes
    return json.dumps({"messages": messages, "stream": True}).encode()


def measure(client: httpx.Client, body: bytes, tokens: int, pause: float) -> tuple[float, float]:
    """Return the seconds of a request until its first byte, and until its end."""
    headers = {"x-tokens": str(tokens), "x-pause": str(pause), "content-type": "application/json"}
    started = time.perf_counter()
    with client.stream("POST", PATH, content=body, headers=headers) as reply:
        first = None
        for _ in reply.iter_raw():
            first = first or time.perf_counter()
    ended = time.perf_counter()
    return (first or ended) - started, ended - started


def cpu_seconds(process: psutil.Process) -> float:
    """Return the processor time of a process, without that of its children."""
    times = process.cpu_times()
    return float(times.user + times.system)


def run(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure all cases, directly and through the router in turns."""
    cases = [(f"request, {size} kB", body_of(size), 1, 0.0, options.requests) for size in (1, 100)]
    cases.append(("stream", body_of(1), options.tokens, options.pause, options.streams))
    rows = []
    with running("direct") as direct, running("router") as routed:
        for name, body, tokens, pause, count in cases:
            found: dict[str, list[tuple[float, float]]] = {"direct": [], "router": []}
            for client, _ in (direct, routed):
                measure(client, body, tokens, pause)
            before = cpu_seconds(routed[1])
            for _ in range(count):
                for arm, (client, _) in (("direct", direct), ("router", routed)):
                    found[arm].append(measure(client, body, tokens, pause))
            cpu = (cpu_seconds(routed[1]) - before) / count
            row: dict[str, Any] = {"case": name, "tokens": tokens, "count": count}
            for arm, times in found.items():
                row[f"{arm}_first_ms"] = median(first for first, _ in times) * 1e3
                row[f"{arm}_ms"] = median(total for _, total in times) * 1e3
            row["ratio"] = row["router_ms"] / row["direct_ms"]
            row["router_cpu_ms"] = cpu * 1e3
            rows.append(row)
    request_cpu, stream_cpu = rows[0]["router_cpu_ms"], rows[-1]["router_cpu_ms"]
    rows[-1]["router_cpu_us_per_token"] = (stream_cpu - request_cpu) / options.tokens * 1e3
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--role", choices=ROLES, help=argparse.SUPPRESS)
    parser.add_argument("--requests", type=positive, default=300)
    parser.add_argument("--streams", type=positive, default=10)
    parser.add_argument("--tokens", type=positive, default=300, help="tokens of a stream")
    parser.add_argument("--pause", type=float, default=0.005, help="seconds between two tokens")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    options = parser.parse_args(arguments)
    if options.role is not None:
        ROLES[options.role]()
        return
    rows = run(options)
    for row in rows:
        print(
            f"{row['case']:16} direct {row['direct_ms']:8.2f} ms  router {row['router_ms']:8.2f} ms"
            f"  ratio {row['ratio']:.3f}  first byte {row['direct_first_ms']:.2f} and "
            f"{row['router_first_ms']:.2f} ms  router's CPU {row['router_cpu_ms']:.2f} ms"
        )
    print(f"router's CPU per token {rows[-1]['router_cpu_us_per_token']:.0f} µs")
    if options.json is not None:
        write_record(options.json, {"environment": environment(), "rows": rows})


if __name__ == "__main__":
    main()
