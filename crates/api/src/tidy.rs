//! What the derived schemas say that a reader should not have to read.

use schemars::Schema;
use schemars::transform::{Transform, transform_subschemas};
use serde_json::{Value, json};

/// A field that is not set is left out: nothing is ever null but a JSON payload. And a field that must be there has
/// no default.
#[derive(Clone, Debug)]
pub(crate) struct Tidy;

impl Transform for Tidy {
    fn transform(&mut self, schema: &mut Schema) {
        drop_null_type(schema);
        drop_null_choice(schema);
        drop_defaults_of_required(schema);
        transform_subschemas(self, schema);
    }
}

/// `["string", "null"]` becomes `"string"`.
fn drop_null_type(schema: &mut Schema) {
    let Some(Value::Array(types)) = schema.get("type") else { return };
    if let [one, null] = types.as_slice()
        && null == "null"
    {
        let one = one.clone();
        schema.insert("type".into(), one);
    }
}

/// `anyOf: [{$ref}, {"type": "null"}]` becomes the `$ref`.
fn drop_null_choice(schema: &mut Schema) {
    let Some(Value::Array(choices)) = schema.get("anyOf") else { return };
    if let [Value::Object(one), null] = choices.as_slice()
        && *null == json!({"type": "null"})
    {
        let one = one.clone();
        schema.remove("anyOf");
        schema.ensure_object().extend(one);
    }
}

fn drop_defaults_of_required(schema: &mut Schema) {
    let Some(Value::Array(required)) = schema.get("required").cloned() else { return };
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    for name in required.iter().filter_map(Value::as_str) {
        if let Some(Value::Object(property)) = properties.get_mut(name) {
            property.remove("default");
        }
    }
}
