"""Runs a client's checks and prints one JSON line per check. Imports nothing but the standard library."""

import asyncio
import inspect
import json
import os

SERVER = os.environ["COMPAT_SERVER"]
URL = f"{SERVER}/v1"
MODEL = os.environ["COMPAT_MODEL"]
FAILING_PROMPT = os.environ["COMPAT_FAILING_PROMPT"]
"""The server fails after a few tokens of an answer to this prompt."""
KEY = "none"

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 16},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string", "enum": ["Oslo", "Lima"]}},
    "required": ["city"],
    "additionalProperties": False,
}

_checks = []


def check(feature, how):
    """Register a check; ``how`` names what the client calls."""

    def register(function):
        _checks.append((feature, how, function))
        return function

    return register


def raised(kinds, function, *args, **kwargs):
    """Return the error of one of ``kinds`` that a call raises."""
    try:
        result = function(*args, **kwargs)
        if inspect.iscoroutine(result):
            asyncio.get_event_loop().run_until_complete(result)
    except kinds as error:
        return error
    raise AssertionError("no error was raised")


def server_error(function, *args, **kwargs):
    """Check that a call raises an error with the server's message about its own failure."""
    error = raised(Exception, function, *args, **kwargs)
    texts = [str(error), str(error.__cause__), str(error.__context__)]
    assert any("internal server error" in text.lower() for text in texts), repr(error)


def run():
    """Run the registered checks in their order, on one event loop."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    for feature, how, function in _checks:
        problem = ""
        try:
            result = function()
            if inspect.iscoroutine(result):
                loop.run_until_complete(result)
        except BaseException as error:
            text = " ".join(str(error).split())
            problem = f"{type(error).__name__}: {text}"[:300]
        line = {"feature": feature, "works": not problem, "how": how, "problem": problem}
        print(json.dumps(line), flush=True)
