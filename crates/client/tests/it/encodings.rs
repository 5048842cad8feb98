//! Both encodings, and an answer in the other one than was asked for.

use prost::Message;
use windlass_client::api::error::{Error, ErrorReply};
use windlass_client::api::items::{LeaseReply, LeaseRequest, LeasedItem};
use windlass_client::api::{Code, Span};
use windlass_client::{Client, Lease, PayloadExt, new_item};

use crate::script::{Act, Answer, Server};
use crate::world::json_client;

const PROTOBUF: &str = "application/protobuf";

fn lease_with_everything() -> Lease {
    Lease {
        batch_size: 7,
        wait: Some(std::time::Duration::ZERO),
        lease_timeout: Some(std::time::Duration::from_millis(1500)),
        kinds: Some(vec!["urgent".to_owned()]),
        max_priority: Some(9),
        ..Lease::new("worker-1")
    }
}

#[tokio::test]
async fn protobuf_is_what_travels_by_default() {
    let item = LeasedItem { json: Some("[1,2]".to_owned()), permit: 5, ..LeasedItem::default() };
    let reply = LeaseReply { items: vec![item] }.encode_to_vec();
    let server = Server::start([Act::Answer(Answer::new(200, PROTOBUF, reply))]).await;
    let items =
        Client::new(&server.url).unwrap().queue("emails").lease(&lease_with_everything()).await.unwrap();
    assert_eq!((items[0].permit, items[0].parse::<Vec<u8>>().unwrap()), (5, vec![1, 2]));

    let seen = &server.seen()[0];
    assert!(seen.head.contains("content-type: application/protobuf\r\n"), "{}", seen.head);
    let request = LeaseRequest::decode(seen.body.as_slice()).unwrap();
    assert_eq!((request.queue.as_str(), request.client_id.as_str()), ("emails", "worker-1"));
    assert_eq!((request.batch_size, request.max_priority), (7, Some(9)));
    assert_eq!(request.request_timeout, Some(Span::ZERO));
    assert_eq!(request.lease_timeout, Some(Span::from_millis(1500)));
    assert_eq!(request.kinds.unwrap().kinds, ["urgent"]);
}

#[tokio::test]
async fn json_travels_if_asked_for() {
    let reply = r#"{"items": [{"id": "1", "permit": 5, "json": [1, 2]}]}"#;
    let server = Server::start([Act::Answer(Answer::json(200, reply))]).await;
    let client = json_client(&server.url);
    let items = client.queue("emails").lease(&lease_with_everything()).await.unwrap();
    assert_eq!((items[0].permit, items[0].parse::<Vec<u8>>().unwrap()), (5, vec![1, 2]));

    let seen = &server.seen()[0];
    assert!(seen.head.contains("content-type: application/json\r\n"), "{}", seen.head);
    let body = String::from_utf8(seen.body.clone()).unwrap();
    let expected = r#"{"queue":"emails","client_id":"worker-1","batch_size":7,"request_timeout":"0s","lease_timeout":"1s500ms","kinds":["urgent"],"max_priority":9}"#;
    assert_eq!(body, expected);
}

#[tokio::test]
async fn an_error_is_read_in_the_encoding_it_comes_in() {
    let error = Error { code: "not_found".to_owned(), message: "no such queue".to_owned(), details: None };
    let error = ErrorReply { error }.encode_to_vec();
    let json = r#"{"error": {"code": "not_found", "message": "no such queue"}}"#;
    let server = Server::start([
        Act::Answer(Answer::new(404, PROTOBUF, error)),
        Act::Answer(Answer::new(404, "application/json; charset=utf-8", json)),
    ])
    .await;
    let emails = Client::new(&server.url).unwrap().queue("emails");
    for _ in 0..2 {
        let error = emails.info().await.unwrap_err();
        assert_eq!(error.code(), Some(Code::NotFound), "{error}");
    }
}

#[tokio::test]
async fn a_payload_that_claims_to_be_json_and_is_none_is_not_sent() {
    let server = Server::start([]).await;
    let client = json_client(&server.url);
    let mut item = new_item(&1).unwrap();
    item.json = Some("{".to_owned());
    let error = client.queue("emails").produce([item]).await.unwrap_err();
    assert!(error.to_string().contains("JSON"), "{error}");
    assert_eq!(server.accepted(), 0);
}
