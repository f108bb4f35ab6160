"""Requests that mlx_lm.server accepts, generated at random."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from importlib import metadata
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from live_server import Live, serving_engine
from mlx_lm.server import APIHandler

from proxy_engine import InferenceEngine

pytestmark = pytest.mark.skipif(
    not metadata.version("mlx-lm").startswith("0.32."),
    reason="the judge is the handler of mlx_lm.server 0.32",
)

DEFAULTS = SimpleNamespace(
    num_draft_tokens=3, max_tokens=512, temp=0.0, top_p=1.0, top_k=0, min_p=0.0, allowed_origins="*"
)


class Judge(APIHandler):  # type: ignore[misc]
    """mlx_lm.server's own handler, which stops before it generates."""

    def __init__(self, path: str, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.accepts = False
        self.path = path
        self.headers = {"Content-Length": str(len(content))}  # type: ignore[assignment]
        self.rfile = io.BytesIO(content)
        self.wfile = io.BytesIO()
        self.request_version = "HTTP/1.1"
        self.requestline = "POST"
        self.client_address = ("", 0)
        self.response_generator = SimpleNamespace(cli_args=DEFAULTS)
        self.do_POST()

    def handle_completion(self, request: Any, stop_words: list[str]) -> None:
        self.accepts = True

    def log_message(self, format: str, *args: Any) -> None:
        pass


def number(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(low, high, allow_nan=False) | st.integers(int(low), int(high))


SIZES = st.integers(0, 100) | st.sampled_from([2**31, 10**12])
# The ranges are those of mlx_lm.server, within what this engine can compute.
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "stream": st.booleans(),
    "stream_options": st.none() | st.fixed_dictionaries({"include_usage": st.booleans()}),
    "model": st.just("default_model"),
    "draft_model": st.just("default_model"),
    "num_draft_tokens": SIZES,
    "adapters": st.none(),
    "max_tokens": st.integers(1, 3) | st.just(10**9),
    "max_completion_tokens": st.none() | st.integers(1, 3),
    "temperature": number(0, 100),
    "top_p": number(0, 1) | st.just(1e-300),
    "top_k": SIZES,
    "min_p": number(0, 1),
    "repetition_penalty": st.sampled_from([0, 0.0]) | number(1, 100),
    "repetition_context_size": SIZES,
    "presence_penalty": number(-100, 100),
    "presence_context_size": SIZES,
    "frequency_penalty": number(-100, 100),
    "frequency_context_size": SIZES,
    "xtc_probability": st.floats(0, 1),
    "xtc_threshold": st.floats(0, 1),
    "logit_bias": st.none()
    | st.dictionaries(
        st.integers(0, 200).map(str), number(-9999, 9999) | number(-99, 99).map(str), max_size=3
    ),
    "logprobs": st.booleans(),
    "top_logprobs": st.integers(-1, 11),
    "seed": st.none() | st.integers() | st.integers(-(2**70), 2**70),
    "stop": st.none() | st.text(max_size=3) | st.lists(st.text(max_size=3), max_size=3),
    "chat_template_kwargs": st.none() | st.dictionaries(st.sampled_from("abc"), st.integers()),
    "role_mapping": st.none() | st.dictionaries(st.text(max_size=3), st.text(max_size=3)),
    "tools": st.none() | st.just([]),
}
MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
PROMPTS = {
    "/v1/chat/completions": {"messages": MESSAGES},
    "/v1/completions": {"prompt": "Hello"},
}


@pytest.fixture(scope="module")
def small(brief_engine: InferenceEngine) -> Iterator[Live]:
    """A server with short answers."""
    with serving_engine(brief_engine, max_tokens=3) as live:
        yield live


@pytest.mark.parametrize("path", PROMPTS)
def test_request_that_mlx_lm_server_accepts_is_accepted(small: Live, path: str) -> None:
    with small.http() as http:

        @given(fields=st.fixed_dictionaries({}, optional=FIELDS))
        @settings(
            max_examples=20,
            deadline=None,
            database=None,
            # A request takes too long to shrink a failure.
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        def run(fields: dict[str, Any]) -> None:
            body = {**PROMPTS[path], **fields}
            assert Judge(path, body).accepts
            reply = http.post(path, json=body)
            assert reply.status_code == 200, reply.text
            assert '"error"' not in reply.text

        run()


def test_judge_refuses_what_mlx_lm_server_refuses() -> None:
    path = "/v1/completions"
    assert Judge(path, {"prompt": "a", "temperature": 0.5}).accepts
    assert not Judge(path, {"prompt": "a", "temperature": -1}).accepts
    assert not Judge(path, {"temperature": 1}).accepts
