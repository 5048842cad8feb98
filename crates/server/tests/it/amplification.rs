//! Requests that become much larger when they are decoded.

use prost::Message;
use serde_json::json;
use windlass_api::items::{Kinds, LeaseRequest, NewItem, ProduceRequest};
use windlass_api::{JSON, PROTOBUF};

use crate::http::{Got, Http};
use crate::world::TestServer;

const IN_FLIGHT: &str = "windlass_http_bytes_in_flight";

async fn protobuf(http: &mut Http, call: &str, body: &[u8]) -> Got {
    let headers = [("content-type", PROTOBUF), ("accept", JSON)];
    http.request("POST", &format!("/v1/{call}"), &headers, body).await
}

fn lease_of_kinds(kinds: usize) -> LeaseRequest {
    let kinds = (0..kinds).map(|kind| kind.to_string()).collect();
    LeaseRequest {
        queue: "q".into(),
        client_id: "c".into(),
        batch_size: 1,
        kinds: Some(Kinds { kinds }),
        ..LeaseRequest::default()
    }
}

#[tokio::test]
async fn parts_of_a_list_count_together_however_they_are_sent() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    // Protobuf adds up the lists of a message that is sent twice.
    let mut body = lease_of_kinds(600).encode_to_vec();
    body.extend(LeaseRequest { kinds: lease_of_kinds(600).kinds, ..LeaseRequest::default() }.encode_to_vec());
    let got = protobuf(&mut http, "queue.lease", &body).await;
    assert_eq!((got.status, got.code().as_str()), (400, "invalid_argument"));
    assert!(got.message().contains("`kinds` is there more than once"), "{}", got.message());
}

#[tokio::test]
async fn nothing_is_hidden_behind_a_group() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    // The start and the end of a group in the old encoding, as field 31, which no request has.
    let mut body = vec![0xfb, 0x01, 0xfc, 0x01];
    let item = NewItem { utf8: Some(String::new()), ..NewItem::default() };
    body.extend(
        ProduceRequest { queue: "q".into(), items: vec![item], ..ProduceRequest::default() }.encode_to_vec(),
    );
    let got = protobuf(&mut http, "queue.produce", &body).await;
    assert_eq!((got.status, got.code().as_str()), (400, "invalid_argument"));
    assert!(got.message().contains("group"), "{}", got.message());
}

#[tokio::test]
async fn too_many_headers_are_refused_by_the_name_of_their_item() {
    let (_server, mut http) = TestServer::with_queue(json!({})).await;
    let item = |headers: usize| NewItem {
        utf8: Some(String::new()),
        headers: (0..headers).map(|header| (header.to_string(), String::new())).collect(),
        ..NewItem::default()
    };
    let request = |headers| ProduceRequest {
        queue: "q".into(),
        items: vec![item(32), item(headers)],
        ..ProduceRequest::default()
    };
    for encoding in [JSON, PROTOBUF] {
        http.call(encoding, &request(32)).await.expect("as many as there may be");
        let refused = http.call(encoding, &request(33)).await.expect_err("one too many");
        assert_eq!(refused.error.code, "invalid_argument");
        let message = refused.error.message;
        assert!(message.contains("`items[1].headers`") && message.contains("32"), "{encoding}: {message}");
    }
}

#[tokio::test]
async fn a_request_counts_as_what_it_takes_once_decoded() {
    let (server, mut http) = TestServer::with_queue(json!({})).await;
    for encoding in [JSON, PROTOBUF] {
        let request = lease_of_kinds(1000);
        let body =
            if encoding == JSON { json!(request).to_string().into_bytes() } else { request.encode_to_vec() };
        assert!(body.len() < 10_000, "small as a body");
        let mut waiting = server.connect().await;
        waiting.send("POST", "/v1/queue.lease", &[("content-type", encoding)], &body).await;
        http.until_lease_waiters("q", 1).await;
        let counted = http.metric(IN_FLIGHT).await;
        assert!((24_000 + body.len()..100_000).contains(&counted), "{encoding}: {counted}");
        drop(waiting);
        http.until(async |http| http.metric(IN_FLIGHT).await == 0).await;
    }
}
