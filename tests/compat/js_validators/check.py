"""Texts under the masks are read by the validators of JavaScript whose JSON Schemas are compiled.

``python tests/compat/js_validators/check.py [NAME …]`` installs the pinned libraries in a temporary
directory, compiles the schemas of all types (of the libraries whose names contain a NAME), draws texts
and lets the library's own validator read them. Each type that refuses a text has an entry in
``ledger.jsonl``: the reason, and a text. The exit status is 1 if

* a schema is refused that the ledger does not list;
* a type refuses a text, and the ledger does not list the type;
* the text of an entry is not admitted by the masks or is read by the type, so the entry is stale.

``--write`` writes new entries with the reason "?", to be filled in, and removes stale ones.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from probes import TEXTS
from type_draws import draw_texts

from state_machines import JsonSchemaStateMachine, ProxyError

HERE = Path(__file__).parent
LEDGER = HERE / "ledger.jsonl"
SECONDS = 300

_DRAWS = 20
"""Texts that are drawn one after another, each with preference for what is rare so far."""


@dataclass(frozen=True)
class Entry:
    """A type whose reader refuses a text of the masks, or whose schema is refused.

    Attributes:
        library: The library.
        name: The type.
        target: The target of the conversion; ``*`` for all.
        reason: Why.
        text: A text that the masks admit and the type refuses; empty if the schema is refused.
    """

    library: str
    name: str
    target: str
    reason: str
    text: str


@dataclass
class Emitted:
    """A type's JSON Schema for one target, and what came of it."""

    library: str
    name: str
    target: str
    schema: Any
    machine: JsonSchemaStateMachine | None = None
    error: str = ""
    refused: list[tuple[str, str]] = field(default_factory=list)


def run_node(directory: Path, command: str, lines: Sequence[str] = ()) -> list[Any]:
    """Run the script once, and return the lines that it prints."""
    finished = subprocess.run(
        ["node", "readers.mjs", command],
        cwd=directory,
        input="\n".join(lines),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    return [json.loads(line) for line in finished.stdout.splitlines()]


def installed(directory: Path) -> None:
    """Copy the scripts into a directory and install the libraries there."""
    for path in HERE.iterdir():
        if path.suffix in (".mjs", ".json"):
            shutil.copy(path, directory)
    subprocess.run(
        ["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"],
        cwd=directory,
        timeout=SECONDS,
        check=True,
    )


def compiled(lines: Sequence[Any], names: Sequence[str]) -> Iterator[Emitted]:
    """Compile the schemas as the engine does."""
    for line in lines:
        if "schema" not in line or (names and not any(each in line["library"] for each in names)):
            continue
        each = Emitted(**line)
        try:
            each.machine = JsonSchemaStateMachine(
                each.schema, whitespace="spaced", additional_properties="closed"
            )
        except ProxyError as error:
            each.error = str(error)
        yield each


def is_read_back(each: Emitted) -> bool:
    """Whether texts of the schema are inputs of the type."""
    return each.machine is not None and not each.target.endswith("output")


def drawn(each: Emitted, count: int) -> Iterator[str]:
    """Yield texts of a schema; draws without a completion within the budget are left out."""
    assert each.machine is not None
    yield from filter(each.machine.matches, TEXTS)
    for number in range(0, count, _DRAWS):
        try:
            yield from draw_texts(each.machine, f"{each.library} {each.name} {number}", _DRAWS)
        except AssertionError as error:
            if "no completion" not in str(error):
                raise


def read_texts(directory: Path, types: Sequence[Emitted], texts: Sequence[Sequence[str]]) -> None:
    """Let the types read their texts, and store those that they refuse."""
    pairs = [
        (each, text) for each, its in zip(types, texts, strict=True) for text in dict.fromkeys(its)
    ]
    lines = [
        json.dumps({"library": each.library, "name": each.name, "text": text})
        for each, text in pairs
    ]
    for (each, text), answer in zip(pairs, run_node(directory, "read", lines), strict=True):
        if answer["problem"] is not None:
            each.refused.append((text, answer["problem"]))


def read_ledger() -> list[Entry]:
    """Read the committed ledger."""
    lines = LEDGER.read_text(encoding="utf-8").splitlines() if LEDGER.exists() else []
    return [Entry(**json.loads(line)) for line in lines]


def write_ledger(entries: Sequence[Entry]) -> None:
    """Write the ledger."""
    lines = [json.dumps(asdict(entry), ensure_ascii=False) + "\n" for entry in entries]
    LEDGER.write_text("".join(lines), encoding="utf-8")


def entry_of(entries: Sequence[Entry], each: Emitted) -> Entry | None:
    """Return the entry of a type and target."""
    return next(
        (
            entry
            for entry in entries
            if (entry.library, entry.name) == (each.library, each.name)
            and entry.target in ("*", each.target)
            and bool(entry.text) == (each.machine is not None)
        ),
        None,
    )


def check(directory: Path, names: Sequence[str], count: int) -> tuple[list[Emitted], list[Emitted]]:
    """Return all schemas with the drawn texts that are refused, and those of the ledger's texts."""
    schemas = list(compiled(run_node(directory, "emit"), names))
    types = [each for each in schemas if is_read_back(each)]
    texts = [list(drawn(each, count)) for each in types]
    read_texts(directory, types, texts)
    listed = []
    for entry in read_ledger():
        found = [each for each in types if entry_of([entry], each) is entry and entry.text]
        for each in found[:1]:
            assert each.machine is not None
            again = Emitted(each.library, each.name, entry.target, each.schema, each.machine)
            if not each.machine.matches(entry.text):
                again.error = "not admitted"
            listed.append(again)
            again.refused = [(entry.text, "")]
    texts = [[text for text, _ in each.refused] for each in listed]
    for each in listed:
        each.refused = []
    read_texts(directory, listed, texts)
    return schemas, listed


def report(schemas: Sequence[Emitted]) -> None:
    """Print the number of types by library: all, and those that refuse an admitted text."""
    types: Counter[str] = Counter()
    refusing: Counter[str] = Counter()
    for library, name in dict.fromkeys((each.library, each.name) for each in schemas):
        of_type = [each for each in schemas if (each.library, each.name) == (library, name)]
        types[library] += 1
        refusing[library] += bool(of_type[0].refused)
    for library, number in types.items():
        print(f"{library}: {refusing[library]} of {number} types refuse an admitted text")


def main() -> int:
    """Run the check; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="only libraries whose names contain a NAME")
    parser.add_argument("--count", type=int, default=80, help="texts of a schema")
    parser.add_argument("--write", action="store_true", help="write the ledger")
    arguments = parser.parse_args()
    if not (shutil.which("node") and shutil.which("npm")):
        print("left out: node or npm is missing", file=sys.stderr)
        return 0
    with tempfile.TemporaryDirectory() as name:
        directory = Path(os.environ.get("JS_READERS", name))
        if directory == Path(name):
            installed(directory)
        schemas, listed = check(directory, arguments.names, arguments.count)
    # Messages may end in half a surrogate pair.
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    report(schemas)
    entries = read_ledger()
    missing: list[Entry] = []
    for each in schemas:
        if entry_of([*entries, *missing], each) is None and (each.error or each.refused):
            text, problem = each.refused[0] if each.refused else ("", each.error)
            print(f"NOT LISTED {each.library}: {each.name} ({each.target}): {text} {problem}")
            missing.append(Entry(each.library, each.name, "*", "?", text))
    stale = [each for each in listed if each.error or not each.refused]
    for each in stale:
        print(f"STALE {each.library}: {each.name} {each.error}")
    if arguments.write:
        gone = {(each.library, each.name, each.target) for each in stale}
        kept = [each for each in entries if (each.library, each.name, each.target) not in gone]
        write_ledger([*kept, *missing])
    return 1 if missing or stale else 0


if __name__ == "__main__":
    sys.exit(main())
