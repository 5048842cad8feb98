//! Why an item is not running, as far as more than its partition knows.

use windlass_core::id::ItemId;
use windlass_core::item::Phase;
use windlass_core::partition::{Explained, Reason};
use windlass_core::refusal::Refusal;

use crate::Engine;
use crate::error::EngineError;
use crate::host::Home;
use crate::partition::handle::PartitionState;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Unset while the item's partition cannot be read.
    pub phase: Option<Phase>,
    pub reasons: Vec<WhyNot>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhyNot {
    /// A reason that the item's partition tells.
    Reason(Reason),
    /// No lease waits that would take an item of this kind and priority.
    NoWorker {
        kind: std::sync::Arc<str>,
        priority: u8,
    },
    PartitionFaulty {
        error: String,
    },
}

impl Engine {
    /// Explains what stands in the way of an item.
    pub async fn explain(&self, id: ItemId) -> Result<Explanation, EngineError> {
        let _call = self.host.enter()?;
        let home = self.home_of(id)?;
        match home.partition.query(move |partition, _| partition.explain(id.number)).await {
            Ok(Some(explained)) => Ok(with_others(&home, id, explained).await),
            Ok(None) => Err(Refusal::NotFound.into()),
            Err(error @ EngineError::Unavailable { .. }) => match home.partition.state() {
                PartitionState::Faulty { error } => {
                    Ok(Explanation { phase: None, reasons: vec![WhyNot::PartitionFaulty { error }] })
                }
                PartitionState::Loading | PartitionState::Available | PartitionState::Closed => Err(error),
            },
            Err(error) => Err(error),
        }
    }
}

async fn with_others(home: &Home, id: ItemId, explained: Explained) -> Explanation {
    let mut reasons = explained.reasons.clone();
    let mut no_worker = None;
    if explained.phase == Phase::Waiting {
        let before = before_elsewhere(home, id, &explained).await;
        add_those_elsewhere(before, &mut reasons);
        let (kind, priority) = (explained.kind, explained.place.priority);
        if !home.queue.waiters.want(&kind, priority) {
            no_worker = Some(WhyNot::NoWorker { kind, priority });
        }
    }
    let reasons = reasons.into_iter().map(WhyNot::Reason).chain(no_worker).collect();
    Explanation { phase: Some(explained.phase), reasons }
}

/// How many that stand before it in the queue's other partitions, as far as those can tell. None if there are no others.
async fn before_elsewhere(home: &Home, id: ItemId, explained: &Explained) -> Option<u64> {
    let others = home.queue.partitions.iter().filter(|handle| handle.id != id.partition);
    // All are asked before the first is waited for.
    let asked: Vec<_> = others
        .map(|handle| {
            let (place, kind) = (explained.place, explained.kind.clone());
            handle.ask(move |partition, _| partition.count_before(place, id.number, &kind))
        })
        .collect();
    let mut before = None;
    for answer in asked {
        let counted = match answer {
            Ok(answer) => answer.await.unwrap_or(Err(0)),
            Err(_cannot_tell) => Err(0),
        };
        let (Ok(counted) | Err(counted)) = counted;
        *before.get_or_insert(0) += counted;
    }
    before
}

/// Over several partitions the order is best effort: so is the number.
fn add_those_elsewhere(elsewhere: Option<u64>, reasons: &mut Vec<Reason>) {
    let Some(elsewhere) = elsewhere else { return };
    let here = reasons.iter_mut().find_map(|reason| match reason {
        Reason::Behind { position, exact } => Some((position, exact)),
        Reason::Scheduled { .. }
        | Reason::Held { .. }
        | Reason::Stopped(_)
        | Reason::Leased { .. }
        | Reason::Suspended { .. }
        | Reason::Moving { .. }
        | Reason::Final => None,
    });
    match here {
        Some((position, exact)) => (*position, *exact) = (*position + elsewhere, false),
        None if elsewhere > 0 => reasons.push(Reason::Behind { position: elsewhere, exact: false }),
        None => {}
    }
}
