//! What a client does with groups: few names, so that they collide and are used again.

use std::sync::Arc;

use super::{Client, Hold};
use crate::group::{Ends, GroupAsk, GroupOp, LastWord};
use crate::history::{Made, QueueIndex};

const NAMES: [&str; 2] = ["album", "book"];

impl Client {
    pub(super) async fn group_call(&mut self) {
        let ask = match self.rng.below(100) {
            0..=23 => self.creation(),
            24..=51 => return self.produce_member().await,
            52..=64 => GroupAsk::Start,
            65..=77 => return self.cancel_group().await,
            78..=83 => GroupAsk::SetEnd(self.ends(50)),
            84..=93 => GroupAsk::Delete,
            _ => GroupAsk::Info,
        };
        let (queue, group) = self.group();
        let ask = named(ask, &group);
        if let Some(ids) = self.caller.group(GroupOp { queue, group, ask }).await {
            self.memory.learn(&ids);
        }
    }

    /// Often one with members at work, of which the one leased last is extended afterwards: its lease outlives its group.
    async fn cancel_group(&mut self) {
        let at_work = if self.rng.percent(80) { self.member_at_work() } else { None };
        let (queue, group) = match &at_work {
            Some((member, group)) => (member.queue, Arc::clone(group)),
            None => self.group(),
        };
        self.caller.group(GroupOp { queue, group, ask: GroupAsk::Cancel }).await;
        if let Some((member, _)) = at_work
            && self.rng.percent(50)
        {
            self.caller.extend(queue, None, vec![(member.id, member.permit)]).await;
        }
    }

    /// The member that any client was given last, and its group.
    fn member_at_work(&self) -> Option<(Hold, Arc<str>)> {
        let known = self.memory.known();
        let members = known.held.iter().flatten().filter(|hold| known.groups.contains_key(&hold.id));
        let hold = members.max_by_key(|hold| hold.permit)?;
        Some((*hold, Arc::clone(&known.groups[&hold.id])))
    }

    fn group(&mut self) -> (QueueIndex, Arc<str>) {
        (self.queue(), Arc::from(*self.rng.pick(&NAMES)))
    }

    fn creation(&mut self) -> GroupAsk {
        let members = self.rng.below(5);
        let items = (0..members).map(|_| self.made()).collect();
        GroupAsk::Create { ends: self.ends(75), items, start: self.rng.percent(40) }
    }

    fn ends(&mut self, percent: u32) -> Ends {
        let mut word = |percent| self.rng.percent(percent).then(|| self.last_word());
        // Few groups are aborted: those that are have an abort item more often than not.
        Ends { end: word(percent), abort: word(percent.midpoint(100)) }
    }

    fn last_word(&mut self) -> LastWord {
        LastWord { queue: self.queue(), made: self.made() }
    }

    /// Alone, so that what the member is told is what the call is told.
    async fn produce_member(&mut self) {
        let (queue, group) = self.group();
        let member = Made { group: Some(group), ..self.made() };
        self.send(queue, vec![member]).await;
    }
}

/// Members know whose they are.
fn named(ask: GroupAsk, group: &Arc<str>) -> GroupAsk {
    let GroupAsk::Create { ends, items, start } = ask else { return ask };
    let member = |made| Made { group: Some(Arc::clone(group)), ..made };
    GroupAsk::Create { ends, items: items.into_iter().map(member).collect(), start }
}
