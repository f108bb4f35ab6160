import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, Output, generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
import { FAILING_PROMPT, MODEL, URL, assert, check, raised, run } from "./reporting.mjs";

globalThis.AI_SDK_LOG_WARNINGS = false;
const compatible = createOpenAICompatible({
  name: "proxy-engine",
  baseURL: URL,
  supportsStructuredOutputs: true,
  includeUsage: true,
});
const openai = createOpenAI({ baseURL: URL, apiKey: "none" });
const Person = z.object({ name: z.string().max(16), age: z.number().int().min(0).max(130) });
const base = { prompt: "Say hello.", maxOutputTokens: 8, maxRetries: 0 };
const quiet = { onError: () => {} };

function weather(called) {
  return tool({
    description: "Current weather",
    inputSchema: z.object({ city: z.enum(["Oslo", "Lima"]) }),
    execute: async ({ city }) => {
      called.push(city);
      return "12 degrees";
    },
  });
}

for (const [name, model] of [
  ["@ai-sdk/openai-compatible", compatible(MODEL)],
  ["@ai-sdk/openai (responses)", openai(MODEL)],
]) {
  check("chat", `generateText, ${name}`, async () => {
    const answer = await generateText({ ...base, model });
    assert(answer.text);
    assert(answer.usage.inputTokens > 0 && answer.usage.outputTokens > 0);
  });

  check("stream", `streamText, ${name}`, async () => {
    const result = streamText({ ...base, model, ...quiet });
    let text = "";
    for await (const piece of result.textStream) text += piece;
    assert(text);
    assert((await result.usage).outputTokens > 0);
  });

  check("structured output", `generateText with Output.object, ${name}`, async () => {
    const output = Output.object({ schema: Person });
    const answer = await generateText({ ...base, model, output, maxOutputTokens: 200 });
    Person.parse(answer.output);
  });

  check("streamed structured output", `streamText with Output.object, ${name}`, async () => {
    const output = Output.object({ schema: Person });
    const result = streamText({ ...base, model, output, maxOutputTokens: 200, ...quiet });
    let last;
    for await (const partial of result.partialOutputStream) last = partial;
    Person.parse(last);
  });

  check("tool loop", `generateText with a required tool and two steps, ${name}`, async () => {
    const called = [];
    const answer = await generateText({
      ...base,
      model,
      maxOutputTokens: 60,
      tools: { weather: weather(called) },
      toolChoice: "required",
      prepareStep: ({ stepNumber }) => (stepNumber ? { toolChoice: "none" } : {}),
      stopWhen: stepCountIs(2),
    });
    assert(answer.steps.length === 2);
    assert(called.length > 0);
  });

  check("streamed tool calls", `streamText with a required tool, ${name}`, async () => {
    const called = [];
    const result = streamText({
      ...base,
      model,
      maxOutputTokens: 200,
      tools: { weather: weather(called) },
      toolChoice: "required",
      ...quiet,
    });
    await result.consumeStream();
    assert((await result.toolCalls)[0].toolName === "weather");
    assert(called.length > 0);
  });

  check("error: failing stream", `an error part in fullStream, ${name}`, async () => {
    const result = streamText({ ...base, model, prompt: FAILING_PROMPT, maxOutputTokens: 50, ...quiet });
    const errors = [];
    for await (const part of result.fullStream) if (part.type === "error") errors.push(part.error);
    const text = `${errors[0]?.message} ${JSON.stringify(errors)}`;
    assert(text.includes("internal server error"), text);
  });
}

check("error: unknown model", "APICallError with status 404", async () => {
  const error = await raised(() => generateText({ ...base, model: compatible("missing-model") }));
  assert(APICallError.isInstance(error) && error.statusCode === 404, String(error));
});

check("completions", "generateText with completionModel", async () => {
  const answer = await generateText({ ...base, model: compatible.completionModel(MODEL) });
  assert(answer.text);
});

await run();
