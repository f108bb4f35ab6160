"""Fields of requests that other servers read, and their effect here. The tests send each of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["COMMAND_LINE", "FIELDS", "Field", "Outcome"]

Outcome = Literal["honoured", "no effect", "ignored", "refused"]
"""The effect of a field.

``honoured``: it has its effect. ``no effect``: it is accepted, since it changes no answer.
``ignored``: accepted, and listed in the header ``X-Ignored-Fields``. ``refused``: status 400, and the
error names the field.
"""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of another server.

    Attributes:
        server: The server that reads it.
        name: Its name; a dot separates the members of objects.
        sample: A value that the other server accepts, and that asks for something.
        outcome: Its effect here.
        note: The effect, or the reason.
    """

    server: str
    name: str
    sample: Any
    outcome: Outcome
    note: str = ""


MLX_LM = "mlx_lm.server"
VLLM = "vLLM"
LLAMA_CPP = "LM Studio, llama.cpp"
OLLAMA = "Ollama"
SGLANG = "SGLang"

_LARGEST = "one window for all penalties"
_TEXT = {"type": "object", "properties": {}}
_TOOL = {"type": "function", "function": {"name": "f", "parameters": _TEXT}}
_DIGIT = {"type": "regex", "pattern": "[0-9]"}
_TAG = {"type": "structural_tag", "format": _DIGIT}
_SCHEMA = {"type": "integer", "minimum": 1, "maximum": 9}

FIELDS: tuple[Field, ...] = (
    Field(
        MLX_LM,
        "model",
        "default_model",
        "honoured",
        "a model of `GET /v1/models`, which no request downloads; `default_model` is that of `--model`",
    ),
    Field(MLX_LM, "messages", [{"role": "user", "content": "Hi"}], "honoured"),
    Field(MLX_LM, "prompt", "Hi", "honoured", "of completions"),
    Field(MLX_LM, "tools", [_TOOL], "honoured", "calls match the schemas of the tools"),
    Field(
        MLX_LM,
        "role_mapping",
        {"user": "U: "},
        "ignored",
        "a model without a template gets lines `role: text`",
    ),
    Field(MLX_LM, "stream", True, "honoured"),
    Field(MLX_LM, "stream_options", {"include_usage": True}, "honoured"),
    Field(MLX_LM, "draft_model", "default_model", "honoured"),
    Field(MLX_LM, "num_draft_tokens", 3, "honoured", "numbers above 64 count as 64"),
    Field(
        MLX_LM,
        "adapters",
        "some-adapter",
        "honoured",
        "the name of an adapter in `--adapter-directories`, never a path",
    ),
    Field(MLX_LM, "max_tokens", 4, "honoured"),
    Field(MLX_LM, "max_completion_tokens", 4, "honoured"),
    Field(
        MLX_LM, "temperature", 0.5, "honoured", "the default is 1, as OpenAI's, or `--temperature`"
    ),
    Field(MLX_LM, "top_p", 0.9, "honoured", "0 selects the most likely token; mlx-lm's 0 is off"),
    Field(MLX_LM, "top_k", 5, "honoured"),
    Field(MLX_LM, "min_p", 0.1, "honoured"),
    Field(MLX_LM, "repetition_penalty", 1.1, "honoured", "0 is off"),
    Field(MLX_LM, "repetition_context_size", 20, "honoured", _LARGEST),
    Field(MLX_LM, "presence_penalty", 0.5, "honoured"),
    Field(MLX_LM, "presence_context_size", 20, "honoured", _LARGEST),
    Field(MLX_LM, "frequency_penalty", 0.5, "honoured"),
    Field(MLX_LM, "frequency_context_size", 20, "honoured", _LARGEST),
    Field(MLX_LM, "xtc_probability", 0.5, "honoured", "not with exact choices"),
    Field(MLX_LM, "xtc_threshold", 0.1, "honoured", "with `xtc_probability`"),
    Field(MLX_LM, "logit_bias", {"5": "1.5"}, "honoured"),
    Field(MLX_LM, "logprobs", True, "honoured"),
    Field(MLX_LM, "top_logprobs", 2, "honoured"),
    Field(MLX_LM, "seed", 1, "honoured"),
    Field(MLX_LM, "chat_template_kwargs", {"enable_thinking": False}, "honoured"),
    Field(MLX_LM, "stop", ["zzz"], "honoured"),
    Field(
        VLLM,
        "best_of",
        1,
        "honoured",
        "of completions; the answers with the highest mean log-probability",
    ),
    Field(VLLM, "use_beam_search", True, "ignored"),
    Field(VLLM, "length_penalty", 0.5, "ignored"),
    Field(VLLM, "stop_token_ids", [3], "honoured", "ignored if the answer has no free text"),
    Field(VLLM, "include_stop_str_in_output", True, "ignored"),
    Field(VLLM, "ignore_eos", True, "honoured", "refused with structured output and tools"),
    Field(VLLM, "min_tokens", 1, "honoured"),
    Field(
        VLLM,
        "skip_special_tokens",
        False,
        "ignored",
        "special tokens are never in the text; `true` is accepted",
    ),
    Field(VLLM, "spaces_between_special_tokens", False, "ignored"),
    Field(VLLM, "truncate_prompt_tokens", 100, "ignored", "a prompt is never truncated"),
    Field(VLLM, "prompt_logprobs", 1, "ignored"),
    Field(VLLM, "allowed_token_ids", [5], "refused", "it constrains the answer"),
    Field(VLLM, "bad_words", ["x"], "refused", "it constrains the answer"),
    Field(VLLM, "echo", True, "ignored", "of chat completions; completions honour it"),
    Field(VLLM, "add_generation_prompt", True, "honoured"),
    Field(VLLM, "continue_final_message", False, "honoured"),
    Field(VLLM, "add_special_tokens", True, "ignored"),
    Field(
        VLLM, "documents", [{"text": "x"}], "ignored", "`chat_template_kwargs` reaches the template"
    ),
    Field(VLLM, "chat_template", "{{ messages }}", "ignored"),
    Field(VLLM, "mm_processor_kwargs", {"a": 1}, "ignored"),
    Field(VLLM, "structured_outputs", {"regex": "[0-9]"}, "honoured"),
    Field(VLLM, "guided_json", _SCHEMA, "honoured"),
    Field(VLLM, "guided_regex", "[0-9]", "honoured"),
    Field(VLLM, "guided_choice", ["a", "b"], "honoured"),
    Field(VLLM, "guided_grammar", 'start: "a"', "honoured", "GBNF or Lark"),
    Field(VLLM, "guided_decoding_backend", "xgrammar", "ignored"),
    Field(VLLM, "structural_tag", _TAG, "honoured", "an object, or its text"),
    Field(VLLM, "priority", 1, "ignored"),
    Field(VLLM, "request_id", "r", "ignored", "send the header `X-Request-ID`"),
    Field(VLLM, "logits_processors", ["x"], "ignored"),
    Field(VLLM, "return_tokens_as_token_ids", True, "ignored"),
    Field(VLLM, "return_token_ids", True, "ignored", "`include_tokens` has the token ids"),
    Field(VLLM, "cache_salt", "x", "ignored"),
    Field(VLLM, "kv_transfer_params", {"a": 1}, "ignored"),
    Field(VLLM, "vllm_xargs", {"a": 1}, "ignored"),
    Field(VLLM, "include_reasoning", False, "honoured"),
    Field(VLLM, "reasoning_effort", "low", "honoured"),
    Field(LLAMA_CPP, "json_schema", _SCHEMA, "honoured"),
    Field(LLAMA_CPP, "grammar", 'root ::= "a"', "honoured", "GBNF or Lark"),
    Field(LLAMA_CPP, "grammar_lazy", True, "refused", "it constrains the answer"),
    Field(
        LLAMA_CPP,
        "response_format",
        {"type": "json_object", "schema": _TEXT},
        "honoured",
        "also with a `schema`",
    ),
    Field(LLAMA_CPP, "repeat_penalty", 1.1, "honoured"),
    Field(LLAMA_CPP, "repeat_last_n", 64, "ignored", "see `repetition_context_size`"),
    Field(LLAMA_CPP, "reasoning_format", "auto", "ignored", "reasoning is `reasoning_content`"),
    Field(LLAMA_CPP, "n_predict", 5, "ignored", "the limit is `max_tokens`"),
    Field(LLAMA_CPP, "n_probs", 2, "ignored", "see `top_logprobs`"),
    Field(LLAMA_CPP, "cache_prompt", True, "ignored", "prompts are always cached"),
    Field(LLAMA_CPP, "id_slot", 1, "ignored"),
    Field(LLAMA_CPP, "mirostat", 2, "ignored"),
    Field(LLAMA_CPP, "typical_p", 0.5, "ignored"),
    Field(LLAMA_CPP, "dynatemp_range", 0.5, "ignored"),
    Field(LLAMA_CPP, "dry_multiplier", 0.5, "ignored"),
    Field(LLAMA_CPP, "top_n_sigma", 1.0, "ignored"),
    Field(LLAMA_CPP, "samplers", ["top_k"], "ignored"),
    Field(LLAMA_CPP, "lora", [{"id": 0, "scale": 1}], "refused", "see `adapters`"),
    Field(LLAMA_CPP, "parse_tool_calls", True, "ignored", "calls are always parsed"),
    Field(LLAMA_CPP, "timings_per_token", True, "ignored", "`include_tokens` has timings"),
    Field(LLAMA_CPP, "return_progress", True, "ignored"),
    Field(LLAMA_CPP, "ttl", 300, "ignored", "see `--idle-seconds`"),
    Field(
        OLLAMA,
        "options",
        {"num_ctx": 4096},
        "ignored",
        "sampling options are fields of the request",
    ),
    Field(OLLAMA, "keep_alive", "5m", "ignored", "see `--idle-seconds`"),
    Field(OLLAMA, "format", "json", "refused", "use `response_format`"),
    Field(OLLAMA, "think", True, "ignored", "see `reasoning_effort`"),
    Field(OLLAMA, "raw", True, "ignored", "`/v1/completions` has no template"),
    Field(OLLAMA, "system", "x", "ignored", "send a message with the role `system`"),
    Field(OLLAMA, "template", "x", "ignored"),
    Field(SGLANG, "regex", "[0-9]", "honoured"),
    Field(SGLANG, "ebnf", 'root ::= "a"', "honoured", "GBNF"),
    Field(SGLANG, "separate_reasoning", True, "ignored", "reasoning is `reasoning_content`"),
    Field(SGLANG, "stream_reasoning", True, "ignored"),
    Field(SGLANG, "no_stop_trim", True, "ignored"),
    Field(SGLANG, "lora_path", "x", "refused", "see `adapters`"),
    Field(SGLANG, "rid", "x", "ignored", "send the header `X-Request-ID`"),
    Field(SGLANG, "return_hidden_states", True, "ignored"),
    Field(SGLANG, "custom_logit_processor", "x", "ignored"),
)

COMMAND_LINE: dict[str, str] = {
    "--model": "`--model`; the embedded model by default",
    "--adapter-path": "`--adapter-path`; also for requests that name the default model",
    "--host": "`--host`",
    "--port": "`--port`; 8000 by default, in place of 8080",
    "--allowed-origins": "`--cors-origins`; none by default",
    "--draft-model": "`--draft-model`",
    "--num-draft-tokens": "`--num-draft-tokens`; by acceptance rate if not given, in place of 3",
    "--trust-remote-code": "`--trust-remote-code`",
    "--log-level": "`--log-level`, in lower case",
    "--chat-template": "`--chat-template`; also the name of a file",
    "--use-default-chat-template": "none: a model without a template gets lines `role: text`",
    "--temp": "`--temperature`; 1 by default, in place of 0",
    "--top-p": "`--top-p`",
    "--top-k": "`--top-k`",
    "--min-p": "`--min-p`",
    "--max-tokens": "`--max-tokens`; 2048 by default, in place of 512",
    "--chat-template-args": "`--chat-template-kwargs`",
    "--decode-concurrency": "`--max-running`",
    "--prompt-concurrency": "none: prompts are prefilled in turns",
    "--prefill-step-size": "`--prefill-step-size`",
    "--prompt-cache-size": "none: the prompt cache is bounded in bytes",
    "--prompt-cache-bytes": "`--prompt-cache-bytes`",
    "--kv-bits": "`--kv-bits`",
    "--kv-group-size": "`--kv-group-size`",
    "--quantized-kv-start": "`--quantized-kv-start`",
    "--pipeline": "none: a model runs on one computer",
}
"""The flags of ``mlx_lm.server``, and those of ``proxy-engine serve`` that replace them."""
