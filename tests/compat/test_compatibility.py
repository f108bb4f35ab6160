"""``docs/compatibility.md`` agrees with the stored results and with the server."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from importlib import metadata
from typing import Any

import pytest
from environments import CLIENTS
from live_server import Live, serving_engine
from mlx_lm import server as mlx_lm_server
from results import DOCUMENT, Result, read_results, with_section
from run import merged
from sections import sections
from server_fields import COMMAND_LINE, FIELDS, MLX_LM, Field

from proxy_engine import InferenceEngine
from proxy_engine.server.settings import ServerSettings
from proxy_engine.server.unknown_fields import HEADER

HELLO = [{"role": "user", "content": "Hello"}]
# Fields of completions alone.
COMPLETIONS = {"prompt", "best_of"}

of_version_0_32 = pytest.mark.skipif(
    not metadata.version("mlx-lm").startswith("0.32."),
    reason="docs/compatibility.md describes mlx_lm.server 0.32",
)


def mlx_lm_tree() -> ast.Module:
    return ast.parse(inspect.getsource(mlx_lm_server))


def fields_read_by_mlx_lm() -> set[str]:
    """The names that ``mlx_lm.server`` looks up in the body: ``body.get(NAME)`` and ``body[NAME]``."""
    names = set()
    for node in ast.walk(mlx_lm_tree()):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr == "get" and ast.unparse(node.func.value) in ("self.body", "body"):
                names.add(ast.literal_eval(node.args[0]))
        elif isinstance(node, ast.Subscript) and ast.unparse(node.value) in ("self.body", "body"):
            names.add(ast.literal_eval(node.slice))
    return names


def flags_of_mlx_lm() -> set[str]:
    """The flags that ``mlx_lm.server`` declares."""
    return {
        ast.literal_eval(node.args[0])
        for node in ast.walk(mlx_lm_tree())
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "parser.add_argument"
    }


@of_version_0_32
def test_every_field_that_mlx_lm_server_reads_is_listed() -> None:
    read = fields_read_by_mlx_lm()
    assert {"messages", "prompt", "temperature", "role_mapping"} <= read
    assert {field.name for field in FIELDS if field.server == MLX_LM} == read


@of_version_0_32
def test_every_flag_of_mlx_lm_server_is_listed() -> None:
    assert set(COMMAND_LINE) == flags_of_mlx_lm()


@pytest.mark.parametrize("note", COMMAND_LINE.values())
def test_listed_flags_exist(note: str) -> None:
    flag, _, _ = note.partition("`;")
    if flag.startswith("`--"):
        name = flag.strip("`").split("`")[0].removeprefix("--").replace("-", "_")
        assert name in ServerSettings.model_fields


@pytest.fixture(scope="module")
def server(roomy_engine: InferenceEngine) -> Iterator[Live]:
    # The engine has no adapter. The name of the default one is known all the same.
    with serving_engine(roomy_engine, adapter_path="some-adapter") as live:
        yield live


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: f"{field.server}: {field.name}")
def test_fields_have_the_documented_outcome(server: Live, field: Field) -> None:
    is_completion = field.name in COMPLETIONS
    body: dict[str, Any] = {"prompt": "Hi"} if is_completion else {"messages": HELLO}
    body.update({"max_tokens": 8, field.name: field.sample})
    if field.name == "stream_options":
        body["stream"] = True
    path = "/v1/completions" if is_completion else "/v1/chat/completions"
    with server.http() as http:
        reply = http.post(path, json=body)
    if field.outcome == "refused":
        assert reply.status_code == 400, reply.text
        assert reply.json()["error"]["param"] == field.name
        return
    assert reply.status_code == 200, reply.text
    ignored = [name.strip() for name in reply.headers.get(HEADER, "").split(",")]
    assert (field.name in ignored) == (field.outcome == "ignored")


def test_document_has_the_stored_results() -> None:
    document = DOCUMENT.read_text(encoding="utf-8")
    written = document
    for name, content in sections(read_results()).items():
        written = with_section(written, name, content)
    assert document == written, "run 'python tests/compat/run.py --table'"


def test_results_are_those_of_known_clients() -> None:
    assert {result.client for result in read_results()} <= {client.name for client in CLIENTS}


def test_new_results_replace_those_of_the_same_client() -> None:
    first, second = CLIENTS[0].name, CLIENTS[1].name
    old = [Result(first, "1", "chat", True, "x"), Result(second, "1", "chat", True, "x")]
    new = [Result(second, "2", "chat", False, "x", "Error: y")]
    assert merged(old, new) == [old[0], new[0]]
