//! Connections are kept, shared, and replaced without anybody noticing.

use windlass_client::Client;

use crate::script::{Act, Answer, Server};
use crate::world::client_without_retries;

fn answer() -> Answer {
    Answer::json(200, r#"{"queue": {"queue": "emails"}}"#)
}

#[tokio::test]
async fn calls_one_after_another_share_a_connection() {
    let server = Server::start(vec![Act::Answer(answer()); 20]).await;
    let client = Client::new(&server.url).unwrap();
    for _ in 0..10 {
        client.queue("emails").create().await.unwrap();
        client.clone().queue("emails").info().await.unwrap();
    }
    assert_eq!((server.accepted(), server.left()), (1, 0));
}

#[tokio::test]
async fn a_connection_that_the_server_closed_while_idle_goes_unnoticed() {
    let server = Server::start([Act::AnswerAndClose(answer()), Act::Answer(answer())]).await;
    // Without retries, and for a change, which is never sent twice.
    let client = client_without_retries(&server.url);
    client.queue("emails").create().await.unwrap();
    server.until_closed(1).await;
    client.queue("emails").create().await.unwrap();
    assert_eq!((server.accepted(), server.seen().len()), (2, 2));
}

#[tokio::test]
async fn calls_can_be_made_from_tasks_of_their_own() {
    let server = Server::start([Act::Answer(answer())]).await;
    let emails = Client::new(&server.url).unwrap().queue("emails");
    let queue = tokio::spawn(async move { emails.info().await }).await.unwrap().unwrap();
    assert_eq!(queue.queue, "emails");
}
