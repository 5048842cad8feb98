//! A wait for work can be ended, and nothing is lost by that.

use std::time::Duration;

use tokio::sync::oneshot;
use windlass_client::{Client, Lease, LeasedItemExt, new_item};

use crate::real_server::RealServer;
use crate::script::{Act, Answer, Server};
use crate::world::{json_client, within};

fn long_lease() -> Lease {
    Lease { wait: Some(Duration::from_secs(600)), ..Lease::new("worker-1") }
}

#[tokio::test]
async fn what_was_on_its_way_still_arrives() {
    let answer = Answer::json(200, r#"{"items": [{"id": "i", "permit": 5, "json": 1}]}"#);
    let again = Answer::json(200, r#"{"queue": {"queue": "emails"}}"#);
    let server = Server::start([Act::AnswerAfterHangUp(answer), Act::Answer(again)]).await;
    let client = json_client(&server.url);
    let emails = client.queue("emails");
    let items = emails.lease_until(&long_lease(), server.until_seen(1)).await.unwrap();
    assert_eq!(items[0].permit, 5);
    // On another connection.
    emails.info().await.unwrap();
    assert_eq!(server.accepted(), 2);
}

#[tokio::test]
async fn a_wait_that_is_ended_brings_nothing() {
    let server = Server::start([Act::CutAfterHangUp]).await;
    let emails = Client::new(&server.url).unwrap().queue("emails");
    assert_eq!(emails.lease_until(&long_lease(), server.until_seen(1)).await.unwrap(), []);
}

#[tokio::test]
async fn a_wait_that_ends_before_there_is_a_connection_asks_nobody() {
    let server = Server::start([]).await;
    let emails = Client::new(&server.url).unwrap().queue("emails");
    assert_eq!(emails.lease_until(&long_lease(), async {}).await.unwrap(), []);
    assert!(server.seen().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_leased_is_known_however_waits_end() {
    let server = RealServer::start().await;
    let queue = server.client().queue("race");
    queue.create().await.unwrap();
    let (mut granted, mut not_granted) = (0, 0);
    for number in 0..200 {
        let (hang_up, hung_up) = oneshot::channel::<()>();
        let leasing = {
            let queue = queue.clone();
            tokio::spawn(async move { queue.lease_until(&long_lease(), async { drop(hung_up.await) }).await })
        };
        server.until_waiting(&queue, 1).await;
        let producing = {
            let queue = queue.clone();
            tokio::spawn(async move { queue.produce([new_item(&number).unwrap()]).await })
        };
        // At another moment each time.
        for _ in 0..number % 40 {
            queue.info().await.unwrap();
        }
        drop(hang_up);
        let mut items = leasing.await.unwrap().unwrap();
        producing.await.unwrap().unwrap();
        if items.is_empty() {
            not_granted += 1;
            // It would wait for the lease to end if it was lost.
            items = within(queue.lease(&long_lease())).await.unwrap();
        } else {
            granted += 1;
        }
        assert_eq!(items[0].attempts, 1);
        queue.complete(items.iter().map(LeasedItemExt::done)).await.unwrap();
    }
    assert!(granted > 0 && not_granted > 0, "the race went one way only: {granted}, {not_granted}");
}
