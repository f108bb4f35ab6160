"""Read tool calls with the parsers of vLLM and SGLang. Runs in the judges' environment.

Standard input has a case a line, as ``cases.py`` writes them; standard output gets a verdict a line:
the calls that each judge reads, or its error.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import signal
import sys
from pathlib import Path
from typing import Any

from stand_ins import bare_package, import_with_stand_ins
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

SECONDS = 20
"""The time that a parser has for one text."""

_VLLM_STAND_INS = (
    *("torch", "vllm.config", "vllm.platforms", "vllm.v1", "vllm.multimodal"),
    *("vllm.model_executor", "vllm.distributed"),
)


def tokenizer_with(tokens: list[str]) -> Any:
    """Return a byte-level tokenizer that has these tokens."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<end>", special=True)])
    tokenizer.add_tokens([AddedToken(token, normalized=False) for token in tokens])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>")


class Vllm:
    """vLLM's parsers of complete answers."""

    def __init__(self, source: Path) -> None:
        bare_package("vllm", source / "vllm")
        self._protocol = import_with_stand_ins("vllm", _VLLM_STAND_INS, self._load)

    def _load(self) -> Any:
        registry = importlib.import_module("vllm.tool_parsers")
        for module, _ in registry._TOOL_PARSERS_TO_REGISTER.values():
            importlib.import_module(f"vllm.tool_parsers.{module}")
        self._manager = registry.ToolParserManager
        return importlib.import_module("vllm.entrypoints.openai.chat_completion.protocol")

    def read(self, parser: str, case: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the calls of an answer."""
        request = self._protocol.ChatCompletionRequest(
            model="m",
            messages=[{"role": "user", "content": "?"}],
            tools=case["tools"],
            tool_choice="auto",
        )
        if parser == "openai":
            return self._read_harmony(request, case["text"])
        if parser == "cmd5":
            return self._read_by_melody(case["text"])
        tokenizer = tokenizer_with(case["tokens"])
        if parser.startswith("cohere"):
            return self._read_cohere(request, case["text"], parser, tokenizer)
        reader = self._manager.get_tool_parser(parser)(tokenizer, request.tools)
        found = reader.extract_tool_calls(case["text"], request)
        return [_call(call.function.name, call.function.arguments) for call in found.tool_calls]

    def _read_harmony(self, request: Any, text: str) -> list[dict[str, Any]]:
        """Return the calls of gpt-oss, whose parser reads tokens. They begin after the role."""
        module = importlib.import_module("vllm.parser.harmony")
        tools = importlib.import_module("vllm.tool_parsers.gptoss_tool_parser")

        class Reader(module.HarmonyParser):
            tool_parser_cls = tools.GptOssToolParser

        encoding = module.get_encoding()
        tokens = encoding.encode(text.removeprefix("<|start|>assistant"), allowed_special="all")
        reader = Reader(tokenizer_with([]), request.tools)
        *_, calls = reader.parse(text, request, True, tokens)
        return [_call(call.name, call.arguments) for call in calls or ()]

    def _read_cohere(
        self, request: Any, text: str, parser: str, tokenizer: Any
    ) -> list[dict[str, Any]]:
        module = importlib.import_module("vllm.parser.cohere_command")

        class Reader(module.CohereCommandParser):
            tool_parser_cls = self._manager.get_tool_parser(parser)

        *_, calls = Reader(tokenizer, request.tools).parse(text, request, True)
        return [_call(call.name, call.arguments) for call in calls or ()]

    @staticmethod
    def _read_by_melody(text: str) -> list[dict[str, Any]]:
        """Return the calls that Cohere's library reads. vLLM has no preset for the format."""
        melody = importlib.import_module("cohere_melody")
        calls = melody.PyFilter.cmd5().process_full_text(text).tool_calls
        return [_call(call.name, call.arguments) for call in calls]


class Sglang:
    """SGLang's parsers of complete answers."""

    def __init__(self, source: Path) -> None:
        bare_package("sglang", source / "sglang")
        bare_package("sglang.srt", source / "sglang" / "srt")
        self._parser, self._tool = import_with_stand_ins("sglang", ("torch",), self._load)

    @staticmethod
    def _load() -> Any:
        parsers = importlib.import_module("sglang.srt.function_call.function_call_parser")
        protocol = importlib.import_module("sglang.srt.entrypoints.openai.protocol")
        return parsers.FunctionCallParser, protocol.Tool

    def read(self, parser: str, case: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the calls of an answer."""
        tools = [self._tool(**tool) for tool in case["tools"]]
        tokenizer = tokenizer_with(case["tokens"])
        _, calls = self._parser(tools, parser, tokenizer).parse_non_stream(case["text"])
        return [_call(call.name, call.parameters) for call in calls]


def _call(name: str, arguments: str) -> dict[str, Any]:
    return {"name": name, "arguments": json.loads(arguments)}


def _out_of_time(signal_number: int, frame: Any) -> None:
    raise TimeoutError(f"no result after {SECONDS} s")


def main() -> None:
    """Judge the cases of standard input."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--vllm", type=Path, required=True)
    arguments.add_argument("--sglang", type=Path, required=True)
    given = arguments.parse_args()
    out = sys.stdout
    # Parsers and their dependencies print.
    sys.stdout = sys.stderr
    logging.disable(logging.CRITICAL)
    judges = {"vllm": Vllm(given.vllm), "sglang": Sglang(given.sglang)}
    signal.signal(signal.SIGALRM, _out_of_time)
    for line in sys.stdin:
        case = json.loads(line)
        verdict: dict[str, Any] = {}
        for name, judge in judges.items():
            parser = case["judges"].get(name)
            if parser is None:
                continue
            signal.alarm(SECONDS)
            try:
                verdict[name] = judge.read(parser, case)
            except Exception as error:
                verdict[name] = f"{type(error).__name__}: {error}"
            finally:
                signal.alarm(0)
        print(json.dumps(verdict), file=out, flush=True)


if __name__ == "__main__":
    main()
