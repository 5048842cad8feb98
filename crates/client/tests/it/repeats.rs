//! What is sent again, and what never is.

use std::time::Duration;

use tokio::net::TcpSocket;
use windlass_client::api::Code;
use windlass_client::{Client, ClientError, CloseMode, Lease, Outcome, Retries};

use crate::script::{Act, Answer, Server};

const QUICK: Retries = Retries { attempts_max: 3, total_max: Duration::from_secs(60), ..Retries::NONE };

fn client(url: &str) -> Client {
    Client::builder(url).retries(QUICK).build().unwrap()
}

fn done() -> Act {
    Act::Answer(Answer::json(200, r#"{"queue": {"queue": "emails"}}"#))
}

fn unavailable(outcome: &str) -> Act {
    let error =
        r#"{"error": {"code": "unavailable", "message": "not now", "details": {"outcome": "OUTCOME"}}}"#;
    Act::Answer(Answer::json(503, &error.replace("OUTCOME", outcome)).header("retry-after", "0"))
}

#[tokio::test]
async fn a_change_that_was_not_applied_is_sent_again() {
    let server = Server::start([unavailable("not_applied"), done()]).await;
    client(&server.url).queue("emails").create().await.unwrap();
    let seen = server.seen();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0], seen[1]);
}

#[tokio::test]
async fn a_change_that_met_an_overloaded_server_is_sent_again() {
    let error = Answer::json(429, r#"{"error": {"code": "overloaded", "message": "full"}}"#);
    let server = Server::start([Act::Answer(error.header("retry-after", "0")), done()]).await;
    client(&server.url).queue("emails").create().await.unwrap();
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn the_last_refusal_is_told_when_no_attempt_is_left() {
    let server = Server::start(vec![unavailable("not_applied"); 3]).await;
    let error = client(&server.url).queue("emails").create().await.unwrap_err();
    assert_eq!((error.code(), error.outcome()), (Some(Code::Unavailable), Outcome::NotApplied));
    assert_eq!(server.left(), 0);
}

#[tokio::test]
async fn a_change_whose_outcome_the_server_does_not_know_is_not_sent_again() {
    let server = Server::start([unavailable("unknown"), done()]).await;
    let error = client(&server.url).queue("emails").create().await.unwrap_err();
    assert_eq!((error.code(), error.outcome()), (Some(Code::Unavailable), Outcome::Unknown));
    assert_eq!(server.left(), 1);
}

#[tokio::test]
async fn a_change_whose_connection_is_cut_is_not_sent_again() {
    for cut in [Act::Cut, Act::CutInAnswer] {
        let server = Server::start([cut, done()]).await;
        let error = client(&server.url).queue("emails").create().await.unwrap_err();
        assert!(matches!(error, ClientError::Interrupted { .. }), "{error}");
        assert_eq!(error.outcome(), Outcome::Unknown);
        assert_eq!(server.left(), 1);
    }
}

#[tokio::test]
async fn a_change_on_a_kept_connection_that_is_cut_is_not_sent_again() {
    let server = Server::start([done(), Act::Cut, done()]).await;
    let client = client(&server.url);
    client.queue("emails").create().await.unwrap();
    let error = client.queue("emails").create().await.unwrap_err();
    assert!(matches!(error, ClientError::Interrupted { .. }), "{error}");
    assert_eq!((server.accepted(), server.left()), (1, 1));
}

#[tokio::test]
async fn a_produce_with_a_key_whose_connection_is_cut_is_sent_again() {
    let server = Server::start([Act::Cut, Act::CutInAnswer, done()]).await;
    client(&server.url).queue("emails").produce_once("order 7", []).await.unwrap();
    assert_eq!((server.accepted(), server.left()), (3, 0));
}

#[tokio::test]
async fn a_read_whose_connection_is_cut_is_sent_again() {
    let server = Server::start([Act::Cut, Act::CutInAnswer, done()]).await;
    client(&server.url).queue("emails").info().await.unwrap();
    assert_eq!((server.accepted(), server.left()), (3, 0));
}

#[tokio::test]
async fn a_read_goes_on_after_a_proxy_that_could_not_reach_the_server() {
    let proxy = Act::Answer(Answer::new(502, "text/html", "<h1>Bad Gateway</h1>"));
    let server = Server::start([proxy, unavailable("unknown"), done()]).await;
    client(&server.url).queue("emails").info().await.unwrap();
    assert_eq!(server.left(), 0);
}

#[tokio::test]
async fn a_backup_that_may_have_been_made_is_not_made_twice() {
    let server = Server::start([Act::Cut, done()]).await;
    let error = client(&server.url).backup(None).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown);
    assert_eq!(server.left(), 1);
}

#[tokio::test]
async fn streams_that_may_have_been_closed_are_not_closed_twice() {
    let server = Server::start([Act::Cut, done()]).await;
    let error = client(&server.url).close_streams("i", CloseMode::Graceful).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown);
    assert_eq!(server.left(), 1);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_as_such() {
    // Bound and not listening: nobody else can have the port, and whoever connects is refused.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}", socket.local_addr().unwrap());
    let error = client(&url).queue("emails").create().await.unwrap_err();
    assert!(matches!(error, ClientError::Unreachable { .. }), "{error}");
    assert_eq!(error.outcome(), Outcome::NotApplied);
    let message = error.to_string();
    assert!(message.contains(&url) && message.contains("refused"), "{message}");
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up_on() {
    let server = Server::start([Act::Silence]).await;
    let client = client(&server.url);
    let asking = tokio::spawn(async move {
        let lease = Lease { wait: Some(Duration::from_secs(300)), ..Lease::new("worker-1") };
        client.queue("emails").lease(&lease).await
    });
    server.until_seen(1).await;
    // From here on nothing is left to wait for but the clock, which now moves by itself.
    tokio::time::pause();
    let error = asking.await.unwrap().unwrap_err();
    let ClientError::Timeout { waited, .. } = &error else { panic!("{error}") };
    assert_eq!(*waited, Duration::from_secs(310));
    assert_eq!((error.outcome(), server.seen().len()), (Outcome::Unknown, 1));
}
