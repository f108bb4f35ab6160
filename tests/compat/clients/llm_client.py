import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

# The configuration is read when the package is imported.
os.environ["LLM_USER_PATH"] = tempfile.mkdtemp()
from reporting import FAILING_PROMPT, KEY, MODEL, PERSON, URL, check, raised, run, server_error

common = f"  model_name: {MODEL}\n  api_base: {URL}\n  api_key_name: local\n"
able = "  supports_schema: true\n  supports_tools: true\n"
lines = f"- model_id: local\n{common}{able}- model_id: local-text\n{common}  completion: true\n"
lines += f"- model_id: local-responses\n{common}{able}  responses: true\n"
lines += f"- model_id: missing\n  model_name: missing-model\n  api_base: {URL}\n"
Path(os.environ["LLM_USER_PATH"], "extra-openai-models.yaml").write_text(lines)

import llm  # noqa: E402


def prompt(text="Say hello.", model="local", **arguments):
    given = {"max_tokens": 8, "stream": False, "key": KEY}
    return llm.get_model(model).prompt(text, **{**given, **arguments})


def weather(city: str) -> str:
    """Return the current weather."""
    return "12 degrees"


@check("chat", "model.prompt")
def chat():
    assert prompt().text()


@check("stream", "model.prompt(stream=True)")
def stream():
    assert list(prompt(stream=True))


@check("usage", "response.usage()")
def usage():
    response = prompt()
    response.text()
    assert response.usage().output > 0


@check("structured output", "model.prompt(schema=…)")
def structured():
    assert json.loads(prompt(schema=PERSON, max_tokens=200).text())["age"] <= 130


@check("tools", "model.prompt(tools=[…])")
def tools():
    assert prompt(tools=[weather], max_tokens=40).text() is not None


@check("tool loop", "model.chain(tools=[…])")
def chain():
    conversation = llm.get_model("local").conversation(tools=[weather], chain_limit=3)
    assert conversation.chain("Weather?", options={"max_tokens": 40}, key=KEY).text()


@check("async", "get_async_model")
async def asynchronous():
    response = await llm.get_async_model("local").prompt("Say hello.", max_tokens=8, key=KEY)
    assert await response.text()


@check("completions", "a model with completion: true")
def completions():
    assert prompt("Once", "local-text", max_tokens=4).text()


@check("responses", "a model with responses: true")
def responses():
    assert prompt(model="local-responses", max_tokens=16).text()


@check("command line", "llm -m local")
def command_line():
    command = [sys.executable, "-m", "llm", "-m", "local", "-o", "max_tokens", "8", "Say hello."]
    ran = subprocess.run([*command, "--key", KEY], capture_output=True, text=True, check=True)
    assert ran.stdout.strip()


@check("error: unknown model", "an error that names the model")
def unknown_model():
    assert "missing-model" in str(raised(Exception, lambda: prompt(model="missing").text()))


@check("error: failing stream", "iteration raises an error")
def failing_stream():
    server_error(lambda: list(prompt(FAILING_PROMPT, stream=True, max_tokens=50)))


run()
