//! Items are found page by page while they move to other queues, are run again, and join groups that come and go.

use std::sync::Arc;

use bytes::Bytes;
use windlass_core::headers::header_hash;
use windlass_core::id::ItemId;
use windlass_core::item::Phase;
use windlass_core::partition::{Find, FindOrder};
use windlass_core::row::QueueName;
use windlass_core::settings::{Settings, SettingsChange};
use windlass_core::verbs::{NewItem, RetryItem, UpdateItem, UpdateQueue};
use windlass_engine::{Granted, Redrive, Search, Verify};

use super::counts::{Dice, some_deed};
use super::dead_queues::{all_moved, to_dead};
use super::find::{check_walk, in_phases, search, upset};
use super::groups::group;
use super::retry_item;
use crate::world::{World, headers_of, item};

on_every_store!(a_walk_sees_each_item_once_while_items_move_and_groups_come_and_go);

/// A queue of items with a few groups, addresses and headers, and its dead queue.
struct Bed<'a> {
    world: &'a World,
    queue: QueueName,
    dead: QueueName,
    hands: Vec<Granted>,
    produced: Vec<ItemId>,
    dice: Dice,
}

/// A search for the items that have a header.
pub(super) fn with_header(name: &'static str, value: &'static str) -> Search {
    let has_it = move |facts: &Bytes| headers_of(facts).contains(&(name.to_owned(), value.to_owned()));
    let find = Find { headers: [(name.into(), header_hash(name, value))].into(), ..Find::default() };
    Search { verify: Some(Verify(Arc::new(has_it))), ..search(find, 7) }
}

impl Bed<'_> {
    fn new_item(&mut self) -> NewItem {
        let facts = format!("tenant={},trace={}", self.dice.below(3), self.dice.below(3));
        let address = (self.dice.below(2) == 0).then(|| format!("a{}", self.dice.below(3)).into());
        // An address and a group may have different homes.
        let group = (address.is_none() && self.dice.below(2) == 0).then(|| self.group());
        NewItem { group, address, facts: (self.dice.below(4) > 0).then(|| facts.into()), ..item("x") }
    }

    fn group(&mut self) -> Arc<str> {
        format!("g{}", self.dice.below(2)).into()
    }

    /// What is refused is no matter.
    async fn deed(&mut self) {
        let engine = self.world.engine();
        match self.dice.below(13) {
            0..=3 => {
                let new = self.new_item();
                let judged = engine.produce(&self.queue, vec![new]).await.expect("judged");
                self.produced.extend(judged.results.into_iter().flatten().map(|made| made.id));
            }
            4 => {
                let name = self.group();
                drop(engine.create_group(&self.queue, group(&name)).await);
            }
            5 => {
                let name = self.group();
                drop(engine.start_group(&self.queue, &name).await);
            }
            6 => {
                let name = self.group();
                drop(engine.cancel_group(&self.queue, &name).await);
                drop(engine.delete_group(&self.queue, &name).await);
            }
            7 => {
                let Some(id) = self.some_item() else { return };
                drop(engine.rerun(id, None).await);
            }
            8 => drop(engine.redrive(&self.dead, Redrive { limit: Some(2), ..Redrive::default() }).await),
            9 => {
                let names = [vec!["tenant".into()], vec!["trace".into(), "tenant".into()], vec![]];
                let indexed_headers = Some(names[self.dice.below(3) as usize].clone());
                let change = SettingsChange { indexed_headers, ..SettingsChange::default() };
                engine.update_queue(UpdateQueue::new(self.queue.clone(), change)).await.expect("updated");
            }
            10 => {
                let leased = self.world.lease(&self.queue, 2).await;
                let dead = leased.iter().map(|item| RetryItem { dead: true, ..retry_item(item) }).collect();
                if !leased.is_empty() {
                    engine.retry(&self.queue, dead).await.expect("judged");
                }
            }
            11 => {
                let Some(id) = self.some_item() else { return };
                let facts = Bytes::from(format!("tenant={}", self.dice.below(3)));
                let update = UpdateItem::new(id.number);
                let rewrite = Box::new(move |_, _| Ok((Bytes::from_static(b"y"), Some(facts))));
                drop(engine.update(id, update, Some(rewrite)).await);
            }
            _ => some_deed(self.world, &self.queue, &mut self.hands, &mut self.dice).await,
        }
    }

    fn some_item(&mut self) -> Option<ItemId> {
        let latest = self.produced.len().min(40) as u64;
        let back = (latest > 0).then(|| self.dice.below(latest) as usize)?;
        self.produced.iter().rev().nth(back).copied()
    }
}

async fn a_walk_sees_each_item_once_while_items_move_and_groups_come_and_go(world: &World) {
    let indexed = || vec![Arc::from("tenant")];
    let settings = Settings { retention_max_items: 100, indexed_headers: indexed(), ..to_dead() };
    let queue = world.queue("q", 3, settings).await;
    let dead = world.queue("dead", 2, Settings { indexed_headers: indexed(), ..Settings::default() }).await;
    let (hands, produced, dice) = (Vec::new(), Vec::new(), Dice(42));
    let mut bed = Bed { world, queue: queue.clone(), dead: dead.clone(), hands, produced, dice };
    for round in 0..24 {
        for _ in 0..30 {
            bed.deed().await;
        }
        // What arrives between two looks would be neither there before nor produced later.
        all_moved(world, &queue).await;
        all_moved(world, &dead).await;
        let of = |find| search(find, 7);
        let wanted = match round % 6 {
            0 => of(Find { group: Some("g0".into()), ..Find::default() }),
            1 => with_header("tenant", "1"),
            2 => of(Find { address: Some("a1".into()), ..Find::default() }),
            3 => with_header("trace", "2"),
            4 => of(in_phases([Phase::Failed, Phase::Cancelled])),
            _ => of(Find::default()),
        };
        let order = if round % 4 < 2 { FindOrder::Newest } else { FindOrder::Oldest };
        let wanted = Search { order, limit: 3, ..wanted };
        let walked = if round % 3 == 2 { &dead } else { &queue };
        check_walk(world, walked, &wanted, round, async || {
            bed.deed().await;
            upset(world, &queue, &mut bed.dice).await;
        })
        .await;
    }
}
