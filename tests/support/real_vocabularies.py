"""Reference masks over whole vocabularies, computed by trying every token."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
from judging import Judge
from small_vocabulary import an_ending

from state_machines import JsonSchemaStateMachine, Vocabulary
from state_machines.grammar.node import EMPTY, Node

__all__ = ["SCHEMAS", "AllTokens", "assert_masks_on_a_walk"]

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


class AllTokens:
    """All tokens of a vocabulary in sorted order, so that common prefixes are tried once."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._sorted = sorted(
            (form, token_id)
            for token_id, form in enumerate(vocabulary.token_bytes)
            if form is not None and token_id not in vocabulary.end_token_ids
        )

    def allowed(self, state: Node) -> npt.NDArray[np.bool_]:
        """Return which tokens may come next, token by token."""
        mask = np.zeros(self.vocabulary.size, np.bool_)
        mask[list(self.vocabulary.end_token_ids)] = state.nullable
        path, text = [state], b""
        for form, token_id in self._sorted:
            if path[-1] is EMPTY and form.startswith(text):
                continue
            shared = 0
            while shared < min(len(text), len(form)) and text[shared] == form[shared]:
                shared += 1
            del path[shared + 1 :]
            for byte in form[shared:]:
                path.append(path[-1].derivative(byte))
                if path[-1] is EMPTY:
                    break
            text = form[: len(path) - 1]
            mask[token_id] = path[-1] is not EMPTY
        return mask


def assert_masks_on_a_walk(tokens: AllTokens, schema: Any) -> None:
    """Assert that every mask of a random walk is exact and that the schema admits the final text."""
    vocabulary, random = tokens.vocabulary, Random(0)
    machine = JsonSchemaStateMachine(schema)
    matcher, text = machine.matcher(vocabulary), b""
    for _ in range(6):
        mask = matcher.allowed_tokens()
        expected = tokens.allowed(matcher.state)
        wrong = np.flatnonzero(mask != expected)[:10].tolist()
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
