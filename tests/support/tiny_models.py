"""A llama with random weights and its tokenizer, small enough to be created in a test."""

from __future__ import annotations

from architectures import randomized
from mlx_lm.models import llama
from mlx_lm.tokenizer_utils import TokenizerWrapper
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

CHAT_TEMPLATE = (
    "{% for m in messages %}{{ '<|start|>' + m['role'] + '\n' + m['content'] }}"
    "{% if not loop.last or add_generation_prompt %}{{ '<|end|>' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start|>assistant\n' }}{% endif %}"
)
TINY_CONTEXT = 512
TINY_CONFIG = {
    "model_type": "llama",
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5,
    # Wider than the vocabulary, as real models are padded.
    "vocab_size": 320,
    "max_position_embeddings": TINY_CONTEXT,
    "tie_word_embeddings": True,
}


def make_tiny_tokenizer() -> TokenizerWrapper:
    """Byte-level BPE: all bytes, a few merges that cross JSON's structure, two special tokens."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [('"', ":"), ("Ġ", '"'), ('"', ","), ("a", "b"), ("ab", "c"), ("1", "2"), ("}", "}")]
    tokens = letters + [left + right for left, right in merges]
    backend = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(t, special=True) for t in ("<|start|>", "<|end|>")])
    return TokenizerWrapper(
        PreTrainedTokenizerFast(
            tokenizer_object=backend, eos_token="<|end|>", chat_template=CHAT_TEMPLATE
        )
    )


def make_tiny_model(seed: int = 0, context: int = TINY_CONTEXT) -> llama.Model:
    """A llama with random weights; the same ones for the same seed."""
    config = {**TINY_CONFIG, "max_position_embeddings": context}
    model = llama.Model(llama.ModelArgs.from_dict(config))
    randomized(model, seed)
    return model
