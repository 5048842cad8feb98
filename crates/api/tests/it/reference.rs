//! Writes docs/reference/api.md from the list of calls and the schemas.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::Value;
use serde_json::value::RawValue;
use windlass_api::call::{Call, EachCall, for_each_call};

use crate::contract::{Contract, is_nullable, reference, type_of};
use crate::document::Example;

const TAKES_ALL: &str = "a string takes whatever is written to it";

const INTRODUCTION: &str = "\
<!-- Written by a test from the code: UPDATE_DOCS=1 cargo test -p windlass-api --test it document -->

# The API

Every call is `POST /v1/<call>` with a JSON object as its body; an empty body is `{}`. With `Content-Type:
application/protobuf` the body is a message of `proto/windlass/v1/windlass.proto`, which says the message for each
call, and the answer comes in the same encoding. What can come back instead of a reply is in [errors.md](errors.md);
all this for machines is in [openapi.json](openapi.json), which a server also answers at `/openapi.json`.

- A field marked with `?` may be left out; in a reply it is there only if it has something to say. A field that is
  not in the list is refused by its name.
- A **time** is RFC 3339 at any offset: `2026-01-31T13:00:00+01:00`. Answers are in UTC with microseconds:
  `2026-01-31T12:00:00.000000Z`.
- A **duration** is numbers with units, the larger first, of `d` `h` `m` `s` `ms` `us`: `250ms`, `30s`, `1h30m`.
  At most `36500d`.
- A **payload** is exactly one of `json` (any JSON value), `utf8` (a text) and `bytes` (base64 with padding). It
  comes back in the field it was sent in. JSON has at most 128 levels of brackets, 1000 digits in a number, and no lone
  surrogate (half of a pair such as `\\ud83d\\ude00`): readers of a whole batch would fail at it.
- Every reply carries `Windlass-Request-Id`; that of a call that changes something also `Windlass-Commit`, the place
  of the change in the order of its partition, as `partition:sequence`. If the change touched several partitions they are
  separated by commas; at most 32 are named, and `+n` at the end counts the others.
- U+0000 is refused in every text but a payload.

## Calls

A call that waits answers at the latest after its `request_timeout`.

| call | what it does | changes something | waits |
| --- | --- | --- | --- |
";

pub(crate) fn write(contract: &Contract, examples: &BTreeMap<String, Example>) -> String {
    let mut page = Page { contract, examples, list: String::new(), calls: String::new(), types: Vec::new() };
    for_each_call(&mut page);
    let Page { list, calls, .. } = &page;
    let mut text = format!("{INTRODUCTION}{list}{calls}\n## Types\n");
    let mut written = 0;
    // A type can name further ones.
    while let Some(name) = page.types.get(written).cloned() {
        written += 1;
        let table = page.table(&name);
        write!(text, "\n### {name}\n\n{}", table.trim_start()).expect(TAKES_ALL);
    }
    text
}

struct Page<'a> {
    contract: &'a Contract,
    examples: &'a BTreeMap<String, Example>,
    list: String,
    calls: String,
    /// Those named so far, in the order of their first use.
    types: Vec<String>,
}

impl EachCall for Page<'_> {
    fn visit<C: Call>(&mut self) {
        let (name, summary) = (C::NAME, C::SUMMARY);
        let anchor = name.replace('.', "");
        let mark = |holds| if holds { "yes" } else { "" };
        let (changes, waits) = (mark(C::CHANGES), mark(C::WAITS));
        writeln!(self.list, "| [{name}](#{anchor}) | {summary} | {changes} | {waits} |").expect(TAKES_ALL);
        let request = self.table(&C::schema_name());
        let reply = self.table(&<C::Reply as schemars::JsonSchema>::schema_name());
        let example = self.examples.get(name).map(written_out).unwrap_or_default();
        write!(
            self.calls,
            "
## {name}

{summary}

**Request.**{request}
**Reply.**{reply}{example}"
        )
        .expect(TAKES_ALL);
    }
}

impl Page<'_> {
    /// What a message is, and its fields: first those that are always there.
    fn table(&mut self, name: &str) -> String {
        let schema = &self.contract.schemas[name];
        let about = schema["description"].as_str().map(|about| format!(" {}", about.replace('\n', " ")));
        let about = about.unwrap_or_default();
        let required: Vec<_> = schema["required"].as_array().into_iter().flatten().collect();
        let is_required = |field: &str| required.iter().any(|name| *name == field);
        let message = self.contract.message(name);
        let mut fields: Vec<_> = message.fields().map(|field| field.name().to_owned()).collect();
        if fields.is_empty() {
            return " `{}`\n".to_owned();
        }
        fields.sort_by_key(|field| !is_required(field));
        let mut table = format!("{about}\n\n| field | type | meaning |\n| --- | --- | --- |\n");
        for field in fields {
            let schema = &schema["properties"][&field];
            let mark = if is_required(&field) { "" } else { "?" };
            let (kind, meaning) = (self.kind(schema), meaning(schema));
            writeln!(table, "| `{field}{mark}` | {kind} | {meaning} |").expect(TAKES_ALL);
        }
        table
    }

    fn kind(&mut self, schema: &Value) -> String {
        let kind = self.kind_but_null(schema);
        if is_nullable(schema) { format!("{kind} or null") } else { kind }
    }

    fn kind_but_null(&mut self, schema: &Value) -> String {
        match reference(schema) {
            Some("Duration") => return "duration".to_owned(),
            Some(name) => return self.link(name),
            None => {}
        }
        match type_of(schema) {
            None => "any JSON".to_owned(),
            Some("array") => format!("list of {}", self.kind(&schema["items"])),
            Some("object") if schema.get("additionalProperties").is_none() => "JSON object".to_owned(),
            Some("object") => format!("map to {}", self.kind(&schema["additionalProperties"])),
            Some("integer") => integer(schema),
            Some("string") => string(schema),
            Some(plain) => plain.to_owned(),
        }
    }

    fn link(&mut self, name: &str) -> String {
        if !self.types.iter().any(|known| known == name) {
            self.types.push(name.to_owned());
        }
        format!("[{name}](#{})", name.to_lowercase())
    }
}

fn integer(schema: &Value) -> String {
    let min = schema["minimum"].as_u64().unwrap_or_default();
    match schema["maximum"].as_u64() {
        Some(max) if max <= 1024 => format!("integer, {min} to {max}"),
        _ => "integer".to_owned(),
    }
}

/// The values that it can have are named only if its meaning does not name them.
fn string(schema: &Value) -> String {
    let values = schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let values: Vec<_> = values.map(|value| format!("`{value}`")).collect();
    let told = meaning(schema);
    if values.iter().any(|value| !told.contains(value)) {
        return values.join(", ");
    }
    match (schema["format"].as_str(), schema["contentEncoding"].as_str()) {
        (Some("date-time"), _) => "time".to_owned(),
        (Some("uuid"), _) => "id".to_owned(),
        (_, Some(encoding)) => encoding.to_owned(),
        (_, None) => "string".to_owned(),
    }
}

fn meaning(schema: &Value) -> String {
    schema["description"].as_str().unwrap_or_default().replace('\n', " ").replace('|', "\\|")
}

fn written_out(example: &Example) -> String {
    let (request, reply) = (block(&example.request), block(&example.reply));
    format!("\nFor example\n\n{request}\nis answered with\n\n{reply}")
}

/// As it stands in the file of examples, moved to the left margin.
fn block(json: &RawValue) -> String {
    let indent = json.get().lines().last().map_or(0, |line| line.len() - line.trim_start().len());
    let lines = json.get().lines().map(|line| line.get(indent..).unwrap_or(line));
    // The first line has lost its own margin already.
    let first = json.get().lines().next().into_iter();
    let text = first.chain(lines.skip(1)).collect::<Vec<_>>().join("\n");
    format!("```json\n{text}\n```\n")
}
