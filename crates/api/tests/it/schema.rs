//! Writes proto/windlass/v1/windlass.proto from the list of calls and the messages.

use std::collections::BTreeMap;
use std::fmt::Write;

use windlass_api::call::{Call, EachCall, for_each_call};
use windlass_api::error::ErrorReply;
use windlass_api::schema::{Described, Field, Label, Message, Type};

const TAKES_ALL: &str = "a string takes whatever is written to it";

/// Columns of a line at most.
const WIDTH: usize = 120;

/// The modules of the messages, in the order of the file. Within a module, messages stand as in the source.
const SECTIONS: &[(&str, &[&str])] = &[
    ("Queues", &["queues", "queues::stats", "queues::history"]),
    (
        "Items",
        &[
            "items::produce",
            "items::lease",
            "items::next",
            "items::item",
            "items::find",
            "items::change",
            "permits",
            "explain",
        ],
    ),
    ("Events of items", &["events"]),
    ("Groups", &["groups"]),
    ("Rules", &["rules"]),
    ("Crons", &["crons"]),
    ("Storage", &["storage", "unclaimed"]),
    ("Payloads", &["payload"]),
    ("The server", &["service"]),
    ("Errors", &["error"]),
];

const INTRODUCTION: &str = "\
// Written by a test from the code: UPDATE_DOCS=1 cargo test -p windlass-api --test it document
//
// The Windlass API in protobuf. It is plain HTTP, as with JSON, and no gRPC:
//
//   POST /v1/<noun>.<verb>
//   Content-Type: application/protobuf
//
// with the encoded request as the body and nothing around it. The answer comes in the encoding of the request,
// unless `Accept` names the other one. Status 200 carries the reply, every other status an ErrorReply.
//
";

const RULES: &str = "\
//
// What holds everywhere:
// - A field that is not set has its default. An `optional` one can be set to its zero, and that is not the same as
//   unset. Fields the server does not know are ignored, as is usual in protobuf (in JSON they are refused).
// - Times and durations are kept in microseconds; what is finer is cut off. Times are of the years 0001 to 9999,
//   durations at most 36500 days and not negative. Comments write durations as JSON does: `30s`, `15m`.
// - A payload is one of `json` (the text of a JSON value), `utf8` (a text) and `bytes` (anything). What was sent
//   comes back in the field it was sent in. JSON has at most 128 levels of brackets, 1000 digits in a number, and no
//   lone surrogate.
// - Fields keep their numbers for ever, and new ones may come in every message.

syntax = \"proto3\";

package windlass.v1;

import \"google/protobuf/duration.proto\";
import \"google/protobuf/timestamp.proto\";
";

pub(crate) fn write() -> String {
    let mut schema = Schema::default();
    for_each_call(&mut schema);
    schema.add(&ErrorReply::TYPE);
    let mut text = format!("{INTRODUCTION}{}{RULES}", table(&schema.calls));
    for (at, (title, _)) in SECTIONS.iter().enumerate() {
        write!(text, "\n// ---- {title} ----\n").expect(TAKES_ALL);
        let mut messages: Vec<_> = schema.messages.iter().filter(|message| place(message).0 == at).collect();
        messages.sort_by_key(|message| (place(message), message.line));
        messages.into_iter().for_each(|message| schema.write_message(message, &mut text));
    }
    text
}

#[derive(Default)]
struct Schema {
    /// Call, request and reply.
    calls: Vec<[&'static str; 3]>,
    /// In the order of their first use.
    messages: Vec<&'static Message>,
    /// What the calls say of requests and replies, by the name of the message.
    uses: BTreeMap<&'static str, (&'static str, Vec<&'static str>)>,
}

impl EachCall for Schema {
    fn visit<C: Call>(&mut self) {
        self.calls.push([C::NAME, C::TYPE.name(), C::Reply::TYPE.name()]);
        for (role, message) in [("Request", &C::TYPE), ("Reply", &C::Reply::TYPE)] {
            self.add(message);
            self.uses.entry(message.name()).or_insert((role, Vec::new())).1.push(C::NAME);
        }
    }
}

impl Schema {
    /// Adds a message, and all that its fields are of.
    fn add(&mut self, of: &Type) {
        let Type::Message(message) = of else { return };
        if self.messages.iter().any(|known| known.name == message.name) {
            return;
        }
        self.messages.push(message);
        message.fields.iter().for_each(|field| self.add(&field.of));
    }

    fn write_message(&self, message: &Message, text: &mut String) {
        let used = self.uses.get(message.name).map(|(role, calls)| format!("{role} of {}.", joined(calls)));
        let about = used.into_iter().chain([message.doc.to_owned()]).collect::<Vec<_>>().join(" ");
        text.push('\n');
        write_comment(about.trim(), "", text);
        if message.fields.is_empty() {
            writeln!(text, "message {} {{}}", message.name).expect(TAKES_ALL);
            return;
        }
        writeln!(text, "message {} {{", message.name).expect(TAKES_ALL);
        for field in message.fields {
            write_comment(field.doc, "  ", text);
            writeln!(text, "  {}", definition(field)).expect(TAKES_ALL);
        }
        text.push_str("}\n");
    }
}

fn definition(Field { number, name, label, of, is_json, .. }: &Field) -> String {
    let kind = of.name();
    let kind = match (label, of) {
        // A message can be unset without the word.
        (Label::One, _) | (Label::Optional, Type::WellKnown(_) | Type::Message(_)) => kind.to_owned(),
        (Label::Optional, Type::Scalar(_)) => format!("optional {kind}"),
        (Label::Repeated, _) => format!("repeated {kind}"),
        (Label::Map(key), _) => format!("map<{}, {kind}>", key.name()),
    };
    let note = if *is_json { "  // JSON text" } else { "" };
    format!("{kind} {name} = {number};{note}")
}

/// Where a message stands: its section, and its module within.
fn place(message: &Message) -> (usize, usize) {
    let module = message.module.trim_start_matches("windlass_api::");
    let of_section = |modules: &&[&str]| modules.iter().position(|known| *known == module);
    let mut sections = SECTIONS.iter().enumerate();
    let found = sections.find_map(|(at, (_, modules))| of_section(modules).map(|within| (at, within)));
    found.unwrap_or_else(|| panic!("`{module}` is missing from `SECTIONS` of {}", file!()))
}

fn table(calls: &[[&str; 3]]) -> String {
    let width = |column: usize| calls.iter().map(|call| call[column].len()).max().unwrap_or_default();
    let widths = [0, 1, 2].map(width);
    let rule = widths.map(|width| "-".repeat(width));
    let row = |[call, request, reply]: [&str; 3]| {
        let row = format!("//   {call:0$}  {request:1$}  {reply}", widths[0], widths[1]);
        row.trim_end().to_owned() + "\n"
    };
    let head = [["call", "request", "reply"], rule.each_ref().map(String::as_str)];
    head.into_iter().chain(calls.iter().copied()).map(row).collect()
}

/// `a`, `a and b`, or `a, b and c`.
fn joined(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [others @ .., last] => format!("{} and {last}", others.join(", ")),
    }
}

/// Fills lines with the words of a comment.
fn write_comment(comment: &str, indent: &str, text: &mut String) {
    let mut line = format!("{indent}//");
    for word in comment.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            writeln!(text, "{line}").expect(TAKES_ALL);
            line = format!("{indent}//");
        }
        write!(line, " {word}").expect(TAKES_ALL);
    }
    writeln!(text, "{line}").expect(TAKES_ALL);
}
