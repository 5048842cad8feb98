//! A request with a field that there is not is a mistake, and the refusal names it. A reply with one comes from a
//! newer server, and its client goes on.

use serde_json::{Map, Value, json};
use windlass_api::call::{Call, EachCall, Wire, for_each_call};

use crate::contract::{Contract, reference};
use crate::sample::{Fill, Sampler};

const STRAY: &str = "no_such_field";

#[test]
fn an_unknown_field_anywhere_in_a_request_is_refused_by_its_name() {
    struct Refuses(Contract);

    impl EachCall for Refuses {
        fn visit<C: Call>(&mut self) {
            for request in with_stray::<C>(&self.0) {
                let refusal = serde_json::from_str::<C>(&request.to_string()).err();
                let refusal = refusal.expect("an unknown field was taken").to_string();
                assert!(refusal.contains("unknown field `no_such_field`"), "{}: {refusal}", C::NAME);
            }
        }
    }

    for_each_call(&mut Refuses(Contract::load()));
}

#[test]
fn an_unknown_field_at_the_top_of_a_reply_is_ignored() {
    struct Takes(Contract);

    impl EachCall for Takes {
        fn visit<C: Call>(&mut self) {
            let reply = &with_stray::<C::Reply>(&self.0)[0];
            let refusal = serde_json::from_str::<C::Reply>(&reply.to_string()).err();
            assert!(refusal.is_none(), "{}: {refusal:?}", C::NAME);
        }
    }

    for_each_call(&mut Takes(Contract::load()));
}

#[test]
fn a_field_twice_is_refused_by_its_name() {
    let twice = r#"{"queue": "a", "queue": "b"}"#;
    let refusal = serde_json::from_str::<windlass_api::queues::QueueInfoRequest>(twice).unwrap_err();
    assert!(refusal.to_string().contains("duplicate field `queue`"), "{refusal}");
}

#[test]
fn every_field_of_every_message_may_be_missing() {
    fn check<T: Wire>() {
        let missing: T = serde_json::from_str("{}").unwrap();
        assert_eq!(json!(missing), json!(T::default()), "{}", T::schema_name());
    }

    struct Takes;

    impl EachCall for Takes {
        fn visit<C: Call>(&mut self) {
            check::<C>();
            check::<C::Reply>();
        }
    }

    for_each_call(&mut Takes);
}

/// The sample of a message, once for each object in it: with a field too many there. The message itself is first.
fn with_stray<T: Wire>(contract: &Contract) -> Vec<Value> {
    let name = T::schema_name();
    let sample = Sampler::new(&contract.schemas, Fill::Distinct).message(&name);
    strays(&contract.schemas, &contract.schemas[&*name], &sample)
}

fn strays(schemas: &Map<String, Value>, schema: &Value, value: &Value) -> Vec<Value> {
    let schema = reference(schema).map_or(schema, |name| &schemas[name]);
    if let Some(list) = value.as_array() {
        let first = strays(schemas, &schema["items"], &list[0]);
        return first.into_iter().map(|element| json!([element])).collect();
    }
    let (Some(fields), true) = (value.as_object(), schema["type"] == "object") else { return Vec::new() };
    // A map takes any key.
    if schema.get("additionalProperties").is_some_and(Value::is_object) {
        return Vec::new();
    }
    let replaced = |name: &str, value: Value| {
        let mut fields = fields.clone();
        fields.insert(name.to_owned(), value);
        Value::Object(fields)
    };
    let mut found = vec![replaced(STRAY, json!(1))];
    for (name, value) in fields {
        let inside = strays(schemas, &schema["properties"][name], value);
        found.extend(inside.into_iter().map(|value| replaced(name, value)));
    }
    found
}
