"""The parsers of the judges for the project's tool formats, by format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["PARSERS", "Parsers"]


class Parsers(NamedTuple):
    """The names of the judges' parsers; ``None`` where there is none.

    Attributes:
        vllm: vLLM's parser.
        sglang: SGLang's parser.
        before: The text of the prompt that the parsers see before an answer.
        tokens: Tokens that the parsers expect in the vocabulary, beside those of the format.
    """

    vllm: str | None = None
    sglang: str | None = None
    before: str = ""
    tokens: tuple[str, ...] = ()


PARSERS: Mapping[str, Parsers] = {
    "hermes": Parsers("hermes", "hermes"),
    "llama3": Parsers("llama3_json", "llama3", tokens=("<|python_tag|>",)),
    "llama3_python_tag": Parsers("llama3_json", "llama3"),
    "mistral": Parsers("mistral", "mistral"),
    "mistral_args": Parsers("mistral", "mistral"),
    "kimi_k2": Parsers("kimi_k2", "kimi_k2"),
    "kimi_k3": Parsers("kimi_k3", "kimi_k3"),
    "longcat_json": Parsers("longcat"),
    "deepseek_r1": Parsers("deepseek_v3", "deepseekv3"),
    "deepseek_v3_1": Parsers("deepseek_v31", "deepseekv31"),
    "deepseek_v3_2": Parsers("deepseek_v32", "deepseekv32"),
    "gpt_oss": Parsers("openai", "gpt-oss", before="<|start|>assistant"),
    "qwen3_coder": Parsers("qwen3_coder", "qwen3_coder"),
    "glm4_5": Parsers("glm45", "glm45"),
    "glm4_7": Parsers("glm47", "glm47"),
    "minimax_m2": Parsers("minimax_m2", "minimax-m2"),
    "minimax_m3": Parsers("minimax_m3", "minimax-m3"),
    "minicpm5": Parsers("minicpm5", "minicpm5"),
    "muse_spark": Parsers("muse", "muse"),
    "lfm2": Parsers("lfm2", "lfm2"),
    "llama4": Parsers("llama4_pythonic", "pythonic"),
    "gemma4": Parsers("gemma4", "gemma4"),
    "function_gemma": Parsers("functiongemma"),
    "ernie": Parsers("ernie45", "hermes"),
    "internlm": Parsers("internlm", "interns1"),
    "apertus": Parsers("apertus", "apertus2509"),
    "phi4_mini": Parsers("phi4_mini_json"),
    "xlam": Parsers("xlam"),
    "gigachat3": Parsers("gigachat3", "gigachat3"),
    "gigachat3_1": Parsers("gigachat3", "gigachat3"),
    "gigachat3_5": Parsers(None, "gigachat35"),
    "hunyuan": Parsers("hunyuan_a13b"),
    "hunyuan3": Parsers("hy_v3", "hunyuan"),
    "hunyuan4": Parsers("hy_v4", "hunyuan"),
    "olmo3": Parsers("olmo3"),
    "deepseek_v4": Parsers("deepseek_v4", "deepseekv4"),
    "deepseek_v4_1": Parsers("deepseek_v41", "deepseekv41"),
    "seed_oss": Parsers("seed_oss"),
    "step3": Parsers("step3", "step3"),
    "granite": Parsers("granite"),
    "cohere": Parsers("cohere_command3", "cohere_command4"),
    "cohere_text": Parsers("cohere_command4", "cohere_command4"),
    "cohere_cofl": Parsers("cmd5"),
    "granite_20b": Parsers("granite-20b-fc"),
    "jamba": Parsers("jamba"),
    "plamo3": Parsers("plamo3"),
    "k2_horizon": Parsers("k2_horizon", "k2_horizon"),
    "k2_horizon_json": Parsers(None, "k2_horizon"),
    "k2_horizon_typed": Parsers(None, "k2_horizon"),
    "iquest_q1": Parsers(None, "iquest_q1"),
    "spark2_5": Parsers(None, "spark25"),
    "dots": Parsers("dots", "dots"),
    "mimo": Parsers("mimo", "mimo"),
}
