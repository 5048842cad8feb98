//! Priorities, kinds and places taken together.

use windlass_core::row::QueueName;
use windlass_core::settings::{Requeue, Settings};
use windlass_core::time::Span;
use windlass_core::verbs::{Filter, LeaseItems, NewItem};
use windlass_engine::Granted;

use crate::world::{World, bodies, held, item, lease};

on_every_store!(
    items_of_many_priorities_come_out_as_one_would_expect,
    items_of_many_priorities_keep_their_order_when_some_permits_are_revoked,
    kinds_and_max_priority_choose_from_the_same_order_also_after_a_revocation,
);

/// Priorities 8, 8, 7, 4, 0, 0, 7 (address abc), 5 (address def), and 8 of another kind, each named after its priority and
/// a letter for its turn.
async fn nine(world: &World) -> QueueName {
    let queue = world.queue("q", 1, Settings { requeue: Requeue::Tail, ..Settings::default() }).await;
    let names = ["8a", "8b", "7a", "4", "0a", "0b", "7b", "5"];
    let mail = names.map(|name| make("mail", name));
    let batch = mail.into_iter().chain([make("report", "8c")]).collect();
    world.produce(&queue, batch).await;
    queue
}

fn make(kind: &str, name: &str) -> NewItem {
    let priority = name[..1].parse().expect("it begins with its priority");
    let address = match name {
        "7b" => Some("abc".into()),
        "5" => Some("def".into()),
        _ => None,
    };
    NewItem { kind: kind.into(), priority, address, ..item(name) }
}

async fn lease_of(world: &World, queue: &QueueName, kinds: &[&str], max_priority: u8) -> Vec<Granted> {
    let kinds = kinds.iter().map(|&kind| kind.into()).collect();
    let filter = Filter::new(Some(kinds), max_priority);
    let wish = LeaseItems { filter, ..lease(100) };
    world.engine().lease(queue, wish, Span::ZERO).await.expect("leased").accept()
}

async fn items_of_many_priorities_come_out_as_one_would_expect(world: &World) {
    let queue = nine(world).await;
    let order = ["0a", "0b", "4", "5", "7a", "7b", "8a", "8b", "8c"];
    assert_eq!(bodies(&world.lease(&queue, 4).await), order[..4]);
    assert_eq!(bodies(&world.lease(&queue, 100).await), order[4..]);
}

async fn items_of_many_priorities_keep_their_order_when_some_permits_are_revoked(world: &World) {
    let queue = nine(world).await;
    let leased = world.lease(&queue, 7).await;
    // 7a, 0a and 8a, in an order of their own.
    let revoked = [leased[4].clone(), leased[0].clone(), leased[6].clone()];
    let judged = world.engine().revoke(&queue, held(&revoked)).await.expect("judged");
    assert!(judged.results.iter().all(Result::is_ok));
    world.produce(&queue, vec![make("mail", "0c"), make("mail", "7c")]).await;
    let rest = world.lease(&queue, 100).await;
    assert_eq!(bodies(&rest), ["0a", "0c", "7a", "7c", "8a", "8b", "8c"]);
    assert_eq!(rest.iter().map(|item| item.leased.attempts).collect::<Vec<_>>(), [2, 1, 2, 1, 2, 1, 1]);
}

async fn kinds_and_max_priority_choose_from_the_same_order_also_after_a_revocation(world: &World) {
    let queue = nine(world).await;
    assert_eq!(bodies(&lease_of(world, &queue, &["report"], 7).await), [""; 0]);
    let first = lease_of(world, &queue, &["mail", "report"], 5).await;
    assert_eq!(bodies(&first), ["0a", "0b", "4", "5"]);
    let report = lease_of(world, &queue, &["report"], 8).await;
    assert_eq!(bodies(&report), ["8c"]);
    let back = [&report[0], &first[1], &first[3]].map(Clone::clone);
    world.engine().revoke(&queue, held(&back)).await.expect("judged");
    assert_eq!(bodies(&lease_of(world, &queue, &["mail"], 7).await), ["0b", "5", "7a", "7b"]);
    assert_eq!(bodies(&lease_of(world, &queue, &["report", "mail"], 255).await), ["8a", "8b", "8c"]);
}
