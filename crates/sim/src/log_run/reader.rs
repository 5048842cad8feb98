//! Somebody who reads while owners write: what a body was at some moment of the read.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use windlass_core::id::ItemNumber;
use windlass_core::row::Part;
use windlass_engine::store::log::LogStore;

use super::changes::draw_body_key;
use super::model::wrong;
use super::owner::read_all;
use super::{Bench, Shift};
use crate::history::Violation;
use crate::rng::Rng;

pub(super) async fn read_on(bench: Bench, store: Arc<LogStore>, shift: Arc<Shift>, mut rng: Rng) {
    while !shift.over.load(Ordering::Relaxed) {
        bench.handle.sleep_micros(rng.skewed(1, 1_000)).await;
        if let Err(violation) = read_some(&bench, &store, &mut rng).await {
            return bench.complain(violation);
        }
    }
}

async fn read_some(bench: &Bench, store: &LogStore, rng: &mut Rng) -> Result<(), Violation> {
    let Some((partition, cuts, known)) = pick(bench, rng) else { return Ok(()) };
    let keys: Vec<(ItemNumber, Part)> = (0..6).map(|_| draw_body_key(rng)).collect();
    let bodies = match read_all(store, partition, &keys).await {
        Ok(bodies) => bodies,
        Err(error) if error.is_damage() => return Err(wrong("damage", error.to_string())),
        Err(_) => return Ok(()),
    };
    let model = bench.model();
    let Some(past) = model.partitions.get(&partition) else { return Ok(()) };
    // Whether its owner has noticed or not, the log may have gone back.
    if past.cuts != cuts || bench.is_troubled() {
        return Ok(());
    }
    for (key, body) in keys.iter().zip(&bodies) {
        let was = |state: &&super::changes::Content| state.bodies.get(key) == body.as_ref();
        if !past.states[known..].iter().any(|state| was(&state)) {
            let text = format!("partition {partition}: {key:?} was never {body:?} while it was read");
            return Err(wrong("body", text));
        }
    }
    Ok(())
}

fn pick(bench: &Bench, rng: &mut Rng) -> Option<(u32, u64, usize)> {
    let model = bench.model();
    let at = rng.index(model.partitions.len());
    let (partition, past) = model.partitions.iter().nth(at)?;
    // A commit under way may show already, or not yet.
    Some((*partition, past.cuts, past.answered() as usize))
}
