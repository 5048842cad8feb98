//! Rules of the API that a derived schema does not state by itself. They are written with `if` and `then`, because generators of
//! clients take `oneOf` for a choice of types and lose the fields.

use schemars::Schema;
use schemars::transform::{Transform, transform_subschemas};
use serde_json::{Map, Value, json};

/// Names of queues, groups, crons and backups.
const NAME: &str = "^[A-Za-z0-9._-]{1,128}$";
const NAME_OR_EMPTY: &str = "^[A-Za-z0-9._-]{0,128}$";
const WITHOUT_U0000: &str = "^[^\\u0000]*$";

/// States the pattern of each field that has one.
#[derive(Clone, Debug)]
pub(crate) struct Patterns;

impl Transform for Patterns {
    fn transform(&mut self, schema: &mut Schema) {
        if let Some(Value::Object(properties)) = schema.get_mut("properties") {
            properties.iter_mut().for_each(|(name, property)| state_pattern(name, property));
        }
        transform_subschemas(self, schema);
    }
}

fn state_pattern(name: &str, property: &mut Value) {
    let Value::Object(property) = property else { return };
    if property.get("type").is_none_or(|kind| kind != "string") || property.contains_key("enum") {
        return;
    }
    let pattern = match name {
        "queue" | "group" | "cron" | "backup" | "to" => NAME,
        // Empty: unset.
        "dead_queue" => NAME_OR_EMPTY,
        // A bounded text is a label, an address, a reference or a reason.
        _ if property.contains_key("maxLength") => WITHOUT_U0000,
        _ => return,
    };
    property.insert("pattern".to_owned(), pattern.into());
}

/// Exactly one of `json`, `utf8` and `bytes` is set.
pub(crate) fn exactly_one_payload(schema: &mut Schema) {
    at_most_one_payload(schema);
    schema.ensure_object()["else"]["else"] = json!({"required": ["bytes"]});
}

/// Not more than one of `json`, `utf8` and `bytes` is set.
pub(crate) fn at_most_one_payload(schema: &mut Schema) {
    insert(
        schema,
        json!({
            "if": {"required": ["json"]},
            "then": {"properties": {"utf8": false, "bytes": false}},
            "else": {"if": {"required": ["utf8"]}, "then": {"properties": {"bytes": false}}},
        }),
    );
}

/// An item is named by `id`, or by `queue` and `address`.
pub(crate) fn id_or_address(schema: &mut Schema) {
    insert(
        schema,
        json!({
            "if": {"required": ["id"]},
            "then": {"properties": {"queue": false, "address": false}},
            "else": {"required": ["queue", "address"]},
        }),
    );
}

/// A new item is due at `enqueue_at` or after `delay`.
pub(crate) fn enqueue_at_or_delay(schema: &mut Schema) {
    insert(schema, json!({"dependentSchemas": {"delay": {"properties": {"enqueue_at": false}}}}));
}

/// An item is tried again at `retry_at` or after `delay`.
pub(crate) fn retry_at_or_delay(schema: &mut Schema) {
    insert(schema, json!({"dependentSchemas": {"delay": {"properties": {"retry_at": false}}}}));
}

/// Adds a rule to those that the schema states already.
fn insert(schema: &mut Schema, rule: Value) {
    let Value::Object(rule) = rule else { return };
    let stated = schema.ensure_object();
    if rule.keys().any(|key| stated.contains_key(key)) {
        let others = stated.entry("allOf").or_insert_with(|| json!([]));
        others.as_array_mut().expect("only this function states `allOf`").push(rule.into());
    } else {
        stated.extend::<Map<String, Value>>(rule);
    }
}
