"""Processor time of a server for requests with different schemas, at once and one after another.

``python benchmarks/schemas_at_once.py [--model 2x64 or DIRECTORY] [--requests 16] [--repeats 5]``

Both ways take turns. A set of requests is sent at once, and an equal set one after the other: with
schemas that the server has not met, and with the same schemas again. The processor time is that of
the server's process, the least of all repeats, since other processes can only add to it.
``--checkout`` measures another checkout's server; sets of requests are the same for all.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
from arguments import environment, positive
from hostile_load_server import Launch, Server, running
from random_models import save_random_model, size
from records import write_record

__all__ = ["main", "schema"]

_TOPICS = ("order", "patient", "flight", "invoice", "recipe", "song", "animal", "city", "car")
_WORDS = ("name", "state", "code", "kind", "place", "owner", "color", "grade", "level", "shape")
_SECONDS = 120


def schema(draw: random.Random) -> dict[str, Any]:
    """Return an object of five or six short properties, different for each draw."""
    words = draw.sample(_WORDS, draw.choice((5, 6)))
    names = [f"{word}_{draw.randrange(10_000)}" for word in words]
    kinds: list[dict[str, Any]] = [
        {"type": "string", "maxLength": draw.randint(8, 16)},
        {"type": "integer", "minimum": 0, "maximum": draw.randint(50, 5000)},
        {"enum": [f"{word}-{draw.randrange(100)}" for word in draw.sample(_WORDS, 4)]},
        {"type": "boolean"},
        {
            "type": "array",
            "items": {"enum": draw.sample(_TOPICS, 3)},
            "minItems": 1,
            "maxItems": draw.randint(2, 3),
        },
        {"type": "string", "pattern": f"^[A-F]{{2}}-[0-9]{{{draw.randint(2, 4)}}}$"},
    ]
    draw.shuffle(kinds)
    properties = dict(zip(names, kinds, strict=False))
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def request(draw: random.Random, *, streams: bool) -> dict[str, Any]:
    """Return the body of a request for a chat completion."""
    form = {"name": "answer", "schema": schema(draw), "strict": True}
    return {
        "messages": [{"role": "user", "content": f"Describe a {draw.choice(_TOPICS)}."}],
        "response_format": {"type": "json_schema", "json_schema": form},
        "max_tokens": 200,
        "stream": streams,
    }


async def _send(client: httpx.AsyncClient, body: dict[str, Any]) -> int:
    response = await client.post("/v1/chat/completions", json=body)
    if response.status_code != 200:
        raise SystemExit(f"{response.status_code}: {response.text[:500]}")
    if body["stream"]:
        return response.text.count("\ndata: ")
    return int(response.json()["usage"]["completion_tokens"])


async def _seconds(
    server: Server, client: httpx.AsyncClient, bodies: Sequence[dict[str, Any]], *, at_once: bool
) -> tuple[float, int]:
    """Return the processor time of requests, and their tokens."""
    before = server.processor_seconds()
    if at_once:
        tokens = sum(await asyncio.gather(*(_send(client, body) for body in bodies)))
    else:
        tokens = sum([await _send(client, body) for body in bodies])
    return server.processor_seconds() - before, tokens


async def measure(
    server: Server, repeats: int, count: int, *, streams: bool
) -> dict[str, dict[str, list[float]]]:
    """Return processor seconds: of new and known schemas, alone and at once."""
    url = "http://{}:{}".format(*server.address)
    limits = httpx.Limits(max_connections=count, max_keepalive_connections=count)
    found: dict[str, dict[str, list[float]]] = {
        kind: {"alone": [], "at once": []} for kind in ("new", "known")
    }
    async with httpx.AsyncClient(base_url=url, limits=limits, timeout=_SECONDS) as client:
        for repeat in range(-1, repeats):
            for way in ("alone", "at once"):
                draw = random.Random(f"{way} {repeat}")
                bodies = [request(draw, streams=streams) for _ in range(count)]
                for kind in ("new", "known"):
                    used, tokens = await _seconds(server, client, bodies, at_once=way == "at once")
                    # The first round warms up.
                    if repeat >= 0:
                        found[kind][way].append(used / tokens * 1e6)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns its exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", help="LAYERSxWIDTH, or a directory; default: the embedded model")
    parser.add_argument("--requests", type=positive, default=16)
    parser.add_argument("--repeats", type=positive, default=5)
    parser.add_argument("--streams", action="store_true", help="event streams")
    parser.add_argument("--checkout", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    with _model(options.model) as model:
        launch = Launch(options.python, options.checkout.resolve(), model)
        with running(launch) as server:
            found = asyncio.run(
                measure(server, options.repeats, options.requests, streams=options.streams)
            )
    for kind, ways in found.items():
        alone, at_once = ways["alone"], ways["at once"]
        ratio = min(at_once) / min(alone)
        median = statistics.median(at_once) / statistics.median(alone)
        print(
            f"{kind} schemas: {min(alone):.0f} us a token one after another, "
            f"{min(at_once):.0f} at once; ratio {ratio:.2f} (of medians {median:.2f})"
        )
    if options.json:
        write_record(options.json, {"environment": environment(), "microseconds": found})
    return 0


@contextlib.contextmanager
def _model(name: str | None) -> Iterator[str | None]:
    if name is None or Path(name).is_dir():
        yield name
        return
    with tempfile.TemporaryDirectory() as directory:
        save_random_model(size(name), Path(directory))
        yield directory


if __name__ == "__main__":
    sys.exit(main())
