#!/usr/bin/env bash
# openai 7.59.0 and @anthropic-ai/sdk 1.14.0 with zod 4.6.7: the response format of a type that converts is a schema
# that the type's own parser refuses.
#
# zodResponseFormat and zodOutputFormat send the schema of zod's default, io: "output", which describes the value after
# conversions. The answer is then parsed with the same type, which reads the value before conversions. For
# z.stringbool(), a codec and a pipe the two sets have no text in common: an answer that keeps to the schema is always
# refused, and one that the parser reads is never written. Neither function warns. zodSchema of ai 6.0.326 asks for the
# input side.
#
# Output seen (Node.js 20):
#                             openai: schema, parser   anthropic: schema, parser   ai: schema, parser
#   stringbool {"a":true}             true  false                true  false           false false
#   stringbool {"a":"yes"}            false true                 false true            true  true
#   codec      {"a":2024}             true  false                true  false           false false
#   codec      {"a":"2024-05-06"}     false true                 false true            true  true
#   pipe       {"a":5}                true  false                true  false           false false
#   pipe       {"a":"5"}              false true                 false true            true  true
#
# Exit status: 0 if the behaviour is as described, 1 if it has changed.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
npm init -y >/dev/null
npm install --silent --no-audit --no-fund --ignore-scripts \
    openai@7.59.0 @anthropic-ai/sdk@1.14.0 ai@6.0.326 zod@4.6.7 ajv@8.20.0
cat >check.mjs <<'JS'
import { zodOutputFormat } from "@anthropic-ai/sdk/helpers/zod";
import { zodSchema } from "ai";
import Ajv from "ajv";
import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";

const types = {
  stringbool: z.stringbool(),
  codec: z.codec(z.iso.date(), z.int(), {
    decode: (date) => Number(date.slice(0, 4)),
    encode: (year) => `${year}-01-01`,
  }),
  pipe: z.string().transform(Number).pipe(z.number()),
};
const answers = {
  stringbool: [true, "yes"],
  codec: [2024, "2024-05-06"],
  pipe: [5, "5"],
};

function reads(parse, text) {
  try {
    parse(text);
    return true;
  } catch {
    return false;
  }
}

let changed = 0;
for (const [name, member] of Object.entries(types)) {
  const type = z.object({ a: member });
  const openai = zodResponseFormat(type, "answer");
  const anthropic = zodOutputFormat(type);
  const readers = {
    openai: [openai.json_schema.schema, openai.$parseRaw],
    anthropic: [anthropic.schema, anthropic.parse],
    ai: [await zodSchema(type).jsonSchema, (text) => type.parse(JSON.parse(text))],
  };
  answers[name].forEach((a, index) => {
    const verdicts = [];
    for (const [schema, parse] of Object.values(readers)) {
      const { $schema, ...plain } = schema;
      const admits = new Ajv({ strict: false, validateFormats: false }).compile(plain);
      verdicts.push(`${admits({ a })} ${reads(parse, JSON.stringify({ a }))}`);
    }
    console.log(name.padEnd(10), JSON.stringify({ a }).padEnd(18), verdicts.join("   "));
    const expected = index === 0
      ? "true false,true false,false false"
      : "false true,false true,true true";
    changed += verdicts.join(",") !== expected;
  });
}
process.exit(changed ? 1 : 0);
JS
node check.mjs
