"""Answers of mlx-lm with llguidance's masks, in batches."""

from __future__ import annotations

import json
from collections.abc import Sequence

from mlx_lm.generate import BatchGenerator
from quality_prompts import PromptVariant, prompt_of
from quality_tasks import Record
from stacks import Request, Setting

__all__ = ["BatchedLLGuidance"]


class BatchedLLGuidance:
    """mlx-lm's batch generator with a mask for each sequence, at temperature 0.

    Args:
        setting: The model and its tokenizer.
    """

    def __init__(self, setting: Setting) -> None:
        # Needed by these arms only, from the extra "bench".
        from stacks.peer_llguidance import make_stack  # noqa: PLC0415

        self._setting = setting
        self._stack = make_stack(setting)

    def texts(
        self, records: Sequence[Record], variant: PromptVariant
    ) -> list[tuple[str, int, int]]:
        """Return the text of each answer with its numbers of tokens and of the prompt's tokens.

        Raises:
            RefusedRequestError: llguidance refuses a schema.
        """
        requests = [self._request(record, variant) for record in records]
        ends = self._setting.tokenizer.eos_token_ids
        generator = BatchGenerator(self._setting.model, stop_tokens=[[end] for end in ends])
        ids = generator.insert(
            [request.prompt_ids for request in requests],
            [request.max_tokens for request in requests],
            logits_processors=[[self._stack.processor(request)] for request in requests],
        )
        written: dict[int, list[int]] = {each: [] for each in ids}
        while responses := generator.next_generated():
            for response in responses:
                if response.finish_reason != "stop":
                    written[response.uid].append(response.token)
        generator.close()
        decode = self._setting.tokenizer.decode
        return [
            (decode(written[each]), len(written[each]), len(request.prompt_ids))
            for each, request in zip(ids, requests, strict=True)
        ]

    def close(self) -> None:
        """Free all resources."""
        self._stack.close()

    def _request(self, record: Record, variant: PromptVariant) -> Request:
        prompt = prompt_of(record, variant)
        messages = [{"role": "user", "content": prompt}]
        ids = self._setting.tokenizer.apply_chat_template(messages, add_generation_prompt=True)
        return Request(prompt, list(ids), json.dumps(record.schema), record.max_tokens)
