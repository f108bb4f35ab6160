// A client of the bridge (docs/bridge.md) for Node 18 or later, without packages.
//
//   node examples/bridge-client.mjs [MODEL]
//
// MODEL is a directory or a Hugging Face repo id; the default is the embedded model. The environment
// variable PYTHON names the interpreter with proxy-engine; the default is `python3`.

import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

/** What the bridge says of a request that failed; `facts` are as docs/bridge.md has them. */
export class BridgeError extends Error {
  constructor({ type, message, hint, facts }) {
    super(message);
    Object.assign(this, { name: type, hint, facts });
  }
}

/** One request: `for await` gives its tokens (and events), `await request.done` its last reply. */
class Request {
  #replies = [];
  #isEnded = false;
  #wake = () => {};

  constructor(bridge, id) {
    this.bridge = bridge;
    this.id = id;
    this.done = new Promise((resolve, reject) => Object.assign(this, { resolve, reject }));
    // A caller that only iterates over the tokens gets the error from the iteration.
    this.done.catch(() => {});
  }

  receive(reply) {
    const isLast = "ok" in reply || "done" in reply || "error" in reply;
    if (!isLast) this.#replies.push(reply);
    else if ("error" in reply) this.fail(new BridgeError(reply.error));
    else this.#end(() => this.resolve(reply));
    this.#wake();
    return isLast;
  }

  fail(error) {
    this.#end(() => this.reject(error));
    this.#wake();
  }

  /** Ends the request at its next token; `done` still comes, with what there is. */
  cancel() {
    return this.bridge.ask({ cmd: "cancel", target: this.id }).done;
  }

  async *[Symbol.asyncIterator]() {
    for (;;) {
      while (this.#replies.length) yield this.#replies.shift();
      if (this.#isEnded) break;
      await new Promise((wake) => (this.#wake = wake));
    }
    await this.done;
  }

  #end(settle) {
    this.#isEnded = true;
    settle();
  }
}

/** A bridge in a process of its own. It ends with this one, or by `quit`. */
export class Bridge {
  #requests = new Map();
  #nextId = 1;

  constructor(python = process.env.PYTHON ?? "python3") {
    this.process = spawn(python, ["-m", "proxy_engine", "bridge"], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    const lines = createInterface({ input: this.process.stdout, crlfDelay: Infinity });
    lines.on("line", (line) => this.#receive(JSON.parse(line)));
    this.ended = new Promise((resolve) => {
      this.process.on("error", (error) => this.#failAll(error));
      this.process.on("close", (status) => {
        this.#failAll(new Error(`the bridge has ended with status ${status}`));
        resolve(status);
      });
    });
    // The bridge may end before it has read everything; `close` reports that.
    this.process.stdin.on("error", () => {});
  }

  /** Sends any command; fields as in docs/bridge.md. */
  ask(command) {
    const request = new Request(this, this.#nextId++);
    this.#requests.set(request.id, request);
    this.process.stdin.write(`${JSON.stringify({ ...command, id: request.id })}\n`);
    return request;
  }

  load(path) {
    return this.ask({ cmd: "load", path }).done;
  }

  generate(prompt, options = {}) {
    return this.ask({ cmd: "generate", prompt, ...options });
  }

  chat(messages, options = {}) {
    return this.ask({ cmd: "chat", messages, ...options });
  }

  async quit() {
    await this.ask({ cmd: "quit" }).done;
    return this.ended;
  }

  #receive(reply) {
    const request = this.#requests.get(reply.id);
    if (request?.receive(reply)) this.#requests.delete(reply.id);
  }

  #failAll(error) {
    for (const request of this.#requests.values()) request.fail(error);
    this.#requests.clear();
  }
}

async function main(model) {
  const bridge = new Bridge();
  const loaded = await bridge.load(model);
  console.log(`loaded ${loaded.model_type}, ${loaded.vocab_size} tokens`);

  // Two concurrent requests: one is read token by token, one is cancelled.
  const person = {
    type: "object",
    properties: {
      name: { type: "string", maxLength: 20 },
      age: { type: "integer", minimum: 0, maximum: 130 },
    },
    required: ["name", "age"],
    additionalProperties: false,
  };
  const messages = [
    { role: "system", content: "Extract name and age as JSON." },
    { role: "user", content: "Ada is 36 years old." },
  ];
  const answer = bridge.chat(messages, { response_format: person, max_tokens: 60 });
  const story = bridge.generate("Tell a long story.", { min_tokens: 300, max_tokens: 300 });
  await story.cancel();
  for await (const { token } of answer) process.stdout.write(token);
  const { result, tokens_generated: count } = await answer.done;
  console.log(`\nparsed ${JSON.stringify(result.parsed)} from ${count} tokens`);
  console.log(`the story was ${(await story.done).result.finish_reason}`);

  try {
    await bridge.generate("x", { response_format: { type: "integer", enum: ["a"] } }).done;
  } catch (error) {
    console.log(`refused: ${error.name} at #${error.facts.pointer}`);
  }
  console.log(`ended with status ${await bridge.quit()}`);
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  await main(process.argv[2]).catch((error) => {
    console.error(`${error.name}: ${error.message}`);
    process.exitCode = 1;
  });
}
