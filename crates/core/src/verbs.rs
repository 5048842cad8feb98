//! Every verb and its answer, from the file that carries the verb out.

pub use crate::partition::crons::run::TriggerCron;
pub use crate::partition::crons::verbs::{
    CronChange, DeleteCron, NewCron, PauseCron, ResumeCron, UpdateCron,
};
pub use crate::partition::groups::verbs::{
    CancelGroup, CreateGroup, DeleteGroup, GroupCreated, NewEnd, SetGroupEnd, StartGroup,
};
pub use crate::partition::held::Held;
pub use crate::partition::moves::crons::AssignCrons;
pub use crate::partition::moves::fall_back::FallBack;
pub use crate::partition::moves::leave::{Assign, Departing, DepartingItem, Departure, Moved, Unassign};
pub use crate::partition::moves::take::{Arrived, Arriving, ArrivingItem, Move, Take};
pub use crate::partition::queries::list::List;
pub use crate::partition::rules::TakeRules;
pub use crate::partition::verbs::cancel::{Cancel, Cancelled};
pub use crate::partition::verbs::clear::Clear;
pub use crate::partition::verbs::complete::{Complete, Completion};
pub use crate::partition::verbs::configure::Configure;
pub use crate::partition::verbs::damaged::{Damaged, FailDamaged};
pub use crate::partition::verbs::delete::{Delete, DeleteAny};
pub use crate::partition::verbs::emit::{Emit, Emitted};
pub use crate::partition::verbs::extend::{Extend, Extended};
pub use crate::partition::verbs::import::{Import, ImportItem};
pub use crate::partition::verbs::lease::{Filter, LeaseItems, Leased};
pub use crate::partition::verbs::next::{
    ExtendItem, LeaseOthers, Next, NextDone, Settle, SettleVerb, Settled,
};
pub use crate::partition::verbs::once::{Claim, Digest, ProduceOnce, ProducedOnce};
pub use crate::partition::verbs::produce::{NewItem, Produce, Produced};
pub use crate::partition::verbs::redrive::{
    AddressedLetter, Asked, Redrive, RedriveCursor, RedriveTo, Redriven,
};
pub use crate::partition::verbs::release::{PutOff, Release};
pub use crate::partition::verbs::rerun::{Rerun, RerunElsewhere};
pub use crate::partition::verbs::retry::{Retried, Retry, RetryItem};
pub use crate::partition::verbs::revoke::Revoke;
pub use crate::partition::verbs::route::Route;
pub use crate::partition::verbs::suspend::{Input, Resume, Suspend, SuspendItem};
pub use crate::partition::verbs::update::{Update, UpdateItem, Updated};
pub use crate::registry::cron_names::{NameCron, UnnameCron};
pub use crate::registry::queues::{CreateQueue, DeleteQueue, GivenQueue, SkipPartitions, UpdateQueue};
pub use crate::registry::rebalance::{ForgetFormerHome, ForgetPartition, Rebalance, Retire};
pub use crate::registry::rules::{LiftRule, SetRule};
pub use crate::registry::unclaimed::{Adopt, DropUnclaimed, ForgetDropped};
