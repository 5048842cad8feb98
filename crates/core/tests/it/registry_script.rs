//! A registry to try things on. After every verb and sweep it is rebuilt from its rows.

use windlass_core::limits::RegistryLimits;
use windlass_core::machine::{Applied, Machine};
use windlass_core::refusal::Refusal;
use windlass_core::registry::Registry;
use windlass_core::row::{Change, Queue, QueueName, StoreNames};
use windlass_core::settings::Settings;
use windlass_core::time::{Span, Timestamp};
use windlass_core::verb::Verb;
use windlass_core::verbs::{CreateQueue, Rebalance};

use crate::script::START;

pub(crate) struct RegistryScript {
    pub(crate) registry: Registry,
    pub(crate) now: Timestamp,
    /// What the last verb or sweep changed.
    pub(crate) changes: Vec<Change>,
}

impl RegistryScript {
    pub(crate) fn new() -> Self {
        Self::with_limits(RegistryLimits::default())
    }

    pub(crate) fn with_limits(limits: RegistryLimits) -> Self {
        Self { registry: Registry::new(limits), now: START, changes: Vec::new() }
    }

    /// The registry as a server with these limits reads it back.
    pub(crate) fn rebuilt(&self, limits: RegistryLimits) -> Registry {
        let mut registry = Registry::new(limits);
        self.registry.rows().for_each(|row| registry.put(row));
        registry
    }

    pub(crate) fn apply<V: Verb<Registry>>(&mut self, verb: V) -> Result<V::Reply, Refusal> {
        let applied = self.registry.apply(self.now, verb);
        self.note(applied)
    }

    pub(crate) fn create(&mut self, queue: &str, partitions: u32) -> Result<Queue, Refusal> {
        self.apply(CreateQueue::new(queue_name(queue), Settings::default(), partitions))
    }

    pub(crate) fn rebalance(&mut self, queue: &str, partitions: u32) -> Result<Queue, Refusal> {
        self.apply(Rebalance { name: queue_name(queue), partitions, stores: StoreNames::default() })
    }

    pub(crate) fn sweep(&mut self) -> usize {
        let applied = self.registry.sweep(self.now, usize::MAX);
        self.note(applied).unwrap()
    }

    pub(crate) fn pass(&mut self, span: Span) {
        self.now = self.now + span;
    }

    /// Keeps what a verb or a sweep did, and checks the registry in full.
    fn note<R>(&mut self, applied: Applied<R>) -> Result<R, Refusal> {
        self.changes = applied.changes;
        self.registry.audit().unwrap();
        applied.reply
    }
}

pub(crate) fn queue_name(name: &str) -> QueueName {
    QueueName { namespace: "default".into(), name: name.into() }
}
