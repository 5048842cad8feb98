//! [`Verb`]: something that can be asked of a partition. Each verb is a struct in the file under [`crate::partition`] that carries it out, and all that there is to
//! know of the verb stands there: what it may say, what it weighs, what it does to the store, and what it answers.

use std::fmt;

use crate::footprint::Footprint;
use crate::limits::Invalid;
use crate::news::News;
use crate::partition::{Output, Partition, Totals};
use crate::refusal::Refusal;
use crate::row::{BodyCopy, Change};
use crate::time::Timestamp;
use crate::urgency::Urgency;

/// The outcome of a verb.
#[derive(Debug)]
pub struct Applied<R> {
    /// For the caller, once the changes are durable. A refusal has no changes.
    pub reply: Result<R, Refusal>,
    pub changes: Vec<Change>,
    /// Part of the changes, and to be carried out before them.
    pub copies: Vec<BodyCopy>,
    pub news: Vec<News>,
    pub totals: Totals,
}

/// Something that can be asked of a partition: see [`Partition::apply`].
pub trait Verb: fmt::Debug + Send + 'static {
    /// The answer, which the caller has once the changes are durable.
    type Reply: fmt::Debug + Send + 'static;

    /// The verb's effect on the size of the store.
    const FOOTPRINT: Footprint;
    const URGENCY: Urgency = Urgency::Ordinary;

    /// The rules that the core holds the verb to, whoever checked it before.
    fn check(&self) -> Result<(), Invalid> {
        Ok(())
    }

    /// The bytes that come with the verb: bodies, addresses, and what workers say of failures.
    fn body_bytes(&self) -> usize {
        0
    }

    /// [`Verb::FOOTPRINT`], unless that depends on what the partition holds.
    fn footprint(&self, _partition: &Partition, _now: Timestamp) -> Footprint {
        Self::FOOTPRINT
    }

    /// Decides. A refusal changes nothing.
    fn decide(self, partition: &mut Partition, now: Timestamp, out: &mut Output) -> Decided<Self>
    where
        Self: Sized;
}

pub type Decided<V> = Result<<V as Verb>::Reply, Refusal>;
