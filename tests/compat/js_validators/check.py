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
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
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
        target: The targets of the conversion, separated by ", "; ``*`` for all.
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


def is_of(entry: Entry, each: Emitted) -> bool:
    """Whether an entry is about a type and its target."""
    is_target = entry.target == "*" or each.target in entry.target.split(", ")
    return is_target and (entry.library, entry.name) == (each.library, each.name)


def is_listed(entries: Sequence[Entry], each: Emitted) -> bool:
    """Whether the ledger lists the refused schema, or the refused texts, of a type."""
    return any(is_of(entry, each) and bool(entry.text) != bool(each.error) for entry in entries)


def check(directory: Path, names: Sequence[str], count: int) -> tuple[list[Emitted], list[Entry]]:
    """Return all schemas, with the drawn texts that are refused, and the stale entries."""
    schemas = list(compiled(run_node(directory, "emit"), names))
    types = [each for each in schemas if is_read_back(each)]
    read_texts(directory, types, [list(drawn(each, count)) for each in types])
    examples = []
    stale = []
    for entry in read_ledger():
        same = [each for each in schemas if is_of(entry, each)]
        found = next((each for each in same if bool(each.error) != bool(entry.text)), None)
        if found is None:
            stale.extend([entry] if same else [])
        elif found.machine is not None:
            if found.machine.matches(entry.text):
                examples.append((entry, replace(found, refused=[])))
            else:
                stale.append(entry)
    read_texts(directory, [each for _, each in examples], [[entry.text] for entry, _ in examples])
    stale += [entry for entry, each in examples if not each.refused]
    return schemas, stale


def report(schemas: Sequence[Emitted]) -> None:
    """Print the numbers of each library, for the first target of a type."""
    first: dict[tuple[str, str], Emitted] = {}
    for each in schemas:
        first.setdefault((each.library, each.name), each)
    for library in dict.fromkeys(each.library for each in schemas):
        types = [each for each in first.values() if each.library == library]
        refusing = sum(bool(each.refused) for each in types)
        refused = sum(bool(each.error) for each in schemas if each.library == library)
        print(
            f"{library}: {refusing} of {len(types)} types refuse an admitted text, "
            f"{refused} of {sum(each.library == library for each in schemas)} schemas are refused"
        )


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
        schemas, stale = check(directory, arguments.names, arguments.count)
    # Messages may end in half a surrogate pair.
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    report(schemas)
    entries = read_ledger()
    missing: list[Entry] = []
    for each in schemas:
        if (each.error or each.refused) and not is_listed([*entries, *missing], each):
            text, problem = each.refused[0] if each.refused else ("", each.error)
            print(f"NOT LISTED {each.library}: {each.name} ({each.target}): {text} {problem}")
            missing.append(Entry(each.library, each.name, "*", "?", text))
    for entry in stale:
        print(f"STALE {entry.library}: {entry.name} ({entry.target}): {entry.text}")
    if arguments.write:
        write_ledger([*(entry for entry in entries if entry not in stale), *missing])
    return 1 if missing or stale else 0


if __name__ == "__main__":
    sys.exit(main())
