//! `/openapi.json`, made from the list of calls.

use std::collections::BTreeSet;

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::call::{Call, EachCall, for_each_call};
use crate::error::{Code, ErrorReply};
use crate::rules_of_fields::Patterns;
use crate::tidy::Tidy;
use crate::{COMMIT, EVENT_STREAM, JSON, PROTOBUF, REQUEST_ID};

/// Requests and replies of the main calls, by the name of the call.
const EXAMPLES: &str = include_str!("examples.json");

/// The whole document.
pub fn document() -> Value {
    let mut paths = Paths::new();
    for_each_call(&mut paths);
    let error = paths.replies.subschema_for::<ErrorReply>();
    let Paths { mut requests, mut replies, mut paths, .. } = paths;
    paths.extend(plain_pages());
    paths.insert("/v1/item.events".to_owned(), stream_of_events());
    let schemas = merged(requests.take_definitions(true), replies.take_definitions(true));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Windlass",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "A durable work queue. Every call also speaks protobuf: the schema is in proto/.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "tags": tags(),
        "paths": paths,
        "components": {
            "schemas": schemas,
            "headers": headers(),
            "responses": error_replies(&json!(error)),
        },
    })
}

fn merged(mut schemas: Map<String, Value>, others: Map<String, Value>) -> Map<String, Value> {
    for (name, schema) in others {
        let same = schemas.get(&name).is_none_or(|known| *known == schema);
        debug_assert!(same, "{name} is one thing in requests and another in replies");
        schemas.insert(name, schema);
    }
    schemas
}

/// What a request must hold is not what a reply always holds: each has a generator of its own.
struct Paths {
    requests: SchemaGenerator,
    replies: SchemaGenerator,
    examples: Value,
    paths: Map<String, Value>,
}

impl Paths {
    fn new() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
            settings.transforms.push(Box::new(Tidy));
            settings.transforms.push(Box::new(Patterns));
        });
        Self {
            requests: settings.clone().into_generator(),
            replies: settings.for_serialize().into_generator(),
            examples: serde_json::from_str(EXAMPLES).expect("a test reads the examples"),
            paths: Map::new(),
        }
    }
}

impl EachCall for Paths {
    fn visit<C: Call>(&mut self) {
        let request = json!(self.requests.subschema_for::<C>());
        let reply = json!(self.replies.subschema_for::<C::Reply>());
        let example = |side: &str| self.examples.get(C::NAME).and_then(|example| example.get(side));
        let must_hold = self.requests.definitions()[&*C::schema_name()].get("required");
        let operation = json!({
            "operationId": C::NAME,
            "summary": C::SUMMARY,
            "tags": [noun(C::NAME)],
            "requestBody": {
                "required": must_hold.is_some(),
                "content": content::<C>(&request, example("request")),
            },
            "responses": responses(json!({
                "description": "Done.",
                "headers": reply_headers(C::CHANGES),
                "content": content::<C::Reply>(&reply, example("reply")),
            })),
        });
        self.paths.insert(format!("/v1/{}", C::NAME), json!({"post": operation}));
    }
}

/// Responses of an operation: the reply, and an error of each status.
fn responses(done: Value) -> Value {
    let mut responses = json!({"200": done});
    for status in error_statuses() {
        responses[status.to_string()] = json!({"$ref": format!("#/components/responses/{status}")});
    }
    responses
}

fn error_statuses() -> BTreeSet<u16> {
    Code::ALL.iter().flat_map(|code| code.statuses()).collect()
}

/// By status: the error codes that come with it.
fn error_replies(schema: &Value) -> Value {
    let mut replies = json!({});
    for status in error_statuses() {
        let codes = Code::ALL.iter().filter(|code| code.statuses().any(|one| one == status));
        let names: Vec<String> = codes.map(|code| format!("`{code}`")).collect();
        let mut headers = json!({REQUEST_ID: header("RequestId")});
        if [429, 503].contains(&status) {
            headers["retry-after"] = header("RetryAfter");
        }
        replies[status.to_string()] = json!({
            "description": format!("`error.code` is {}.", names.join(" or ")),
            "headers": headers,
            "content": content::<ErrorReply>(schema, None),
        });
    }
    replies
}

/// The same in both encodings.
fn content<T: schemars::JsonSchema>(schema: &Value, example: Option<&Value>) -> Value {
    let mut in_json = json!({"schema": schema});
    if let Some(example) = example {
        in_json["example"] = example.clone();
    }
    let message = format!("windlass.v1.{}", T::schema_name());
    let in_protobuf =
        json!({"schema": {"type": "string", "format": "binary"}, "x-protobuf-message": message});
    json!({JSON: in_json, PROTOBUF: in_protobuf})
}

/// `queue` of `queue.lease`.
fn noun(name: &str) -> &str {
    name.split(['.', '/']).next().unwrap_or(name)
}

fn tags() -> Value {
    json!([
        {"name": "queues", "description": "Queues and their settings."},
        {"name": "queue", "description": "What is in a queue, and the work on it."},
        {"name": "item", "description": "One item."},
        {"name": "items", "description": "Items by what they show."},
        {"name": "storage", "description": "What is stored, for operators."},
        {"name": "server", "description": "The server itself."},
    ])
}

fn headers() -> Value {
    json!({
        "RequestId": {
            "description": "Names the request, in every reply. Quote it when something went wrong.",
            "schema": {"type": "string"},
        },
        "Commit": {
            "description": "Where the change stands in the order of its partition: `partition:sequence`, \
                several separated by commas. At most 32 partitions are named; `+n` at the end counts the others.",
            "schema": {"type": "string", "pattern": "^[0-9]+:[0-9]+(,[0-9]+:[0-9]+){0,31}(,\\+[0-9]+)?$"},
        },
        "RetryAfter": {
            "description": "With 429 and 503: how many seconds to wait before trying again.",
            "schema": {"type": "integer", "minimum": 0},
        },
    })
}

fn header(name: &str) -> Value {
    json!({"$ref": format!("#/components/headers/{name}")})
}

fn reply_headers(changes: bool) -> Value {
    let mut headers = json!({REQUEST_ID: header("RequestId")});
    if changes {
        headers[COMMIT] = header("Commit");
    }
    headers
}

fn stream_of_events() -> Value {
    let number = json!({"type": "integer", "minimum": 0});
    json!({"get": {
        "operationId": "item.events",
        "summary": "Follows an item: server-sent events to its end.",
        "description": "Without `after`: first `event: snapshot` with the item, then what comes later. With it: the events \
            after that number, then live ones. Each event has its number as `id`. `event: state` tells another state, \
            `event: gap` that events are not kept any more, and `event: end` is the last frame: its reason is `final`, \
            `closed` or `lagged`, and its `moved_to` the item that this one goes on as. Lines that begin with a colon are \
            comments.",
        "tags": ["item"],
        "parameters": [
            {"name": "id", "in": "query", "required": false,
                "description": "The item. Either this or `queue` and `address` are given.",
                "schema": {"type": "string", "format": "uuid"}},
            {"name": "queue", "in": "query", "required": false,
                "description": "The name of the queue that the address is of.", "schema": {"type": "string"}},
            {"name": "address", "in": "query", "required": false,
                "description": "The item that has this address; if all that had it are final, the latest that is kept.",
                "schema": {"type": "string", "minLength": 1, "maxLength": 512}},
            {"name": "after", "in": "query", "required": false,
                "description": "Begin after the event of this number; 0 is the whole stream.", "schema": number},
            {"name": "follow", "in": "query", "required": false,
                "description": "Follow the latest item of the chain along `moved_to`, as `item.get` finds it when the \
                    subscription begins. Beside `after` or `Last-Event-ID` it is refused if the item was moved.",
                "schema": {"type": "boolean"}},
            {"name": "Last-Event-ID", "in": "header", "required": false,
                "description": "As `after`, and goes before it: a browser that comes again sends it.", "schema": number},
        ],
        "responses": responses(json!({
            "description": "The stream. It ends with `event: end`.",
            "headers": {REQUEST_ID: header("RequestId")},
            "content": {EVENT_STREAM: {"schema": {"type": "string"}}},
        })),
    }})
}

fn plain_pages() -> Map<String, Value> {
    let pages = [
        ("/", "text/html", "What this is."),
        ("/health", "text/plain", "Answers as long as the server lives."),
        ("/ready", JSON, "200 once every partition was loaded or found faulty; 503 with the reasons."),
        ("/metrics", "text/plain", "Metrics for Prometheus."),
        ("/openapi.json", JSON, "This document."),
    ];
    let page = |(path, media, summary): (&str, &str, &str)| {
        let reply = json!({"description": summary, "content": {media: {}}});
        let mut responses = json!({"200": reply});
        // Hosts and origins, methods and heads are checked for pages too.
        for status in ["400", "403", "405", "431"] {
            responses[status] = json!({"$ref": format!("#/components/responses/{status}")});
        }
        if path == "/ready" {
            responses["503"] = json!({"description": "Not ready.", "content": {media: {}}});
        }
        // The page may have megabytes, and counts among the bytes in flight.
        if path == "/metrics" {
            responses["429"] = json!({"$ref": "#/components/responses/429"});
        }
        let operation = json!({"summary": summary, "tags": ["server"], "responses": responses});
        (path.to_owned(), json!({"get": operation}))
    };
    pages.into_iter().map(page).collect()
}
