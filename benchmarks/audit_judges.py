"""Compare two validators with each other, and with the labels of MaskBench's instances.

The labels decide which verdicts of engines are wrong in ``audit``. jsonschema and jsonschema-rs
judge the same instances here, with formats asserted. An instance on which they differ, or whose
label both contradict, is counted by its format or keyword, with the engine's own verdict.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jsonschema_rs
import referencing.exceptions
from arguments import environment
from audit_keywords import validator_of
from jsonschema import FormatChecker
from jsonschema.exceptions import UnknownType, ValidationError
from records import write_record
from tables import aligned

from state_machines import JsonSchemaStateMachine
from state_machines.errors import ProxyError

__all__ = ["Judges", "judge_cases", "judge_rows", "main"]

_PACKAGES = {"jsonschema": "jsonschema", "jsonschema-rs": "jsonschema-rs", "ours": "proxy-engine"}


@dataclass(frozen=True)
class Judges:
    """The judges of one schema. A verdict is ``None`` where a judge refuses the schema."""

    schema: Any

    def by_jsonschema(self, instance: Any) -> bool | None:
        """Return the verdict of jsonschema, with the formats of the schema's draft."""
        try:
            return bool(validator_of(self.schema).is_valid(instance))
        except (referencing.exceptions.Unresolvable, UnknownType):
            return None

    def by_jsonschema_rs(self, instance: Any) -> bool | None:
        """Return the verdict of jsonschema-rs."""
        try:
            validator = jsonschema_rs.validator_for(self.schema, validate_formats=True)
        except (ValueError, jsonschema_rs.ValidationError):
            return None
        return bool(validator.is_valid(instance))

    def by_engine(self, instance: Any) -> bool | None:
        """Return whether masks admit the instance, with members in any order."""
        try:
            machine = JsonSchemaStateMachine(self.schema, property_order="any")
        except ProxyError:
            return None
        return machine.matches(json.dumps(instance, ensure_ascii=False))

    def cause(self, instance: Any) -> str:
        """Return the formats that refuse an instance in any draft, or else the keywords."""
        validator = validator_of(self.schema, FormatChecker())
        names = {_name(error) for error in _leaves(validator.iter_errors(instance))}
        try:
            second = jsonschema_rs.validator_for(self.schema, validate_formats=True)
            names |= {kind for error in second.iter_errors(instance) for kind in _kinds(error)}
        except (ValueError, jsonschema_rs.ValidationError):
            return "the schema"
        formats = {name for name in names if name.startswith("format")}
        return ", ".join(sorted(formats or names)) or "unknown"


def _leaves(errors: Iterable[ValidationError]) -> Iterator[ValidationError]:
    """Yield the innermost errors: those of the branches of ``anyOf`` and ``oneOf``."""
    for error in errors:
        if error.context:
            yield from _leaves(error.context)
        else:
            yield error


def _name(error: ValidationError) -> str:
    keyword = str(error.validator)
    return f"format {error.validator_value}" if keyword == "format" else keyword


def _kinds(error: jsonschema_rs.ValidationError) -> Iterator[str]:
    kind: Any = error.kind
    branches = getattr(kind, "context", ())
    for branch in branches:
        for inner in branch:
            yield from _kinds(inner)
    if not branches:
        yield f"format {kind.format}" if kind.name == "format" else str(kind.name)


def judge_cases(records: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Count the instances on which the judges differ, or both contradict the label."""
    instances = 0
    found = Counter[tuple[str, bool, bool | None, bool | None, bool | None]]()
    for record in records:
        judges = Judges(record["schema"])
        for test in record["tests"]:
            instances += 1
            value, label = test["data"], test["valid"]
            first, second = judges.by_jsonschema(value), judges.by_jsonschema_rs(value)
            if first is second is label:
                continue
            found[judges.cause(value), label, first, second, judges.by_engine(value)] += 1
    return {
        "instances": instances,
        "differences": [
            {"cause": key[0], "verdicts": list(key[1:]), "instances": count}
            for key, count in found.most_common()
        ],
    }


def judge_rows(report: dict[str, Any]) -> list[list[str]]:
    """Return a row for each cause and its verdicts."""
    names = [f"{name} {number}" for name, number in report["versions"].items()]
    rows = [["cause", "instances", "label", *names]]
    for difference in report["differences"]:
        verdicts = [_VERDICTS[verdict] for verdict in difference["verdicts"]]
        rows.append([difference["cause"], str(difference["instances"]), *verdicts])
    return rows


_VERDICTS = {True: "valid", False: "invalid", None: "schema refused"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns its exit status."""
    parser = argparse.ArgumentParser(prog="audit_judges.py", description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="cases (.jsonl.gz)")
    parser.add_argument("--json", type=Path, help="write all figures here")
    options = parser.parse_args(arguments)
    with gzip.open(options.data, "rt", encoding="utf-8") as file:
        figures = judge_cases(map(json.loads, file))
    report = {
        "environment": {"data": options.data.name, **environment()},
        "versions": {name: version(package) for name, package in _PACKAGES.items()},
        **figures,
    }
    if options.json:
        write_record(options.json, report)
    print(aligned(judge_rows(report), texts=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
