//! Who holds what, and taking it away.

use std::time::Duration;

use windlass_core::item::{LeaseEnd, Phase};
use windlass_core::refusal::Refusal;
use windlass_core::settings::{Requeue, Settings};
use windlass_core::time::Span;
use windlass_core::verbs::Held;
use windlass_engine::Holding;

use super::{is_refused, waiting_lease};
use crate::world::{World, completion, held, items, lease};

on_every_store!(
    permits_are_listed_by_id_over_all_partitions_page_by_page,
    a_permit_is_shown_as_it_was_granted_and_with_the_deadline_in_force,
    a_revoked_item_goes_to_whoever_waits_and_its_old_permit_is_lost,
    a_revoked_item_keeps_its_place_whatever_the_queue_says_of_requeueing,
    revocations_are_judged_one_by_one,
    a_revocation_of_the_last_attempt_fails_the_item,
    a_revoked_item_with_a_cancel_request_is_cancelled,
);

fn named(holdings: &[Holding]) -> Vec<Held> {
    holdings.iter().map(|holding| Held { id: holding.id, permit: holding.lease.permit }).collect()
}

async fn permits_are_listed_by_id_over_all_partitions_page_by_page(world: &World) {
    let queue = world.queue("q", 3, Settings::default()).await;
    for _ in 0..6 {
        world.produce(&queue, items(3)).await;
    }
    let mut expected = held(&world.lease(&queue, 13).await);
    expected.sort_by_key(|held| held.id.to_uuid());
    let engine = world.engine();
    assert_eq!(named(&engine.permits(&queue, None, 1000).await.expect("listed")), expected);
    // A pivot need not be there any more.
    let mut seen = Vec::new();
    while let [.., last] = &named(&engine.permits(&queue, seen.last().copied(), 4).await.expect("listed"))[..]
    {
        let page = engine.permits(&queue, seen.last().copied(), 4).await.expect("listed");
        assert_eq!(named(&page), expected[seen.len()..expected.len().min(seen.len() + 4)]);
        engine.release(&queue, vec![*last]).await.expect("judged");
        seen.extend(page.iter().map(|holding| holding.id));
    }
    assert_eq!(seen.len(), expected.len());
}

async fn a_permit_is_shown_as_it_was_granted_and_with_the_deadline_in_force(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    world.produce(&queue, items(2)).await;
    let leased = world.lease(&queue, 1).await.remove(0);
    let shown = world.engine().permits(&queue, None, 10).await.expect("listed").remove(0);
    assert_eq!((shown.id, shown.lease.permit, shown.attempts), (leased.leased.id, leased.leased.permit, 1));
    assert_eq!((&*shown.kind, &*shown.lease.client_id), ("default", "worker"));
    assert_eq!((shown.lease.deadline, shown.lease.leased_at), (leased.leased.deadline, world.engine().now()));
    world.env.advance(Duration::from_secs(55));
    world.restart().await;
    let later = world.engine().permits(&queue, None, 10).await.expect("listed").remove(0);
    assert_eq!(later.lease.deadline, world.engine().now() + Span::from_secs(10));
}

async fn a_revoked_item_goes_to_whoever_waits_and_its_old_permit_is_lost(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    world.produce(&queue, items(1)).await;
    let old = world.lease(&queue, 1).await.remove(0);
    let waiting = waiting_lease(world, &queue, lease(1)).await;
    let revoked = world.engine().revoke(&queue, vec![old.held()]).await.expect("judged");
    assert!(revoked.results[0].is_ok());
    let new = waiting.await.expect("the task ran").expect("leased").accept().remove(0);
    assert_eq!((new.leased.id, new.leased.attempts), (old.leased.id, 2));
    let late = world.engine().complete(&queue, vec![completion(old.held())]).await.expect("judged");
    assert!(is_refused(&late.results[0], &Refusal::LeaseLost { reason: Some(LeaseEnd::Revoked) }));
    world.complete(&queue, &new).await;
}

async fn a_revoked_item_keeps_its_place_whatever_the_queue_says_of_requeueing(world: &World) {
    let queue = world.queue("q", 1, Settings { requeue: Requeue::Tail, ..Settings::default() }).await;
    let ids = world.produce(&queue, items(3)).await;
    let leased = world.lease(&queue, 2).await;
    world.engine().revoke(&queue, held(&leased)).await.expect("judged");
    let again = world.lease(&queue, 3).await;
    assert_eq!(again.iter().map(|item| item.leased.id).collect::<Vec<_>>(), ids);
    assert_eq!(again.iter().map(|item| item.leased.attempts).collect::<Vec<_>>(), [2, 2, 1]);
}

async fn revocations_are_judged_one_by_one(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    world.produce(&queue, items(2)).await;
    world.produce(&queue, items(2)).await;
    let leased = world.lease(&queue, 4).await;
    world.complete(&queue, &leased[0]).await;
    let mut asked = held(&leased);
    asked[1].permit.0 += 1;
    let judged = world.engine().revoke(&queue, asked).await.expect("judged");
    assert!(is_refused(&judged.results[0], &Refusal::NotFound));
    assert!(is_refused(&judged.results[1], &Refusal::LeaseLost { reason: None }));
    assert!(judged.results[2].is_ok() && judged.results[3].is_ok());
}

async fn a_revocation_of_the_last_attempt_fails_the_item(world: &World) {
    let queue = world.queue("q", 1, Settings { max_attempts: 1, ..Settings::default() }).await;
    let id = world.produce(&queue, items(1)).await[0];
    let leased = world.lease(&queue, 1).await;
    world.engine().revoke(&queue, held(&leased)).await.expect("judged");
    let view = world.engine().get(id).await.expect("it has an error to show");
    assert_eq!(view.item.state.phase(), Phase::Failed);
    let error = view.item.extras.and_then(|extras| extras.error).expect("an error");
    assert_eq!(error.code.as_deref(), Some("lease_expired"));
}

async fn a_revoked_item_with_a_cancel_request_is_cancelled(world: &World) {
    let queue = world.queue("q", 1, Settings::default()).await;
    let id = world.produce(&queue, items(1)).await[0];
    let leased = world.lease(&queue, 1).await;
    world.engine().cancel(id).await.expect("asked");
    let waiting = super::waiting_for(&world.engine(), id).await;
    world.engine().revoke(&queue, held(&leased)).await.expect("judged");
    let view = waiting.await.expect("the task ran").expect("told");
    assert_eq!(view.item.state.phase(), Phase::Cancelled);
}
