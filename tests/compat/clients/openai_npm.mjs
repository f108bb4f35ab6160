import OpenAI from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";
import { FAILING_PROMPT, MODEL, URL, assert, check, raised, run } from "./reporting.mjs";

const client = new OpenAI({ baseURL: URL, apiKey: "none", maxRetries: 0 });
const HELLO = [{ role: "user", content: "Say hello." }];
const Person = z.object({ name: z.string().max(16), age: z.number().int().min(0).max(130) });
const WEATHER = {
  type: "object",
  properties: { city: { type: "string", enum: ["Oslo", "Lima"] } },
  required: ["city"],
  additionalProperties: false,
};
const TOOL = { type: "function", function: { name: "weather", parameters: WEATHER } };
const request = { model: MODEL, messages: HELLO, max_tokens: 8 };

async function read(stream) {
  const pieces = [];
  for await (const piece of stream) pieces.push(piece);
  return pieces;
}

check("chat", "chat.completions.create", async () => {
  const answer = await client.chat.completions.create(request);
  assert(answer.choices[0].message.content);
  assert(answer.usage.total_tokens > answer.usage.completion_tokens);
});

check("stream", "chat.completions.create({stream: true}), with usage", async () => {
  const options = { stream: true, stream_options: { include_usage: true } };
  const chunks = await read(await client.chat.completions.create({ ...request, ...options }));
  assert(chunks.some((chunk) => chunk.choices[0]?.delta.content));
  assert(chunks.at(-1).usage.prompt_tokens > 0);
});

check("structured output", "chat.completions.parse with zodResponseFormat", async () => {
  const format = zodResponseFormat(Person, "person");
  const answer = await client.chat.completions.parse({
    ...request,
    max_tokens: 200,
    response_format: format,
  });
  Person.parse(answer.choices[0].message.parsed);
});

check("stream helper", "chat.completions.stream with zodResponseFormat", async () => {
  const format = zodResponseFormat(Person, "person");
  const stream = client.chat.completions.stream({
    ...request,
    max_tokens: 200,
    response_format: format,
  });
  const final = await stream.finalChatCompletion();
  Person.parse(final.choices[0].message.parsed);
});

check("tools", "tool_choice required, then a conversation with the tool's result", async () => {
  const first = await client.chat.completions.create({
    ...request,
    max_tokens: 200,
    tools: [TOOL],
    tool_choice: "required",
  });
  const { message } = first.choices[0];
  const results = message.tool_calls.map((call) => ({
    role: "tool",
    tool_call_id: call.id,
    content: "12 degrees",
  }));
  const messages = [...HELLO, message, ...results];
  await client.chat.completions.create({ ...request, messages, tools: [TOOL] });
});

check("tool loop", "chat.completions.runTools", async () => {
  const called = [];
  const weather = {
    type: "function",
    function: {
      name: "weather",
      parameters: WEATHER,
      parse: JSON.parse,
      function: ({ city }) => {
        called.push(city);
        return "12 degrees";
      },
    },
  };
  const tool_choice = { type: "function", function: { name: "weather" } };
  const loop = client.chat.completions.runTools({
    ...request,
    max_tokens: 200,
    tools: [weather],
    tool_choice,
  });
  await loop.done();
  assert(called.length === 1);
});

check("completions", "completions.create", async () => {
  const answer = await client.completions.create({ model: MODEL, prompt: "Once", max_tokens: 4 });
  assert(answer.choices[0].text);
});

check("responses", "responses.create, with and without stream", async () => {
  const request = { model: MODEL, input: "Say hello.", max_output_tokens: 8 };
  const answer = await client.responses.create(request);
  assert(answer.output_text);
  const events = await read(await client.responses.create({ ...request, stream: true }));
  assert(/^response\.(completed|incomplete)$/.test(events.at(-1).type));
});

check("stored responses", "previous_response_id; responses.retrieve is refused", async () => {
  const request = { model: MODEL, input: "Say hello.", max_output_tokens: 8 };
  const first = await client.responses.create(request);
  await client.responses.create({ ...request, previous_response_id: first.id });
  const status = await client.responses.retrieve(first.id).catch((error) => error.status);
  assert(status === 404);
});

check("models", "models.list and models.retrieve", async () => {
  const models = await read(await client.models.list());
  assert(models.some((model) => model.id === MODEL));
  assert((await client.models.retrieve(MODEL)).id === MODEL);
});

check("error: unknown model", "OpenAI.NotFoundError", async () => {
  const error = await raised(() =>
    client.chat.completions.create({ ...request, model: "missing-model" }),
  );
  assert(error instanceof OpenAI.NotFoundError, String(error));
});

check("error: failing stream", "iteration throws OpenAI.APIError", async () => {
  const messages = [{ role: "user", content: FAILING_PROMPT }];
  const error = await raised(async () =>
    read(await client.chat.completions.create({ model: MODEL, messages, stream: true })),
  );
  assert(error instanceof OpenAI.APIError, String(error));
  assert(error.message.includes("internal server error"), error.message);
});

check("error: failing stream of a response", "response.failed, or OpenAI.APIError", async () => {
  const kinds = [];
  try {
    const stream = await client.responses.create({
      model: MODEL,
      input: FAILING_PROMPT,
      stream: true,
    });
    for await (const event of stream) kinds.push(event.type);
  } catch (error) {
    assert(error instanceof OpenAI.APIError, String(error));
    return;
  }
  assert(kinds.at(-1) === "response.failed", kinds.at(-1));
});

check("error: embeddings", "embeddings are not offered: OpenAI.NotFoundError", async () => {
  const error = await raised(() => client.embeddings.create({ model: MODEL, input: "x" }));
  assert(error instanceof OpenAI.NotFoundError, String(error));
});

await run();
