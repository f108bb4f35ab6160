"""A server's memory, and the pauses of its garbage collector, over many requests.

Constraints of all sorts take turns. Most of them were never seen before, so that whatever a server
keeps of a constraint without a bound shows as growth. The prompt cache is off: it would grow to
2 GiB, its bound.
"""

from __future__ import annotations

import itertools
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from hostile_inputs import chat_body, schema_field
from hostile_load_clients import StreamProbe, send
from hostile_load_server import Launch, Server, running

__all__ = ["MIXED", "body", "soak", "soak_rows"]

_MIB = 1 << 20
_CLIENTS = 4
_POINTS = 24
_SECONDS = 120
_SECONDS_TO_IDLE = 20
_SECONDS_TO_COLLECT = 1.0
_LONGEST_PAUSE = 0.01
_MOST_PAUSES = 50
_TOKENS = 24


def _order(chance: random.Random, number: int) -> Any:
    """Return the schema of an order; its names and bounds depend on ``number``."""
    names = [f"{word}_{number}" for word in ("id", "title", "amount", "tags", "state", "extra")]
    values: list[Any] = [
        {"type": "string", "pattern": f"^[A-Z]{{2}}-{number % 97}[0-9]{{1,4}}$"},
        {"type": "string", "maxLength": chance.randint(5, 60)},
        {"type": "number", "minimum": 0, "maximum": number + 1},
        {"type": "array", "items": {"type": "string", "maxLength": 9}, "maxItems": 4},
        {"enum": [f"open {number}", "closed", None]},
        {"anyOf": [{"type": "integer"}, {"type": "boolean"}]},
    ]
    return {
        "type": "object",
        "properties": dict(zip(names, values, strict=True)),
        "required": names[: chance.randint(1, 2)],
        "additionalProperties": False,
    }


def _tools(chance: random.Random, number: int) -> dict[str, Any]:
    function = {"name": f"look_up_{number}", "parameters": _order(chance, number)}
    return {
        "tools": [{"type": "function", "function": function}],
        "tool_choice": chance.choice(["auto", "required"]),
        "max_tokens": 160,
    }


Fields = Callable[[random.Random, int], dict[str, Any]]

MIXED: Sequence[tuple[str, Fields]] = [
    ("new schema", lambda chance, n: schema_field(_order(chance, n))),
    ("known schema", lambda chance, n: schema_field(_order(random.Random(0), n % 16))),
    ("plain", lambda chance, n: {"seed": n, "temperature": 1}),
    ("pattern", lambda chance, n: {"regex": f"(?:item|thing) {n}(?:, [a-z]{{1,9}}){{0,3}}\\."}),
    ("choice", lambda chance, n: {"choice": [f"{word} {n}" for word in ("red", "green", "blue")]}),
    (
        "grammar",
        lambda chance, n: {
            "grammar": f'root ::= item ("," item)* "{n}"\nitem ::= [a-z]+ | "(" item ")"'
        },
    ),
    ("tools", _tools),
    ("JSON object", lambda chance, n: {"response_format": {"type": "json_object"}}),
    ("stop texts", lambda chance, n: {"stop": [f"{n}", "."], "seed": n, "temperature": 1}),
    (
        "any names",
        lambda chance, n: schema_field(
            {"type": "object", "additionalProperties": {"enum": [n, n + 1]}, "minProperties": 1}
        ),
    ),
    (
        "unique items",
        lambda chance, n: schema_field(
            {"type": "array", "items": {"enum": [n, n + 1, "a", "b"]}, "uniqueItems": True}
        ),
    ),
]
"""The sorts of constraints, each with the fields of a request."""


def body(number: int) -> bytes:
    """Return the request with a number."""
    chance = random.Random(number)
    _, fields = MIXED[number % len(MIXED)]
    given = {"max_tokens": _TOKENS, **fields(chance, number)}
    return chat_body(f"Say something about the number {number}.", **given)


def soak(launch: Launch, requests: int) -> dict[str, Any]:
    """Send ``count`` requests beside a running stream.

    Returns:
        ``points``: resident memory by number of requests. ``outcomes``: counts of responses.
        ``tokens`` of the stream, its ``largest_gap``, and the longest ``pauses`` by the garbage
        collector: generation, seconds, seconds of processor time. ``idle_pause``: processor time
        of the longest one after the last request.
    """
    with running(replace(launch, has_prompt_cache=False)) as server:
        stream = StreamProbe()
        stop = threading.Event()
        reader = threading.Thread(
            target=stream.run, args=(server.address, stop, _SECONDS), daemon=True
        )
        reader.start()
        points: list[list[float]] = []
        outcomes: Counter[str] = Counter()
        began = time.monotonic()
        every = max(1, requests // _POINTS)
        for first in range(0, requests, every):
            _send_together(server, range(first, min(first + every, requests)), outcomes)
            sent = min(first + every, requests)
            points.append([sent, server.resident_bytes()])
            print(f"  {sent}: {points[-1][1] / _MIB:.0f} MiB", file=sys.stderr, flush=True)
        ended = time.monotonic()
        stop.set()
        server.wait_until_idle(ended + _SECONDS_TO_IDLE)
        time.sleep(_SECONDS_TO_COLLECT)
        idle = [pause.cpu_seconds for pause in server.pauses if pause.ended > ended]
        pauses = [pause for pause in server.pauses if began < pause.ended < ended]
        pauses.sort(key=lambda pause: -pause.cpu_seconds)
        return {
            "points": points,
            "outcomes": dict(outcomes),
            "seconds": round(ended - began, 1),
            "tokens": stream.tokens,
            "largest_gap": round(stream.largest_gap, 4),
            "pauses": [[p.generation, p.seconds, p.cpu_seconds] for p in pauses[:_MOST_PAUSES]],
            "idle_pause": max(idle, default=0.0),
            "long_pauses": sum(pause.cpu_seconds > _LONGEST_PAUSE for pause in pauses),
        }


def _send_together(server: Server, numbers: Sequence[int], outcomes: Counter[str]) -> None:
    """Send requests, a few at a time."""
    left = itertools.chain(numbers)
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                number = next(left, None)
            if number is None:
                return
            try:
                said = send(server.address, body(number), _SECONDS)
            except OSError as error:
                said = type(error).__name__
            with lock:
                outcomes[said] += 1

    clients = [threading.Thread(target=work) for _ in range(_CLIENTS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()


def soak_rows(found: dict[str, Any]) -> list[list[str]]:
    """Return the table: memory by requests, and below it the rest."""
    rows = [["requests", "MiB"]]
    rows += [[f"{int(sent)}", f"{size / _MIB:.1f}"] for sent, size in found["points"]]
    pauses = found["pauses"]
    rows.append(["tokens of the stream", f"{found['tokens']}"])
    rows.append(["largest gap, ms", f"{found['largest_gap'] * 1e3:.0f}"])
    longest = max((cpu_seconds for _, _, cpu_seconds in pauses), default=0.0)
    rows.append(["longest GC pause, CPU ms", f"{longest * 1e3:.1f}"])
    rows.append(["longest while idle, CPU ms", f"{found['idle_pause'] * 1e3:.1f}"])
    rows.append(["GC pauses above 10 ms", f"{found['long_pauses']}"])
    return rows
