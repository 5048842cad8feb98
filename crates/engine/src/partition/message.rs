//! What goes into a partition's mailbox, and what comes back.

use std::fmt;

use bytes::Bytes;
use tokio::sync::oneshot;
use windlass_core::command::{Command, ImportItem, NewItem, Reply};
use windlass_core::cron::CronCommand;
use windlass_core::id::ItemNumber;
use windlass_core::item::Item;
use windlass_core::partition::Partition;
use windlass_core::time::Timestamp;
use windlass_core::urgency::Urgency;

use crate::error::EngineError;
use crate::partition::grant::GrantPart;
use crate::partition::places::Reserved;
use crate::partition::streams::Followed;

/// What a request came to.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) reply: Done,
    /// The commit it was part of; the latest one if it changed nothing.
    pub(crate) sequence: u64,
}

#[derive(Debug)]
pub(crate) enum Done {
    Reply(Reply),
    Granted(GrantPart),
}

pub(crate) type Responder = oneshot::Sender<Result<Answer, EngineError>>;
pub(crate) type Awaited = oneshot::Receiver<Result<Answer, EngineError>>;

/// Looks at the state between two commands, and returns what to call once that state is durable.
pub(crate) type Question = Box<dyn FnOnce(&Partition, Timestamp) -> Box<dyn FnOnce() + Send> + Send>;

pub(crate) enum Message {
    Command {
        command: Command,
        bytes: usize,
        reserved: Option<Reserved>,
        responder: Responder,
    },
    Query(Question),
    /// Somebody waits for the item to end; answered by the item as it is.
    Watch {
        number: ItemNumber,
        responder: oneshot::Sender<Option<Item>>,
    },
    /// Somebody wants to hear everything of the item; answered by the item as it is.
    Follow {
        number: ItemNumber,
        responder: oneshot::Sender<Option<Followed>>,
    },
}

impl Message {
    /// Bytes of bodies that come with it.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Command { bytes, .. } => *bytes,
            Self::Query(_) | Self::Watch { .. } | Self::Follow { .. } => 0,
        }
    }

    pub(super) fn urgency(&self) -> Urgency {
        match self {
            Self::Command { command, .. } => command.urgency(),
            Self::Query(_) | Self::Watch { .. } | Self::Follow { .. } => Urgency::Ordinary,
        }
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command { command, .. } => f.debug_tuple("Command").field(command).finish(),
            Self::Query(_) => f.write_str("Query"),
            Self::Watch { number, .. } => f.debug_tuple("Watch").field(number).finish(),
            Self::Follow { number, .. } => f.debug_tuple("Follow").field(number).finish(),
        }
    }
}

/// What an answer that never came means: the writer was dropped with the request in hand.
pub(crate) fn received(
    answer: Result<Result<Answer, EngineError>, oneshot::error::RecvError>,
) -> Result<Answer, EngineError> {
    answer.unwrap_or_else(|_dropped| Err(EngineError::unknown("the partition stopped")))
}

/// The bytes that a command brings along: bodies, and what workers say of failures.
pub(crate) fn body_bytes(command: &Command) -> usize {
    match command {
        Command::Produce(produce) => produce.items.iter().map(new_bytes).sum(),
        Command::ProduceOnce(produce) => produce.items.iter().map(new_bytes).sum(),
        Command::Import(import) => import.items.iter().map(import_bytes).sum(),
        Command::CreateGroup(create) => {
            let ends = [&create.end, &create.abort].into_iter().flatten().map(|end| &end.item);
            create.items.iter().chain(ends).map(new_bytes).sum()
        }
        Command::SetGroupEnd(set) => {
            [&set.end, &set.abort].into_iter().flatten().map(|end| new_bytes(&end.item)).sum()
        }
        Command::Complete(items) => {
            items.iter().filter_map(|item| item.result.as_ref()).map(|body| body.len()).sum()
        }
        Command::Retry(items) => {
            items.iter().filter_map(|item| item.error.as_ref()).map(|error| error.message.len()).sum()
        }
        Command::Emit(emit) => emit.events.iter().map(|event| event.content.len()).sum(),
        Command::Resume(resume) => {
            resume.input.as_ref().map_or(0, |input| input.event.content.len() + input.body.len())
        }
        Command::Take(take) => {
            let bodies = take.moves.iter().flat_map(|moved| [&moved.body, &moved.facts]);
            bodies.flatten().map(Bytes::len).sum()
        }
        Command::Cron(command) => cron_bytes(command),
        Command::Lease(_)
        | Command::Extend(_)
        | Command::Release(_)
        | Command::PutOff(_)
        | Command::Revoke(_)
        | Command::FailDamaged(_)
        | Command::Suspend(_)
        | Command::Cancel(_)
        | Command::Clear(_)
        | Command::Delete(_)
        | Command::StartGroup(_)
        | Command::CancelGroup(_)
        | Command::DeleteGroup(_)
        | Command::Redrive(_)
        | Command::Assign(_)
        | Command::AssignCrons(_)
        | Command::Unassign(_)
        | Command::Moved(_)
        | Command::Sweep { .. }
        | Command::Configure(_)
        | Command::Route(_)
        | Command::Rebalance(_)
        | Command::Retire(..)
        | Command::ForgetPartition(..)
        | Command::ForgetFormerHome(_)
        | Command::CreateQueue(..)
        | Command::UpdateQueue(_)
        | Command::DeleteQueue(_)
        | Command::SkipPartitions(_)
        | Command::Adopt(_)
        | Command::DropUnclaimed(_)
        | Command::ForgetDropped(_)
        | Command::SetRule(_)
        | Command::LiftRule(_)
        | Command::TakeRules(_) => 0,
    }
}

fn cron_bytes(command: &CronCommand) -> usize {
    match command {
        CronCommand::Create(new) => new_bytes(&new.item),
        CronCommand::Update(_, change) => change.item.as_ref().map_or(0, new_bytes),
        CronCommand::Delete(_)
        | CronCommand::Pause(_)
        | CronCommand::Resume(_)
        | CronCommand::Trigger(_)
        | CronCommand::Name(_)
        | CronCommand::Unname(_) => 0,
    }
}

fn new_bytes(item: &NewItem) -> usize {
    stored_bytes(&item.body, item.facts.as_ref()) + item.address.as_ref().map_or(0, |address| address.len())
}

fn import_bytes(item: &ImportItem) -> usize {
    let origin = item.origin.as_ref().and_then(|origin| origin.error.as_ref());
    let errors = [item.error.as_ref(), origin].into_iter().flatten();
    let errors = errors.map(|error| error.message.len()).sum::<usize>();
    let address = item.address.as_ref().map_or(0, |address| address.len());
    stored_bytes(&item.body, item.facts.as_ref()) + errors + address
}

fn stored_bytes(body: &Bytes, facts: Option<&Bytes>) -> usize {
    body.len() + facts.map_or(0, Bytes::len)
}
