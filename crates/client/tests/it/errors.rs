//! What callers are told.

use windlass_client::api::Code;
use windlass_client::{Client, ClientError, Outcome};

use crate::script::{Act, Answer, Server};
use crate::world::client_without_retries;

async fn error_of(answer: Answer) -> ClientError {
    let server = Server::start([Act::Answer(answer)]).await;
    let client = client_without_retries(&server.url);
    client.queue("emails").create().await.unwrap_err()
}

#[tokio::test]
async fn a_refusal_carries_all_that_the_server_said() {
    let body =
        r#"{"error": {"code": "lease_lost", "message": "it expired", "details": {"reason": "expired"}}}"#;
    let error = error_of(Answer::json(409, body).header("windlass-request-id", "r-17")).await;
    assert_eq!((error.code(), error.outcome()), (Some(Code::LeaseLost), Outcome::NotApplied));
    assert_eq!(error.request_id(), Some("r-17"));
    assert_eq!(error.to_string(), "lease_lost: it expired (request r-17)");
    let ClientError::Refused { code, details, status, .. } = error else { panic!("{error}") };
    assert!(code == Code::LeaseLost && status == 409);
    assert_eq!(details.reason.as_deref(), Some("expired"));
}

#[tokio::test]
async fn a_code_of_a_newer_server_is_kept_as_its_text() {
    let body = r#"{"error": {"code": "moon_phase", "message": "not tonight", "details": {"phase": "new"}}}"#;
    let error = error_of(Answer::json(409, body)).await;
    assert_eq!((error.code(), error.outcome()), (None, Outcome::NotApplied));
    assert_eq!(error.to_string(), "moon_phase: not tonight");
    let ClientError::Refused { code, .. } = error else { panic!("{error}") };
    assert_eq!(code.as_str(), "moon_phase");
}

#[tokio::test]
async fn the_error_page_of_a_proxy_is_shown_and_its_outcome_unknown() {
    let error = error_of(Answer::new(502, "text/html", "<h1>Bad Gateway</h1>")).await;
    assert!(matches!(error, ClientError::BadReply { status: 502, .. }), "{error}");
    assert_eq!((error.code(), error.outcome()), (None, Outcome::Unknown));
    let message = error.to_string();
    assert!(message.contains("502") && message.contains("Bad Gateway"), "{message}");
}

#[tokio::test]
async fn only_what_changes_something_may_have_been_done_without_an_answer() {
    const MAY_BE: &str = "what was asked may have been done";
    for cut in [Act::Cut, Act::CutInAnswer] {
        let server = Server::start(vec![cut; 3]).await;
        let client = client_without_retries(&server.url);
        let change = client.queue("emails").create().await.unwrap_err();
        assert_eq!(change.outcome(), Outcome::Unknown);
        assert!(change.to_string().ends_with(MAY_BE), "{change}");
        let read = client.queue("emails").info().await.unwrap_err();
        let watch = client.events("i").next().await.unwrap().unwrap_err();
        for error in [read, watch] {
            assert_eq!(error.outcome(), Outcome::NotApplied);
            assert!(!error.to_string().contains(MAY_BE), "{error}");
        }
    }
}

#[tokio::test]
async fn an_answer_that_is_not_of_this_server_is_no_reply() {
    let page = format!("<p>{}</p>", "é".repeat(100_000));
    let answers = [
        Answer::new(200, "text/html", page),
        Answer::json(200, "{"),
        Answer::new(200, "application/protobuf", [0xff; 3]),
        Answer::json(400, r#"{"detail": "another server's error"}"#),
    ];
    for answer in answers {
        let error = error_of(answer).await;
        assert!(matches!(error, ClientError::BadReply { .. }), "{error}");
        assert!(error.to_string().len() < 1000, "{error}");
    }
}

#[test]
fn an_address_that_cannot_be_used_is_refused_with_the_reason() {
    let cases = [
        ("https://queue.example.com", "https is not supported yet"),
        ("127.0.0.1:9463", "http://"),
        ("ftp://127.0.0.1", "http://"),
        ("http://", "http://127.0.0.1:9463"),
        ("", "http://127.0.0.1:9463"),
        ("http://me:secret@127.0.0.1", "password"),
        ("http://127.0.0.1/?a=b", "query"),
    ];
    for (url, expected) in cases {
        let error = Client::new(url).unwrap_err();
        assert!(matches!(error, ClientError::BadUrl { .. }), "{error}");
        assert_eq!(error.outcome(), Outcome::NotApplied);
        assert!(error.to_string().contains(expected), "{url}: {error}");
    }
}
