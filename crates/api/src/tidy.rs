//! What the derived schemas say that a reader should not have to read.

use schemars::Schema;
use schemars::transform::{Transform, transform_subschemas};
use serde_json::{Map, Value, json};

/// A field that is not set is left out, so its schema says nothing of null. A field that is always there may be null: its
/// schema says so, and has no default.
#[derive(Clone, Debug)]
pub(crate) struct Tidy;

impl Transform for Tidy {
    fn transform(&mut self, schema: &mut Schema) {
        drop_nulls_of_optional(schema);
        drop_defaults_of_required(schema);
        transform_subschemas(self, schema);
    }
}

fn drop_nulls_of_optional(schema: &mut Schema) {
    let required = required(schema);
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    for (name, property) in properties {
        if let Value::Object(property) = property
            && !required.contains(name)
        {
            drop_null_type(property);
            drop_null_choice(property);
        }
    }
}

fn required(schema: &Schema) -> Vec<String> {
    let names = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    names.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// `["string", "null"]` becomes `"string"`.
fn drop_null_type(property: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = property.get("type")
        && let [one, null] = types.as_slice()
        && null == "null"
    {
        let one = one.clone();
        property.insert("type".into(), one);
    }
}

/// `anyOf: [{$ref}, {"type": "null"}]` becomes the `$ref`.
fn drop_null_choice(property: &mut Map<String, Value>) {
    if let Some(Value::Array(choices)) = property.get("anyOf")
        && let [Value::Object(one), null] = choices.as_slice()
        && *null == json!({"type": "null"})
    {
        let one = one.clone();
        property.remove("anyOf");
        property.extend(one);
    }
}

fn drop_defaults_of_required(schema: &mut Schema) {
    let required = required(schema);
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    for name in required {
        if let Some(Value::Object(property)) = properties.get_mut(&name) {
            property.remove("default");
        }
    }
}
