//! What a list shows can be sent back as it is.

use prost::Message;
use serde_json::{Value, json};
use windlass_api::items::Item;
use windlass_api::storage::ImportItem;

use crate::contract::Contract;
use crate::sample::{Fill, Sampler};

/// An item as a list shows it: only `item.get` tells the log of attempts.
fn listed(contract: &Contract, fill: Fill) -> Value {
    let mut item = Sampler::new(&contract.schemas, fill).message("Item");
    item.as_object_mut().expect("an object").remove("attempt_log").expect("item.get tells it");
    item
}

#[test]
fn an_import_takes_every_field_of_an_item_in_both_encodings() {
    let contract = Contract::load();
    for fill in [Fill::Distinct, Fill::Zero] {
        let shown = listed(&contract, fill);
        let taken: ImportItem = serde_json::from_str(&shown.to_string()).expect("every field is taken");
        assert_eq!(json!(taken), shown);
    }
    let shown = listed(&contract, Fill::Distinct);
    let item: Item = serde_json::from_str(&shown.to_string()).expect("it is one");
    let taken = ImportItem::decode(item.encode_to_vec().as_slice()).expect("the same fields");
    assert_eq!(json!(taken), shown);
    assert_eq!(json!(ImportItem::from(item)), shown);
}

#[test]
fn that_there_is_no_limit_survives_protobuf() {
    let item = Item { max_attempts: Some(0), ..Item::default() };
    let taken = ImportItem::decode(item.encode_to_vec().as_slice()).expect("the same fields");
    assert_eq!(taken.max_attempts, Some(0));
}
