//! Every method makes the call it is named after.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_client::api::crons::{CreateCronRequest, CronItem, UpdateCronRequest};
use windlass_client::api::events::EmitRequest;
use windlass_client::api::groups::{CreateGroupRequest, EndItem};
use windlass_client::api::items::{
    ChangeItemsRequest, FindItemsReply, FindItemsRequest, Headers, Held, Item, ItemFilter, LeasedItem,
    NextLease, NextRequest, States, UpdateItemRequest,
};
use windlass_client::api::payload::Payload;
use windlass_client::api::queues::{
    ClearQueueRequest, CreateQueueRequest, QueueInfoRequest, RedriveQueueRequest, UpdateQueueRequest,
};
use windlass_client::api::storage::ImportItem;
use windlass_client::{
    Answered, Client, ClientError, CloseMode, Commit, Lease, LeasedItemExt, Page, PayloadError, PayloadExt,
    QueueOrder, Readiness, new_event, new_item,
};

use crate::script::{Act, Answer, Server};
use crate::world::json_client;

fn empty() -> Act {
    Act::Answer(Answer::json(200, "{}"))
}

async fn with_json(script: impl IntoIterator<Item = Act>) -> (Server, Client) {
    let server = Server::start(script).await;
    let client = json_client(&server.url);
    (server, client)
}

/// What was asked, as the call and its body.
fn asked(server: &Server) -> Vec<(String, Value)> {
    let split = |line: &str| line.trim_start_matches("post /v1/").trim_end_matches(" http/1.1").to_owned();
    let seen = server.seen().into_iter();
    seen.map(|seen| (split(&seen.line), serde_json::from_slice(&seen.body).unwrap())).collect()
}

#[tokio::test]
async fn rules_are_set_lifted_and_listed() -> Result<(), ClientError> {
    use windlass_client::api::rules::{BlockQueueRequest, PauseQueueRequest};

    let (server, client) = with_json(vec![empty(); 7]).await;
    let emails = client.queue("emails");
    emails.pause(PauseQueueRequest { reason: Some("a deploy".into()), ..Default::default() }).await?;
    emails.resume(Some("mail")).await?;
    emails.block(BlockQueueRequest { kind: Some("mail".into()), ..Default::default() }).await?;
    emails.unblock(None).await?;
    emails.rules().await?;
    client.rules().await?;
    client.explain("an id").await?;
    let expected = [
        ("queue.pause", json!({"queue": "emails", "reason": "a deploy"})),
        ("queue.resume", json!({"queue": "emails", "kind": "mail"})),
        ("queue.block", json!({"queue": "emails", "kind": "mail"})),
        ("queue.unblock", json!({"queue": "emails"})),
        ("rules.list", json!({"queue": "emails"})),
        ("rules.list", json!({})),
        ("item.explain", json!({"id": "an id"})),
    ];
    assert_eq!(asked(&server), expected.map(|(call, body)| (call.to_owned(), body)));
    Ok(())
}

#[tokio::test]
async fn the_methods_of_a_queue_name_it() -> Result<(), ClientError> {
    let (server, client) = with_json(vec![empty(); 7]).await;
    let emails = client.queue("emails");
    emails.create_with(CreateQueueRequest { partitions: Some(3), ..Default::default() }).await?;
    emails.info().await?;
    emails.update(UpdateQueueRequest { max_items: Some(9), ..Default::default() }).await?;
    emails.stats().await?;
    emails.clear(ClearQueueRequest { leased: Some(true), ..Default::default() }).await?;
    emails.produce([new_item(&"hello")?]).await?;
    emails.delete(true).await?;
    let expected = [
        ("queues.create", json!({"queue": "emails", "partitions": 3, "exists_ok": false})),
        ("queues.info", json!({"queue": "emails"})),
        ("queues.update", json!({"queue": "emails", "max_items": 9})),
        ("queue.stats", json!({"queue": "emails"})),
        ("queue.clear", json!({"queue": "emails", "leased": true})),
        ("queue.produce", json!({"queue": "emails", "items": [{"json": "hello"}]})),
        ("queues.delete", json!({"queue": "emails", "force": true})),
    ];
    assert_eq!(asked(&server), expected.map(|(call, body)| (call.to_owned(), body)));
    Ok(())
}

#[tokio::test]
async fn the_methods_for_groups_name_queue_and_group() -> Result<(), ClientError> {
    let (server, client) = with_json(vec![empty(); 7]).await;
    let emails = client.queue("emails");
    let letter = CreateGroupRequest { group: "letter".into(), start: true, ..Default::default() };
    emails.create_group(letter).await?;
    let end = EndItem { utf8: Some("sent".into()), ..Default::default() };
    emails.set_group_end("letter", Some(end), None).await?;
    emails.start_group("letter").await?;
    emails.cancel_group("letter").await?;
    emails.group("letter").await?;
    emails.delete_group("letter").await?;
    emails.groups().await?;
    let named = json!({"queue": "emails", "group": "letter"});
    let expected = [
        ("group.create", json!({"queue": "emails", "group": "letter", "start": true})),
        ("group.set_end", json!({"queue": "emails", "group": "letter", "end": {"utf8": "sent"}})),
        ("group.start", named.clone()),
        ("group.cancel", named.clone()),
        ("group.info", named.clone()),
        ("group.delete", named),
        ("groups.list", json!({"queue": "emails", "limit": 1000})),
    ];
    assert_eq!(asked(&server), expected.map(|(call, body)| (call.to_owned(), body)));
    Ok(())
}

#[tokio::test]
async fn the_methods_for_crons_name_them() -> Result<(), ClientError> {
    let (server, client) = with_json(vec![empty(); 8]).await;
    let item = CronItem { utf8: Some("go".into()), ..Default::default() };
    let (cron, queue, schedule) = ("nightly".to_owned(), "reports".to_owned(), "@daily".to_owned());
    let nightly = CreateCronRequest { cron: cron.clone(), queue, schedule, item, ..Default::default() };
    client.create_cron(nightly).await?;
    client
        .update_cron(UpdateCronRequest { cron, overlap: Some("skip".into()), ..Default::default() })
        .await?;
    client.cron("nightly").await?;
    client.pause_cron("nightly").await?;
    client.resume_cron("nightly").await?;
    client.trigger_cron("nightly").await?;
    client.delete_cron("nightly").await?;
    client.crons().await?;
    let named = json!({"cron": "nightly"});
    let create = json!({"cron": "nightly", "queue": "reports", "schedule": "@daily", "item": {"utf8": "go"}, "exists_ok": false});
    let expected = [
        ("crons.create", create),
        ("crons.update", json!({"cron": "nightly", "overlap": "skip"})),
        ("crons.info", named.clone()),
        ("crons.pause", named.clone()),
        ("crons.resume", named.clone()),
        ("crons.trigger", named.clone()),
        ("crons.delete", named),
        ("crons.list", json!({"limit": 1000})),
    ];
    assert_eq!(asked(&server), expected.map(|(call, body)| (call.to_owned(), body)));
    Ok(())
}

#[tokio::test]
async fn an_address_stands_for_an_item_and_a_key_for_a_call() -> Result<(), ClientError> {
    let (server, client) = with_json(vec![empty(); 3]).await;
    let reports = client.queue("reports");
    reports.item_at("2026-q1").await?;
    reports.cancel_at("2026-q1").await?;
    reports.produce_once("order 7", [new_item(&"hello")?]).await?;
    let at = json!({"queue": "reports", "address": "2026-q1"});
    let once = json!({"queue": "reports", "idempotency_key": "order 7", "items": [{"json": "hello"}]});
    let get = json!({"queue": "reports", "address": "2026-q1", "follow": false});
    let expected = [("item.get", get), ("item.cancel", at), ("queue.produce", once)];
    assert_eq!(asked(&server), expected.map(|(call, body)| (call.to_owned(), body)));
    Ok(())
}

#[tokio::test]
async fn the_methods_of_a_worker_carry_id_and_permit() -> Result<(), ClientError> {
    let (server, client) = with_json(vec![empty(); 6]).await;
    let emails = client.queue("emails");
    let item = LeasedItem { id: "i".to_owned(), permit: 5, ..LeasedItem::default() };
    emails.lease(&Lease::new("worker-1")).await?;
    emails.complete([item.done(), item.done_with(&42)?]).await?;
    emails.retry([item.failed("late"), item.dead("never")]).await?;
    emails.extend([item.held()], None).await?;
    emails.release([item.held()]).await?;
    let lease = Some(NextLease { batch_size: 2, ..NextLease::default() });
    let (client_id, complete) = ("worker-1".to_owned(), vec![item.done()]);
    emails.next(NextRequest { client_id, complete, lease, ..NextRequest::default() }).await?;
    let held = json!({"id": "i", "permit": 5});
    let failed = |message, dead| json!({"id": "i", "permit": 5, "dead": dead, "error": {"message": message}});
    let done = json!({"id": "i", "permit": 5, "result": {"json": 42}});
    let expected = [
        ("queue.lease", json!({"queue": "emails", "client_id": "worker-1", "batch_size": 1})),
        ("queue.complete", json!({"queue": "emails", "items": [held, done]})),
        ("queue.retry", json!({"queue": "emails", "items": [failed("late", false), failed("never", true)]})),
        ("queue.extend", json!({"queue": "emails", "items": [held]})),
        ("queue.release", json!({"queue": "emails", "items": [held]})),
        (
            "queue.next",
            json!({"queue": "emails", "client_id": "worker-1", "complete": [held], "lease": {"batch_size": 2}}),
        ),
    ];
    assert_eq!(asked(&server), expected.map(|(call, body)| (call.to_owned(), body)));
    Ok(())
}

#[tokio::test]
async fn the_methods_of_an_operator_name_queue_and_partition() -> Result<(), ClientError> {
    let (server, client) = with_json(vec![empty(); 10]).await;
    let emails = client.queue("emails");
    emails.rebalance(5).await?;
    emails.redrive(RedriveQueueRequest { limit: Some(7), ..RedriveQueueRequest::default() }).await?;
    emails.items(&Page { limit: Some(5), ..Page::of(3) }).await?;
    emails.scheduled(&Page { after: Some("i".to_owned()), ..Page::of(3) }).await?;
    let listed = Item { id: "i".to_owned(), utf8: Some("hello".to_owned()), ..Item::default() };
    emails.import([ImportItem { id: None, created_at: None, changed_at: None, ..listed.into() }]).await?;
    emails.delete_items(["i"]).await?;
    emails.reload().await?;
    emails.permits(None).await?;
    emails.permits(Some("i")).await?;
    emails.revoke([Held { id: "i".to_owned(), permit: 5 }]).await?;
    let item = json!({"utf8": "hello", "queue": "", "partition": 0, "state": "", "kind": "", "priority": 0,
        "attempts": 0, "event_count": 0});
    let expected = [
        ("queue.rebalance", json!({"queue": "emails", "partitions": 5})),
        ("queue.redrive", json!({"queue": "emails", "limit": 7})),
        ("storage/items.list", json!({"queue": "emails", "partition": 3, "limit": 5})),
        ("storage/scheduled.list", json!({"queue": "emails", "partition": 3, "pivot": "i"})),
        ("storage/items.import", json!({"queue": "emails", "items": [item]})),
        ("storage/items.delete", json!({"queue": "emails", "ids": ["i"]})),
        ("queue.reload", json!({"queue": "emails"})),
        ("queue.permits", json!({"queue": "emails"})),
        ("queue.permits", json!({"queue": "emails", "pivot": "i"})),
        ("queue.revoke", json!({"queue": "emails", "items": [{"id": "i", "permit": 5}]})),
    ];
    assert_eq!(asked(&server), expected.map(|(call, body)| (call.to_owned(), body)));
    Ok(())
}

#[tokio::test]
async fn an_item_is_updated_rerun_and_followed_by_its_id_or_its_address() -> Result<(), ClientError> {
    let (server, client) = with_json(vec![empty(); 7]).await;
    let emails = client.queue("emails");
    let headers = Some(Headers::default());
    client.update_item(UpdateItemRequest { headers, ..UpdateItemRequest::of("i") }).await?;
    client.rerun("i", None).await?;
    emails.rerun_at("welcome/ada", Some(Duration::from_secs(60))).await?;
    client.latest_item("i").await?;
    client.wait_for_latest("i", Some(Duration::from_secs(90))).await?;
    emails.latest_at("welcome/ada").await?;
    emails.wait_for_latest_at("welcome/ada", None).await?;
    let at = |more: Value| {
        let mut named = json!({"queue": "emails", "address": "welcome/ada"});
        named.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        named
    };
    let expected = [
        ("item.update", json!({"id": "i", "headers": {}})),
        ("item.rerun", json!({"id": "i"})),
        ("item.rerun", at(json!({"delay": "1m"}))),
        ("item.get", json!({"id": "i", "follow": true})),
        ("item.wait", json!({"id": "i", "request_timeout": "1m30s", "follow": true})),
        ("item.get", at(json!({"follow": true}))),
        ("item.wait", at(json!({"follow": true}))),
    ];
    assert_eq!(asked(&server), expected.map(|(call, body)| (call.to_owned(), body)));
    Ok(())
}

#[tokio::test]
async fn pages_continue_over_empty_pages_and_a_refused_one() -> Result<(), ClientError> {
    let page = |ids: &[&str], pivot: Option<&str>| {
        let items: Vec<_> = ids.iter().map(|id| json!({"id": id})).collect();
        let mut page = json!({"items": items, "scanned": 10_000});
        page.as_object_mut().unwrap().extend(pivot.map(|pivot| ("pivot".to_owned(), json!(pivot))));
        Act::Answer(Answer::json(200, &page.to_string()))
    };
    let refusal = json!({"error": {"code": "not_found", "message": "no"}}).to_string();
    let refused = Act::Answer(Answer::json(404, &refusal));
    let script = [page(&["a", "b"], Some("p1")), page(&[], Some("p2")), refused, page(&["c"], None)];
    let (server, client) = with_json(script).await;
    let states = Some(States { states: vec!["failed".to_owned()] });
    let mut found = client.queue("emails").find(FindItemsRequest { states, ..FindItemsRequest::default() });
    let mut told = Vec::new();
    while let Some(page) = found.next().await {
        let ids = |page: FindItemsReply| page.items.into_iter().map(|item| item.id).collect::<String>();
        told.push(page.map_or_else(|error| error.code().unwrap().to_string(), ids));
    }
    assert_eq!(told, ["ab", "", "not_found", "c"]);
    assert!(found.next().await.is_none());
    let request = |pivot: Option<&str>| {
        let mut request =
            json!({"queue": "emails", "states": ["failed"], "payloads": false, "partial": false});
        request.as_object_mut().unwrap().extend(pivot.map(|pivot| ("pivot".to_owned(), json!(pivot))));
        ("items.find".to_owned(), request)
    };
    assert_eq!(asked(&server), [None, Some("p1"), Some("p2"), Some("p2")].map(request));
    Ok(())
}

#[tokio::test]
async fn pages_end_where_only_missing_partitions_are_left() -> Result<(), ClientError> {
    let page = |items: Value, scanned: u64| {
        let page = json!({"items": items, "scanned": scanned, "missing": [3], "pivot": "p"});
        Act::Answer(Answer::json(200, &page.to_string()))
    };
    let script = [page(json!([{"id": "a"}]), 1), page(json!([]), 5), page(json!([]), 0), empty()];
    let (server, client) = with_json(script).await;
    let partial = FindItemsRequest { partial: true, ..FindItemsRequest::default() };
    let mut found = client.queue("emails").find(partial);
    let mut scanned = Vec::new();
    while let Some(page) = found.next().await {
        let page = page?;
        assert_eq!((page.missing, page.pivot), (vec![3], Some("p".to_owned())));
        scanned.push(page.scanned);
    }
    assert_eq!((scanned, server.left()), (vec![1, 5, 0], 1));
    Ok(())
}

#[tokio::test]
async fn a_change_goes_on_until_there_is_no_pivot() -> Result<(), ClientError> {
    let page = |pivot: Value| Act::Answer(Answer::json(200, &pivot.to_string()));
    let more = json!({"matched": 3, "changed": 2, "pivot": "p"});
    let (server, client) = with_json([page(more), page(json!({"matched": 1, "changed": 1}))]).await;
    let filter = Some(ItemFilter { error_code: Some("late".to_owned()), ..ItemFilter::default() });
    let rerun = ChangeItemsRequest { filter, action: "rerun".to_owned(), ..ChangeItemsRequest::default() };
    let mut changes = client.queue("emails").change(rerun);
    let mut changed = 0;
    while let Some(page) = changes.next().await {
        changed += page?.changed;
    }
    assert_eq!(changed, 3);
    let filter = json!({"error_code": "late"});
    let first = json!({"queue": "emails", "filter": filter, "action": "rerun", "dry_run": false});
    let second =
        json!({"queue": "emails", "filter": filter, "action": "rerun", "dry_run": false, "pivot": "p"});
    assert_eq!(asked(&server), [first, second].map(|body| ("items.change".to_owned(), body)));
    Ok(())
}

#[tokio::test]
async fn the_methods_of_a_dashboard_ask_for_what_it_shows() -> Result<(), ClientError> {
    let (server, client) = with_json(vec![empty(); 5]).await;
    client.queues_first(QueueOrder::Oldest, 10).await?;
    client.history(None, None).await?;
    client.queue("emails").history(Some(Duration::from_secs(7200))).await?;
    client.queue("emails").errors().await?;
    let states = Some(States { states: vec!["failed".to_owned()] });
    client.find_in_all_queues(FindItemsRequest { states, ..FindItemsRequest::default() }).await?;
    let expected = [
        ("queues.list", json!({"order": "oldest", "limit": 10, "counts": false, "meta": false})),
        ("queues.history", json!({})),
        ("queues.history", json!({"queues": ["emails"], "span": "2h"})),
        ("items.errors", json!({"queue": "emails"})),
        ("items.find", json!({"states": ["failed"], "payloads": false, "partial": false})),
    ];
    assert_eq!(asked(&server), expected.map(|(call, body)| (call.to_owned(), body)));
    Ok(())
}

#[tokio::test]
async fn the_methods_for_events_name_their_item() -> Result<(), ClientError> {
    let (server, client) = with_json(vec![empty(); 5]).await;
    let item = LeasedItem { id: "i".to_owned(), permit: 5, ..LeasedItem::default() };
    let (id, permit) = (item.id.clone(), item.permit);
    let events = vec![new_event("note", &"hello")?];
    client.emit(EmitRequest { id, permit, after: Some(3), events }).await?;
    client.close_streams("i", CloseMode::Graceful).await?;
    client.close_streams("i", CloseMode::Immediate).await?;
    client.queue("emails").suspend([item.suspended("which one?")]).await?;
    client.resume_item("i", Some(Payload::from_utf8("this one"))).await?;
    let event = json!({"type": "note", "json": "hello"});
    let suspended = json!({"id": "i", "permit": 5, "reason": "which one?"});
    let expected = [
        ("item.emit", json!({"id": "i", "permit": 5, "after": 3, "events": [event]})),
        ("item.close_streams", json!({"id": "i", "mode": "graceful"})),
        ("item.close_streams", json!({"id": "i", "mode": "immediate"})),
        ("queue.suspend", json!({"queue": "emails", "items": [suspended]})),
        ("item.resume", json!({"id": "i", "utf8": "this one"})),
    ];
    assert_eq!(asked(&server), expected.map(|(call, body)| (call.to_owned(), body)));
    Ok(())
}

#[tokio::test]
async fn items_and_backups_are_asked_for_by_name() -> Result<(), ClientError> {
    let (server, client) = with_json(vec![empty(); 6]).await;
    client.item("i").await?;
    client.wait("i", Some(Duration::from_secs(90))).await?;
    client.wait("i", None).await?;
    client.cancel("i").await?;
    client.backup(Some("tuesday")).await?;
    client.backup(None).await?;
    let expected = [
        ("item.get", json!({"id": "i", "follow": false})),
        ("item.wait", json!({"id": "i", "request_timeout": "1m30s", "follow": false})),
        ("item.wait", json!({"id": "i", "follow": false})),
        ("item.cancel", json!({"id": "i"})),
        ("server.backup", json!({"backup": "tuesday"})),
        ("server.backup", json!({})),
    ];
    assert_eq!(asked(&server), expected.map(|(call, body)| (call.to_owned(), body)));
    Ok(())
}

#[tokio::test]
async fn a_list_of_queues_is_followed_to_its_end() {
    let page = |names: std::ops::Range<usize>| {
        let queues: Vec<_> = names.map(|name| json!({"queue": format!("{name:04}")})).collect();
        Act::Answer(Answer::json(200, &json!({"queues": queues}).to_string()))
    };
    let (server, client) = with_json([page(0..1000), page(1000..2000), page(2000..2000)]).await;
    let queues = client.queues_with_counts().await.unwrap();
    assert_eq!((queues.len(), queues[1999].queue.as_str()), (2000, "1999"));
    let expected = [
        json!({"limit": 1000, "counts": true, "meta": false}),
        json!({"limit": 1000, "counts": true, "meta": false, "pivot": "0999"}),
        json!({"limit": 1000, "counts": true, "meta": false, "pivot": "1999"}),
    ];
    assert_eq!(asked(&server), expected.map(|body| ("queues.list".to_owned(), body)));
}

#[tokio::test]
async fn pages_with_meta_may_be_short() {
    let page = |names: &[&str]| {
        let queues: Vec<Value> = names.iter().map(|name| json!({"queue": name, "meta": {"a": 1}})).collect();
        Act::Answer(Answer::json(200, &json!({"queues": queues}).to_string()))
    };
    let (server, client) = with_json([page(&["a", "b"]), page(&["c"]), page(&[])]).await;
    let queues = client.queues_with_meta().await.unwrap();
    assert_eq!(queues.iter().map(|queue| queue.queue.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
    assert!(queues.iter().all(|queue| queue.meta.as_deref() == Some(r#"{"a":1}"#)));
    let expected = [
        json!({"limit": 1000, "counts": false, "meta": true}),
        json!({"limit": 1000, "counts": false, "meta": true, "pivot": "b"}),
        json!({"limit": 1000, "counts": false, "meta": true, "pivot": "c"}),
    ];
    assert_eq!(asked(&server), expected.map(|body| ("queues.list".to_owned(), body)));
}

#[tokio::test]
async fn a_reply_tells_its_commits_and_its_request() {
    let answer = Answer::json(200, "{}").header("windlass-request-id", "r-17");
    let answer = answer.header("windlass-commit", "3:141, 4:9,of a newer form,+7");
    let (_server, client) = with_json([Act::Answer(answer)]).await;
    let request = QueueInfoRequest { queue: "emails".to_owned() };
    let Answered { commits, more_commits, request_id, .. } = client.call_with_commit(&request).await.unwrap();
    assert_eq!(commits, [Commit { partition: 3, sequence: 141 }, Commit { partition: 4, sequence: 9 }]);
    assert_eq!(more_commits, 7, "partitions that the header does not name");
    assert_eq!(request_id.as_deref(), Some("r-17"));
}

#[tokio::test]
async fn the_pages_of_a_server_can_be_read() {
    let page = |status, text: &str| Act::Answer(Answer::new(status, "text/plain", text));
    let script = [page(200, "ok"), page(503, "loading"), page(200, "ok"), page(200, "windlass_items 3\n")];
    let (server, client) = with_json(script).await;
    client.health().await.unwrap();
    assert_eq!(client.ready().await.unwrap(), Readiness { ready: false, page: "loading".to_owned() });
    assert_eq!(client.ready().await.unwrap(), Readiness { ready: true, page: "ok".to_owned() });
    assert_eq!(client.metrics().await.unwrap(), "windlass_items 3\n");
    let lines: Vec<_> = server.seen().into_iter().map(|seen| seen.line).collect();
    assert_eq!(lines, ["/health", "/ready", "/ready", "/metrics"].map(|path| format!("get {path} http/1.1")));
}

#[tokio::test]
async fn a_path_in_the_address_comes_before_that_of_the_call() {
    let server = Server::start([empty()]).await;
    let client = Client::new(&format!("{}/queues/", server.url)).unwrap();
    client.queue("emails").info().await.unwrap();
    assert_eq!(server.seen()[0].line, "post /queues/v1/queues.info http/1.1");
}

#[test]
fn a_payload_is_parsed_or_the_reason_is_told() {
    let item = new_item(&("ada", 36)).unwrap();
    assert_eq!(item.parse::<(String, u8)>().unwrap(), ("ada".to_owned(), 36));
    assert_eq!(item.payload_bytes(), br#"["ada",36]"#);
    assert!(matches!(item.parse::<bool>(), Err(PayloadError::OtherShape(_))));
    let text = LeasedItem { utf8: Some("hello".to_owned()), ..LeasedItem::default() };
    assert!(matches!(text.parse::<String>(), Err(PayloadError::NotJson { sent_as: "utf8" })));
    assert!(matches!(LeasedItem::default().parse::<String>(), Err(PayloadError::Missing)));
}

#[test]
fn every_payload_that_a_server_takes_can_be_parsed() {
    let nested = |levels| Payload {
        json: Some(format!("{}{}", "[".repeat(levels), "]".repeat(levels))),
        ..Payload::default()
    };
    assert!(nested(128).parse::<Value>().is_ok());
    let refused = nested(100_000).parse::<Value>();
    assert!(
        matches!(refused, Err(PayloadError::OtherShape(_))),
        "and the stack is not exhausted: {refused:?}"
    );
}
