"""Runs a coding agent once, in a throw-away home: a call of its shell, its result, and the end.

The model is scripted: it makes the call that the prompt names. Nothing but the local server is
asked. Imports nothing but the standard library.
"""

import json
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from reporting import check, run

AGENT, PROGRAM = sys.argv[1:3]
SERVER = os.environ["COMPAT_AGENT_SERVER"]
MODEL = "local-model"
FILE = "made.txt"
COMMAND = f"echo hi > {FILE}"
_SECONDS = 240


def call(name, **arguments):
    """Return the prompt that asks for a call."""
    return f"CALL {name} {json.dumps(arguments)} END"


def codex(folder, model=MODEL, prompt=None):
    provider = (
        f'{{name="local",base_url="{SERVER}/v1",wire_api="responses",env_key="OPENAI_API_KEY"}}'
    )
    options = ["-c", "model_provider=local", "-c", f"model_providers.local={provider}"]
    options += ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
    prompt = prompt or call("exec_command", cmd=COMMAND)
    return ["exec", *options, "-m", model, prompt], {"CODEX_HOME": str(folder)}


def codex_with_patches(folder):
    """With a model name that it knows: a custom tool under a Lark grammar."""
    patch = f"*** Begin Patch\n*** Add File: {FILE}\n+hi\n*** End Patch"
    return codex(folder, "gpt-5.5", call("apply_patch", input=patch))


def codex_with_namespaces(folder):
    """With another one: all tools are in an item of the input, within namespaces."""
    code = f"await tools.exec_command({json.dumps({'cmd': COMMAND})})"
    return codex(folder, "gpt-6.2-sol", call("functions__exec", input=code))


def claude_code(folder):
    options = ["--allowedTools", "Bash", "--output-format", "stream-json", "--verbose"]
    return ["-p", call("Bash", command=COMMAND), *options], {
        "ANTHROPIC_BASE_URL": SERVER,
        "ANTHROPIC_API_KEY": "none",
        "ANTHROPIC_MODEL": MODEL,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }


def opencode(folder):
    models = {MODEL: {"name": MODEL}}
    local = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{SERVER}/v1", "apiKey": "none"},
        "models": models,
    }
    config = {
        "provider": {"local": local},
        "model": f"local/{MODEL}",
        "small_model": f"local/{MODEL}",
        "autoupdate": False,
        "permission": {"bash": "allow"},
    }
    (folder / "opencode.json").write_text(json.dumps(config), encoding="utf-8")
    # It quotes an argument with spaces.
    words = call("bash", command=COMMAND).split(" ")
    return ["run", *words], {"OPENCODE_DISABLE_MODELS_FETCH": "1"}


def qwen_code(folder):
    prompt = call("run_shell_command", command=COMMAND, is_background=False)
    return ["--auth-type", "openai", "-y", "-p", prompt], {"OPENAI_MODEL": MODEL}


def aider(folder):
    # Aider calls no tools: it reads the file from the text.
    prompt = f"TEXT {json.dumps(f'{FILE}{chr(10)}```{chr(10)}hi{chr(10)}```{chr(10)}')} END"
    options = ["--edit-format", "whole", "--no-git", "--yes-always", "--no-check-update"]
    options += ["--no-analytics", "--no-show-model-warnings", "--no-show-release-notes"]
    return ["--model", f"openai/{MODEL}", *options, "--message", prompt, FILE], {
        "LITELLM_LOCAL_MODEL_COST_MAP": "True"
    }


_AGENTS = {
    "codex": {
        "exec, /v1/responses: a call of exec_command": codex,
        "exec -m gpt-5.5, /v1/responses: a call of apply_patch": codex_with_patches,
        "exec -m gpt-6.2-sol, /v1/responses: a call in a namespace": codex_with_namespaces,
    },
    "claude": {"claude -p, /v1/messages: a call of Bash": claude_code},
    "opencode": {"opencode run, /v1/chat/completions: a call of bash": opencode},
    "qwen": {"qwen -p, /v1/chat/completions: a call of run_shell_command": qwen_code},
    "aider": {"aider --message, /v1/chat/completions: an edit of a whole file": aider},
}


def agent_run(make):
    """Check that the agent runs the call, sends its result, and ends with 0."""
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as folder:
        arguments, variables = make(Path(folder))
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": home,
            "OPENAI_API_KEY": "none",
            "OPENAI_BASE_URL": f"{SERVER}/v1",
            "OPENAI_API_BASE": f"{SERVER}/v1",
            **variables,
        }
        finished = subprocess.run(
            [PROGRAM, *arguments],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        output = finished.stdout + finished.stderr
        assert finished.returncode == 0, output[-300:]
        made = Path(folder, FILE)
        assert made.exists(), output[-300:]
        assert made.read_text(encoding="utf-8").strip() == "hi"
        # The last answer, behind the result of the call.
        assert AGENT == "aider" or "Done." in finished.stdout, output[-300:]


for how, make in _AGENTS[AGENT].items():
    check("agent's run", how)(partial(agent_run, make))
run()
