//! queue.redrive over HTTP: the addresses that letters had before they died.

use serde_json::{Value, json};

use crate::afterwards::{failed, until_moved};
use crate::http::Http;
use crate::world::TestServer;

/// The letter of an item that died at this address.
async fn letter(http: &mut Http, address: &str) -> Value {
    let id = failed(http, "q", json!({"utf8": address, "address": address})).await;
    let letter = until_moved(http, &id).await;
    assert_eq!(letter["queue"], "dead");
    letter["id"].clone()
}

#[tokio::test]
async fn a_dead_letter_has_no_address_itself() {
    let (_server, mut http) = TestServer::with_queue(json!({"dead_queue": "dead"})).await;
    http.ok("queues.create", json!({"queue": "dead"})).await;
    let letters = [letter(&mut http, "desk").await, letter(&mut http, "desk").await];
    for id in &letters {
        let shown = http.item(id).await;
        assert_eq!((shown.get("address"), &shown["origin"]["address"]), (None, &json!("desk")));
    }
    let (status, code, _) = http.refused("item.get", &json!({"queue": "dead", "address": "desk"})).await;
    assert_eq!((status, &*code), (404, "not_found"));
    let found = http.ok("items.find", json!({"queue": "dead", "address": "desk"})).await;
    assert_eq!(found["items"], json!([]));
    http.produce("dead", json!([{"utf8": "of its own", "address": "desk"}])).await;
    let leased = http.lease("dead", 10).await;
    let addresses: Vec<Option<&Value>> = leased.iter().map(|item| item.get("address")).collect();
    assert_eq!(addresses, [None, None, Some(&json!("desk"))]);
}

#[tokio::test]
async fn letters_have_their_addresses_again_in_the_queue_that_a_redrive_names() {
    let (_server, mut http) = TestServer::with_queue(json!({"dead_queue": "dead"})).await;
    for queue in ["dead", "other"] {
        http.ok("queues.create", json!({"queue": queue, "partitions": 2})).await;
    }
    let free = letter(&mut http, "free").await;
    let taken = letter(&mut http, "taken").await;
    let twice = [letter(&mut http, "twice").await, letter(&mut http, "twice").await];
    // An address counts in the queue where the letter goes: in the one that it came from it may be taken.
    http.produce("q", json!([{"utf8": "a", "address": "free"}])).await;
    let holder = http.produce("other", json!([{"utf8": "a", "address": "taken"}])).await[0].clone();
    let redriven = http.ok("queue.redrive", json!({"queue": "dead", "to": "other"})).await;
    assert_eq!(redriven, json!({"moved": 2, "skipped": 2}));
    let there = until_moved(&mut http, free.as_str().expect("an id")).await;
    let item = http.item(&there["id"]).await;
    assert_eq!((&item["queue"], &item["address"]), (&json!("other"), &json!("free")));
    assert_eq!(item["origin"]["id"], free);
    let at = async |http: &mut Http, address: &str| {
        http.ok("item.get", json!({"queue": "other", "address": address})).await["item"]["id"].clone()
    };
    assert_eq!(at(&mut http, "free").await, there["id"]);
    assert_eq!(at(&mut http, "taken").await, holder);
    assert_eq!(http.item(&taken).await["state"], "waiting");
    let mut stayed = Vec::new();
    for id in &twice {
        stayed.extend(Some(http.item(id).await["state"].clone()).filter(|state| state == "waiting"));
    }
    assert_eq!(stayed.len(), 1, "one of two letters of an address has it");
    assert_eq!(http.stats("dead").await["counts"]["waiting"], 2);
}
