"""Masks over whole vocabularies of real tokenizers."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
from judging import Judge
from small_vocabulary import an_ending, brute_force_mask

from state_machines import JsonSchemaStateMachine, Vocabulary

__all__ = ["SCHEMAS", "assert_masks_on_a_walk"]

SCHEMAS: dict[str, Any] = {
    "anything": {},
    "person": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": 12},
            "age": {"type": "integer", "minimum": 0, "maximum": 130},
            "mail": {"type": "string", "pattern": "^[a-z.]+@[a-z]+\\.(com|org)$"},
            "role": {"enum": ["admin", "user", "gäst", None]},
        },
        "required": ["name", "age"],
        "additionalProperties": False,
    },
    "tree": {
        "$ref": "#/$defs/node",
        "$defs": {
            "node": {
                "type": "object",
                "properties": {
                    "label": {"type": "string"},
                    "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
                },
                "required": ["label"],
            }
        },
    },
    "negations": {
        "type": "array",
        "items": {
            "type": ["string", "number"],
            "oneOf": [{"type": "string"}, {"minLength": 3}, {"type": "integer"}],
        },
        "contains": {"type": "string", "not": {"pattern": "a"}},
        "minItems": 1,
    },
    "few names": {
        "type": "object",
        "additionalProperties": {"type": "number"},
        "propertyNames": {"pattern": "^(alpha|beta|[0-9]{1,2})$"},
        "minProperties": 2,
    },
}


def assert_masks_on_a_walk(vocabulary: Vocabulary, schema: Any) -> None:
    """Assert that every mask of a random walk is exact and that the schema admits the final text."""
    random = Random(0)
    machine = JsonSchemaStateMachine(schema)
    matcher, text = machine.matcher(vocabulary), b""
    for _ in range(6):
        mask = matcher.allowed_tokens()
        wrong = np.flatnonzero(mask != brute_force_mask(matcher.state, vocabulary))[:10].tolist()
        assert not wrong, (text, [vocabulary.token_bytes[token_id] for token_id in wrong])
        plain = [
            token_id
            for token_id in np.flatnonzero(mask).tolist()
            if token_id not in vocabulary.end_token_ids
        ]
        if not plain:
            break
        # Structure is rare among the tokens, so it is preferred half the time.
        structure = [
            token_id
            for token_id in plain
            if set(vocabulary.token_bytes[token_id] or b"") <= set(b'{}[]",: 0123456789')
        ]
        token_id = random.choice(structure if structure and random.random() < 0.5 else plain)
        matcher.advance(token_id)
        text += vocabulary.token_bytes[token_id] or b""
    ending = an_ending(matcher.state)
    assert ending is None or Judge(schema).admits_text(text + ending)
