//! The shapes that protobuf requests are held to know every field of the schema that can come more than once or has fields
//! within.

use std::collections::BTreeMap;

use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use windlass_api::call::{Call, EachCall, for_each_call};
use windlass_api::shape::{Count, Field, Shape};

use crate::contract::Contract;

#[test]
fn the_shape_of_every_request_is_that_of_the_schema() {
    struct Compare {
        contract: Contract,
        messages: BTreeMap<String, usize>,
    }

    impl EachCall for Compare {
        fn visit<C: Call>(&mut self) {
            let message = self.contract.message(&C::schema_name());
            compare(&message, &C::SHAPE, &mut self.messages);
        }
    }

    let mut compared = Compare { contract: Contract::load(), messages: BTreeMap::new() };
    for_each_call(&mut compared);
    let items = ["NewItem", "EndItem", "CronItem", "ImportItem"].map(|name| compared.messages[name]);
    assert_eq!(items, [2, 4, 2, 1], "how often each was found: the walk goes down to the items");
}

fn compare(message: &MessageDescriptor, shape: &Shape, messages: &mut BTreeMap<String, usize>) {
    let name = message.name();
    *messages.entry(name.to_owned()).or_default() += 1;
    let known = shape.fields.unwrap_or_else(|| panic!("{name} is a message, and its shape is not"));
    let fields: Vec<_> = message.fields().filter(is_of_shape).collect();
    let lines = |lines: Vec<String>| format!("{name} {{ {} }}", lines.join(" "));
    let expected = lines(fields.iter().map(line).collect());
    assert_eq!(lines(known.iter().map(known_line).collect()), expected, "what `#[request]` makes of {name}");
    for (field, known) in fields.iter().zip(known) {
        match (field.kind(), field.is_map()) {
            (Kind::Message(within), false) => compare(&within, known.shape, messages),
            (Kind::Message(entry), true) => assert_eq!(
                [entry.map_entry_key_field().kind(), entry.map_entry_value_field().kind()],
                [Kind::String, Kind::String],
                "{name}: no other maps than headers have a shape"
            ),
            (kind, _) => {
                assert_eq!(kind, Kind::String, "{name}: numbers in a list are packed, and not counted")
            }
        }
    }
}

fn is_of_shape(field: &FieldDescriptor) -> bool {
    matches!(field.kind(), Kind::Message(_)) || field.is_list()
}

/// A field without its type, to be compared with `known_line`.
fn line(field: &FieldDescriptor) -> String {
    let count = match (field.is_map(), field.is_list()) {
        (true, _) => Count::Headers,
        (false, true) => Count::List,
        (false, false) => Count::One,
    };
    format!("{} {}: {count:?},", field.number(), field.name())
}

fn known_line(field: &Field) -> String {
    format!("{} {}: {:?},", field.tag, field.name, field.count)
}
