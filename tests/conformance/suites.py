"""The official JSON Schema suite and MaskBench, and the settings that each is judged with."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

from data_files import maskbench_schemas, suite_groups, suite_remotes
from jsonschema.validators import Draft202012Validator, validator_for
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT4, DRAFT6, DRAFT7, DRAFT201909, DRAFT202012
from verdicts import Case, Verdict, judge, written

from state_machines import JsonSchemaStateMachine, ProxyError, Vocabulary

__all__ = [
    "explained",
    "in_fixed_tenth",
    "judge_maskbench",
    "judge_official",
    "maskbench",
    "official",
]

_DIALECTS = {
    "draft4": ("http://json-schema.org/draft-04/schema#", DRAFT4),
    "draft6": ("http://json-schema.org/draft-06/schema#", DRAFT6),
    "draft7": ("http://json-schema.org/draft-07/schema#", DRAFT7),
    "draft2019-09": ("https://json-schema.org/draft/2019-09/schema", DRAFT201909),
    "draft2020-12": ("https://json-schema.org/draft/2020-12/schema", DRAFT202012),
}


def official(*, optional: bool) -> Iterator[Case]:
    """Yield the groups of JSON-Schema-Test-Suite; ``$schema`` is set where a group leaves it out."""
    for group in suite_groups():
        if group["optional"] is not optional:
            continue
        schema = group["schema"]
        if isinstance(schema, dict):
            schema = {"$schema": _DIALECTS[group["draft"]][0], **schema}
        family = f"{group['draft']}/{group['file']}"
        tests = tuple((test["data"], test["valid"]) for test in group["tests"])
        yield Case(f"{family}: {group['description']}", family, schema, tests)


def judge_official(case: Case, vocabulary: Vocabulary | None = None) -> Verdict:
    """Judge a group of the suite, keys in any order.

    The suite's required tests of ``format`` say that it asserts nothing by default, so assertion
    is off for these, and on for the optional ones.
    """
    asserted = not case.family.endswith("/format")

    def compile_schema(schema: Any) -> JsonSchemaStateMachine:
        return JsonSchemaStateMachine(
            schema, property_order="any", registry=_remotes(), assert_formats=asserted
        )

    return judge(case, compile_schema, vocabulary)


@cache
def _remotes() -> Registry[Any]:
    resources = []
    for uri, document in suite_remotes().items():
        draft = next((name for name in _DIALECTS if f"/{name}/" in uri), "draft2020-12")
        default = _DIALECTS[draft][1]
        resources.append((uri, Resource.from_contents(document, default_specification=default)))
    return Registry().with_resources(resources)


def maskbench() -> Iterator[Case]:
    """Yield the schemas of MaskBench's half for development."""
    for entry in maskbench_schemas():
        tests = tuple((test["data"], test["valid"]) for test in entry["tests"])
        family = entry["name"].split("---")[0]
        yield Case(entry["name"], family, entry["schema"], tests)


def in_fixed_tenth(case: Case) -> bool:
    """Whether a case is in the tenth that every run of the tests judges again."""
    return hashlib.sha256(case.name.encode()).digest()[0] % 10 == 0


def judge_maskbench(case: Case, vocabulary: Vocabulary | None = None) -> Verdict:
    """Judge a schema of MaskBench, with the default settings."""
    return judge(case, JsonSchemaStateMachine, vocabulary)


def explained(case: Case, verdict: Verdict) -> Verdict:
    """Say of each test of MaskBench that went wrong what ``jsonschema`` says, and why it did.

    * ``data``: ``jsonschema`` does not agree with the file's verdict either;
    * ``data, by format``: nor does it, once it checks formats;
    * ``key order``: the instance's keys are not in the schema's order; accepted in any order;
    * ``open``: none of these.
    """
    judged, reasons = {}, {}
    for index in (*verdict.valid_rejected, *verdict.invalid_accepted):
        instance, valid = case.tests[index]
        plain, with_formats = (_judged(case.schema, instance, formats=f) for f in (False, True))
        judged[str(index)] = with_formats
        if plain is not valid:
            reasons[str(index)] = "data"
        elif with_formats is not valid:
            reasons[str(index)] = "data, by format"
        elif valid and _accepts_any_order(case.schema, instance):
            reasons[str(index)] = "key order"
        else:
            reasons[str(index)] = "open"
    return replace(verdict, judged_valid=judged, reasons=reasons)


def _judged(schema: Any, instance: Any, *, formats: bool) -> bool | None:
    """Return what ``jsonschema`` says of an instance; ``None`` where it fails."""
    cls = validator_for(schema, default=Draft202012Validator)
    checker = cls.FORMAT_CHECKER if formats else None
    try:
        return bool(cls(schema, format_checker=checker).is_valid(instance))
    except Exception:
        return None


def _accepts_any_order(schema: Any, instance: Any) -> bool:
    try:
        return JsonSchemaStateMachine(schema, property_order="any").matches(written(instance))
    except ProxyError:
        return False
