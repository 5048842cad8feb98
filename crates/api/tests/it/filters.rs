//! Filters, and what is unset or empty in them.

use prost::Message;
use serde_json::{Value, json};
use windlass_api::call::Wire;
use windlass_api::items::{FindItemsRequest, Headers, Item, ItemFilter, Kinds, States, UpdateItemRequest};
use windlass_api::queues::{HeaderNames, UpdateQueueRequest};

use crate::contract::Contract;
use crate::sample::{Fill, Sampler};

#[test]
fn find_takes_every_filter_and_gives_it_back() {
    let contract = Contract::load();
    let filter = Sampler::new(&contract.schemas, Fill::Distinct).message("ItemFilter");
    let find: FindItemsRequest = serde_json::from_str(&filter.to_string()).expect("the same fields");
    assert_eq!(json!(ItemFilter::from(find.clone())), filter);
    assert_eq!(FindItemsRequest::from(ItemFilter::from(find.clone())), find);
    let own = ["queue", "order", "payloads", "pivot", "limit", "partial"];
    let fields = |name: &str| contract.message(name).fields().len();
    assert_eq!(fields("ItemFilter") + own.len(), fields("FindItemsRequest"), "filters that find alone has");
}

#[test]
fn an_empty_list_of_states_or_kinds_is_not_an_unset_one() {
    let (states, kinds) = (Some(States::default()), Some(Kinds::default()));
    let nothing = FindItemsRequest { states, kinds, ..FindItemsRequest::default() };
    survives(&nothing, &json!({"states": [], "kinds": [], "payloads": false, "partial": false}));
    survives(&FindItemsRequest::default(), &json!({"payloads": false, "partial": false}));
}

#[test]
fn an_update_that_removes_is_not_one_that_leaves_alone() {
    let (reference, headers) = (Some(String::new()), Some(Headers::default()));
    let removes = UpdateItemRequest { reference, headers, ..UpdateItemRequest::default() };
    survives(&removes, &json!({"reference": "", "headers": {}}));
    survives(&UpdateItemRequest::default(), &json!({}));

    let indexed_headers = Some(HeaderNames::default());
    let removes = UpdateQueueRequest { indexed_headers, ..UpdateQueueRequest::default() };
    survives(&removes, &json!({"queue": "", "indexed_headers": []}));
}

#[test]
fn an_empty_attempt_log_is_not_an_unset_one() {
    let item = |json: &str| serde_json::from_str::<Item>(json).expect("an item");
    let (unset, empty) = (item("{}"), item(r#"{"attempt_log": []}"#));
    assert_eq!((json!(unset).get("attempt_log"), &json!(empty)["attempt_log"]), (None, &json!([])));
    let read = |item: &Item| Item::decode(item.encode_to_vec().as_slice()).expect("the same fields");
    assert_eq!((read(&unset), read(&empty)), (unset, empty));
}

fn survives<T: Wire>(message: &T, in_json: &Value) {
    assert_eq!(json!(message), *in_json);
    let read: T = serde_json::from_str(&in_json.to_string()).expect("the same fields");
    assert_eq!(json!(read), *in_json);
    let read = T::decode(message.encode_to_vec().as_slice()).expect("the same fields");
    assert_eq!(json!(read), *in_json, "through protobuf");
}
