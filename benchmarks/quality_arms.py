"""The arms of the quality benchmark: ways to obtain an answer.

An arm that changes a setting of the engine is a line in :data:`ARMS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from quality_prompts import PromptVariant
from quality_tasks import CHECKED_TASKS

__all__ = ["ARMS", "MAIN_ARMS", "Arm", "Method"]

Method: TypeAlias = Literal["constrained", "repair", "retry", "llguidance"]
"""How an answer is obtained.

``"constrained"``: this engine, with the schema as response format. ``"repair"``: free text of this
engine, repaired by ``json-repair`` and coerced to the schema's types. ``"retry"``: free text, up to
three times until it parses and validates. ``"llguidance"``: mlx-lm with llguidance's masks.
"""


@dataclass(frozen=True)
class Arm:
    """A way to obtain an answer.

    Attributes:
        about: What distinguishes the arm, for the table.
        method: How the answer is obtained.
        prompt: How the prompt describes the form of the answer.
        without: Keywords that are removed from an object's schema.
        more_tokens: Added to the record's ``max_tokens``, for text before the answer.
        machine: Keyword arguments of ``JsonSchemaStateMachine`` that replace the engine's. Without
            any, the response format is the schema itself.
        options: Options of the request. They override those of the benchmark: temperature 0, a
            seed, ``max_tokens``, and ``schema_in_prompt`` as ``prompt`` says.
        tool_choice: If not empty, functions are given as ``tools`` with this ``tool_choice``, in
            place of a response format. Such an arm runs the task *calls* only, one with retries the
            tasks whose records have a check, and one whose prompt is a text *extraction* and
            *sentences*.
    """

    about: str
    method: Method = "constrained"
    prompt: PromptVariant = "schema"
    without: tuple[str, ...] = ()
    more_tokens: int = 0
    machine: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    tool_choice: str = ""

    def runs(self, task: str) -> bool:
        """Return whether the arm runs a task."""
        if self.options.get("max_retries"):
            return task in CHECKED_TASKS
        if self.prompt in ("text", "names", "instruction"):
            return task in ("extraction", "sentences")
        return task == "calls" or not self.tool_choice


_THOUGHT_TOKENS = 128
"""Maximum number of tokens of reasoning and of a draft."""
_MESSAGE_TOKENS = 48
"""At least the tokens between such a text and the answer."""

ARMS: Mapping[str, Arm] = {
    "repair": Arm("free text, json-repair", method="repair"),
    "retry": Arm("free text, up to 3 tries", method="retry"),
    "llguidance": Arm("mlx-lm, masks of llguidance", method="llguidance"),
    "ours": Arm("JSON Schema in the prompt, otherwise defaults"),
    # How the prompt describes the answer.
    "ours-task": Arm("the question alone", prompt="task"),
    "ours-text": Arm("the text alone", prompt="text"),
    "ours-names": Arm("the text behind a line that names the fields", prompt="names"),
    "ours-instruction": Arm("the same with the form of dates", prompt="instruction"),
    "ours-outline": Arm("outline of the schema", prompt="outline"),
    "ours-example": Arm("example", prompt="example"),
    "repair-task": Arm("free text, json-repair, the question alone", "repair", "task"),
    "repair-outline": Arm("free text, json-repair, outline", "repair", "outline"),
    "repair-example": Arm("free text, json-repair, example", "repair", "example"),
    "llguidance-task": Arm("masks of llguidance, the question alone", "llguidance", "task"),
    "llguidance-example": Arm("masks of llguidance, example", "llguidance", "example"),
    # How the JSON is written, with the engine's default prompt: to be compared with `ours-task`.
    "ours-json": Arm("optional spaces", prompt="task", machine={"whitespace": "json"}),
    "ours-compact": Arm("no white space", prompt="task", machine={"whitespace": "compact"}),
    "ours-indented": Arm("indented", prompt="task", machine={"whitespace": "indented"}),
    "ours-any-order": Arm(
        "properties in any order",
        prompt="task",
        machine={"whitespace": "spaced", "property_order": "any"},
    ),
    "ours-open": Arm(
        "objects may have other properties",
        prompt="task",
        without=("additionalProperties",),
        options={"additional_properties": "schema"},
    ),
    "ours-optional": Arm("no property is required", prompt="task", without=("required",)),
    "ours-sampled": Arm("forced text is sampled", prompt="task", options={"fast_forward": False}),
    "ours-tools": Arm("functions as tools", prompt="task", tool_choice="auto"),
    "ours-tools-required": Arm(
        "functions as tools, at least one call", prompt="task", tool_choice="required"
    ),
    "ours-tools-parallel": Arm(
        "functions as tools, at least one call and possibly several",
        prompt="task",
        options={"parallel_tool_calls": True},
        tool_choice="required",
    ),
    "ours-endless": Arm(
        "values may repeat themselves", prompt="task", options={"stop_repetition": False}
    ),
    # Text before the answer, with the same prompt.
    "ours-reasoning": Arm(
        "reasoning first",
        prompt="task",
        options={"reasoning": True, "parts": {"reasoning": {"max_tokens": _THOUGHT_TOKENS}}},
        more_tokens=_THOUGHT_TOKENS + _MESSAGE_TOKENS,
    ),
    "ours-bare": Arm("the question without its request for JSON", prompt="bare"),
    "ours-freeform-first": Arm(
        "freeform first, the question without its request for JSON",
        prompt="bare",
        options={"freeform_first": {"max_tokens": _THOUGHT_TOKENS}},
        more_tokens=_THOUGHT_TOKENS + _MESSAGE_TOKENS,
    ),
    "ours-freeform-first-exact-choices": Arm(
        "the same, finite choices are drawn exactly",
        prompt="bare",
        options={"freeform_first": {"max_tokens": _THOUGHT_TOKENS}, "exact_choices": True},
        more_tokens=_THOUGHT_TOKENS + _MESSAGE_TOKENS,
    ),
    "ours-retries": Arm(
        "the record's check as a validator, up to 3 more attempts",
        prompt="task",
        options={"max_retries": 3},
    ),
    # How tokens are chosen, with the same prompt.
    "ours-exact-choices": Arm(
        "finite choices are drawn exactly", prompt="task", options={"exact_choices": True}
    ),
    "ours-t1": Arm("temperature 1", prompt="task", options={"temperature": 1.0}),
    "ours-t1-exact-choices": Arm(
        "temperature 1, finite choices are drawn exactly",
        prompt="task",
        options={"temperature": 1.0, "exact_choices": True},
    ),
}
"""All arms by name."""

MAIN_ARMS = ("repair", "retry", "llguidance", "ours")
"""The arms that run by default. They have the same prompts."""
