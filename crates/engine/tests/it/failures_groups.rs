//! The end and the cancel of a group, with everything that can go wrong at every step of them.

use windlass_core::group::{Ended, GroupView};
use windlass_core::refusal::Refusal;
use windlass_core::settings::Settings;
use windlass_core::time::Span;
use windlass_core::verbs::{Clear, CreateGroup};
use windlass_engine::{EngineError, Granted};

use crate::behaviour::groups::{end, group};
use crate::failures_moves::{COMMITS_MAX, FAULTS, Moving};
use crate::world::{bodies, completion, held, items, lease};

impl Moving {
    /// A started group of two, so many of them leased. Its last word goes to its own queue, or to another.
    async fn with_group(elsewhere: bool, leases: usize) -> (Self, Vec<Granted>) {
        let moving = Self::new().await;
        moving.create(&moving.dead, Settings::default()).await;
        let to = elsewhere.then_some("dead");
        let create = CreateGroup {
            end: end("end", to),
            abort: end("abort", to),
            items: items(2),
            start: true,
            ..group("g")
        };
        moving.engine.create_group(&moving.queue, create).await.expect("the group is made");
        let leased =
            moving.engine.lease(&moving.queue, lease(leases), Span::ZERO).await.expect("leased").accept();
        (moving, leased)
    }

    async fn group(&self) -> GroupView {
        self.engine.group(&self.queue, &"g".into()).await.expect("it is there")
    }

    /// Completes one after the other, as far as the fault lets it.
    async fn complete_all(&self, leased: &[Granted]) {
        for item in leased {
            let items = vec![completion(item.held())];
            let _as_far_as_it_goes = self.engine.complete(&self.queue, items).await;
        }
    }

    /// Cancels the group and gives up what is leased, as far as the fault lets it.
    async fn cancel_all(&self, leased: &[Granted]) {
        let _as_far_as_it_goes = self.engine.cancel_group(&self.queue, &"g".into()).await;
        let _as_far_as_it_goes = self.engine.release(&self.queue, held(leased)).await;
    }

    /// What the group left behind, wherever it is, exactly once.
    async fn last_words(&self) -> Vec<String> {
        self.settled().await;
        let mut words = bodies(&self.lease(&self.queue).await);
        words.extend(bodies(&self.lease(&self.dead).await));
        words
    }
}

#[tokio::test]
async fn the_end_item_exists_once_whatever_fails_at_any_step() {
    let mut struck = 0;
    for (elsewhere, commits, fault) in every_fault() {
        let (moving, leased) = Moving::with_group(elsewhere, 2).await;
        moving.store.fail_after(commits, fault);
        moving.unless_it_crashes(moving.complete_all(&leased)).await;
        let (moving, has_struck) = moving.after_the_fault().await;
        struck += usize::from(has_struck);
        moving.settled().await;
        // Whatever was lost is done again: a completion that counted is harmless.
        moving.complete_all(&leased).await;
        let at = format!("{fault:?} at commit {commits}, elsewhere: {elsewhere}");
        assert_eq!(moving.last_words().await, ["end"], "{at}");
        let view = moving.group().await;
        assert_eq!(
            (view.state.name(), view.ended),
            ("done", Ended { completed: 2, ..Ended::default() }),
            "{at}"
        );
    }
    // Two completions; and the choice of a taker, the arrival, and the end of the move.
    assert!(struck >= (2 + 5) * FAULTS.len(), "{struck}");
}

#[tokio::test]
async fn the_abort_item_exists_once_whatever_fails_at_any_step() {
    let mut struck = 0;
    for (elsewhere, commits, fault) in every_fault() {
        let (moving, leased) = Moving::with_group(elsewhere, 1).await;
        moving.store.fail_after(commits, fault);
        moving.unless_it_crashes(moving.cancel_all(&leased)).await;
        let (moving, has_struck) = moving.after_the_fault().await;
        struck += usize::from(has_struck);
        moving.settled().await;
        moving.cancel_all(&leased).await;
        let at = format!("{fault:?} at commit {commits}, elsewhere: {elsewhere}");
        assert_eq!(moving.last_words().await, ["abort"], "{at}");
        let view = moving.group().await;
        assert_eq!((view.state.name(), view.ended.cancelled, view.live.live()), ("aborted", 2, 0), "{at}");
    }
    // The cancel and the release, the sweep; and the choice of a taker, the arrival, and the end of the move.
    assert!(struck >= (3 + 6) * FAULTS.len(), "{struck}");
}

/// As many as do not fit one batch, and a fault at the commit that leaves the rest of them over.
#[tokio::test]
async fn end_items_that_are_left_over_have_their_payloads_after_a_fault() {
    for fault in FAULTS {
        let moving = Moving::new().await;
        moving.create(&moving.dead, Settings::default()).await;
        let large = "x".repeat(400_000);
        for index in 0..9 {
            let name = format!("g{index}").into();
            let end = end(&large, (index % 2 == 0).then_some("dead"));
            let create = CreateGroup { name, end, items: items(1), start: true, ..group("g") };
            moving.engine.create_group(&moving.queue, create).await.expect("the group is made");
        }
        moving.store.fail_next(fault);
        let clear = Clear { waiting: true, scheduled: false, leased: false, suspended: false };
        moving.unless_it_crashes(moving.engine.clear(&moving.queue, clear)).await;
        let (moving, _) = moving.after_the_fault().await;
        moving.settled().await;
        let first = moving.engine.group(&moving.queue, &"g0".into()).await.expect("it is there");
        if first.state.name() == "started" {
            moving.engine.clear(&moving.queue, clear).await.expect("what was lost is done again");
        }
        let words = moving.last_words().await;
        assert_eq!(words.len(), 9, "{fault:?}");
        assert!(words.iter().all(|word| *word == large), "{fault:?}");
    }
}

#[tokio::test]
async fn an_end_item_whose_payload_is_damaged_costs_nobody_else() {
    let (moving, leased) = Moving::with_group(false, 2).await;
    *moving.store.damaged.lock().expect("not poisoned") = Some("end".into());
    moving.complete_all(&leased).await;
    assert_eq!(moving.group().await.state.name(), "done");
    moving.engine.produce(&moving.queue, items(1)).await.expect("produced");
    let sound = moving.lease(&moving.queue).await;
    assert_eq!(bodies(&sound), ["item 0"]);
}

#[tokio::test]
async fn a_queue_is_not_empty_while_it_owes_an_end_item() {
    let moving = Moving::new().await;
    let large = "x".repeat(600_000);
    for index in 0..3 {
        let name = format!("g{index}").into();
        let create = CreateGroup { name, end: end(&large, None), items: items(1), start: true, ..group("g") };
        moving.engine.create_group(&moving.queue, create).await.expect("the group is made");
    }
    let clear = Clear { waiting: true, scheduled: false, leased: false, suspended: false };
    moving.engine.clear(&moving.queue, clear).await.expect("cleared");
    let refused = moving.engine.delete_queue(&moving.queue, false).await;
    assert!(matches!(refused, Err(EngineError::Refused(Refusal::NotEmpty { .. }))), "{refused:?}");
}

fn every_fault() -> impl Iterator<Item = (bool, usize, crate::faulty::Fault)> {
    let commits = |elsewhere| (0..COMMITS_MAX).map(move |commits| (elsewhere, commits));
    let steps = [false, true].into_iter().flat_map(commits);
    steps.flat_map(|(elsewhere, commits)| FAULTS.map(|fault| (elsewhere, commits, fault)))
}
