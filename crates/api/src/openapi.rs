//! `/openapi.json`, made from the list of calls.

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::call::{Call, EachCall, for_each_call};
use crate::error::{Code, ErrorReply};
use crate::{JSON, PROTOBUF};

/// The whole document.
pub fn document() -> Value {
    let mut paths = Paths { generator: generator(), paths: Map::new() };
    let error = paths.generator.subschema_for::<ErrorReply>();
    for_each_call(&mut paths);
    let Paths { mut generator, mut paths } = paths;
    paths.extend(plain_pages());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Windlass",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "A durable work queue. Every call also speaks protobuf: the schema is in proto/.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": generator.take_definitions(true),
            "responses": {"Error": {
                "description": error_description(),
                "content": {JSON: {"schema": error}},
            }},
        },
    })
}

fn generator() -> SchemaGenerator {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    settings.into_generator()
}

struct Paths {
    generator: SchemaGenerator,
    paths: Map<String, Value>,
}

impl EachCall for Paths {
    fn visit<C: Call>(&mut self) {
        let request = self.generator.subschema_for::<C>();
        let reply = self.generator.subschema_for::<C::Reply>();
        let encodings = |schema: &Value| json!({JSON: {"schema": schema}, PROTOBUF: {}});
        let operation = json!({
            "operationId": C::NAME,
            "summary": C::SUMMARY,
            "requestBody": {"required": false, "content": encodings(&json!(request))},
            "responses": {
                "200": {"description": "Done.", "content": encodings(&json!(reply))},
                "default": {"$ref": "#/components/responses/Error"},
            },
        });
        self.paths.insert(format!("/v1/{}", C::NAME), json!({"post": operation}));
    }
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
        (path.to_owned(), json!({"get": {"summary": summary, "responses": {"200": reply}}}))
    };
    pages.into_iter().map(page).collect()
}

fn error_description() -> String {
    let line = |code: &Code| format!("{} `{code}`", code.status());
    Code::ALL.iter().map(line).collect::<Vec<_>>().join(", ")
}
