"""Turn the test cases of outlines-core into cases for the audit.

The source distribution of outlines-core on PyPI has a table of schemas in its Rust tests, each with
texts that its regular expression matches, and texts that it does not match. Whether a text
is valid is judged by jsonschema and jsonschema-rs instead, since the expressions are narrower than
the schemas. Texts that are no JSON, and those on which the judges differ, are left out.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from audit_judges import Judges

__all__ = ["main", "read_table"]

_FILE = "src/json_schema/mod.rs"
_TABLE = re.compile(
    r"fn test_schema_matches_regex\(\)(.*?)fn with_whitespace_patterns\(\)", re.DOTALL
)
_TOKEN = re.compile(
    r"""
    (?P<comment>//[^\n]*)
    | r(?P<hashes>\#+)"(?P<raw>.*?)"(?P=hashes)
    | "(?P<plain>(?:[^"\\]|\\.)*)"
    | (?P<list>vec!\[)
    | (?P<end>\])
    """,
    re.VERBOSE | re.DOTALL,
)


def read_table(source: str) -> Iterator[tuple[Any, list[str]]]:
    """Yield each schema of the table of tests with its texts, of both kinds.

    A row has the schema, the regular expression unless it is left to the test, and two lists.
    """
    table = _TABLE.search(source)
    if table is None:
        raise ValueError("the file has no table of schemas and texts")
    schema: str | None = None
    texts: list[str] = []
    lists = 0
    is_within = False
    for token in _TOKEN.finditer(table[1]):
        text = token["raw"] if token["raw"] is not None else token["plain"]
        if token["list"]:
            is_within = True
        elif token["end"] and is_within:
            is_within = False
            lists += 1
            if lists == 2 and schema is not None:
                yield json.loads(schema), texts
                schema, texts, lists = None, [], 0
        elif text is not None and is_within:
            texts.append(text)
        elif text is not None and schema is None and text.lstrip().startswith("{"):
            schema = text


def _as_case(number: int, schema: Any, texts: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Return a case in the form of MaskBench, and the texts that are left out."""
    judges = Judges(schema)
    tests, left_out = [], []
    for text in texts:
        try:
            value = json.loads(text)
        except ValueError:
            left_out.append(text)
            continue
        verdict = judges.by_jsonschema(value)
        if verdict is None or verdict is not judges.by_jsonschema_rs(value):
            left_out.append(text)
        else:
            tests.append({"data": value, "valid": verdict})
    return {"name": f"outlines-core-{number}", "schema": schema, "tests": tests}, left_out


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns its exit status."""
    parser = argparse.ArgumentParser(
        prog="audit_outlines_cases.py", description=__doc__.splitlines()[0]
    )
    parser.add_argument("sdist", type=Path, help="outlines_core-VERSION.tar.gz, or its folder")
    parser.add_argument("out", type=Path, help="the cases (.jsonl.gz)")
    options = parser.parse_args(arguments)
    rows = list(read_table(_source(options.sdist)))
    dropped = 0
    with gzip.open(options.out, "wt", encoding="utf-8") as file:
        for number, (schema, texts) in enumerate(rows, start=1):
            case, left_out = _as_case(number, schema, texts)
            dropped += len(left_out)
            file.write(json.dumps(case) + "\n")
    print(
        f"{len(rows)} schemas; {dropped} of {sum(len(texts) for _, texts in rows)} texts left out"
    )
    return 0


def _source(sdist: Path) -> str:
    if sdist.is_dir():
        return (sdist / _FILE).read_text(encoding="utf-8")
    with tarfile.open(sdist) as archive:
        (member,) = (name for name in archive.getnames() if name.endswith(_FILE))
        file = archive.extractfile(member)
        if file is None:
            raise SystemExit(f"{member} of {sdist} is no file")
        return file.read().decode()


if __name__ == "__main__":
    sys.exit(main())
