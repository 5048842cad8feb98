//! Every call there is: its name, what goes in, and what comes out.

use prost::Message;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::schema::Described;
use crate::shape::Shaped;
use crate::{crons, events, explain, groups, items, permits, queues, rules, service, storage, unclaimed};

/// What can be a request or a reply.
pub trait Wire: Message + Default + Serialize + DeserializeOwned + JsonSchema + Described + 'static {}

impl<T: Message + Default + Serialize + DeserializeOwned + JsonSchema + Described + 'static> Wire for T {}

/// A request, by the call it is for: `POST /v1/<NAME>`.
pub trait Call: Wire + Shaped {
    const NAME: &'static str;
    const SUMMARY: &'static str;
    /// Whether it changes anything, so that its reply tells the commit.
    const CHANGES: bool;
    /// Whether the server may wait before it answers, and for how long if the request does not say.
    const WAITS: bool;
    type Reply: Wire;
}

/// Something to be done for every call in the list.
pub trait EachCall {
    fn visit<C: Call>(&mut self);
}

macro_rules! calls {
    ($($name:literal $request:ty => $reply:ty, $changes:ident $(, $waits:ident)?: $summary:literal;)+) => {
        $(impl Call for $request {
            const NAME: &'static str = $name;
            const SUMMARY: &'static str = $summary;
            const CHANGES: bool = calls!(@$changes);
            const WAITS: bool = false $(|| calls!(@$waits))?;
            type Reply = $reply;
        })+

        /// In the order of the list.
        pub fn for_each_call(visitor: &mut impl EachCall) {
            $(visitor.visit::<$request>();)+
        }
    };
    (@reads) => { false };
    (@changes) => { true };
    (@waits) => { true };
}

calls! {
    "queues.create" queues::CreateQueueRequest => queues::QueueReply, changes: "Makes a queue.";
    "queues.update" queues::UpdateQueueRequest => queues::QueueReply, changes: "Changes settings of a queue.";
    "queues.info" queues::QueueInfoRequest => queues::QueueReply, reads: "Shows a queue and its settings.";
    "queues.list" queues::ListQueuesRequest => queues::ListQueuesReply, reads: "Lists queues by name, or by waiting items, failed items or oldest waiting item.";
    "queues.history" queues::QueuesHistoryRequest => queues::QueuesHistoryReply, reads: "Tells what went on in queues lately.";
    "queues.delete" queues::DeleteQueueRequest => queues::DeleteQueueReply, changes: "Deletes a queue.";
    "queue.stats" queues::QueueStatsRequest => queues::QueueStatsReply, reads: "Counts what is in a queue.";
    "queue.clear" queues::ClearQueueRequest => queues::ClearQueueReply, changes: "Cancels what is in a queue.";
    "queue.redrive" queues::RedriveQueueRequest => queues::RedriveQueueReply, changes: "Sends waiting items back to where they came from, or elsewhere.";
    "queue.rebalance" queues::RebalanceQueueRequest => queues::QueueReply, changes: "Gives a queue more partitions, or fewer.";
    "queue.produce" items::ProduceRequest => items::ProduceReply, changes, waits: "Puts items into a queue.";
    "queue.lease" items::LeaseRequest => items::LeaseReply, changes, waits: "Takes items to work on, waiting for the first.";
    "queue.complete" items::CompleteRequest => items::CompleteReply, changes, waits: "Ends leased items as done.";
    "queue.retry" items::RetryRequest => items::RetryReply, changes: "Gives leased items back after a failed attempt.";
    "queue.extend" items::ExtendRequest => items::ExtendReply, changes: "Keeps leased items for longer: the heartbeat.";
    "queue.release" items::ReleaseRequest => items::ReleaseReply, changes: "Gives leased items back, their attempts not counted.";
    "queue.suspend" events::SuspendRequest => events::SuspendReply, changes: "Gives leased items up until somebody answers, their attempts not counted.";
    "queue.next" items::NextRequest => items::NextReply, changes, waits: "Settles leased items and takes others, in one call: a worker's turn.";
    "queue.permits" permits::ListPermitsRequest => permits::ListPermitsReply, reads: "Lists who holds what in a queue.";
    "queue.revoke" permits::RevokeRequest => permits::RevokeReply, changes: "Takes leased items away from their workers, their attempts counted.";
    "item.get" items::GetItemRequest => items::ItemReply, reads: "Shows an item.";
    "item.wait" items::WaitItemRequest => items::ItemReply, reads, waits: "Waits for an item to end, and shows it.";
    "item.cancel" items::CancelItemRequest => items::ItemReply, changes: "Cancels an item, or asks its worker to give it up.";
    "item.update" items::UpdateItemRequest => items::ItemReply, changes: "Changes an item that is not leased and has not ended.";
    "item.rerun" items::RerunItemRequest => items::RerunItemReply, changes: "Reruns an item that has ended, as a new item.";
    "items.find" items::FindItemsRequest => items::FindItemsReply, reads: "Finds items by state, kind, header, error or time, also those that have ended.";
    "items.change" items::ChangeItemsRequest => items::ChangeItemsReply, changes: "Cancels, reruns, deletes, makes due now, or sets the priority of all items that a filter finds.";
    "items.errors" items::ItemErrorsRequest => items::ItemErrorsReply, reads: "Counts the kept items of a queue by error code.";
    "item.emit" events::EmitRequest => events::EmitReply, changes: "Appends events to the stream of a leased item.";
    "item.resume" events::ResumeItemRequest => events::ResumeItemReply, changes: "Answers a suspended item, which waits again.";
    "item.close_streams" events::CloseStreamsRequest => events::CloseStreamsReply, reads: "Ends the subscriptions of an item that there are now.";
    "group.create" groups::CreateGroupRequest => groups::CreateGroupReply, changes: "Makes a group, its first members with it, and starts it if asked to.";
    "group.set_end" groups::SetGroupEndRequest => groups::GroupReply, changes: "Says what is produced at the end of a group.";
    "group.start" groups::StartGroupRequest => groups::GroupReply, changes: "Lets the members of a group be leased.";
    "group.cancel" groups::CancelGroupRequest => groups::GroupReply, changes: "Cancels the members of a group, and asks the workers of leased ones to stop.";
    "group.info" groups::GroupInfoRequest => groups::GroupReply, reads: "Shows a group and counts its members.";
    "group.delete" groups::DeleteGroupRequest => groups::GroupReply, changes: "Forgets a group that is done or aborted.";
    "groups.list" groups::ListGroupsRequest => groups::ListGroupsReply, reads: "Lists the groups of a queue by name.";
    "crons.create" crons::CreateCronRequest => crons::CronReply, changes: "Has an item produced at each time of a schedule.";
    "crons.update" crons::UpdateCronRequest => crons::CronReply, changes: "Changes what is named of a cron.";
    "crons.info" crons::CronInfoRequest => crons::CronReply, reads: "Shows a cron and its next times.";
    "crons.list" crons::ListCronsRequest => crons::ListCronsReply, reads: "Lists the crons of all queues by name.";
    "crons.delete" crons::DeleteCronRequest => crons::DeleteCronReply, changes: "Deletes a cron; what it has produced stays.";
    "crons.pause" crons::PauseCronRequest => crons::CronReply, changes: "Lets the times of a cron pass; none of them is missed.";
    "crons.resume" crons::ResumeCronRequest => crons::ResumeCronReply, changes: "Goes on with the next time of a cron.";
    "crons.trigger" crons::TriggerCronRequest => crons::TriggerCronReply, changes: "Produces the item of a cron now, also when it is paused.";
    "queue.reload" storage::ReloadQueueRequest => storage::ReloadQueueReply, reads: "Has the partitions of a queue acquired anew.";
    "storage/items.list" storage::ListItemsRequest => storage::ListItemsReply, reads: "Lists what waits or is leased in a partition, in the order of the queue.";
    "storage/scheduled.list" storage::ListScheduledRequest => storage::ListItemsReply, reads: "Lists what is due later in a partition, by time.";
    "storage/items.import" storage::ImportItemsRequest => storage::ImportItemsReply, changes: "Brings in items as a list shows them.";
    "storage/items.delete" storage::DeleteItemsRequest => storage::DeleteItemsReply, changes: "Takes live items out; nothing of them is kept.";
    "storage/unclaimed.list" unclaimed::ListUnclaimedRequest => unclaimed::ListUnclaimedReply, reads: "Lists partitions that a store holds and no queue names.";
    "storage/unclaimed.adopt" unclaimed::AdoptPartitionRequest => queues::QueueReply, changes: "Makes an unclaimed partition one of a queue's.";
    "storage/unclaimed.drop" unclaimed::DropPartitionRequest => unclaimed::DropPartitionReply, changes: "Deletes an unclaimed partition and everything in it.";
    "queue.pause" rules::PauseQueueRequest => rules::RuleReply, changes: "Stops a queue or a kind, for the user.";
    "queue.resume" rules::ResumeQueueRequest => rules::LiftRuleReply, changes: "Lifts a pause.";
    "queue.block" rules::BlockQueueRequest => rules::RuleReply, changes: "Stops a queue or a kind, for the administrator.";
    "queue.unblock" rules::UnblockQueueRequest => rules::LiftRuleReply, changes: "Lifts a block.";
    "rules.list" rules::ListRulesRequest => rules::ListRulesReply, reads: "Lists what stands on queues and kinds.";
    "item.explain" explain::ExplainItemRequest => explain::ExplainItemReply, reads: "Tells why an item is not running.";
    "server.info" service::ServerInfoRequest => service::ServerInfoReply, reads: "Tells the server's version, its stores and its limits.";
    "server.backup" service::BackupRequest => service::BackupReply, reads: "Copies all data, consistently, while the server runs.";
}
