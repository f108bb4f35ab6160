"""An engine whose model makes the call that the user's message names, and then ends.

A message ``CALL name {arguments} END`` is answered with that call, if the prompt has a tool of that
name, and a message ``TEXT "a JSON string" END`` with that text. Behind the result of the call, and
for every other message, the answer is :data:`LAST_ANSWER`.
"""

from __future__ import annotations

import json
import re
from collections import deque

from mlx_lm.tokenizer_utils import TokenizerWrapper
from scripted_answers import ScriptedModel
from tiny_models import make_tiny_tokenizer

from proxy_engine import InferenceEngine

__all__ = ["LAST_ANSWER", "agent_engine"]

LAST_ANSWER = "Done."
_CALL = re.compile(r"CALL (\S+) (\{.*?\}) END", re.DOTALL)
_TEXT = re.compile(r'TEXT ("(?:[^"\\]|\\.)*") END')


def agent_engine() -> InferenceEngine:
    """Return the engine."""
    tokenizer = make_tiny_tokenizer()
    return InferenceEngine(_AgentModel(tokenizer), tokenizer)


class _AgentModel(ScriptedModel):
    def __init__(self, tokenizer: TokenizerWrapper) -> None:
        super().__init__(tokenizer, {})

    def answer(self, messages: int, prompt: list[int]) -> str:
        """Return the answer to a prompt."""
        text = self._tokenizer.decode(prompt)
        if (found := _last(_TEXT, text)) is not None:
            written: str = json.loads(found[1])
            return written
        found = _last(_CALL, text)
        if found is None or "<tool_response>" in text[found.end() :]:
            return LAST_ANSWER
        if f'"name": "{found[1]}"' not in text:
            return LAST_ANSWER
        return f'<tool_call>\n{{"name": "{found[1]}", "arguments": {found[2]}}}\n</tool_call>'


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    return deque(pattern.finditer(text), maxlen=1).pop() if pattern.search(text) else None
