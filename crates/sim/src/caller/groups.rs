//! Calls about groups.

use windlass_core::group::GroupView;
use windlass_core::id::ItemId;
use windlass_core::verbs::{CreateGroup, NewEnd, SetGroupEnd};
use windlass_engine::{EngineError, ProducedItem};

use super::{Caller, new_item};
use crate::group::{Ends, GroupAsk, GroupOp, LastWord};
use crate::history::{Made, Op, Outcome, QueueIndex, ShownGroup};
use crate::plan::queue_name;

/// The group; and its first members, where it was just made.
type Answer = (GroupView, Option<Vec<ProducedItem>>);

impl Caller {
    /// Gives the first members of a group that was made.
    pub async fn group(&self, op: GroupOp) -> Option<Vec<ItemId>> {
        let asked = op.clone();
        let answer = self.call(Op::Group(Box::new(op)), self.ask_group(asked), outcome).await?;
        Some(answer.1.unwrap_or_default().into_iter().map(|item| item.id).collect())
    }

    pub async fn groups(&self, queue: QueueIndex) -> Option<Vec<ShownGroup>> {
        let name = queue_name(queue);
        let call = async {
            let groups = self.engine.groups(&name, None, usize::MAX).await?;
            Ok(groups.iter().map(ShownGroup::from).collect::<Vec<_>>())
        };
        self.call(Op::Groups(queue), call, |groups| Outcome::Groups(groups.clone())).await
    }

    async fn ask_group(&self, GroupOp { queue, group, ask }: GroupOp) -> Result<Answer, EngineError> {
        let name = queue_name(queue);
        let view = match ask {
            GroupAsk::Create { ends: Ends { end, abort }, items, start } => {
                let (end, abort) = (end.map(new_end), abort.map(new_end));
                let items = items.iter().map(new_item).collect();
                let create = CreateGroup { name: group, end, abort, items, start };
                let made = self.engine.create_group(&name, create).await?.value;
                return Ok((made.group, Some(made.items)));
            }
            GroupAsk::SetEnd(Ends { end, abort }) => {
                let set = SetGroupEnd { name: group, end: end.map(new_end), abort: abort.map(new_end) };
                self.engine.set_group_end(&name, set).await?.value
            }
            GroupAsk::Start => self.engine.start_group(&name, &group).await?.value,
            GroupAsk::Cancel => self.engine.cancel_group(&name, &group).await?.value,
            GroupAsk::Delete => self.engine.delete_group(&name, &group).await?.value,
            GroupAsk::Info => self.engine.group(&name, &group).await?,
        };
        Ok((view, None))
    }
}

fn outcome((view, items): &Answer) -> Outcome {
    let view = Box::new(view.into());
    match items {
        Some(items) => Outcome::GroupMade(view, items.iter().map(|item| (item.id, item.phase)).collect()),
        None => Outcome::Group(view),
    }
}

fn new_end(LastWord { queue, made }: LastWord) -> NewEnd {
    let item = new_item(&Made { group: None, ..made });
    NewEnd { queue: Some(queue_name(queue).name), item }
}
