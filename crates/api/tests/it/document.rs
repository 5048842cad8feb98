//! The published description of the API: what is checked in is what the code says, and makes sense.

use std::collections::BTreeMap;
use std::fs;

use schemars::JsonSchema;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use windlass_api::call::{Call, EachCall, Wire, for_each_call};
use windlass_api::openapi;

use crate::contract::{Contract, is_nullable, reference, repository, type_of};
use crate::{reference as reference_page, schema};

const OPENAPI: &str = "docs/reference/openapi.json";
const REFERENCE: &str = "docs/reference/api.md";
const PROTO: &str = "proto/windlass/v1/windlass.proto";
const EXAMPLES: &str = include_str!("../../src/examples.json");

#[test]
fn the_openapi_document_is_the_one_checked_in() {
    let document = openapi::document();
    if updating() {
        let text = serde_json::to_string_pretty(&document).unwrap();
        fs::write(repository(OPENAPI), text + "\n").unwrap();
    }
    // As values: the order of keys depends on what else is built.
    let stored: Value = serde_json::from_str(&read(OPENAPI)).unwrap_or_default();
    assert!(stored == document, "{}", stale(OPENAPI));
}

#[test]
fn the_reference_is_the_one_checked_in() {
    let text = reference_page::write(&Contract::load(), &examples());
    if updating() {
        fs::write(repository(REFERENCE), &text).unwrap();
    }
    assert!(read(REFERENCE) == text, "{}", stale(REFERENCE));
}

#[test]
fn the_protobuf_schema_is_the_one_checked_in() {
    let text = schema::write();
    if updating() {
        fs::write(repository(PROTO), &text).unwrap();
    }
    assert!(read(PROTO) == text, "{}", stale(PROTO));
}

#[test]
fn examples_are_exactly_what_the_calls_take_and_answer() {
    struct Check(BTreeMap<String, Example>);

    impl EachCall for Check {
        fn visit<C: Call>(&mut self) {
            if let Some(example) = self.0.remove(C::NAME) {
                check::<C>(&example.request);
                check::<C::Reply>(&example.reply);
            }
        }
    }

    fn check<T: Wire>(example: &RawValue) {
        let read: T = serde_json::from_str(example.get()).unwrap();
        assert_eq!(json!(read), serde_json::from_str::<Value>(example.get()).unwrap());
    }

    let mut rest = Check(examples());
    for_each_call(&mut rest);
    assert!(rest.0.is_empty(), "examples of calls that there are not: {:?}", rest.0.keys());
}

#[test]
fn every_reference_in_the_document_leads_somewhere() {
    fn follow(document: &Value, value: &Value) {
        if let Some(path) = value["$ref"].as_str() {
            assert!(document.pointer(path.trim_start_matches('#')).is_some(), "{path}");
        }
        let inside: Vec<_> = match value {
            Value::Array(list) => list.iter().collect(),
            Value::Object(fields) => fields.values().collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
        };
        inside.into_iter().for_each(|value| follow(document, value));
    }

    let document = openapi::document();
    follow(&document, &document);
}

#[test]
fn schemas_name_only_fields_that_there_are_and_describe_each() {
    for (name, schema) in &Contract::load().schemas {
        let fields = schema["properties"].as_object().cloned().unwrap_or_default();
        for field in schema["required"].as_array().into_iter().flatten() {
            assert!(fields.contains_key(field.as_str().unwrap()), "{name} requires {field}");
        }
        for (field, schema) in &fields {
            assert!(schema["description"].is_string(), "{name}.{field} says nothing of itself");
        }
    }
}

#[test]
fn schemas_hold_no_noise() {
    let text = json!(Contract::load().schemas).to_string();
    for noise in ["null", r#""""#, "[]", "{}"] {
        assert!(!text.contains(&format!(r#""default":{noise}"#)), "{noise} tells nobody anything");
    }
}

#[test]
fn the_form_of_names_is_stated() {
    for (name, schema) in &Contract::load().schemas {
        for field in ["queue", "group", "cron"] {
            let schema = &schema["properties"][field];
            let is_text = type_of(schema) == Some("string");
            assert!(!is_text || schema["pattern"] == "^[A-Za-z0-9._-]{1,128}$", "{name}.{field}: {schema}");
        }
    }
}

#[test]
fn what_excludes_each_other_in_a_request_is_stated() {
    for (name, schema) in &Contract::load().schemas {
        let has = |field: &str| schema["properties"].get(field).is_some();
        let is_request = schema["additionalProperties"] == false;
        let of_payload = json!({"properties": {"utf8": false, "bytes": false}});
        assert!(!is_request || !has("utf8") || excludes(schema, &of_payload), "{name}");
        let of_names = json!({"properties": {"queue": false, "address": false}});
        let has_names = is_request && has("id") && has("queue") && name.ends_with("Request");
        assert!(!has_names || excludes(schema, &of_names), "{name}");
        for at in ["enqueue_at", "retry_at"].into_iter().filter(|at| is_request && has(at) && has("delay")) {
            assert_eq!(schema["dependentSchemas"]["delay"]["properties"][at], false, "{name}");
        }
    }
}

/// Whether the schema states that rule, by itself or beside another.
fn excludes(schema: &Value, rule: &Value) -> bool {
    let others = schema["allOf"].as_array().into_iter().flatten();
    others.chain([schema]).any(|stated| stated["then"] == *rule)
}

#[test]
fn only_a_field_that_is_always_there_may_be_null() {
    for (name, schema) in &Contract::load().schemas {
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        for (field, schema) in schema["properties"].as_object().into_iter().flatten() {
            let is_required = required.iter().any(|name| name == field);
            // `UpdateQueueRequest` removes the `meta` of a queue by null, and `CreateQueueRequest` takes the same values.
            let removes = field == "meta" && name.ends_with("QueueRequest");
            let may_be_null = is_required || removes;
            assert!(may_be_null || !is_nullable(schema), "{name}.{field} is left out if it is not set");
        }
    }
}

#[test]
fn a_reply_has_null_only_where_its_schema_says_so() {
    struct Check(Contract);

    impl Check {
        fn check(&self, schema: &Value, value: &Value, place: &str) {
            let schema = reference(schema).map_or(schema, |name| &self.0.schemas[name]);
            let is_any = type_of(schema).is_none();
            assert!(!value.is_null() || is_any || is_nullable(schema), "{place} is null");
            for (field, value) in value.as_object().into_iter().flatten() {
                self.check(&schema["properties"][field], value, &format!("{place}.{field}"));
            }
        }
    }

    impl EachCall for Check {
        fn visit<C: Call>(&mut self) {
            let name = C::Reply::schema_name();
            self.check(&self.0.schemas[&*name], &json!(C::Reply::default()), &name);
        }
    }

    for_each_call(&mut Check(Contract::load()));
}

#[derive(serde::Deserialize)]
pub(crate) struct Example {
    pub(crate) request: Box<RawValue>,
    pub(crate) reply: Box<RawValue>,
}

fn examples() -> BTreeMap<String, Example> {
    serde_json::from_str(EXAMPLES).expect("the examples are JSON")
}

fn updating() -> bool {
    std::env::var_os("UPDATE_DOCS").is_some()
}

fn read(path: &str) -> String {
    fs::read_to_string(repository(path)).unwrap_or_default()
}

fn stale(path: &str) -> String {
    format!(
        "{path} is not what the code says: run UPDATE_DOCS=1 cargo test -p windlass-api --test it document"
    )
}
