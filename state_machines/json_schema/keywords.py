"""The keywords of JSON Schema: one record for each.

To add a keyword, write its reader (in :mod:`~state_machines.json_schema.assertions` or
:mod:`~state_machines.json_schema.applicators`) and add one record to :data:`KEYWORDS`. Everything
else that depends on the set of keywords is derived from the records: the keywords of each draft and
vocabulary, the keywords that apply to property names, the order of evaluation, and the keyword that
is named when a budget is exceeded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from state_machines.json_schema import applicators as apply
from state_machines.json_schema import assertions as assert_
from state_machines.json_schema.dialects import DIALECTS
from state_machines.json_schema.document import SchemaLocation
from state_machines.json_schema.evaluator import TermEvaluator
from state_machines.json_schema.terms import Term
from state_machines.json_schema.unevaluated import unevaluated_items, unevaluated_properties
from state_machines.json_schema.value_sets import ValueSet

KeywordReader = Callable[[SchemaLocation, Any, TermEvaluator], ValueSet | Term]
"""Returns the values that a keyword alone admits, given its schema, its value and the evaluator.

A reader that depends on adjacent keywords, as ``additionalProperties`` depends on ``properties``,
reads them from the schema.
"""

_SCALARS = frozenset({"null", "boolean", "number", "string"})
_ANY = _SCALARS | {"array", "object"}
_NUMBER = frozenset({"number"})
_STRING = frozenset({"string"})
_ARRAY = frozenset({"array"})
_OBJECT = frozenset({"object"})

_DRAFTS = tuple(DIALECTS)
_ALL = frozenset(_DRAFTS)
_SINCE_6 = _ALL - {"4"}
_SINCE_7 = _SINCE_6 - {"6"}
_SINCE_2019 = _SINCE_7 - {"7"}
_SINCE_2020 = frozenset({"2020-12"})
_UNTIL_2019 = _ALL - _SINCE_2020
_UNTIL_7 = _ALL - _SINCE_2019


@dataclass(frozen=True, slots=True)
class Keyword:
    """Everything that the compiler knows about one keyword.

    A keyword whose meaning depends on the draft has a record for each meaning.

    Attributes:
        name: The keyword as it is written in a schema.
        read: Returns the values that the keyword admits. ``None`` for keywords that alone constrain
            nothing: annotations, identifiers, and keywords that modify an adjacent one (``then``).
        types: The JSON types whose values the keyword can constrain (``"integer"`` is part of
            ``"number"``). All other values must satisfy the keyword.
        drafts: The drafts that define the keyword. Annotations count as defined by all.
        vocabulary: The vocabulary of 2020-12 that defines the keyword; ``"format"`` stands for
            both format vocabularies, ``"openapi"`` for OpenAPI's annotations.
        applies_schemas: Whether the keyword applies other schemas.
        is_conditional: Whether the keyword tests properties that may be absent. Conditional
            keywords are read last, so that listed properties come first in the property order.
        cost: How much work the keyword can cause, from 0 to 7. An exceeded budget is attributed to
            the costliest keyword of a schema.
    """

    name: str
    read: KeywordReader | None = None
    types: frozenset[str] = _ANY
    drafts: frozenset[str] = _ALL
    vocabulary: str = "core"
    applies_schemas: bool = False
    is_conditional: bool = False
    cost: int = 0

    @property
    def is_scalar_assertion(self) -> bool:
        """Whether the keyword constrains scalars without applying another schema."""
        return self.read is not None and not self.applies_schemas and bool(self.types & _SCALARS)


def _annotations(vocabulary: str, *names: str) -> Iterable[Keyword]:
    return (Keyword(name, vocabulary=vocabulary) for name in names)


_reference = partial(Keyword, applies_schemas=True)
_applicator = partial(Keyword, vocabulary="applicator", applies_schemas=True)
_unevaluated = partial(_applicator, vocabulary="unevaluated", is_conditional=True, cost=2)
_assertion = partial(Keyword, vocabulary="validation")

KEYWORDS: tuple[Keyword, ...] = (
    # References.
    _reference("$ref", apply.ref),
    _reference("$dynamicRef", apply.dynamic_ref, drafts=_SINCE_2020),
    _reference("$recursiveRef", apply.recursive_ref, drafts=frozenset({"2019-09"})),
    # Applicators to the value itself.
    _applicator("oneOf", apply.one_of, cost=5),
    _applicator("anyOf", apply.any_of, cost=5),
    _applicator("allOf", apply.all_of, cost=5),
    _applicator("not", apply.not_, is_conditional=True, cost=4),
    _applicator("if", apply.if_, drafts=_SINCE_7, is_conditional=True, cost=4),
    _applicator("then", drafts=_SINCE_7),
    _applicator("else", drafts=_SINCE_7),
    _applicator("dependencies", apply.dependencies, _OBJECT, _UNTIL_7, is_conditional=True, cost=3),
    _applicator(
        "dependentSchemas",
        apply.dependent_schemas,
        _OBJECT,
        _SINCE_2019,
        is_conditional=True,
        cost=3,
    ),
    # Applicators to the members of objects.
    _applicator("properties", apply.properties, _OBJECT),
    _applicator("patternProperties", apply.pattern_properties, _OBJECT, cost=7),
    _applicator("additionalProperties", apply.additional_properties, _OBJECT, cost=1),
    _applicator("propertyNames", apply.property_names, _OBJECT, _SINCE_6, cost=1),
    _unevaluated("unevaluatedProperties", unevaluated_properties, _OBJECT, _SINCE_2019),
    # Applicators to the items of arrays.
    _applicator("prefixItems", apply.prefix_items, _ARRAY, _SINCE_2020),
    _applicator("items", apply.items, _ARRAY, _SINCE_2020),
    _applicator("items", apply.items_or_tuple, _ARRAY, _UNTIL_2019),
    _applicator("additionalItems", drafts=_UNTIL_2019),
    _applicator("contains", apply.contains, _ARRAY, _SINCE_6, cost=6),
    _unevaluated("unevaluatedItems", unevaluated_items, _ARRAY, _SINCE_2019),
    # Assertions.
    _assertion("type", assert_.type_),
    _assertion("enum", assert_.enum, cost=1),
    _assertion("const", assert_.const, drafts=_SINCE_6),
    _assertion("minimum", assert_.minimum, _NUMBER),
    _assertion("maximum", assert_.maximum, _NUMBER),
    _assertion("exclusiveMinimum", assert_.exclusive_minimum, _NUMBER, _SINCE_6),
    _assertion("exclusiveMaximum", assert_.exclusive_maximum, _NUMBER, _SINCE_6),
    _assertion("exclusiveMinimum", drafts=frozenset({"4"})),
    _assertion("exclusiveMaximum", drafts=frozenset({"4"})),
    _assertion("multipleOf", assert_.multiple_of, _NUMBER),
    _assertion("minLength", assert_.min_length, _STRING),
    _assertion("maxLength", assert_.max_length, _STRING),
    _assertion("pattern", assert_.pattern, _STRING, cost=1),
    Keyword("format", assert_.format_, _STRING, vocabulary="format"),
    Keyword("x-substring-of", assert_.substring_of, _STRING, cost=1),
    Keyword("x-substring-unit"),
    _assertion("minItems", assert_.min_items, _ARRAY),
    _assertion("maxItems", assert_.max_items, _ARRAY),
    _assertion("uniqueItems", assert_.unique_items, _ARRAY, cost=6),
    _assertion("minContains", drafts=_SINCE_2019),
    _assertion("maxContains", drafts=_SINCE_2019),
    _assertion("minProperties", assert_.min_properties, _OBJECT),
    _assertion("maxProperties", assert_.max_properties, _OBJECT),
    _assertion("required", assert_.required, _OBJECT),
    _assertion(
        "dependentRequired",
        assert_.dependent_required,
        _OBJECT,
        _SINCE_2019,
        is_conditional=True,
        cost=3,
    ),
    # Identifiers and annotations.
    *_annotations("core", "$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor"),
    *_annotations("core", "$comment", "$vocabulary", "$defs", "definitions"),
    *_annotations("meta-data", "title", "description", "default", "examples", "deprecated"),
    *_annotations("meta-data", "readOnly", "writeOnly"),
    *_annotations("content", "contentEncoding", "contentMediaType", "contentSchema"),
    *_annotations("openapi", "discriminator", "example", "externalDocs", "xml", "nullable"),
)

KEYWORDS_BY_DRAFT: Mapping[str, Mapping[str, Keyword]] = {
    draft: {keyword.name: keyword for keyword in KEYWORDS if draft in keyword.drafts}
    for draft in _DRAFTS
}

KEYWORD_NAMES_BY_VOCABULARY: Mapping[str, frozenset[str]] = {
    vocabulary: frozenset(k.name for k in KEYWORDS if k.vocabulary == vocabulary)
    for vocabulary in {keyword.vocabulary for keyword in KEYWORDS}
}

COSTLY_KEYWORDS: tuple[str, ...] = tuple(
    keyword.name for keyword in sorted(KEYWORDS, key=lambda k: -k.cost) if keyword.cost
)
"""The keywords that can exceed a budget, the costliest first."""
