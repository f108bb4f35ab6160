#!/usr/bin/env bash
# @valibot/to-json-schema 1.8.0 converts isoTime and isoDateTime to formats that their validators contradict.
#
# Versions: valibot 1.5.0, @valibot/to-json-schema 1.8.0, ajv 8.20.0, ajv-formats 3.0.1 (Node.js 20).
#
# v.isoTime() accepts "hh:mm" and v.isoDateTime() accepts "yyyy-mm-ddThh:mm", both without seconds and offset.
# The converter emits {"format": "time"} and {"format": "date-time"}, which are those of RFC 3339: seconds and
# offset are required. No text satisfies both the emitted schema and the type it was made from. The converter
# gives no warning, although its errorMode is "throw".
#
# Output seen:
#   isoTime {"type":"string","format":"time"}
#     "12:00"                valibot true  schema false
#     "12:00:00Z"            valibot false schema true
#     "12:00:00+01:00"       valibot false schema true
#   isoDateTime {"type":"string","format":"date-time"}
#     "2020-01-01T12:00"     valibot true  schema false
#     "2020-01-01T12:00:00Z" valibot false schema true
#
# Exit status: 0 if the behaviour is as described, 1 if it has changed.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
npm init -y >/dev/null
npm install --silent --no-audit --no-fund --ignore-scripts \
    valibot@1.5.0 @valibot/to-json-schema@1.8.0 ajv@8.20.0 ajv-formats@3.0.1
cat >check.mjs <<'JS'
import { toJsonSchema } from "@valibot/to-json-schema";
import Ajv from "ajv";
import addFormats from "ajv-formats";
import * as v from "valibot";

const ajv = new Ajv();
addFormats(ajv);
const texts = {
  isoTime: ["12:00", "12:00:00Z", "12:00:00+01:00"],
  isoDateTime: ["2020-01-01T12:00", "2020-01-01T12:00:00Z"],
};
let agree = 0;
for (const [name, list] of Object.entries(texts)) {
  const type = v.pipe(v.string(), v[name]());
  const { $schema, ...schema } = toJsonSchema(type);
  console.log(name, JSON.stringify(schema));
  const admits = ajv.compile(schema);
  for (const text of list) {
    const isRead = v.safeParse(type, text).success;
    console.log(" ", JSON.stringify(text), "valibot", isRead, "schema", admits(text));
    agree += isRead === admits(text);
  }
}
process.exit(agree ? 1 : 0);
JS
node check.mjs
