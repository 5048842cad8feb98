//! item.rerun over HTTP: which items are run again, what the new one has, and that there is one new item however often and
//! from wherever the rerun is asked for.

use serde_json::{Value, json};

use crate::afterwards::{fail, failed, rerun};
use crate::http::{Got, Http};
use crate::streams::Events;
use crate::world::{TestServer, held_in, list};

/// The same rerun, or reruns of different items, at once over a connection each.
async fn at_once(server: &TestServer, ids: &[&str]) -> Vec<Got> {
    let mut begun = Vec::new();
    for id in ids {
        let mut http = server.connect().await;
        let request = json!({"id": id}).to_string();
        begun.push(tokio::spawn(async move { http.post("item.rerun", &request).await }));
    }
    let mut answers = Vec::new();
    for rerun in begun {
        answers.push(rerun.await.expect("it was answered"));
    }
    answers
}

/// The new item of the one answer that made it. All others must be refused with this code, and name that item.
fn the_one(answers: &[Got], code: &str) -> Value {
    let made: Vec<Value> =
        answers.iter().filter(|got| got.status == 200).map(|got| got.json()["item"]["id"].clone()).collect();
    assert_eq!(made.len(), 1, "{answers:?}");
    for refused in answers.iter().filter(|got| got.status != 200) {
        let error = &refused.json()["error"];
        assert_eq!((refused.status, &error["code"], &error["details"]["id"]), (409, &json!(code), &made[0]));
    }
    made[0].clone()
}

/// An item that failed at each of these addresses, as often as asked for, in a queue that has more partitions since.
async fn far_from_home(http: &mut Http, addresses: usize, each: usize) -> Vec<(String, Vec<String>)> {
    let mut all = Vec::new();
    for number in 0..addresses {
        let address = format!("desk {number}");
        let mut ids = Vec::new();
        for _ in 0..each {
            ids.push(failed(http, "q", json!({"utf8": address, "address": address})).await);
        }
        all.push((address, ids));
    }
    http.ok("queue.rebalance", json!({"queue": "q", "partitions": 4})).await;
    all
}

async fn item_at(http: &mut Http, address: &str) -> Value {
    http.ok("item.get", json!({"queue": "q", "address": address})).await["item"].clone()
}

#[tokio::test]
async fn a_rerun_tells_its_origin_and_has_neither_group_nor_events_nor_input() {
    let (server, mut http) = TestServer::with_queue(json!({})).await;
    http.ok("group.create", json!({"queue": "q", "group": "g"})).await;
    let member = json!({"utf8": "work", "group": "g", "address": "desk"});
    let id = http.produce("q", json!([member])).await[0].clone();
    http.ok("group.start", json!({"queue": "q", "group": "g"})).await;
    let leased = http.lease("q", 1).await;
    http.ok("queue.suspend", held_in("q", &leased)).await;
    http.ok("item.resume", json!({"id": id, "utf8": "an answer"})).await;
    let leased = http.lease("q", 1).await.remove(0);
    assert_eq!(leased["input"], json!({"utf8": "an answer"}));
    let events = json!([{"utf8": "half way"}]);
    http.ok("item.emit", json!({"id": id, "permit": leased["permit"], "events": events})).await;
    fail(&mut http, "q", &leased).await;
    let old = http.item(&id).await;
    assert_eq!((&old["group"], &old["event_count"]), (&json!("g"), &json!(2)));

    let anew = rerun(&mut http, id.as_str().expect("an id")).await;
    let new = http.item(&anew).await;
    assert_eq!((new.get("group"), &new["event_count"]), (None, &json!(0)));
    assert_eq!((&new["address"], new.get("error")), (&json!("desk"), None));
    let mut origin = new["origin"].clone();
    let moved_at = origin.as_object_mut().and_then(|origin| origin.remove("moved_at"));
    assert_eq!(moved_at, Some(new["created_at"].clone()));
    let expected = json!({
        "queue": "q", "id": id, "address": "desk", "group": "g", "attempts": 1, "reason": "rerun", "error": old["error"],
    });
    assert_eq!(origin, expected);
    let leased = http.lease("q", 1).await;
    assert_eq!((&leased[0]["id"], leased[0].get("input")), (&json!(anew), None));
    http.complete("q", &leased).await;
    let frames = Events::open(&server, &format!("id={anew}&after=0"), &[]).await.rest().await;
    let told: Vec<&str> = frames.iter().map(|frame| &*frame.event).collect();
    assert_eq!(told, ["state", "end"], "{frames:?}");
    assert_eq!(http.item(&id).await["event_count"], 2, "they stay with the old one");
}

#[tokio::test]
async fn a_rerun_tells_the_cron_and_the_time_that_the_item_was_scheduled_for() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    let create = json!({"cron": "nightly", "queue": "q", "schedule": "0 3 * * *", "item": {"utf8": "a"}});
    http.ok("crons.create", create).await;
    let id = http.ok("crons.trigger", json!({"cron": "nightly"})).await["item"]["id"].clone();
    let scheduled_at = http.item(&id).await["scheduled_at"].clone();
    assert!(scheduled_at.is_string(), "{scheduled_at}");
    http.ok("crons.delete", json!({"cron": "nightly"})).await;
    let mut id = id.as_str().expect("an id").to_owned();
    for _ in ["once", "and again"] {
        let leased = http.lease("q", 1).await;
        assert_eq!((&leased[0]["cron"], &leased[0]["scheduled_at"]), (&json!("nightly"), &scheduled_at));
        fail(&mut http, "q", &leased[0]).await;
        id = rerun(&mut http, &id).await;
        let item = http.item(&id).await;
        assert_eq!((&item["cron"], &item["scheduled_at"]), (&json!("nightly"), &scheduled_at));
    }
}

#[tokio::test]
async fn a_rerun_has_its_address_also_where_that_is_at_home_in_another_partition_by_now() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    let mut elsewhere = 0;
    for (address, ids) in far_from_home(&mut http, 12, 1).await {
        let anew = rerun(&mut http, &ids[0]).await;
        let (old, new) = (http.item(&ids[0]).await, http.item(&anew).await);
        elsewhere += usize::from(old["partition"] != new["partition"]);
        assert_eq!((&new["address"], &new["utf8"]), (&json!(address), &json!(address)));
        assert_eq!(old["moved_to"], json!({"queue": "q", "id": anew}));
        assert_eq!((&new["origin"]["id"], &new["origin"]["address"]), (&old["id"], &json!(address)));
        assert_eq!(item_at(&mut http, &address).await["id"], anew);
        let again = http.post("item.rerun", &json!({"id": ids[0]}).to_string()).await;
        assert_eq!((again.status, &*again.code()), (409, "wrong_state"));
        assert_eq!(again.json()["error"]["details"]["id"], anew);
    }
    assert!(elsewhere > 0, "no address has another home");
    assert_eq!(http.stats("q").await["counts"]["waiting"], 12);
}

#[tokio::test]
async fn of_reruns_of_one_item_at_once_one_makes_an_item_and_the_others_are_told_of_it() {
    let (server, mut http) = TestServer::with_queue(json!({})).await;
    let plain = failed(&mut http, "q", json!({"utf8": "plain"})).await;
    let mut ids: Vec<String> =
        far_from_home(&mut http, 8, 1).await.into_iter().flat_map(|(_, ids)| ids).collect();
    ids.push(plain);
    for id in &ids {
        let anew = the_one(&at_once(&server, &[id.as_str(); 6]).await, "wrong_state");
        assert_eq!(http.item(id).await["moved_to"]["id"], anew);
        assert_eq!(http.item(&anew).await["state"], "waiting");
    }
    assert_eq!(http.stats("q").await["counts"]["waiting"], ids.len());
}

#[tokio::test]
async fn of_items_that_had_one_address_one_is_rerun_also_after_a_rebalance() {
    let (server, mut http) = TestServer::with_queue(json!({})).await;
    let all = far_from_home(&mut http, 8, 3).await;
    let mut elsewhere = 0;
    for (address, ids) in &all {
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let anew = the_one(&at_once(&server, &ids).await, "duplicate_address");
        let holder = item_at(&mut http, address).await;
        assert_eq!((&holder["id"], &holder["state"]), (&anew, &json!("waiting")));
        let mut went_on = 0;
        for id in ids {
            let old = http.item(id).await;
            went_on += usize::from(old.get("moved_to").is_some());
            elsewhere += usize::from(old["partition"] != holder["partition"]);
        }
        assert_eq!(went_on, 1);
    }
    assert!(elsewhere > 0, "no address has another home");
    assert_eq!(http.stats("q").await["counts"]["waiting"], all.len());
}

#[tokio::test]
async fn items_that_are_not_final_are_not_rerun() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    http.ok("group.create", json!({"queue": "q", "group": "g"})).await;
    let mut ids = http.produce("q", json!([{"utf8": "suspended"}])).await;
    let leased = http.lease("q", 1).await;
    http.ok("queue.suspend", held_in("q", &leased)).await;
    ids.extend(http.produce("q", json!([{"utf8": "leased"}])).await);
    http.lease("q", 1).await;
    let others =
        json!([{"utf8": "held", "group": "g"}, {"utf8": "scheduled", "delay": "1h"}, {"utf8": "waiting"}]);
    ids.extend(http.produce("q", others).await);
    for (id, state) in ids.iter().zip(["suspended", "leased", "held", "scheduled", "waiting"]) {
        let got = http.post("item.rerun", &json!({"id": id}).to_string()).await;
        assert_eq!((got.status, &*got.code()), (409, "wrong_state"), "{state}");
        assert_eq!(got.json()["error"]["details"].get("id"), None, "{state}: nothing was made");
        let item = http.item(id).await;
        assert_eq!((&item["state"], item.get("moved_to")), (&json!(state), None));
    }
    let counts = http.stats("q").await["counts"].clone();
    assert_eq!(counts, json!({"held": 1, "scheduled": 1, "waiting": 1, "leased": 1, "suspended": 1}));
}

#[tokio::test]
async fn items_that_completed_were_cancelled_or_expired_are_rerun() {
    let (_server, mut http) = TestServer::with_queue(json!({"retain_payload": "all", "keep": "all"})).await;
    let completed = http.produce("q", json!([{"utf8": "completed"}])).await[0].clone();
    let leased = http.lease("q", 1).await;
    http.complete("q", &leased).await;
    let ids = http.produce("q", json!([{"utf8": "cancelled"}, {"utf8": "expired"}])).await;
    http.ok("item.cancel", json!({"id": ids[0]})).await;
    http.ok("item.update", json!({"id": ids[1], "dead_timeout": "1us"})).await;
    http.ok("queues.update", json!({"queue": "q", "lease_timeout": "1h"})).await;
    for (id, state, attempts) in [(&completed, "completed", 1), (&ids[0], "cancelled", 0)] {
        let anew = rerun(&mut http, id.as_str().expect("an id")).await;
        let (old, new) = (http.item(id).await, http.item(&anew).await);
        assert_eq!((&old["state"], &old["moved_to"]["id"]), (&json!(state), &json!(anew)));
        assert_eq!((old.get("utf8"), &new["utf8"]), (None, &json!(state)), "the payload went on");
        assert_eq!((&new["origin"]["attempts"], &new["attempts"]), (&json!(attempts), &json!(0)));
        assert_eq!(new["origin"].get("error"), None);
    }
    // With the `dead_timeout` that it had: what is made of it expires as soon.
    let rerun = http.ok("item.rerun", json!({"id": ids[1]})).await["item"].clone();
    let (old, new) = (http.item(&ids[1]).await, http.item(&rerun["id"]).await);
    assert_eq!((&old["state"], &old["moved_to"]["id"]), (&json!("expired"), &rerun["id"]));
    assert_eq!(
        (&new["dead_timeout"], &new["origin"]["error"]["code"]),
        (&json!("1us"), &json!("dead_timeout"))
    );
    let listed = http.ok("items.find", json!({"queue": "q", "order": "oldest"})).await["items"].clone();
    assert_eq!(list(&listed).len(), 6);
}
