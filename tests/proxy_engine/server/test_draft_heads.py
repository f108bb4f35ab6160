"""A server whose model reads images drafts with a head, and counts its drafts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from head_families import head_of
from live_server import serving_engine
from openai.types.chat import ChatCompletion
from vision_models import vision_checkpoint

from proxy_engine import InferenceEngine

WIDTH, TOKENS = 48, 272
RED = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAA"
    "AElFTkSuQmCC"
)


def test_requests_with_images_and_schemas_draft_with_a_head(tmp_path: Path) -> None:
    layers = {
        "hidden_size": WIDTH,
        "intermediate_size": 48,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": TOKENS,
    }
    config = {
        "transformer_layer_config": layers,
        "draft_vocab_size": TOKENS,
        "eagle_aux_hidden_state_layer_ids": [1, 2, 3],
    }
    directory = vision_checkpoint("gemma3", tmp_path / "gemma3")
    always = {"prompt_lookup": False, "is_adaptive": False, "num_draft_tokens": 3}
    schema = {"type": "object", "properties": {"colour": {"type": "string", "maxLength": 12}}}
    with (
        InferenceEngine(directory, draft_model=head_of("eagle3", config)) as engine,
        serving_engine(engine) as live,
        live.http() as http,
    ):

        def answer(speculation: Any) -> ChatCompletion:
            completion: ChatCompletion = live.client().chat.completions.create(
                model="",
                messages=[
                    {
                        "role": "user",
                        "content": [
                            {"type": "text", "text": "ab"},
                            {"type": "image_url", "image_url": {"url": RED}},
                        ],
                    }
                ],
                response_format={
                    "type": "json_schema",
                    "json_schema": {"name": "c", "schema": {**schema, "required": ["colour"]}},
                },
                max_tokens=40,
                temperature=0,
                extra_body={"speculation": speculation, "include_tokens": True},
            )
            return completion

        plain, drafted = answer("off"), answer(always)
        fields = {
            "model": "",
            "speculation": always,
            "max_tokens": 9,
            "stream": False,
            "temperature": 0,
        }
        messages = [{"role": "user", "content": "ab"}]
        counts = {}
        # Two of the APIs have other names for the limit.
        for path, more, keys in (
            ("chat/completions", {"messages": messages}, ("usage", "completion_tokens_details")),
            (
                "responses",
                {"input": "ab", "max_output_tokens": 9},
                ("usage", "output_tokens_details"),
            ),
            ("messages", {"messages": messages}, ("usage",)),
            ("../api/chat", {"messages": messages, "options": {"num_predict": 9}}, ()),
        ):
            reply = http.post(f"/v1/{path}", json={**fields, **more}).json()
            for key in keys:
                reply = reply[key]
            counts[path] = reply["drafts"]["draft_head"]
    texts = [completion.choices[0].message.content for completion in (plain, drafted)]
    assert texts[0] == texts[1]
    timings = drafted.model_dump()["proxy_engine"]["timings"]
    assert timings["drafted_tokens"] > 0
    assert plain.usage is not None
    assert "drafts" not in plain.usage.model_dump()["completion_tokens_details"]
    for found in counts.values():
        assert 0 <= found["accepted_tokens"] <= found["drafted_tokens"] > 0
