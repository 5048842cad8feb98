//! The registry as its writer runs it: verbs and questions, and rules that lift themselves.

use std::convert::Infallible;
use std::ops::Deref;
use std::sync::Arc;

use tokio::sync::mpsc;
use windlass_core::id::PartitionId;
use windlass_core::limits::RegistryLimits;
use windlass_core::registry::Registry;
use windlass_core::time::Timestamp;
use windlass_core::urgency::Urgency;

use crate::machine::gathered::Gathered;
use crate::machine::mailbox::Mailbox;
use crate::machine::message::Message;
use crate::machine::writer::Writer;
use crate::machine::{Effects, Served};

/// What the rest of the engine holds of the registry.
#[derive(Debug)]
pub(crate) struct RegistryHandle {
    mailbox: Mailbox<Registry>,
    limits: RegistryLimits,
}

impl RegistryHandle {
    pub(super) fn new(limits: RegistryLimits) -> (Arc<Self>, mpsc::Receiver<Message<Registry>>) {
        let (mailbox, inbox) = Mailbox::new(PartitionId::REGISTRY);
        (Arc::new(Self { mailbox, limits }), inbox)
    }
}

impl Deref for RegistryHandle {
    type Target = Mailbox<Registry>;

    fn deref(&self) -> &Self::Target {
        &self.mailbox
    }
}

/// A batch of the registry concerns its callers alone.
#[derive(Default)]
pub(crate) struct NoEffects;

impl Effects<Registry> for NoEffects {}

impl Served for Registry {
    type Handle = RegistryHandle;
    type Request = Infallible;
    type Desk = ();
    type Effects = NoEffects;
    type Summary = ();

    fn empty(handle: &RegistryHandle, _now: Timestamp) -> Self {
        Self::new(handle.limits)
    }

    fn summary(&mut self, _sequence: u64) {}

    fn publish(_handle: &RegistryHandle, (): ()) {}

    fn begin_round(writer: &mut Writer<Self>, sweeps: bool, gathered: &mut Gathered<Self>) {
        if sweeps {
            writer.sweep(writer.store.batch_bytes_max() / 4, gathered);
        }
    }

    fn urgency(request: &Infallible) -> Urgency {
        match *request {}
    }

    fn take(_writer: &mut Writer<Self>, request: Infallible, _gathered: &mut Gathered<Self>) {
        match request {}
    }
}
