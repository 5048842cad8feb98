//! [`Verb`]: something that can be asked of a [`Machine`]. Each verb is a struct in the file under [`crate::partition`] or
//! [`crate::registry`] that carries it out, and all that there is to know of the verb stands there: what it may say, what it
//! weighs, what it does to the store, and what it answers.

use std::fmt;

use crate::footprint::Footprint;
use crate::limits::Invalid;
use crate::machine::Machine;
use crate::partition::Partition;
use crate::refusal::Refusal;
use crate::time::Timestamp;
use crate::urgency::Urgency;

/// Something that can be asked of a state machine: see [`Machine::apply`].
pub trait Verb<M: Machine = Partition>: fmt::Debug + Send + 'static {
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

    /// [`Verb::FOOTPRINT`], unless that depends on what the machine holds.
    fn footprint(&self, _machine: &M, _now: Timestamp) -> Footprint {
        Self::FOOTPRINT
    }

    /// Decides. A refusal changes nothing.
    fn decide(self, machine: &mut M, now: Timestamp, out: &mut M::Output) -> Decided<Self, M>
    where
        Self: Sized;
}

pub type Decided<V, M = Partition> = Result<<V as Verb<M>>::Reply, Refusal>;
