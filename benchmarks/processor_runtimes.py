"""Generate loops of other libraries with logits processors, all with one tokenizer and one text.

Each runtime generates with a list of processors. The first one is a script, which raises the logit
of the next token of a given text far above all others; a constraint follows it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import llguidance.mlx
import llguidance.numpy
import mlx.core as mx
from llguidance import LLMatcher, LLTokenizer
from llguidance.hf import from_tokenizer
from mlx_lm.generate import generate_step
from random_models import Size, make_random_model
from stacks.bits import apply_bits

from proxy_engine.integrations import mlx_lm as ours_mlx
from proxy_engine.models.embedded import embedded_gguf
from state_machines import JsonSchemaStateMachine
from state_machines.processors import numpy as ours_numpy

__all__ = ["RUNTIMES", "MlxRuntime", "Runtime"]

BY_FAR = 1e6
PROMPT = "A document:"

Processor = Callable[[Any, Any], Any]


class Runtime:
    """A generate loop, and the constraints for it.

    Args:
        tokenizer: A fast transformers tokenizer.
        size: Size of a random model, if the runtime takes one.
    """

    name = ""
    library = ""
    ours: Any = ours_numpy

    def __init__(self, tokenizer: Any, size: Size) -> None:
        self.tokenizer = tokenizer
        self.prompt: list[int] = tokenizer.encode(PROMPT)
        self._peer = from_tokenizer(tokenizer, slices=LLTokenizer.json_slices())
        self._bits = llguidance.numpy.allocate_token_bitmask(1, self._peer.vocab_size)

    def run(self, processors: list[Processor], max_tokens: int) -> list[int]:
        """Generate greedily, and return the tokens before the end token."""
        raise NotImplementedError

    def script(self, tokens: Sequence[int]) -> Processor:
        """Return a processor that makes the model write some tokens, then an end token."""
        script = [*tokens, self.tokenizer.eos_token_id]

        def process(input_ids: Any, scores: Any) -> Any:
            position = input_ids.shape[-1] - len(self.prompt)
            return self.raised(scores, script[min(position, len(tokens))])

        return process

    def raised(self, scores: Any, token_id: int) -> Any:
        """Return the logits with that of a token far above the others."""
        scores[..., token_id] = BY_FAR
        return scores

    def evaluate(self, input_ids: Any, scores: Any) -> None:
        """Wait for arrays that are computed lazily."""

    def our_constraint(self, machine: JsonSchemaStateMachine, max_tokens: int | None) -> Processor:
        """Return this project's processor."""
        processor: Processor = self.ours.logits_processor(
            machine, self.tokenizer, max_tokens=max_tokens
        )
        return processor

    def peer_constraint(self, matcher: LLMatcher) -> Processor:
        """Return a processor of llguidance's functions, as its documentation combines them."""
        matcher = matcher.deep_copy()
        is_first = True

        def process(input_ids: Any, scores: Any) -> Any:
            nonlocal is_first
            if not is_first and not matcher.is_stopped():
                matcher.consume_token(int(self.last(input_ids)))
            is_first = False
            return self.apply(matcher, scores)

        return process

    def last(self, input_ids: Any) -> int:
        """Return the last token of the row."""
        return int(input_ids.reshape(-1)[-1])

    def apply(self, matcher: LLMatcher, scores: Any) -> Any:
        """Return masked logits."""
        llguidance.numpy.fill_next_token_bitmask(matcher, self._bits)
        llguidance.numpy.apply_token_bitmask_inplace(scores[None], self._bits)
        return scores

    def matcher(self, schema: Any) -> LLMatcher:
        """Compile a schema with llguidance. Raises ``ValueError`` if it refuses the schema."""
        matcher = LLMatcher(self._peer, LLMatcher.grammar_from_json_schema(schema), log_level=0)
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return matcher


class MlxRuntime(Runtime):
    """mlx-lm."""

    name, library, ours = "mlx-lm", "mlx-lm", ours_mlx

    def __init__(self, tokenizer: Any, size: Size) -> None:
        super().__init__(tokenizer, size)
        self._model = make_random_model(size, len(tokenizer))
        self._apply = llguidance.mlx.apply_token_bitmask if mx.metal.is_available() else apply_bits

    def run(self, processors: list[Processor], max_tokens: int) -> list[int]:
        """Generate with ``generate_step``."""
        tokens: list[int] = []
        for token_id, _ in generate_step(
            mx.array(self.prompt),
            self._model,
            max_tokens=max_tokens,
            logits_processors=processors,
        ):
            if token_id == self.tokenizer.eos_token_id:
                break
            tokens.append(int(token_id))
        return tokens

    def raised(self, scores: Any, token_id: int) -> Any:
        """Return a copy, since arrays of MLX are values."""
        return scores.at[..., token_id].add(BY_FAR)

    def evaluate(self, input_ids: Any, scores: Any) -> None:
        """Wait for the forward pass."""
        mx.eval(input_ids, scores)

    def last(self, input_ids: Any) -> int:
        """Return the last token of the row."""
        return int(input_ids[-1].item())

    def apply(self, matcher: LLMatcher, scores: Any) -> Any:
        """Return masked logits."""
        llguidance.numpy.fill_next_token_bitmask(matcher, self._bits)
        return self._apply(scores, self._bits)


class TorchRuntime(Runtime):
    """transformers."""

    name, library = "transformers", "transformers"

    def __init__(self, tokenizer: Any, size: Size) -> None:
        import llguidance.torch as peer  # noqa: PLC0415
        import torch  # noqa: PLC0415
        import transformers  # noqa: PLC0415

        from state_machines.processors import torch as ours  # noqa: PLC0415

        super().__init__(tokenizer, size)
        self.ours, self._torch, self._functions = ours, torch, peer
        torch.manual_seed(0)
        config = transformers.LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=size.width,
            intermediate_size=3 * size.width,
            num_hidden_layers=size.layers,
            num_attention_heads=size.width // 32,
            num_key_value_heads=size.width // 32,
            tie_word_embeddings=True,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.eos_token_id,
        )
        self._model = transformers.LlamaForCausalLM(config).eval()
        self._mask = peer.allocate_token_bitmask(1, self._peer.vocab_size)

    def run(self, processors: list[Processor], max_tokens: int) -> list[int]:
        """Generate with ``generate``."""
        inputs = self._torch.tensor([self.prompt])
        sequence = self._model.generate(
            inputs,
            attention_mask=self._torch.ones_like(inputs),
            max_new_tokens=max_tokens,
            do_sample=False,
            logits_processor=processors,
        )
        tokens: list[int] = sequence[0, len(self.prompt) :].tolist()
        end = self.tokenizer.eos_token_id
        return tokens[: tokens.index(end)] if end in tokens else tokens

    def apply(self, matcher: LLMatcher, scores: Any) -> Any:
        """Return masked logits."""
        self._functions.fill_next_token_bitmask(matcher, self._mask)
        self._functions.apply_token_bitmask_inplace(scores, self._mask)
        return scores


class LlamaRuntime(Runtime):
    """llama-cpp-python with the embedded model, whatever ``size`` is."""

    name, library = "llama-cpp-python", "llama_cpp_python"

    def __init__(self, tokenizer: Any, size: Size) -> None:
        import llama_cpp  # noqa: PLC0415

        super().__init__(tokenizer, size)
        with TemporaryDirectory() as directory:
            path = embedded_gguf(Path(directory))
            self._model = llama_cpp.Llama(
                str(path), n_ctx=1024, n_threads=1, use_mmap=False, verbose=False
            )
        self._llama_cpp = llama_cpp

    def run(self, processors: list[Processor], max_tokens: int) -> list[int]:
        """Generate with ``generate``, which ``create_completion`` calls."""
        self._model.reset()
        listed = self._llama_cpp.LogitsProcessorList(processors)
        tokens: list[int] = []
        for token_id in self._model.generate(self.prompt, temp=0, logits_processor=listed):
            if token_id == self.tokenizer.eos_token_id or len(tokens) == max_tokens:
                break
            tokens.append(int(token_id))
        return tokens


RUNTIMES: dict[str, type[Runtime]] = {
    runtime.name: runtime for runtime in (MlxRuntime, TorchRuntime, LlamaRuntime)
}
