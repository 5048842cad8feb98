//! A client: draws one call after another, as workers and producers make them, and some that they should not.

mod afterwards;
mod crons;
mod diverts;
mod finds;
mod groups;
mod streams;
mod suspends;
mod turns;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use windlass_core::id::{ItemId, Permit};
use windlass_core::rule::Stop;
use windlass_core::time::{Span, Timestamp};
use windlass_core::verbs::{Clear, Filter};

pub(crate) use self::finds::LIVE;
use crate::caller::{Caller, OpenWalk, Wish};
use crate::env::WallClock;
use crate::history::{Given, Made, QueueIndex, RetryOp};
use crate::plan::{self, Plan};
use crate::rng::Rng;

/// A permit nobody will be given in the time of a run: a year ahead.
const NEVER_ISSUED: u64 = 1 << 45;

/// Few, so that they are often taken.
const ADDRESSES: [&str; 3] = ["here", "there", "elsewhere"];

#[derive(Clone, Copy, Debug)]
struct Hold {
    queue: QueueIndex,
    id: ItemId,
    permit: Permit,
}

/// What clients know. It outlives the server: a worker that held a lease before a crash still does.
#[derive(Clone, Debug, Default)]
pub struct Memory(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    next_serial: u64,
    /// All of which anybody was told.
    items: BTreeSet<ItemId>,
    held: Vec<Vec<Hold>>,
    /// Permits that were used up, or should have been.
    spent: Vec<Hold>,
    /// Calls that can be sent again.
    calls: Vec<(QueueIndex, Vec<Made>)>,
    /// Items that somebody asked to suspend.
    suspended: Vec<ItemId>,
    /// The groups of items that were leased.
    groups: BTreeMap<ItemId, Arc<str>>,
    /// The walk that each client is on.
    walks: Vec<Option<OpenWalk>>,
}

impl Memory {
    pub fn new(clients: usize) -> Self {
        let (held, walks) = (vec![Vec::new(); clients], vec![None; clients]);
        Self(Arc::new(Mutex::new(Known { next_serial: 1, held, walks, ..Known::default() })))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().expect("nothing panics while it holds this lock")
    }

    /// Every id that anybody was told.
    pub fn items(&self) -> Vec<ItemId> {
        self.known().items.iter().copied().collect()
    }

    /// Those with the highest numbers.
    pub fn newest_items(&self, count: usize) -> Vec<ItemId> {
        self.known().items.iter().rev().take(count).copied().collect()
    }

    /// Takes the walks that clients are on: they go on with none.
    pub fn take_walks(&self) -> Vec<OpenWalk> {
        self.known().walks.iter_mut().filter_map(Option::take).collect()
    }

    pub fn learn(&self, ids: &[ItemId]) {
        self.known().items.extend(ids);
    }

    /// One that no item has had.
    pub fn serial(&self) -> u64 {
        let mut known = self.known();
        known.next_serial += 1;
        known.next_serial - 1
    }
}

#[derive(Debug)]
pub struct Client {
    pub caller: Caller,
    pub plan: Arc<Plan>,
    pub memory: Memory,
    pub wall: WallClock,
    /// Unset: all queues.
    pub only: Option<Vec<QueueIndex>>,
    pub rng: Rng,
}

impl Client {
    /// One call after another, until so many were made or somebody says stop.
    pub async fn work(mut self, ops: u32, stop: impl Fn() -> bool) {
        for _ in 0..ops {
            if stop() {
                return;
            }
            self.think().await;
            if self.only.is_some() {
                self.call_on_a_queue().await;
            } else {
                self.one_call().await;
            }
        }
    }

    async fn think(&mut self) {
        let most = self.plan.habits.think_micros;
        let micros = self.rng.skewed(0, most);
        if micros > 0 {
            self.caller.handle.sleep_micros(micros).await;
        }
    }

    async fn one_call(&mut self) {
        let habits = self.plan.habits;
        self.caller.patience = self.rng.percent(habits.abandons).then(|| self.rng.skewed(1, 3_000));
        if self.rng.percent(habits.produces) {
            return self.produce().await;
        }
        if self.rng.percent(habits.cleans) {
            return self.clear().await;
        }
        if self.rng.percent(habits.deletes) {
            return self.delete_or_create().await;
        }
        if self.rng.percent(habits.redrives) {
            return self.redrive().await;
        }
        // Drawn only where they are habits: other runs are as they were.
        if habits.rebalances > 0 && self.rng.percent(habits.rebalances) {
            return self.rebalance().await;
        }
        if habits.stops > 0 && self.rng.percent(habits.stops) {
            return self.stop_or_go().await;
        }
        if habits.suspends > 0 && self.rng.percent(habits.suspends) {
            return self.suspend_or_answer().await;
        }
        if habits.streams > 0 && self.rng.percent(habits.streams) {
            return self.tell_or_close().await;
        }
        if self.caller.client == 0 && habits.diverts > 0 && self.rng.percent(habits.diverts) {
            return self.divert().await;
        }
        if habits.crons > 0 && self.rng.percent(habits.crons) {
            return self.cron_call().await;
        }
        if habits.afterthoughts > 0 && self.rng.percent(habits.afterthoughts) {
            return self.afterthought().await;
        }
        if habits.finds > 0 && self.rng.percent(habits.finds) {
            return self.walk().await;
        }
        if habits.changes_many > 0 && self.rng.percent(habits.changes_many) {
            return self.change_many().await;
        }
        if habits.turns > 0 && self.rng.percent(habits.turns) {
            return self.turn().await;
        }
        if self.rng.percent(habits.groups) {
            return self.group_call().await;
        }
        match self.rng.below(100) {
            0..=23 => self.produce().await,
            24..=26 => self.emit().await,
            27..=52 => self.lease().await,
            53..=70 => self.complete().await,
            71..=77 => self.retry().await,
            78..=82 => self.extend().await,
            83..=87 => self.release().await,
            88 => self.revoke().await,
            89..=91 => self.cancel().await,
            92..=93 => self.get().await,
            94 => self.follow().await,
            95..=96 => self.wait_for_item().await,
            97..=98 => {
                let queue = self.queue();
                self.caller.stats(queue).await;
            }
            _ => self.update().await,
        }
    }

    /// One that concerns a single queue and nothing else.
    async fn call_on_a_queue(&mut self) {
        match self.rng.below(100) {
            0..=24 => self.produce().await,
            25..=44 => self.lease().await,
            45..=59 => self.complete().await,
            60..=69 => self.update().await,
            70..=84 => self.stop_or_go().await,
            85..=91 => {
                let queue = self.queue();
                self.caller.stats(queue).await;
            }
            _ => self.delete_or_create().await,
        }
    }

    fn queue(&mut self) -> QueueIndex {
        match &self.only {
            None => self.rng.index(self.plan.queues.len()),
            Some(only) => *self.rng.pick(only),
        }
    }

    fn now(&self) -> Timestamp {
        self.wall.at(self.caller.handle.now_micros())
    }

    async fn produce(&mut self) {
        let addresses = self.plan.habits.addresses;
        let items = if self.rng.percent(addresses) {
            vec![Made { address: Some(self.rng.pick(&ADDRESSES).to_string().into()), ..self.made() }]
        } else {
            let count = self.rng.skewed(1, 8);
            (0..count).map(|_| self.made()).collect()
        };
        let queue = self.queue();
        self.send(queue, items).await;
    }

    /// As it is, or under a key.
    async fn send(&mut self, queue: QueueIndex, items: Vec<Made>) {
        if self.rng.percent(self.plan.habits.repeats) {
            return self.produce_once(queue, items).await;
        }
        if let Some(ids) = self.caller.produce(queue, items).await {
            self.memory.known().items.extend(ids);
        }
    }

    /// Under a key, so that it, or a call of before, can be sent again: by anybody, answered or not.
    async fn produce_once(&mut self, queue: QueueIndex, items: Vec<Made>) {
        let earlier = if self.rng.percent(50) { self.earlier_call() } else { None };
        let (queue, items) = earlier.unwrap_or((queue, items));
        self.memory.known().calls.push((queue, items.clone()));
        if let Some(ids) = self.caller.produce_once(queue, items).await {
            self.memory.known().items.extend(ids);
        }
    }

    fn earlier_call(&mut self) -> Option<(QueueIndex, Vec<Made>)> {
        let mut known = self.memory.known();
        let at = known.calls.len().checked_sub(1 + self.rng.index(3))?;
        Some(known.calls.swap_remove(at))
    }

    fn made(&mut self) -> Made {
        let schedules = self.plan.habits.schedules;
        let kinds = plan::kinds();
        Made {
            serial: self.memory.serial(),
            len: self.rng.skewed(0, self.plan.habits.body_max) as usize,
            kind: self.rng.pick(&kinds).clone(),
            priority: *self.rng.pick(&[0, 0, 0, 1, 7, 255]),
            enqueue_at: self.rng.percent(schedules).then(|| self.moment(20_000)),
            max_attempts: self.rng.percent(10).then(|| self.rng.between(1, 4) as u32),
            dead_timeout: self.mortality(),
            address: None,
            group: None,
        }
    }

    /// Now and then an item may live only so long, or any time whatever its queue says.
    fn mortality(&mut self) -> Option<Span> {
        let mortals = self.plan.habits.mortals;
        self.rng.percent(mortals).then(|| match self.rng.below(5) {
            0 => Span::ZERO,
            _ => Span::from_millis(self.rng.skewed(1, 20_000)),
        })
    }

    /// Mostly to come, now and then past.
    fn moment(&mut self, millis_max: u64) -> Timestamp {
        let away = Span::from_millis(self.rng.skewed(1, millis_max));
        if self.rng.percent(10) { Timestamp(self.now().0 - away.0) } else { self.now() + away }
    }

    async fn lease(&mut self) {
        let queue = self.queue();
        let wish = self.wish(queue);
        let wish = Wish { wait: self.wait(), ..wish };
        let accept = !self.rng.percent(self.plan.habits.drops_grants);
        if let Some(granted) = self.caller.lease(wish, accept).await {
            self.remember(queue, granted, accept);
        }
    }

    /// A lease that does not wait.
    fn wish(&mut self, queue: QueueIndex) -> Wish {
        let most = self.plan.habits.lease_max_millis;
        Wish {
            queue,
            batch_size: self.rng.skewed(1, 10) as usize,
            timeout: self.rng.percent(80).then(|| Span::from_millis(self.rng.skewed(1, most))),
            filter: self.filter(),
            wait: Span::ZERO,
        }
    }

    fn remember(&self, queue: QueueIndex, granted: Vec<Given>, accepted: bool) {
        let mut known = self.memory.known();
        for item in granted {
            let hold = Hold { queue, id: item.id, permit: item.permit };
            known.items.insert(hold.id);
            known.groups.extend(item.group.map(|group| (hold.id, group)));
            let list = if accepted { &mut known.held[self.caller.client] } else { &mut known.spent };
            list.push(hold);
        }
    }

    fn filter(&mut self) -> Filter {
        if self.rng.percent(60) {
            return Filter::ANY;
        }
        let some = plan::kinds().into_iter().filter(|_| self.rng.percent(60)).collect::<Vec<_>>();
        Filter::new((!some.is_empty()).then_some(some), *self.rng.pick(&[0, 1, 6, 255, 255]))
    }

    fn wait(&mut self) -> Span {
        if self.rng.percent(50) {
            return Span::ZERO;
        }
        Span::from_millis(self.rng.skewed(1, self.plan.habits.wait_max_millis))
    }

    /// Some of what this client holds, of one queue; now and then what it should not use.
    fn take_holds(&mut self, keep: bool) -> Option<(QueueIndex, Vec<(ItemId, Permit)>)> {
        let stale = self.rng.percent(self.plan.habits.uses_stale_permits);
        let mut known = self.memory.known();
        if stale && !known.spent.is_empty() {
            let hold = *self.rng.pick(&known.spent);
            let permit = match self.rng.below(4) {
                0 => Permit(hold.permit.0 + NEVER_ISSUED),
                // Somebody else's.
                1 => self.rng.pick(&known.spent).permit,
                _ => hold.permit,
            };
            return Some((hold.queue, vec![(hold.id, permit)]));
        }
        let held = &mut known.held[self.caller.client];
        let queue = held.get(self.rng.index(held.len().max(1)))?.queue;
        let count = self.rng.between(1, 4) as usize;
        let mut taken = Vec::new();
        let mut index = 0;
        while index < held.len() && taken.len() < count {
            if held[index].queue == queue && self.rng.percent(70) {
                taken.push(if keep { held[index] } else { held.remove(index) });
            }
            index += 1;
        }
        if !keep {
            known.spent.extend(&taken);
        }
        (!taken.is_empty()).then(|| (queue, taken.iter().map(|hold| (hold.id, hold.permit)).collect()))
    }

    async fn complete(&mut self) {
        let Some((queue, items)) = self.take_holds(false) else { return };
        let with_result = |(id, permit): (ItemId, Permit)| {
            let result = self.rng.percent(40).then(|| Bytes::from(format!("result of {}", id.number.0)));
            (id, permit, result)
        };
        let items = items.into_iter().map(with_result).collect();
        self.caller.complete(queue, items).await;
    }

    async fn retry(&mut self) {
        let Some((queue, items)) = self.take_holds(false) else { return };
        let mut ops = Vec::new();
        for (id, permit) in items {
            let retry_at = self.rng.percent(50).then(|| self.moment(5_000));
            ops.push(RetryOp { id, permit, retry_at, dead: self.rng.percent(20) });
        }
        self.caller.retry(queue, ops).await;
    }

    async fn extend(&mut self) {
        let Some((queue, items)) = self.take_holds(true) else { return };
        let most = self.plan.habits.lease_max_millis;
        let timeout = self.rng.percent(50).then(|| Span::from_millis(self.rng.skewed(1, most)));
        self.caller.extend(queue, timeout, items).await;
    }

    async fn release(&mut self) {
        let Some((queue, items)) = self.take_holds(false) else { return };
        self.caller.release(queue, items).await;
    }

    /// What anybody holds, who goes on believing that it does.
    async fn revoke(&mut self) {
        let hold = {
            let known = self.memory.known();
            let holds: Vec<Hold> = known.held.iter().flatten().copied().collect();
            if holds.is_empty() {
                return;
            }
            *self.rng.pick(&holds)
        };
        self.caller.revoke(hold.queue, vec![(hold.id, hold.permit)]).await;
    }

    fn any_item(&mut self) -> Option<ItemId> {
        let known = self.memory.known();
        let count = known.items.len();
        // Young ones are more often still alive.
        known.items.iter().nth_back(self.rng.skewed(0, count as u64) as usize).copied()
    }

    async fn cancel(&mut self) {
        if let Some(id) = self.any_item() {
            self.caller.cancel(id).await;
        }
    }

    async fn get(&mut self) {
        if let Some(id) = self.any_item() {
            self.caller.get(id).await;
        }
    }

    async fn wait_for_item(&mut self) {
        let wait = self.wait();
        if let Some(id) = self.any_item() {
            self.caller.wait(id, wait).await;
        }
    }

    async fn clear(&mut self) {
        let clear = *self.rng.pick(&[
            Clear { waiting: true, scheduled: true, leased: false, suspended: false },
            Clear { waiting: true, scheduled: true, leased: true, suspended: true },
            Clear { waiting: true, scheduled: false, leased: false, suspended: false },
            Clear { waiting: false, scheduled: true, leased: true, suspended: true },
        ]);
        let queue = self.queue();
        self.caller.clear(queue, clear).await;
    }

    /// Mostly of the queue where the dead go.
    async fn redrive(&mut self) {
        let last = self.plan.queues.len() - 1;
        let queue = if self.rng.percent(70) { last } else { self.queue() };
        let to = self.rng.percent(20).then(|| self.queue());
        let kinds = plan::kinds();
        let kind = self.rng.percent(30).then(|| self.rng.pick(&kinds).clone());
        let limit = self.rng.percent(50).then(|| self.rng.skewed(0, 10));
        self.caller.redrive(queue, to, kind, limit).await;
    }

    /// More often to go on than to stop: what stands still shows little.
    async fn stop_or_go(&mut self) {
        let (queue, stop) = (self.queue(), *self.rng.pick(&Stop::ALL));
        let kinds = plan::kinds();
        let kind = self.rng.percent(50).then(|| self.rng.pick(&kinds).clone());
        if self.rng.percent(60) {
            return self.caller.go(queue, kind, stop).await;
        }
        let lasts = Span::from_millis(self.rng.skewed(1, 5_000));
        let until = self.rng.percent(30).then(|| self.now() + lasts);
        self.caller.stop(queue, kind, stop, until).await;
    }

    async fn update(&mut self) {
        let queue = self.queue();
        let settings = self.plan.clone().draw_settings(&mut self.rng, queue);
        self.caller.update(queue, settings).await;
    }

    async fn rebalance(&mut self) {
        let queue = self.queue();
        let partitions = self.rng.between(1, 5) as u32;
        self.caller.rebalance(queue, partitions).await;
    }

    /// By force, or after everything was cleared and nobody produced anything since.
    async fn delete(&mut self, queue: QueueIndex) {
        let force = self.rng.percent(40);
        if !force {
            self.caller
                .clear(queue, Clear { waiting: true, scheduled: true, leased: true, suspended: true })
                .await;
        }
        self.caller.delete(queue, force).await;
    }

    async fn delete_or_create(&mut self) {
        let queue = self.queue();
        if self.rng.percent(60) {
            return self.delete(queue).await;
        }
        let settings = self.plan.clone().draw_settings(&mut self.rng, queue);
        let partitions = self.plan.queues[queue].partitions;
        self.caller.create(queue, settings, partitions).await;
    }
}
