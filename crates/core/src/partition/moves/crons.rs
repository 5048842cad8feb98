//! Crons that move to another partition of their queue: from one that drains, or to the home of their address. They go as items
//! do, by [`crate::partition::moves::leave`] and [`crate::partition::moves::take`]: numbered by the source, and taken once.

use std::sync::Arc;

use bytes::Bytes;

use crate::cron::{Cron, Leaves};
use crate::footprint::Footprint;
use crate::group::Template;
use crate::id::PartitionId;
use crate::item::Assigned;
use crate::mutant::{self, Mutant};
use crate::partition::create::put_bodies;
use crate::partition::groups::verbs::remove_bodies;
use crate::partition::{Output, Partition};
use crate::refusal::Refusal;
use crate::row::Row;
use crate::time::Timestamp;
use crate::urgency::Urgency;
use crate::verb::{Decided, Verb};
use crate::verbs::{Arriving, Move};

/// Chooses the partitions that are to take crons, of those that belong elsewhere.
#[derive(Clone, Debug)]
pub struct AssignCrons {
    /// The queue of the crons and of the partitions.
    pub queue: Arc<str>,
    /// The name of each cron, and the partition that is to take the cron.
    pub crons: Vec<(Arc<str>, PartitionId)>,
}

/// A cron that belongs to another partition, and has no taker yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrayCron {
    pub name: Arc<str>,
    /// With its address a cron goes to the home of that, else to the home of its name.
    pub address: Option<Arc<str>>,
}

/// Answered by the number of crons that were assigned.
impl Verb for AssignCrons {
    type Reply = usize;
    const FOOTPRINT: Footprint = Footprint::Frees;
    const URGENCY: Urgency = Urgency::Settling;

    fn decide(self, partition: &mut Partition, now: Timestamp, out: &mut Output) -> Decided<Self> {
        Ok(partition.assign_crons(now, self, out))
    }
}

impl Partition {
    /// Whether the cron belongs to another partition by now, and nothing keeps it here: it does not run here any more. As long as
    /// its address is taken here or its previous item must end first, its times come to nothing here as they would there.
    pub fn is_to_leave(&self, cron: &Cron) -> bool {
        !self.belongs(cron) && cron.leaves.is_none() && self.is_free(cron)
    }

    fn belongs(&self, cron: &Cron) -> bool {
        let at_home = |address: &Arc<str>| self.check_at_home(address).is_ok();
        self.check_open().is_ok() && cron.address.as_ref().is_none_or(at_home)
    }

    /// The first crons that are to leave and have no taker.
    pub fn stray_crons(&self, limit: usize) -> Vec<StrayCron> {
        if !self.intake.closed && self.intake.at_home.is_none() {
            return Vec::new();
        }
        let strays = self.crons.iter().filter(|cron| self.is_to_leave(cron)).take(limit);
        let stray = |cron: &Cron| StrayCron { name: Arc::clone(&cron.name), address: cron.address.clone() };
        strays.map(stray).collect()
    }

    /// Crons that would not leave any more are passed over.
    fn assign_crons(&mut self, now: Timestamp, assign: AssignCrons, out: &mut Output) -> usize {
        let mut count = 0;
        for (name, partition) in assign.crons {
            let Some(cron) = self.crons.get(&name).filter(|cron| self.is_to_leave(cron)).cloned() else {
                continue;
            };
            if partition == self.id {
                continue;
            }
            let Some(number) = self.issue_move(now, out) else { break };
            let queue = Arc::clone(&assign.queue);
            let leaves = Some(Leaves { queue, assigned: Assigned { partition, number } });
            self.crons_leaving.remove(&name);
            self.record(Row::Cron(Box::new(Cron { leaves, ..cron })), out);
            count += 1;
        }
        count
    }

    /// The cron runs here again, unless it still belongs elsewhere.
    pub(in crate::partition) fn unassign_cron(&mut self, name: &Arc<str>, out: &mut Output) {
        let cron = self.crons.get(name).expect("crons in the outbox are always in `crons`");
        let cron = Cron { leaves: None, ..cron.clone() };
        self.record(Row::Cron(Box::new(cron)), out);
        self.look_whether_to_leave(name, out);
    }

    /// To be called when a cron may have come to belong elsewhere, or here again.
    pub(in crate::partition) fn look_whether_to_leave(&mut self, name: &Arc<str>, out: &mut Output) {
        let leaves = self.crons.get(name).is_some_and(|cron| self.is_to_leave(cron));
        if leaves {
            self.crons_leaving.insert(Arc::clone(name));
            out.outgoing = true;
        } else {
            self.crons_leaving.remove(name);
        }
    }

    /// As [`Partition::look_whether_to_leave`], for all of them: other keys are at home here, or the partition was loaded.
    pub(in crate::partition) fn look_which_crons_leave(&mut self) {
        let strays = self.stray_crons(usize::MAX);
        self.crons_leaving = strays.into_iter().map(|stray| stray.name).collect();
    }

    /// Everything may come in. A cron whose address an item bears here may come to a partition that takes nothing else: the
    /// address was at home here before.
    pub(in crate::partition) fn check_arrivals(&self, moves: &[Move]) -> Result<(), Refusal> {
        let check = |moved: &Move| match &moved.what {
            Arriving::Cron(cron) if self.check_address_free(cron.address.as_ref()).is_err() => Ok(()),
            Arriving::Cron(cron) => self.check_takes(cron.address.as_ref()),
            Arriving::Item(item) => self.check_takes(item.address.as_ref()),
        };
        moves.iter().try_for_each(check)
    }

    /// Whether something new of that address may come in.
    pub(in crate::partition) fn check_takes(&self, address: Option<&Arc<str>>) -> Result<(), Refusal> {
        self.check_open()?;
        address.map_or(Ok(()), |address| self.check_at_home(address))
    }

    /// Goes on where the other partition stopped. A cron of the name that is on its way from here was taken there before, and
    /// comes back now. Two crons of one name are left by a registry that was lost: the later one stays.
    pub(in crate::partition) fn take_cron(
        &mut self,
        now: Timestamp,
        source: PartitionId,
        cron: Cron,
        body: Option<Bytes>,
        facts: Option<Bytes>,
        out: &mut Output,
    ) {
        if let Some(known) = self.crons.get(&cron.name) {
            if known.leaves.is_none() && known.number > cron.number {
                return;
            }
            remove_bodies(&known.template, out);
        }
        let number = self.issue_number(now, out);
        put_bodies(number, body, facts, out);
        // The last item is one of another partition, and has ended if it ever mattered; or it was made here before.
        let last = cron.last_made(source);
        let last_item = last.filter(|id| id.partition == self.id).map(|id| id.number);
        let last_item_elsewhere = last.filter(|id| id.partition != self.id);
        let template = Template { body: number, ..cron.template };
        let again = cron.last_at.filter(|_| mutant::active(Mutant::CronTimeAgain));
        let next_at = again.or(cron.next_at);
        let taken = Cron { template, last_item, last_item_elsewhere, leaves: None, next_at, ..cron };
        let name = Arc::clone(&taken.name);
        self.record(Row::Cron(Box::new(taken)), out);
        self.look_whether_to_leave(&name, out);
    }
}
