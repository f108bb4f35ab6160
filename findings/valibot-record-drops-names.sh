#!/usr/bin/env bash
# valibot 1.5.0: v.record drops the names "constructor" and "prototype" and reports success.
#
# A dictionary by words is read with v.record(v.string(), v.number()). The input {"constructor": 3, "the": 7} is
# parsed without an issue, and the output is {"the": 7}: the entry is lost. v.record also skips the validation of
# such an entry. The emitted JSON Schema admits the name, and zod 4.6.7 and arktype 2.2.10 keep the entry.
#
# Output seen:
#   valibot true {"the":7}
#   valibot true {}               ("constructor" with a value of the wrong type)
#   zod     true {"constructor":3,"the":7}
#   arktype true {"constructor":3,"the":7}
#
# Exit status: 0 if the behaviour is as described, 1 if it has changed.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
npm init -y >/dev/null
npm install --silent --no-audit --no-fund --ignore-scripts valibot@1.5.0 zod@4.6.7 arktype@2.2.10
cat >check.mjs <<'JS'
import { type } from "arktype";
import * as v from "valibot";
import { z } from "zod";

const words = () => JSON.parse('{"constructor": 3, "the": 7}');
const counts = v.record(v.string(), v.number());
const ofValibot = v.safeParse(counts, words());
console.log("valibot", ofValibot.success, JSON.stringify(ofValibot.output));
const wrong = v.safeParse(counts, JSON.parse('{"constructor": "three"}'));
console.log("valibot", wrong.success, JSON.stringify(wrong.output));
const ofZod = z.record(z.string(), z.number()).safeParse(words());
console.log("zod    ", ofZod.success, JSON.stringify(ofZod.data));
const ofArktype = type({ "[string]": "number" })(words());
console.log("arktype", !(ofArktype instanceof type.errors), JSON.stringify(ofArktype));
const isAsDescribed =
  ofValibot.success &&
  !Object.hasOwn(ofValibot.output, "constructor") &&
  wrong.success &&
  Object.hasOwn(ofZod.data, "constructor") &&
  Object.hasOwn(ofArktype, "constructor");
process.exit(isAsDescribed ? 0 : 1);
JS
node check.mjs
