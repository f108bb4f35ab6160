// Types of TypeBox, by name, for `typebox` and for `@sinclair/typebox`.

export function typesOf(Type) {
  const cat = Type.Object({ kind: Type.Literal("cat"), lives: Type.Integer({ minimum: 0, maximum: 9 }) });
  const dog = Type.Object({ kind: Type.Literal("dog"), barks: Type.Boolean() });
  const address = Type.Object({ street: Type.String({ minLength: 1 }), zip: Type.String({ pattern: "^\\d{5}$" }) });
  const formats = ["date-time", "date", "time", "duration", "email", "idn-email", "hostname", "idn-hostname", "ipv4"];
  const more = ["ipv6", "uri", "uri-reference", "iri", "iri-reference", "uuid", "uri-template"];
  const pointers = ["json-pointer", "relative-json-pointer", "regex"];
  const all = [...formats, ...more, ...pointers];
  const types = {
    string: Type.String(),
    number: Type.Number(),
    integer: Type.Integer(),
    boolean: Type.Boolean(),
    null: Type.Null(),
    any: Type.Any(),
    unknown: Type.Unknown(),
    literal: Type.Literal("a"),
    "literal number": Type.Literal(1.5),
    "literal true": Type.Literal(true),
    minimum: Type.Number({ minimum: 0 }),
    exclusiveMinimum: Type.Number({ exclusiveMinimum: 0 }),
    exclusiveMaximum: Type.Number({ exclusiveMaximum: 0.1 }),
    between: Type.Number({ minimum: -1.5, maximum: 2.5 }),
    "integer between": Type.Integer({ minimum: 3, maximum: 7 }),
    "multipleOf 3": Type.Integer({ multipleOf: 3 }),
    "multipleOf 0.1": Type.Number({ multipleOf: 0.1 }),
    "multipleOf 0.25": Type.Number({ multipleOf: 0.25 }),
    minLength: Type.String({ minLength: 2 }),
    maxLength: Type.String({ maxLength: 3 }),
    "length 1": Type.String({ minLength: 1, maxLength: 1 }),
    pattern: Type.String({ pattern: "^[A-Z]{2}\\d{3}$" }),
    "pattern without anchors": Type.String({ pattern: "\\d+" }),
    "pattern of one character": Type.String({ pattern: "^.$" }),
    "pattern negated class": Type.String({ pattern: "^[^a]$" }),
    "template literal": Type.TemplateLiteral([Type.Literal("id-"), Type.Integer()]),
    "template literal of numbers": Type.TemplateLiteral("${number}px"),
    "template literal of unions": Type.TemplateLiteral([Type.Union([Type.Literal("a"), Type.Literal("b")]), Type.Literal("-x")]),
    "template literal of strings": Type.TemplateLiteral([Type.String(), Type.Literal(":"), Type.String()]),
    array: Type.Array(Type.Number()),
    minItems: Type.Array(Type.String(), { minItems: 1, maxItems: 2 }),
    uniqueItems: Type.Array(Type.Union([Type.Literal("a"), Type.Literal("b"), Type.Literal("c")]), { uniqueItems: true }),
    contains: Type.Array(Type.Unknown(), { contains: Type.Literal(1), minContains: 1, maxContains: 2 }),
    tuple: Type.Tuple([Type.String(), Type.Number()]),
    "tuple empty": Type.Tuple([]),
    "tuple nested": Type.Tuple([Type.Tuple([Type.Integer()]), Type.Boolean()]),
    "array of tuples": Type.Array(Type.Tuple([Type.String(), Type.Boolean()])),
    object: Type.Object({ name: Type.String(), age: Type.Integer({ minimum: 0 }) }),
    "object closed": Type.Object({ a: Type.String() }, { additionalProperties: false }),
    "object with rest": Type.Object({ a: Type.String() }, { additionalProperties: Type.Number() }),
    "object empty": Type.Object({}),
    "object optional": Type.Object({ a: Type.Optional(Type.String()), b: Type.Number() }),
    "object nested": Type.Object({ user: Type.Object({ home: address }) }),
    "object partial": Type.Partial(address),
    "object required": Type.Required(Type.Partial(address)),
    "object pick": Type.Pick(address, ["zip"]),
    "object omit": Type.Omit(address, ["zip"]),
    "object with counts": Type.Object({}, { minProperties: 1, maxProperties: 2 }),
    keyof: Type.KeyOf(address),
    index: Type.Index(address, ["zip"]),
    record: Type.Record(Type.String(), Type.Number()),
    "record of pattern": Type.Record(Type.String({ pattern: "^k\\d+$" }), Type.Boolean()),
    "record of literals": Type.Record(Type.Union([Type.Literal("a"), Type.Literal("b")]), Type.Integer()),
    "record of numbers": Type.Record(Type.Number(), Type.String()),
    "record of integers": Type.Record(Type.Integer(), Type.String()),
    "record closed": Type.Record(Type.String({ pattern: "^k$" }), Type.Null(), { additionalProperties: false }),
    nullable: Type.Union([Type.String(), Type.Null()]),
    union: Type.Union([Type.String(), Type.Number()]),
    "union of objects": Type.Union([cat, dog]),
    "array of unions": Type.Array(Type.Union([cat, dog])),
    intersect: Type.Intersect([Type.Object({ a: Type.String() }), Type.Object({ b: Type.Number() })]),
    "intersect closed": Type.Intersect([Type.Object({ a: Type.String() }), Type.Object({ b: Type.Number() })], {
      unevaluatedProperties: false,
    }),
    "enum": Type.Enum({ Up: "UP", Down: "DOWN" }),
    "enum of numbers": Type.Enum({ Low: 0, High: 1 }),
    exclude: Type.Exclude(Type.Union([Type.Literal("a"), Type.Literal("b")]), Type.Literal("a")),
    extract: Type.Extract(Type.Union([Type.Literal("a"), Type.Literal(1)]), Type.String()),
    capitalize: Type.Capitalize(Type.Literal("hello")),
    readonly: Type.Object({ a: Type.Readonly(Type.String()) }),
    "default": Type.Object({ a: Type.String({ default: "x" }) }),
    ...Object.fromEntries(all.map((name) => [`format ${name}`, Type.String({ format: name })])),
  };
  // What docs/reader-schemas.md recommends. No text may be refused.
  Object.assign(types, {
    "format url by x-reader-language": Type.String({ format: "url", "x-reader-language": { language: "url" } }),
    "instead of maxLength": Type.String({ maxLength: 3, pattern: "^[\\u0000-\\ud7ff\\ue000-\\uffff]*$" }),
    "instead of multipleOf": Type.Integer({ multipleOf: 3, minimum: -9007199254740991, maximum: 9007199254740991 }),
  });
  if (Type.Not) {
    types.not = Type.Not(Type.String());
    types["not in an intersection"] = Type.Intersect([Type.Integer(), Type.Not(Type.Literal(3))]);
  }
  if (Type.Recursive) {
    types.tree = Type.Recursive((This) => Type.Object({ value: Type.Number(), children: Type.Array(This) }));
    types["tuple in a tree"] = Type.Recursive((This) => Type.Object({ pair: Type.Optional(Type.Tuple([This, This])) }));
  } else {
    const children = Type.Array(Type.Ref("Tree"));
    types.tree = Type.Cyclic({ Tree: Type.Object({ value: Type.Number(), children }) }, "Tree");
    const pair = Type.Optional(Type.Tuple([Type.Ref("Tree"), Type.Ref("Tree")]));
    types["tuple in a tree"] = Type.Cyclic({ Tree: Type.Object({ pair }) }, "Tree");
    types.script = Type.Script('{ x: number, y?: string, z: [1, "a"] }');
    types.interface = Type.Interface([Type.Object({ a: Type.String() })], { b: Type.Number() });
    types.refine = Type.Refine(Type.String(), (text) => text.length % 2 === 0);
  }
  return types;
}
