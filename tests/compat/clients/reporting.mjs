// Runs a client's checks and prints one JSON line per check.

export const SERVER = process.env.COMPAT_SERVER;
export const URL = `${SERVER}/v1`;
export const MODEL = process.env.COMPAT_MODEL;
// The server fails after a few tokens of an answer to this prompt.
export const FAILING_PROMPT = process.env.COMPAT_FAILING_PROMPT;

const checks = [];

// Register a check; `how` names what the client calls.
export function check(feature, how, run) {
  checks.push({ feature, how, run });
}

export function assert(condition, message = "assertion failed") {
  if (!condition) throw new Error(message);
}

// Return the error that `run` throws.
export async function raised(run) {
  try {
    await run();
  } catch (error) {
    return error;
  }
  throw new Error("no error was raised");
}

// Run the registered checks in their order.
export async function run() {
  for (const { feature, how, run } of checks) {
    let problem = "";
    try {
      await run();
    } catch (error) {
      problem = `${error?.name}: ${error?.message}`.replace(/\s+/g, " ").slice(0, 300);
    }
    console.log(JSON.stringify({ feature, works: !problem, how, problem }));
  }
}
