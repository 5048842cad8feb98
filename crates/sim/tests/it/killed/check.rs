//! Opens the logs as the next process would, and compares what is there with what was said.

use std::path::PathBuf;

use bytes::Bytes;
use windlass_core::id::{ItemId, Permit};
use windlass_core::item::State;
use windlass_core::time::Span;
use windlass_core::verbs::{Filter, LeaseItems};
use windlass_engine::Engine;
use windlass_sim::victim::{DEAD, WORKED, open, queue};

use super::word::{Acknowledged, Word};

/// The newest items that ended, which are looked for after each life.
const ENDED_LOOKED_FOR: usize = 300;
/// Items that wait for the next life; those beyond are worked off.
const WAITING_MAX: u64 = 500;
/// Only against hanging: a dead letter that is on its way arrives much sooner.
const ARRIVAL: Span = Span::from_secs(60);

pub(super) fn check(directories: &[PathBuf], word: &mut Word) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build();
    runtime.expect("a runtime").block_on(async {
        let engine = open(directories).await;
        for (id, item) in &word.live {
            check_live(&engine, *id, item).await;
        }
        for id in word.ended.iter().rev().take(ENDED_LOOKED_FOR) {
            check_ended(&engine, *id).await;
        }
        settle(&engine, word).await;
        work_off(&engine, word).await;
        bury(&engine, word).await;
        engine.close().await;
    });
}

async fn check_live(engine: &Engine, id: ItemId, item: &Acknowledged) {
    let found = match engine.get(id).await {
        Ok(found) => found,
        Err(_) if item.in_doubt => return,
        Err(error) => panic!("{id} was acknowledged and is lost: {error}"),
    };
    if item.in_doubt && matches!(found.item.state, State::Final(_)) {
        return;
    }
    if let Some(body) = &item.body {
        assert_eq!(found.payload.as_deref(), Some(body.as_bytes()), "{id} has another body");
    }
    if let (Some(permit), false) = (item.permit, item.in_doubt) {
        assert!(
            matches!(&found.item.state, State::Leased(lease) if lease.permit == permit),
            "{id} was leased by {permit:?} and is {:?}",
            found.item.state
        );
    }
}

/// A given-up item may still be on its way; what was completed is gone.
async fn check_ended(engine: &Engine, id: ItemId) {
    if let Ok(found) = engine.get(id).await {
        assert!(matches!(found.item.state, State::Final(_)), "{id} came back after its end: {found:?}");
    }
}

/// Completes every lease that the dead process held, which proves that the permits still count, and clears up what was
/// in doubt.
async fn settle(engine: &Engine, word: &mut Word) {
    let leased: Vec<(ItemId, Permit, bool)> =
        word.live.iter().filter_map(|(id, item)| Some((*id, item.permit?, item.in_doubt))).collect();
    for (id, permit, in_doubt) in leased {
        let judged = engine.complete(&queue(WORKED), vec![(id, permit, None)]).await.expect("judged");
        let completed = judged.results[0].is_ok();
        assert!(in_doubt || completed, "{id} cannot be completed by its holder: {judged:?}");
        if completed || !is_live(engine, id).await {
            word.ends(id);
        } else if let Some(item) = word.live.get_mut(&id) {
            // Released, as was asked for.
            (item.permit, item.in_doubt) = (None, false);
        }
    }
}

/// Completes what waits, where it is so much that it would fill a small disk by and by.
async fn work_off(engine: &Engine, word: &mut Word) {
    while engine.stats(&queue(WORKED)).await.expect("stats").counts.waiting > WAITING_MAX {
        for (id, permit, _) in lease_from(engine, WORKED, Span::ZERO).await {
            let judged = engine.complete(&queue(WORKED), vec![(id, permit, None)]).await.expect("judged");
            assert!(judged.results[0].is_ok(), "{id} can be completed: {judged:?}");
            word.ends(id);
        }
    }
}

async fn is_live(engine: &Engine, id: ItemId) -> bool {
    let found = engine.get(id).await;
    found.is_ok_and(|found| !matches!(found.item.state, State::Final(_)))
}

/// Takes every dead letter out of the dead queue: each body once, and none is missing of what was given up.
async fn bury(engine: &Engine, word: &mut Word) {
    loop {
        let missing = word.given_up.iter().any(|body| !word.buried.contains(body));
        let moving = engine.stats(&queue(WORKED)).await.expect("stats").moving > 0;
        let letters = lease_from(engine, DEAD, if missing || moving { ARRIVAL } else { Span::ZERO }).await;
        if letters.is_empty() {
            if missing || moving {
                let (from, to) = (engine.stats(&queue(WORKED)).await, engine.stats(&queue(DEAD)).await);
                let lost: Vec<&String> = word.given_up.difference(&word.buried).collect();
                let store = engine.store_stats();
                panic!("given up, and not in the dead queue: {lost:?}. {from:?} {to:?} {store:?}");
            }
            return;
        }
        for (id, permit, body) in letters {
            let body = String::from_utf8(body.to_vec()).expect("our own text");
            assert!(word.buried.insert(body), "an item came to the dead queue twice: {id}");
            let judged = engine.complete(&queue(DEAD), vec![(id, permit, None)]).await.expect("judged");
            assert!(judged.results[0].is_ok(), "a dead letter can be completed: {judged:?}");
        }
    }
}

async fn lease_from(engine: &Engine, name: &str, wait: Span) -> Vec<(ItemId, Permit, Bytes)> {
    let lease =
        LeaseItems { client_id: "check".into(), batch_size: 100, lease_timeout: None, filter: Filter::ANY };
    let grant = engine.lease(&queue(name), lease, wait).await.expect("leased");
    grant.accept().into_iter().map(|item| (item.id, item.permit, item.body)).collect()
}
