//! What a seed decides before anything runs: queues, clients, how often the server ends, and what goes wrong.

mod last;
mod rare;
mod stores;

use std::sync::Arc;

use windlass_core::row::QueueName;
use windlass_core::settings::{Keep, Requeue, RetainPayload, RetryPolicy, RetryStrategy, Settings};
use windlass_core::time::Span;

use crate::fault::Rates;
use crate::history::{Made, Promise, QueueIndex};
use crate::rng::Rng;

pub use self::last::{LastStep, RotPlan};
pub use self::rare::StallPlan;
pub use self::stores::StoresPlan;

#[derive(Clone, Debug)]
pub struct Plan {
    pub queues: Vec<QueuePlan>,
    pub clients: usize,
    /// The lives of the server, each with its end.
    pub phases: Vec<Phase>,
    pub durability: Sync,
    pub rates: Rates,
    /// Whether the disk fills up now and then.
    pub fills_up: bool,
    /// Whether it has spells in which hardly a sync succeeds.
    pub has_spells: bool,
    pub clock: ClockPlan,
    pub habits: Habits,
    pub store: StorePlan,
    pub stores: StoresPlan,
    pub last_step: LastStep,
    pub rot: Option<RotPlan>,
    /// Whether it begins with more leases at once than one sweep can end.
    pub has_crowd: bool,
    /// Nothing that ended is forgotten during the run: what ended must be shown as it ended.
    pub keeps_everything: bool,
    pub dead: DeadPlan,
    pub stall: Option<StallPlan>,
    /// Queues that nobody uses.
    pub idle_queues: usize,
}

/// Where items go that fail or expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadPlan {
    Nowhere,
    /// All of them, all the time, to the last queue, where nothing ever ends by itself: so that none can hide.
    Graveyard,
    /// Anywhere, and elsewhere after every update.
    Anywhere,
}

#[derive(Clone, Debug)]
pub struct QueuePlan {
    pub partitions: u32,
    pub settings: Settings,
}

#[derive(Clone, Copy, Debug)]
pub struct Phase {
    /// Of each client.
    pub ops: u32,
    pub end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All clients are done; then it is closed.
    Close,
    /// Closed after so long, whatever is under way.
    CloseEarly {
        micros: u64,
    },
    CrashAtStep(u64),
    CrashAtChange(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    Always,
    Interval { millis: u64 },
    Never,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockPlan {
    Steady,
    /// It is set now and then, but never back: where the newest can be lost, only the clock keeps numbers apart.
    Forward,
    BothWays,
}

/// Sizes of the log: tiny, so that a short run meets everything.
#[derive(Clone, Copy, Debug)]
pub struct StorePlan {
    pub segment_bytes: u32,
    pub snapshot_bytes: u64,
    pub cache_bytes: usize,
}

/// How clients behave, in percent of their calls.
#[derive(Clone, Copy, Debug)]
pub struct Habits {
    pub abandons: u32,
    pub drops_grants: u32,
    pub uses_stale_permits: u32,
    /// Calls that do nothing but produce, beside those that just happen to.
    pub produces: u32,
    /// Scheduled among the produced.
    pub schedules: u32,
    pub cleans: u32,
    pub deletes: u32,
    pub redrives: u32,
    /// Other partitions for a queue.
    pub rebalances: u32,
    /// Rules on whole queues and on kinds, set and lifted.
    pub stops: u32,
    /// Items suspended, answered, and what else happens to those.
    pub suspends: u32,
    /// Events told to some who follow, and streams closed.
    pub streams: u32,
    /// Produces under a key, most of which are sent again.
    pub repeats: u32,
    /// Produces of an item with an address.
    pub addresses: u32,
    /// Items with a time to live of their own.
    pub mortals: u32,
    /// Calls about groups and their members.
    pub groups: u32,
    /// Calls about crons.
    pub crons: u32,
    /// Calls that settle and lease at once.
    pub turns: u32,
    /// Calls that change items, run them again or ask where they went on.
    pub afterthoughts: u32,
    /// Pages of walks through a queue.
    pub finds: u32,
    /// Calls that change many items at once.
    pub changes_many: u32,
    /// Whether such calls also delete.
    pub deletes_many: bool,
    /// Calls of the first client that have items end badly while the queue they go to is deleted.
    pub diverts: u32,
    pub think_micros: u64,
    pub body_max: u64,
    pub wait_max_millis: u64,
    pub lease_max_millis: u64,
}

pub const KINDS: [&str; 3] = ["mail", "index", "resize"];

impl Plan {
    pub fn draw(rng: &mut Rng) -> Self {
        let durability = draw_sync(rng);
        let rates = Rates::draw(rng);
        let stumbles = durability == Sync::Never && rng.percent(75);
        let keeps_everything = stumbles || rng.percent(60);
        let dead = if stumbles { DeadPlan::Nowhere } else { draw_dead(rng) };
        let fewest = if dead == DeadPlan::Nowhere { 1 } else { 2 };
        let queues = if stumbles { 1 } else { rng.between(fewest, 3) as usize };
        let plan = Self {
            queues: (0..queues).map(|index| draw_queue(rng, keeps_everything, dead, index, queues)).collect(),
            clients: rng.between(3, 8) as usize,
            phases: if stumbles { draw_stumbling(rng) } else { draw_phases(rng) },
            durability,
            rates,
            fills_up: rates != Rates::CALM && rng.percent(25),
            has_spells: rates != Rates::CALM && rng.percent(25),
            clock: draw_clock(rng, durability),
            habits: draw_habits(rng, stumbles, dead),
            store: draw_store(rng),
            stores: StoresPlan::ONE,
            last_step: LastStep::Restart,
            rot: None,
            has_crowd: false,
            keeps_everything,
            dead,
            stall: None,
            idle_queues: 0,
        };
        let plan = plan.with_repeats(rng);
        let plan = if rng.per_million(8_000) { plan.with_crowd() } else { plan };
        plan.with_rebalances(rng)
            .with_stops(rng)
            .with_suspends(rng)
            .with_streams(rng)
            .with_stores(rng)
            .with_last_step(rng)
            .with_rot(rng)
            .with_crons(rng)
            .with_diversions(rng)
            .with_stall(rng)
            .with_idle_queues(rng)
            .with_turns(rng)
            .with_afterthoughts(rng)
            .with_finds(rng)
    }

    /// Drawn last, so that runs with one store are as they would be without this.
    fn with_stores(mut self, rng: &mut Rng) -> Self {
        if !self.has_crowd && rng.percent(25) {
            self.stores = StoresPlan::draw_several(rng);
            self.queues.iter_mut().for_each(|queue| queue.partitions = rng.between(1, 4) as u32);
        }
        self
    }

    /// A backup needs a last life that does not end before it is made.
    fn with_last_step(mut self, rng: &mut Rng) -> Self {
        self.last_step =
            if self.has_crowd { LastStep::Restart } else { LastStep::draw(rng, self.stores.count) };
        if self.last_step == LastStep::Restore {
            self.phases.last_mut().expect("there is a first life").end = End::Close;
        }
        self
    }

    /// Rot may lose numbers, which then only the clock keeps apart, and the keys of calls that are sent again.
    fn with_rot(mut self, rng: &mut Rng) -> Self {
        if !self.has_crowd && rng.percent(15) {
            self.rot = Some(RotPlan::draw(rng, self.phases.len()));
            self.habits.repeats = 0;
            if self.clock == ClockPlan::BothWays {
                self.clock = ClockPlan::Forward;
            }
        }
        self
    }

    /// The rates of a disk while nothing special is wrong with it.
    pub fn rates_of(&self, disk: usize) -> Rates {
        self.stores.rates_of(disk, self.rates)
    }

    /// A call that is sent again is the same only where nothing is lost, its queue stays and a day does not pass.
    fn with_repeats(mut self, rng: &mut Rng) -> Self {
        let safe =
            self.durability == Sync::Always && self.clock == ClockPlan::Steady && self.habits.deletes == 0;
        self.habits.repeats = if safe && rng.percent(60) { rng.between(5, 50) as u32 } else { 0 };
        self
    }

    /// Partitions come and go, but not where every crash loses much: such runs are about other things.
    fn with_rebalances(mut self, rng: &mut Rng) -> Self {
        let fits = self.durability != Sync::Never && !self.has_crowd;
        self.habits.rebalances = if fits && rng.percent(40) { rng.between(1, 4) as u32 } else { 0 };
        self
    }

    fn with_stops(mut self, rng: &mut Rng) -> Self {
        let fits = !self.has_crowd && self.habits.produces == 0;
        self.habits.stops = if fits && rng.percent(40) { rng.between(2, 10) as u32 } else { 0 };
        self
    }

    /// In runs like that more items live only so long: those that nobody answers end by that.
    fn with_suspends(mut self, rng: &mut Rng) -> Self {
        let fits = !self.has_crowd && self.habits.produces == 0;
        if fits && rng.percent(52) {
            self.habits.suspends = rng.between(12, 38) as u32;
            self.habits.mortals = self.habits.mortals.max(40);
        }
        self
    }

    fn with_streams(mut self, rng: &mut Rng) -> Self {
        let fits = !self.has_crowd && self.habits.produces == 0;
        self.habits.streams = if fits && rng.percent(36) { rng.between(5, 20) as u32 } else { 0 };
        self
    }

    fn with_turns(mut self, rng: &mut Rng) -> Self {
        let fits = !self.has_crowd && self.habits.produces == 0;
        self.habits.turns = if fits && rng.percent(50) { rng.between(5, 40) as u32 } else { 0 };
        self
    }

    /// A run that begins with a crowd: on a sound disk, with room for its batches.
    fn with_crowd(mut self) -> Self {
        self.has_crowd = true;
        self.queues.truncate(1);
        self.queues[0].partitions = 1;
        self.dead = DeadPlan::Nowhere;
        self.queues[0].settings.dead_queue = None;
        self.queues[0].settings.dead_timeout = Span::ZERO;
        self.habits.redrives = 0;
        self.rates = Rates::CALM;
        self.fills_up = false;
        self.has_spells = false;
        self.durability = Sync::Always;
        self.phases.truncate(2);
        self.phases[0].end = End::Close;
        self.store.segment_bytes = 1 << 20;
        self.store.snapshot_bytes = 1 << 20;
        self
    }

    /// As somebody might set them now.
    pub fn draw_settings(&self, rng: &mut Rng, queue: QueueIndex) -> Settings {
        let settings = draw_settings(rng, self.keeps_everything, self.dead, queue, self.queues.len());
        if self.habits.afterthoughts > 0 { with_keeping(rng, settings) } else { settings }
    }

    /// Whether items move because they ended badly and for no other reason: those find another queue where theirs is gone.
    pub fn only_dead_move(&self) -> bool {
        self.habits.redrives == 0 && self.habits.groups == 0
    }

    pub fn promise(&self) -> Promise {
        match self.durability {
            Sync::Always => Promise::Kept,
            Sync::Interval { .. } | Sync::Never => Promise::MayRollBack,
        }
    }
}

pub fn queue_name(index: QueueIndex) -> QueueName {
    QueueName { namespace: "default".into(), name: format!("q{index}").into() }
}

/// An item without any frills.
pub fn plain_item(serial: u64) -> Made {
    Made {
        serial,
        len: 0,
        kind: KINDS[0].into(),
        priority: 0,
        enqueue_at: None,
        max_attempts: None,
        dead_timeout: None,
        address: None,
        group: None,
    }
}

pub fn kinds() -> Vec<Arc<str>> {
    KINDS.iter().map(|kind| Arc::from(*kind)).collect()
}

fn draw_sync(rng: &mut Rng) -> Sync {
    match rng.below(10) {
        0 => Sync::Interval { millis: rng.between(1, 200) },
        1 | 2 => Sync::Never,
        _ => Sync::Always,
    }
}

fn draw_dead(rng: &mut Rng) -> DeadPlan {
    *rng.pick(&[DeadPlan::Nowhere, DeadPlan::Graveyard, DeadPlan::Graveyard, DeadPlan::Anywhere])
}

fn draw_queue(
    rng: &mut Rng,
    keeps_everything: bool,
    dead: DeadPlan,
    index: QueueIndex,
    queues: usize,
) -> QueuePlan {
    let settings = draw_settings(rng, keeps_everything, dead, index, queues);
    QueuePlan { partitions: rng.between(1, 3) as u32, settings }
}

fn draw_settings(
    rng: &mut Rng,
    keeps_everything: bool,
    dead: DeadPlan,
    queue: QueueIndex,
    queues: usize,
) -> Settings {
    let mut settings = Settings {
        lease_timeout: Span::from_millis(rng.skewed(1, 20_000)),
        max_attempts: *rng.pick(&[0, 1, 2, 3, 3, 5]),
        retry: draw_retry(rng),
        requeue: *rng.pick(&[Requeue::Keep, Requeue::Keep, Requeue::Tail]),
        ..Settings::default()
    };
    if keeps_everything {
        // Longer than all steps of the clock together.
        settings.retention = Span::from_secs(365 * 24 * 3600);
    }
    if !keeps_everything {
        settings.retention = Span::from_millis(rng.skewed(1, 60_000));
        settings.retention_max_items = rng.between(0, 10);
        settings.retention_max_bytes = rng.between(0, 2_000);
    }
    if rng.percent(25) {
        settings.dead_timeout = Span::from_millis(rng.skewed(1, 30_000));
    }
    let last = queues - 1;
    match dead {
        DeadPlan::Nowhere => {}
        DeadPlan::Graveyard if queue == last => {
            settings.max_attempts = 0;
            settings.dead_timeout = Span::ZERO;
        }
        DeadPlan::Graveyard => settings.dead_queue = Some(queue_name(last).name),
        DeadPlan::Anywhere => {
            let other = (queue + 1 + rng.index(queues - 1)) % queues;
            settings.dead_queue = rng.percent(80).then(|| queue_name(other).name);
        }
    }
    settings
}

/// What a queue keeps of its final items.
fn with_keeping(rng: &mut Rng, settings: Settings) -> Settings {
    let retain_payload = *rng.pick(&[
        RetainPayload::Failed,
        RetainPayload::Failed,
        RetainPayload::All,
        RetainPayload::All,
        RetainPayload::None,
    ]);
    Settings { retain_payload, keep: *rng.pick(&[Keep::Shown, Keep::All]), ..settings }
}

fn draw_retry(rng: &mut Rng) -> RetryPolicy {
    RetryPolicy {
        strategy: *rng.pick(&[RetryStrategy::Exponential, RetryStrategy::Fixed]),
        initial: Span::from_millis(rng.skewed(0, 2_000)),
        factor: 2.0,
        max: Span::from_secs(10),
        jitter: 0.1,
    }
}

fn draw_phases(rng: &mut Rng) -> Vec<Phase> {
    let count = rng.between(2, 5);
    let ops = rng.between(66, 180) / count;
    (0..count).map(|_| Phase { ops: ops as u32 / 2 + 2, end: draw_end(rng) }).collect()
}

/// A server that crashes again and again soon after its start, each time writing over what the last one left
/// unsynced: so that new frames now and then end where old ones begin.
fn draw_stumbling(rng: &mut Rng) -> Vec<Phase> {
    let stumble = |_| Phase { ops: 5, end: End::CrashAtChange(rng.between(10, 40)) };
    (0..40).map(stumble).collect()
}

fn draw_end(rng: &mut Rng) -> End {
    match rng.below(10) {
        0 => End::Close,
        1 | 2 => End::CloseEarly { micros: rng.skewed(1_000, 5_000_000) },
        3..=4 => End::CrashAtStep(rng.skewed(100, 20_000)),
        _ => End::CrashAtChange(rng.skewed(5, 400)),
    }
}

fn draw_clock(rng: &mut Rng, durability: Sync) -> ClockPlan {
    match (durability, rng.below(2)) {
        (_, 0) => ClockPlan::Steady,
        (Sync::Always, _) => ClockPlan::BothWays,
        (Sync::Interval { .. } | Sync::Never, _) => ClockPlan::Forward,
    }
}

fn draw_habits(rng: &mut Rng, stumbles: bool, dead: DeadPlan) -> Habits {
    let sometimes =
        |rng: &mut Rng, percent, most| if rng.percent(percent) { rng.between(1, most) as u32 } else { 0 };
    Habits {
        abandons: sometimes(rng, 40, 12),
        drops_grants: sometimes(rng, 40, 10),
        uses_stale_permits: sometimes(rng, 70, 15),
        produces: if stumbles { 90 } else { 0 },
        schedules: sometimes(rng, 60, 30),
        cleans: sometimes(rng, 40, 2),
        deletes: if stumbles { 0 } else { sometimes(rng, 25, 2) },
        redrives: if dead == DeadPlan::Nowhere { 0 } else { sometimes(rng, 70, 5) },
        // Known once the rest is.
        repeats: 0,
        rebalances: 0,
        stops: 0,
        suspends: 0,
        streams: 0,
        crons: 0,
        turns: 0,
        afterthoughts: 0,
        finds: 0,
        changes_many: 0,
        deletes_many: false,
        diverts: 0,
        addresses: if stumbles { 0 } else { sometimes(rng, 60, 60) },
        mortals: if stumbles { 0 } else { sometimes(rng, 40, 30) },
        groups: if stumbles { 0 } else { sometimes(rng, 78, 55) },
        think_micros: *rng.pick(&[20, 500, 5_000, 50_000, 1_000_000]),
        body_max: if stumbles { 40 } else { rng.skewed(20, 4_000) },
        wait_max_millis: rng.skewed(1, 10_000),
        lease_max_millis: *rng.pick(&[5, 50, 500, 5_000, 20_000]),
    }
}

fn draw_store(rng: &mut Rng) -> StorePlan {
    StorePlan {
        segment_bytes: rng.between(1, 4) as u32 * 16 * 1024,
        snapshot_bytes: rng.between(1, 8) * 8 * 1024,
        cache_bytes: *rng.pick(&[0, 4 * 1024, 1 << 20]),
    }
}
