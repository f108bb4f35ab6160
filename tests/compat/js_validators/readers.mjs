// Emits the JSON Schemas of a catalogue of types, or reads texts with the types.
//
//   node readers.mjs emit    one line per type and target: {library, name, target, schema} or {…, error}
//   node readers.mjs read    reads lines {library, name, text} and writes {problem}, null for a text that is read

import { createInterface } from "node:readline";

import { toJsonSchema } from "@valibot/to-json-schema";
import { Type as OldType } from "@sinclair/typebox";
import { TypeCompiler } from "@sinclair/typebox/compiler";
import { type } from "arktype";
import { Type } from "typebox";
import { Compile } from "typebox/compile";
import * as v from "valibot";
import { z } from "zod";

import { types as arktypeTypes } from "./arktype_types.mjs";
import { typesOf } from "./typebox_types.mjs";
import { partial, types as valibotTypes } from "./valibot_types.mjs";
import { types as zodTypes } from "./zod_types.mjs";

const DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema";

function firstIssue(issues) {
  return issues.map((issue) => issue.message).join("; ").slice(0, 120);
}

function valibotReader(types, config) {
  return {
    types,
    targets: {
      "draft-07": (each) => toJsonSchema(each, { typeMode: "input", ...config }),
      "draft-2020-12": (each) => toJsonSchema(each, { typeMode: "input", target: "draft-2020-12", ...config }),
      "openapi-3.0": (each) => toJsonSchema(each, { typeMode: "input", target: "openapi-3.0", ...config }),
    },
    read: (each, value) => {
      const result = v.safeParse(each, value);
      return result.success ? null : firstIssue(result.issues);
    },
  };
}

function zodTarget(target, io = "input") {
  return (each) => z.toJSONSchema(each, { target, io });
}

const readers = {
  zod: {
    types: zodTypes,
    targets: {
      "draft-2020-12": zodTarget("draft-2020-12"),
      "draft-2020-12 output": zodTarget("draft-2020-12", "output"),
      "draft-07": zodTarget("draft-07"),
      "draft-04": zodTarget("draft-04"),
      "openapi-3.0": zodTarget("openapi-3.0"),
    },
    read: (each, value) => {
      const result = each.safeParse(value);
      return result.success ? null : firstIssue(result.error.issues);
    },
  },
  valibot: valibotReader(valibotTypes, {}),
  "valibot, actions ignored": valibotReader(partial, { errorMode: "ignore" }),
  typebox: {
    types: typesOf(Type),
    targets: { schema: (each) => each },
    read: (each, value) => (Compile(each).Check(value) ? null : "Check returned false"),
  },
  "@sinclair/typebox": {
    // Formats are unknown to it until the program registers them; then every text is refused.
    types: Object.fromEntries(Object.entries(typesOf(OldType)).filter(([name]) => !name.startsWith("format "))),
    targets: { schema: (each) => each },
    read: (each, value) => (TypeCompiler.Compile(each).Check(value) ? null : "Check returned false"),
  },
  arktype: {
    types: arktypeTypes,
    targets: {
      // `fallback` keeps what JSON Schema can say where the type is narrower.
      "draft-2020-12": (each) => each.in.toJsonSchema({ dialect: DRAFT_2020, fallback: (context) => context.base }),
      "draft-07": (each) => each.in.toJsonSchema({ target: "draft-07", fallback: (context) => context.base }),
    },
    read: (each, value) => {
      const result = each(value);
      return result instanceof type.errors ? result.summary.slice(0, 120) : null;
    },
  },
};

function emit() {
  for (const [library, reader] of Object.entries(readers)) {
    for (const [name, each] of Object.entries(reader.types)) {
      for (const [target, convert] of Object.entries(reader.targets)) {
        let found;
        try {
          found = { schema: JSON.parse(JSON.stringify(convert(each))) };
        } catch (error) {
          found = { error: String(error.message).slice(0, 200) };
        }
        console.log(JSON.stringify({ library, name, target, ...found }));
      }
    }
  }
}

function problem(line) {
  const { library, name, text } = JSON.parse(line);
  const { types, read } = readers[library];
  try {
    return read(types[name], JSON.parse(text));
  } catch (error) {
    return `${error.name}: ${error.message}`.slice(0, 120);
  }
}

async function read() {
  for await (const line of createInterface({ input: process.stdin })) {
    console.log(JSON.stringify({ problem: problem(line) }));
  }
}

if (process.argv[2] === "emit") emit();
else await read();
