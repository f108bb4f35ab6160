"""Run the clients against a server with the embedded model, and write ``docs/compatibility.md``.

``python tests/compat/run.py [NAME …]`` runs all clients, or those whose names contain a NAME; the
results of the others stay. Coding agents run only if they are named. ``--table`` writes the document from the stored results alone.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence

from agent_engine import agent_engine
from environments import CLIENTS, Agent, Client
from failing_engine import FAILING_PROMPT, FailingEngine
from live_server import serving_engine
from results import DOCUMENT, Result, read_results, with_section, write_results
from sections import sections

from proxy_engine.models.embedded import EMBEDDED_MODEL, embedded_model

_SECONDS = 900
_logger = logging.getLogger("proxy_engine")


def results_of(client: Client, environment: dict[str, str]) -> Iterator[Result]:
    """Install a client, run its script, and yield the results."""
    try:
        client.install()
    except (OSError, subprocess.CalledProcessError) as error:
        packages = " ".join(client.packages)
        yield Result(client.name, "", "installation", False, packages, str(error))
        return
    version = client.version()
    try:
        finished = subprocess.run(
            client.command(),
            env=client.environment(environment),
            stdout=subprocess.PIPE,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        output, problem = finished.stdout, f"exit status {finished.returncode}"
    except subprocess.TimeoutExpired as error:
        output, problem = (error.stdout or b"").decode(), f"no end after {_SECONDS} seconds"
    lines = [line for line in output.splitlines() if line.startswith('{"feature"')]
    for line in lines:
        yield Result(client.name, version, **json.loads(line))
    if not lines or "seconds" in problem:
        yield Result(client.name, version, "script", False, client.script, problem)


def run(clients: Sequence[Client]) -> list[Result]:
    """Run clients one after another against one server."""
    # The failures that the clients ask for are no news.
    _logger.setLevel(logging.CRITICAL)
    results = []
    with (
        FailingEngine() as engine,
        serving_engine(engine) as live,
        agent_engine() as scripted,
        serving_engine(scripted, aliases=("*",), max_compile_seconds=30) as agents,
    ):
        environment = {
            **os.environ,
            "COMPAT_SERVER": live.url,
            "COMPAT_AGENT_SERVER": agents.url,
            "COMPAT_MODEL": EMBEDDED_MODEL,
            "COMPAT_TOKENIZER": str(embedded_model()),
            "COMPAT_FAILING_PROMPT": FAILING_PROMPT,
        }
        for client in clients:
            if reason := client.missing():
                print(f"{client.name} is left out: {reason}", file=sys.stderr)
                continue
            for result in results_of(client, environment):
                results.append(result)
                shown = "yes" if result.works else f"NO: {result.problem}"
                print(f"{result.client}: {result.feature} ({result.how}): {shown}", flush=True)
    return results


def merged(stored: Sequence[Result], new: Sequence[Result]) -> list[Result]:
    """Replace the stored results of the clients that ran, in the order of the clients."""
    ran = {result.client for result in new}
    kept = [result for result in stored if result.client not in ran]
    order = [client.name for client in CLIENTS]
    known = [result for result in [*kept, *new] if result.client in order]
    return sorted(known, key=lambda result: order.index(result.client))


def _is_chosen(client: Client, names: Sequence[str]) -> bool:
    return any(name in client.name for name in names) if names else not isinstance(client, Agent)


def main() -> int:
    """Run the clients, store the results and write the document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="run the clients whose names contain one of these")
    parser.add_argument("--table", action="store_true", help="write the document only")
    arguments = parser.parse_args()
    if not arguments.table:
        names = arguments.names
        chosen = [client for client in CLIENTS if _is_chosen(client, names)]
        write_results(merged(read_results(), run(chosen)))
    document = DOCUMENT.read_text(encoding="utf-8")
    for name, content in sections(read_results()).items():
        document = with_section(document, name, content)
    DOCUMENT.write_text(document, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
