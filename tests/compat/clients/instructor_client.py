import instructor
import openai
from pydantic import BaseModel, Field
from reporting import KEY, MODEL, URL, check, raised, run

MESSAGES = [{"role": "user", "content": "Ada is 36 years old."}]
MODES = ("TOOLS", "TOOLS_STRICT", "JSON_SCHEMA", "RESPONSES_TOOLS")
# This one sends no schema, so a small model gives any object.
OBJECT_MODES = ("JSON",)


class Person(BaseModel):
    name: str = Field(max_length=16)
    age: int = Field(ge=0, le=130)


class Loose(BaseModel):
    name: str | int | None = None


def wrapped(mode, client=openai.OpenAI):
    return instructor.from_openai(
        client(base_url=URL, api_key=KEY, max_retries=0), mode=instructor.Mode[mode]
    )


def arguments(mode):
    limit = {"max_output_tokens": 300} if mode.startswith("RESPONSES") else {"max_tokens": 300}
    # Without a schema, only the most likely answer is sure to be an object of the right kind.
    sampling = {"temperature": 0} if mode in OBJECT_MODES else {}
    return {"model": MODEL, "messages": MESSAGES, "max_retries": 0, **sampling, **limit}


def add_mode(mode, kind, feature):
    @check(feature, f"create, Mode.{mode}")
    def create():
        value = wrapped(mode).chat.completions.create(response_model=kind, **arguments(mode))
        assert isinstance(value, kind)


for mode in MODES:
    add_mode(mode, Person, "structured output")
for mode in OBJECT_MODES:
    add_mode(mode, Loose, "JSON object")


@check("streamed structured output", "create_partial, Mode.TOOLS")
def partial():
    people = list(
        wrapped("TOOLS").chat.completions.create_partial(
            response_model=Person, **arguments("TOOLS")
        )
    )
    assert people[-1].name is not None


@check("list", "create_iterable, Mode.TOOLS")
def iterable():
    # The list may be missing in a valid call.
    values = wrapped("TOOLS").chat.completions.create_iterable(
        response_model=Loose, **{**arguments("TOOLS"), "max_tokens": 600, "temperature": 0}
    )
    assert all(isinstance(value, Loose) for value in values)


@check("usage", "create_with_completion")
def usage():
    _, completion = wrapped("TOOLS").chat.completions.create_with_completion(
        response_model=Person, **arguments("TOOLS")
    )
    assert completion.usage.total_tokens > 0


@check("async", "AsyncOpenAI, Mode.JSON_SCHEMA")
async def asynchronous():
    create = wrapped("JSON_SCHEMA", openai.AsyncOpenAI).chat.completions.create
    assert isinstance(await create(response_model=Person, **arguments("JSON_SCHEMA")), Person)


@check("error: unknown model", "an error that names the model")
def unknown_model():
    given = {**arguments("TOOLS"), "model": "missing-model"}
    error = raised(
        Exception, wrapped("TOOLS").chat.completions.create, response_model=Person, **given
    )
    assert "missing-model" in str(error)


run()
