//! The protobuf schema and the code agree: what one writes, the other reads, field by field.

use std::collections::BTreeSet;

use prost::Message;
use prost_reflect::{
    DeserializeOptions, DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, SerializeOptions,
};
use schemars::JsonSchema;
use serde_json::{Map, Value, json};
use windlass_api::Span;
use windlass_api::call::{Call, EachCall, Wire, for_each_call};
use windlass_api::error::ErrorReply;

use crate::contract::Contract;
use crate::sample::{Fill, Sampler};
use crate::schema;

#[test]
fn every_message_means_the_same_in_json_in_protobuf_and_in_rust() {
    struct Agree(Contract);

    impl EachCall for Agree {
        fn visit<C: Call>(&mut self) {
            agree::<C>(&self.0);
            agree::<C::Reply>(&self.0);
        }
    }

    let mut visitor = Agree(Contract::load());
    for_each_call(&mut visitor);
    agree::<ErrorReply>(&visitor.0);
}

#[test]
fn every_message_has_the_same_fields_in_protobuf_and_in_json() {
    let contract = Contract::load();
    // In JSON, a duration is a plain text.
    let only_json = "Duration";
    let named = |name: &&str| *name != only_json;
    let mut schemas: BTreeSet<_> = contract.schemas.keys().map(String::as_str).filter(named).collect();
    for message in contract.messages().filter(|message| !is_transparent(message)) {
        let name = message.name();
        assert!(schemas.remove(name), "{name} is in the protobuf schema, and no call uses it");
        let in_proto: BTreeSet<_> = message.fields().map(|field| field.name().to_owned()).collect();
        let properties = contract.schemas[name]["properties"].as_object().into_iter().flatten();
        let in_json: BTreeSet<_> = properties.map(|(name, _)| name.clone()).collect();
        assert_eq!(in_proto, in_json, "the fields of {name}");
    }
    assert!(schemas.is_empty(), "missing from the protobuf schema: {schemas:?}");
}

#[test]
fn the_header_of_the_protobuf_schema_lists_every_call() {
    struct Rows(Vec<[String; 3]>);

    impl EachCall for Rows {
        fn visit<C: Call>(&mut self) {
            self.0.push([C::NAME.into(), C::schema_name().into(), C::Reply::schema_name().into()]);
        }
    }

    let mut rows = Rows(Vec::new());
    for_each_call(&mut rows);
    let text = schema::write();
    let table = text.lines().skip_while(|line| !line.starts_with("//   ----")).skip(1);
    let lines = table.take_while(|line| *line != "//");
    let words = |line: &str| line.split_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(lines.map(words).collect::<Vec<_>>(), rows.0);
}

fn agree<T: Wire>(contract: &Contract) {
    let name = T::schema_name();
    let sample = |fill| {
        let mut sampler = Sampler::new(&contract.schemas, fill);
        (sampler.message(&name), sampler.bools)
    };
    let (distinct, bools) = sample(Fill::Distinct);
    let message = contract.message(&name);
    agree_on::<T>(&message, &distinct);
    // Two bools that are both true could be taken for each other.
    for one in 0..bools {
        agree_on::<T>(&message, &sample(Fill::OnlyTrue(one)).0);
    }
    agree_on::<T>(&message, &sample(Fill::Zero).0);
}

fn agree_on<T: Wire>(message: &MessageDescriptor, sample: &Value) {
    let name = message.name();
    let value: T =
        serde_json::from_str(&sample.to_string()).unwrap_or_else(|e| panic!("{name}: {e}: {sample}"));
    assert_eq!(json!(value), *sample, "{name}: read from JSON and written again");

    let expected = in_proto_json(message, sample);
    let read = DynamicMessage::decode(message.clone(), value.encode_to_vec().as_slice())
        .unwrap_or_else(|e| panic!("{name}: the schema cannot read what the code writes: {e}"));
    assert_eq!(read.unknown_fields().count(), 0, "{name}: written by the code and not in the schema");
    assert_eq!(proto_json(&read), expected, "{name}: written by the code, read by the schema");

    let written = from_proto_json(message, &expected).encode_to_vec();
    let read = T::decode(written.as_slice())
        .unwrap_or_else(|e| panic!("{name}: the code cannot read what the schema writes: {e}"));
    assert_eq!(json!(read), *sample, "{name}: written by the schema, read by the code");
}

fn proto_json(message: &DynamicMessage) -> Value {
    let options = SerializeOptions::new().use_proto_field_name(true).skip_default_fields(false);
    message.serialize_with_options(serde_json::value::Serializer, &options).expect("it was decoded")
}

fn from_proto_json(message: &MessageDescriptor, json: &Value) -> DynamicMessage {
    let options = DeserializeOptions::new().deny_unknown_fields(true);
    DynamicMessage::deserialize_with_options(message.clone(), json, &options)
        .unwrap_or_else(|e| panic!("{}: {e}: {json}", message.name()))
}

/// Our JSON as protobuf would have it.
fn in_proto_json(message: &MessageDescriptor, json: &Value) -> Value {
    let fields = json.as_object().unwrap_or_else(|| panic!("{} is not an object: {json}", message.name()));
    let field = |(name, value): (&String, &Value)| {
        let field = message.get_field_by_name(name);
        let field = field.unwrap_or_else(|| panic!("{} has no {name} in the schema", message.name()));
        (name.clone(), field_in_proto_json(&field, value))
    };
    fields.iter().map(field).collect::<Map<_, _>>().into()
}

fn field_in_proto_json(field: &FieldDescriptor, json: &Value) -> Value {
    if let (Kind::Message(entry), true) = (field.kind(), field.is_map()) {
        let of_value = entry.map_entry_value_field();
        let entries = json.as_object().expect("a map is an object").iter();
        let entries = entries.map(|(key, value)| (key.clone(), field_in_proto_json(&of_value, value)));
        return entries.collect::<Map<_, _>>().into();
    }
    if field.is_list() {
        let elements = json.as_array().expect("a list is an array").iter();
        return elements.map(|element| kind_in_proto_json(field, element)).collect();
    }
    kind_in_proto_json(field, json)
}

fn kind_in_proto_json(field: &FieldDescriptor, json: &Value) -> Value {
    if let Kind::Message(message) = field.kind() {
        return match message.full_name() {
            "google.protobuf.Timestamp" => json!(text(json).replace(".000000Z", "Z")),
            "google.protobuf.Duration" => json!(proto_duration(text(json))),
            _ if is_transparent(&message) => in_proto_json(&message, &json!({only_field(&message): json})),
            _ => in_proto_json(&message, json),
        };
    }
    // Any JSON value travels as its text, and protobuf does not trust JSON with large numbers.
    let is_json = matches!(field.name(), "json" | "meta") && field.kind() == Kind::String;
    let as_text = is_json || field.kind() == Kind::Uint64;
    if as_text { json!(json.to_string()) } else { json.clone() }
}

/// Whether the one field of a message stands for it in JSON: only so can a list or a map be unset, or set and empty.
fn is_transparent(message: &MessageDescriptor) -> bool {
    ["Kinds", "States", "HeaderNames", "QueueNames", "Headers", "AttemptLog"].contains(&message.name())
}

fn only_field(message: &MessageDescriptor) -> String {
    let fields: Vec<_> = message.fields().map(|field| field.name().to_owned()).collect();
    let [field] = fields.as_slice() else { panic!("{} has not one field: {fields:?}", message.name()) };
    field.clone()
}

fn proto_duration(span: &str) -> String {
    let micros = span.parse::<Span>().expect("a sample").as_micros();
    let (whole, part) = (micros / 1_000_000, micros % 1_000_000);
    if part == 0 { format!("{whole}s") } else { format!("{whole}.{part:06}s") }
}

fn text(json: &Value) -> &str {
    json.as_str().unwrap_or_else(|| panic!("not a text: {json}"))
}
