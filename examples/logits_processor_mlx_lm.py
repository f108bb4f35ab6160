"""Constrain mlx-lm's own generate loop to a pydantic model.

    python examples/logits_processor_mlx_lm.py [MODEL]

MODEL is a directory or a Hugging Face repo id; the embedded model by default.
"""

from __future__ import annotations

import sys

import mlx_lm
from pydantic import BaseModel, Field

from proxy_engine.integrations.mlx_lm import logits_processor
from proxy_engine.models.embedded import embedded_model

MAX_TOKENS = 120


class Person(BaseModel):
    name: str = Field(max_length=40)
    born: int = Field(ge=0, le=2100)
    known_for: list[str] = Field(max_length=3)


def main(model_name: str) -> Person:
    """Generate a person, print the text as it arrives, and return it."""
    model, tokenizer = mlx_lm.load(model_name)
    messages = [{"role": "user", "content": "Describe Ada Lovelace (1815-1852) as JSON."}]
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True)
    text = ""
    for response in mlx_lm.stream_generate(
        model,
        tokenizer,
        prompt,
        max_tokens=MAX_TOKENS,
        logits_processors=[logits_processor(Person, tokenizer, max_tokens=MAX_TOKENS)],
    ):
        print(response.text, end="", flush=True)
        text += response.text
    print()
    return Person.model_validate_json(text)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else str(embedded_model()))
