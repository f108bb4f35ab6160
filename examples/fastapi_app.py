"""A web service that extracts people from texts: ``uvicorn --app-dir examples fastapi_app:app``.

Concurrent requests share the model's forward passes. A client that leaves cancels its request.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from proxy_engine import InferenceEngine, ProxyError, TextDelta


class Person(BaseModel):
    name: str = Field(max_length=40)
    age: int = Field(ge=0, le=130)


class Document(BaseModel):
    text: str = Field(min_length=1, max_length=10_000)

    @property
    def prompt(self) -> str:
        """The prompt for the document."""
        return f"Extract name and age from this text as JSON:\n\n{self.text}"


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Load the model once, and release it in the end."""
    # Texts are strangers', so compilation is bounded, too.
    async with InferenceEngine(max_compile_seconds=1) as engine:
        app.state.engine = engine
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/people")
async def extract(document: Document, request: Request) -> Person:
    """Return the person in a text."""
    engine: InferenceEngine = request.app.state.engine
    try:
        result = await engine.agenerate(document.prompt, response_format=Person, max_tokens=120)
    except ProxyError as error:
        raise HTTPException(status_code=422, detail=str(error)) from error
    return result.parsed


@app.post("/people/stream")
async def stream(document: Document, request: Request) -> StreamingResponse:
    """Return the JSON of the person as it is generated."""
    engine: InferenceEngine = request.app.state.engine
    events = await engine.astream(document.prompt, response_format=Person, max_tokens=120)

    async def texts() -> AsyncIterator[str]:
        async with events:
            async for event in events:
                if isinstance(event, TextDelta):
                    yield event.text

    return StreamingResponse(texts(), media_type="application/json")
