// A client of `proxy-engine serve --uds PATH` for Node 18 or later, without packages.
//
//   node examples/unix-socket-client.mjs PATH

import { request } from "node:http";

/** Posts a chat completion and yields the texts of its stream. */
export async function* chat(socketPath, body) {
  const response = await new Promise((resolve, reject) => {
    const headers = { "Content-Type": "application/json" };
    const options = { socketPath, path: "/v1/chat/completions", method: "POST", headers };
    const sent = request(options, resolve);
    sent.on("error", reject);
    sent.end(JSON.stringify({ ...body, stream: true }));
  });
  response.setEncoding("utf8");
  let rest = "";
  for await (const piece of response) {
    rest += piece;
    if (response.statusCode !== 200) continue;
    const lines = rest.split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (!line.startsWith("data: ") || line === "data: [DONE]") continue;
      const event = JSON.parse(line.slice(6));
      if (event.error) throw new Error(event.error.message);
      yield event.choices[0]?.delta.content ?? "";
    }
  }
  if (response.statusCode !== 200) throw new Error(JSON.parse(rest).error.message);
}

const schema = {
  type: "object",
  properties: { name: { type: "string", maxLength: 20 }, age: { type: "integer", minimum: 0, maximum: 130 } },
  required: ["name", "age"],
  additionalProperties: false,
};
const body = {
  messages: [{ role: "user", content: "As JSON: Ada is 36 years old." }],
  response_format: { type: "json_schema", json_schema: { name: "person", schema } },
  max_tokens: 60,
};
try {
  let text = "";
  for await (const piece of chat(process.argv[2], body)) text += piece;
  console.log(JSON.stringify(JSON.parse(text)));
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
}
