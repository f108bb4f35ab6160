"""``docs/bridge.md`` agrees with the bridge."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
from pathlib import Path
from typing import Any

from bridge_clients import Client, validator
from mlx_lm.tokenizer_utils import TokenizerWrapper

from proxy_engine import GenerationResult, InferenceEngine, ReasoningOptions
from proxy_engine.bridge import errors
from proxy_engine.bridge.commands import COMMANDS
from proxy_engine.bridge.replies import REPLIES

DOCUMENT = Path(__file__).parents[3] / "docs" / "bridge.md"
TEXT = DOCUMENT.read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```jsonl\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def lines(block: str, mark: str) -> list[dict[str, Any]]:
    return [json.loads(line[2:]) for line in block.splitlines() if line.startswith(f"{mark} ")]


def kind(reply: dict[str, Any]) -> str:
    if "event" in reply:
        return str(reply["event"]["type"])
    return next(key for key in ("token", "ok", "done", "error") if key in reply)


def test_documented_examples_match_the_schema() -> None:
    assert len(BLOCKS) >= 4
    for block in BLOCKS:
        for reply in lines(block, "←"):
            validator("Reply").validate(reply)
        for command in lines(block, "→"):
            known = command["cmd"] in COMMANDS and "temprature" not in command
            assert validator("Command").is_valid(command) == known
    shown = {kind(reply) for block in BLOCKS for reply in lines(block, "←")}
    assert {"token", "ok", "done", "error"} <= shown


def test_documented_commands_get_the_documented_replies(
    roomy_model: Any, tiny_tokenizer: TokenizerWrapper
) -> None:
    """Another model writes other words, but gets the same kinds of replies and the same errors."""

    async def main() -> None:
        client = Client(lambda command: InferenceEngine(roomy_model, tiny_tokenizer))
        for block in BLOCKS:
            commands, shown = lines(block, "→"), lines(block, "←")
            client.send(*commands)
            for command in commands:
                await client.last(command["id"])
                expected = [reply for reply in shown if reply["id"] == command["id"]]
                told = client.of(command["id"])
                kinds = [kind(reply) for reply in told if "token" not in reply]
                assert kinds == [kind(reply) for reply in expected if "token" not in reply]
                last = told[-1]
                for key in ("error", "cancelled", "running"):
                    assert last.get(key) == expected[-1].get(key)
                if "result" in last:
                    reason = expected[-1]["result"]["finish_reason"]
                    assert last["result"]["finish_reason"] == reason
                    is_told = any("token" in reply for reply in expected)
                    assert reason == "cancelled" or is_told == any("token" in r for r in told)
        await client.session.close()

    asyncio.run(main())


def test_document_names_every_field_and_error() -> None:
    names = set(COMMANDS) | set(ReasoningOptions.model_fields)
    names |= {field.name for field in dataclasses.fields(GenerationResult) if field.compare}
    for message in (*COMMANDS.values(), *REPLIES):
        names |= set(message.model_fields)
    quoted = set(re.findall(r"\w+", " ".join(re.findall(r"`[^`\n]+`", TEXT))))
    assert names - quoted == set()
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    raised = {kind.__name__ for kind in kinds if issubclass(kind, errors.ProtocolError)}
    assert raised - {"ProtocolError"} <= quoted
