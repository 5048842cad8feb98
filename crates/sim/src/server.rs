//! One life of the server: it opens the store, serves the clients, and is closed, unless it crashes before.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::{Notify, oneshot};
use windlass_core::row::{Queue, QueueName};
use windlass_core::settings::Settings;
use windlass_core::verbs::CreateQueue;
use windlass_engine::Engine;
use windlass_engine::env::Env;

use crate::caller::Caller;
use crate::client::{Client, Memory};
use crate::env::{SimEnv, WallClock};
use crate::executor::Handle;
use crate::fault::{Fault, Rates};
use crate::history::{OPERATOR, Promise, QueueIndex, Teller, Violation, speaks_of_damage};
use crate::machine::Machine;
use crate::plan::{ClockPlan, End, Phase, Plan, RotPlan, queue_name};
use crate::readout::{read_out, show};
use crate::recorder::Recorder;
use crate::restore::Vault;
use crate::rng::Rng;
use crate::store::Opened;
use crate::{crowd, store};

const OPENS_ON_A_BAD_DISK: usize = 5;
const OPENS_MAX: usize = 40;

/// How many of the newest items are looked at where they can be lost.
const LOOKED_AT: usize = 60;
/// How often a page of a walk is asked for that is not answered, because its queue is gone or does not serve.
const PAGE_TRIES_MAX: usize = 3;

#[derive(Clone, Debug)]
pub struct Server {
    pub handle: Handle,
    pub machine: Machine,
    pub wall: WallClock,
    pub recorder: Recorder,
    pub plan: Arc<Plan>,
    pub memory: Memory,
    /// What went wrong in a way that no history shows.
    pub complaint: Arc<std::sync::Mutex<Option<Violation>>>,
    /// The last start was refused because of damage.
    pub refused: Arc<AtomicBool>,
    /// Where a backup goes, in runs that end with one.
    pub vault: Option<Vault>,
}

/// An engine that serves, and the store beneath it.
struct Serving {
    engine: Engine,
    opened: Opened,
}

/// One of the lives of the server.
#[derive(Clone, Copy, Debug)]
pub struct Life {
    /// From 0.
    pub index: usize,
    /// Only the readout comes after it.
    pub is_last: bool,
    pub phase: Phase,
}

/// Counts clients that are done, and tells them when to stop.
#[derive(Debug, Default)]
pub(crate) struct Shift {
    clients: usize,
    done: AtomicUsize,
    changed: Notify,
    pub(crate) over: AtomicBool,
}

impl Shift {
    pub(crate) fn one_is_done(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
        self.changed.notify_one();
    }
}

impl Server {
    /// Serves clients as the phase says.
    pub async fn serve(self, life: Life, mut rng: Rng) {
        let Life { phase, .. } = life;
        self.stay_down(&mut rng).await;
        self.delay_a_disk(&mut rng);
        let Some(Serving { engine, opened }) = self.open().await else { return self.handle.finish() };
        self.create_idle_queues(&engine).await;
        self.create_missing(&engine).await;
        self.recorder.process_opened();
        self.look_around(&engine).await;
        if self.plan.has_crowd && self.recorder.is_first_process() {
            let caller = self.caller(&engine, OPERATOR);
            crowd::gather(&caller, &self.machine.disks()[0], &self.memory, &mut rng).await;
            self.set_usual_rates();
        }
        self.handle.spawn("weather", Box::pin(self.clone().weather(rng.fork())));
        self.let_bits_rot(life, &mut rng);
        let no_backup = self.spawn_backup(life, &opened, &mut rng);
        let clients = self.plan.clients + usize::from(self.plan.stall.is_some());
        let shift = Arc::new(Shift { clients, ..Shift::default() });
        self.spawn_stall(&engine, &shift, &mut rng);
        for client in 0..self.plan.clients {
            self.spawn_client(&engine, client, phase.ops, &shift, rng.fork());
        }
        match phase.end {
            End::CloseEarly { micros } => self.until_early_close(micros, &mut rng).await,
            End::Close | End::CrashAtStep(_) | End::CrashAtChange(_) => self.until_all_done(&shift).await,
        }
        if let Some(failed) = no_backup {
            let _no_backup_to_wait_for = failed.await;
        }
        self.close(&engine, &shift).await;
        self.handle.finish();
    }

    /// The last life: nothing goes wrong any more, and everything is read out.
    pub async fn conclude(self) {
        let Some(Serving { engine, .. }) = self.open().await else { return self.handle.finish() };
        self.recorder.process_opened();
        let caller = self.caller(&engine, OPERATOR);
        let registered = engine.queues();
        let is_there = |index: &QueueIndex| registered.iter().any(|queue| queue.name == queue_name(*index));
        let queues: Vec<QueueIndex> = (0..self.plan.queues.len()).filter(is_there).collect();
        self.end_walks(&caller).await;
        let stays = self.queues_with_nowhere_to_send(&registered);
        if let Err(violation) = read_out(&caller, &queues, &stays, self.memory.items()).await {
            self.complain(violation);
        }
        self.recorder.process_closing();
        engine.close().await;
        self.recorder.process_closed();
        self.handle.finish();
    }

    /// Walks that were begun in earlier lives go on to their ends, before anything is taken out.
    async fn end_walks(&self, caller: &Caller) {
        for walk in self.memory.take_walks() {
            let mut next = Some(walk);
            let mut tries = 0;
            while let Some(walk) = next.take().filter(|_| tries < PAGE_TRIES_MAX) {
                let asked = walk.op.page;
                next = caller.walk_on(walk).await;
                let is_answered = next.as_ref().is_none_or(|next| next.op.page > asked);
                tries = if is_answered { 0 } else { tries + 1 };
            }
        }
    }

    /// Queues that something may be on its way out of for ever, because where it goes is not there. Items that ended badly go
    /// to where their queue sends such items by now, if that is there.
    fn queues_with_nowhere_to_send(&self, registered: &[Queue]) -> Vec<QueueIndex> {
        let all = 0..self.plan.queues.len();
        let find = |name: &QueueName| registered.iter().find(|queue| queue.name == *name);
        if all.clone().all(|index| find(&queue_name(index)).is_some()) {
            return Vec::new();
        }
        let sends = |index: &QueueIndex| {
            let queue = find(&queue_name(*index))?;
            let dead_queue = queue.settings.dead_queue.clone()?;
            find(&QueueName { name: dead_queue, ..queue.name.clone() })
        };
        all.filter(|index| !self.plan.only_dead_move() || sends(index).is_none()).collect()
    }

    pub(crate) fn complain(&self, violation: Violation) {
        let mut complaint = self.complaint.lock().expect("nothing panics while it holds this lock");
        complaint.get_or_insert(violation);
    }

    fn caller(&self, engine: &Engine, client: usize) -> Caller {
        Caller {
            engine: engine.clone(),
            recorder: self.recorder.clone(),
            handle: self.handle.clone(),
            client,
            patience: None,
        }
    }

    /// As an operator would: again and again, and at last with another disk controller.
    async fn open(&self) -> Option<Serving> {
        let mut error = String::new();
        for attempt in 0..OPENS_MAX {
            if attempt == OPENS_ON_A_BAD_DISK {
                self.machine.mend();
            }
            match self.open_once().await {
                Ok(serving) => return Some(serving),
                Err(failed) => error = failed,
            }
            self.recorder.note(format_args!("cannot open: {error}"));
            if speaks_of_damage(&error) {
                self.refuse_to_start(error);
                return None;
            }
            self.handle.sleep_micros(500_000).await;
        }
        self.complain(Violation { rule: "start", text: format!("cannot be opened: {error}") });
        None
    }

    /// Damage is found only where something has rotted, and not in what was salvaged.
    fn refuse_to_start(&self, error: String) {
        if self.recorder.has_rot() && !self.refused.load(Ordering::Relaxed) {
            self.recorder.damage(Teller::Start, &error);
            self.refused.store(true, Ordering::Relaxed);
        } else {
            self.complain(Violation { rule: "damage", text: error });
        }
    }

    async fn open_once(&self) -> Result<Serving, String> {
        let env: Arc<dyn Env> = Arc::new(SimEnv::new(self.handle.clone(), self.wall.clone()));
        let disks = self.machine.disks().iter().map(|disk| disk.disk(self.handle.clone())).collect();
        let opened = store::open(env.clone(), disks, &self.plan).await.map_err(|error| error.to_string())?;
        self.recorder.opened_store(opened.store.clone());
        match Engine::open(env, opened.store.clone()).await {
            Ok(engine) => Ok(Serving { engine, opened }),
            Err(error) => {
                opened.store.close().await;
                Err(error.to_string())
            }
        }
    }

    /// In the life in which bits rot while it runs.
    fn let_bits_rot(&self, life: Life, rng: &mut Rng) {
        let Some(rot) = self.plan.rot.filter(|rot| rot.is_live && rot.life == life.index) else { return };
        let (server, mut rng) = (self.clone(), rng.fork());
        let later = self.handle.sleep_micros(rng.skewed(1_000, 2_000_000));
        let rotting = async move {
            later.await;
            server.rot(rot, &mut rng);
        };
        self.handle.spawn("rot", Box::pin(rotting));
    }

    pub fn rot(&self, rot: RotPlan, rng: &mut Rng) {
        let disk = self.machine.draw_disk(rng);
        for _ in 0..rot.flips {
            let flipped = disk.rot(rot.target, rng);
            self.recorder.note(format_args!("rot: {flipped:?}"));
        }
    }

    /// In the last life of a run that ends with a backup. Hears if none could be made.
    fn spawn_backup(&self, life: Life, opened: &Opened, rng: &mut Rng) -> Option<oneshot::Receiver<()>> {
        let vault = self.vault.clone().filter(|_| life.is_last)?;
        let (failed, fails) = oneshot::channel();
        let (server, opened, micros) = (self.clone(), opened.clone(), rng.skewed(100, 1_000_000));
        let backup = async move {
            server.back_up(vault, &opened, micros).await;
            let _nobody_waits = failed.send(());
        };
        self.handle.spawn("backup", Box::pin(backup));
        Some(fails)
    }

    /// In runs with crons: so that some of their times are missed.
    async fn stay_down(&self, rng: &mut Rng) {
        if self.plan.habits.crons > 0 && rng.percent(40) {
            self.handle.sleep_micros(rng.skewed(1_000_000, 60_000_000)).await;
        }
    }

    /// In the first life; later ones find them.
    async fn create_idle_queues(&self, engine: &Engine) {
        if self.plan.idle_queues == 0 {
            return;
        }
        for index in (0..self.plan.idle_queues).filter(|_| self.recorder.is_first_process()) {
            let name = QueueName { namespace: "default".into(), name: format!("idle{index}").into() };
            let create = CreateQueue::new(name, Settings::default(), 1);
            if let Err(error) = engine.create_queue(create).await {
                self.complain(Violation { rule: "idle queues", text: error.to_string() });
            }
        }
        self.recorder.idle_queues(engine.queues().len().saturating_sub(self.plan.queues.len()));
    }

    async fn create_missing(&self, engine: &Engine) {
        let caller = self.caller(engine, OPERATOR);
        for (index, queue) in self.plan.queues.iter().enumerate() {
            let name = queue_name(index);
            if !engine.queues().iter().any(|there| there.name == name) {
                caller.create(index, queue.settings.clone(), queue.partitions).await;
            }
        }
    }

    /// Where the newest can be lost: what is gone now must stay gone.
    async fn look_around(&self, engine: &Engine) {
        if self.plan.promise() == Promise::MayRollBack {
            show(&self.caller(engine, OPERATOR), &self.memory.newest_items(LOOKED_AT)).await;
        }
    }

    fn spawn_client(&self, engine: &Engine, client: usize, ops: u32, shift: &Arc<Shift>, rng: Rng) {
        let worker = self.client(engine, client, rng);
        let shift = shift.clone();
        self.handle.spawn(
            "client",
            Box::pin(async move {
                worker.work(ops, || shift.over.load(Ordering::Relaxed)).await;
                shift.one_is_done();
            }),
        );
    }

    pub(crate) fn client(&self, engine: &Engine, client: usize, rng: Rng) -> Client {
        Client {
            caller: self.caller(engine, client),
            plan: self.plan.clone(),
            memory: self.memory.clone(),
            wall: self.wall.clone(),
            only: None,
            rng,
        }
    }

    /// Often with a disk that hangs just then, so that much is under way when it closes.
    async fn until_early_close(&self, micros: u64, rng: &mut Rng) {
        self.handle.sleep_micros(micros).await;
        if rng.percent(70) {
            self.machine.draw_disk(rng).set_rates(Rates::HANGING);
            self.handle.sleep_micros(rng.skewed(1_000, 200_000)).await;
        }
    }

    async fn until_all_done(&self, shift: &Shift) {
        while shift.done.load(Ordering::Relaxed) < shift.clients {
            shift.changed.notified().await;
        }
    }

    /// Whatever is under way when it closes must still be answered: otherwise this waits for ever, and the run
    /// ends as a hang.
    async fn close(&self, engine: &Engine, shift: &Shift) {
        self.recorder.process_closing();
        engine.close().await;
        self.recorder.process_closed();
        shift.over.store(true, Ordering::Relaxed);
        self.until_all_done(shift).await;
    }

    fn set_usual_rates(&self) {
        self.machine.set_rates(|disk| self.plan.rates_of(disk));
    }

    /// Now and then a life begins while one of the disks is missing; it comes a little later.
    fn delay_a_disk(&self, rng: &mut Rng) {
        let stores = self.plan.stores;
        if stores.late_percent == 0 || !rng.percent(stores.late_percent) {
            return;
        }
        let late = self.machine.disks()[1 + rng.index(stores.count - 1)].clone();
        late.set_absent(true);
        let comes = self.handle.sleep_micros(rng.skewed(1_000, 3_000_000));
        let arrival = async move {
            comes.await;
            late.set_absent(false);
        };
        self.handle.spawn("late disk", Box::pin(arrival));
    }

    /// Sets the clock, fills a disk and has one fail, now and then.
    async fn weather(self, mut rng: Rng) {
        let Plan { clock, fills_up, has_spells, stores, .. } = *self.plan;
        if clock == ClockPlan::Steady && !fills_up && !has_spells && !stores.has_outages {
            return;
        }
        loop {
            self.handle.sleep_micros(rng.skewed(1_000, 3_000_000)).await;
            if rng.percent(40) {
                self.step_clock(&mut rng);
            }
            if fills_up && rng.percent(60) {
                self.fill_a_disk(&mut rng).await;
            }
            if has_spells && rng.percent(60) && !self.outlives_a_spell(&mut rng).await {
                return;
            }
            if stores.has_outages && rng.percent(40) {
                self.take_a_disk_out(&mut rng).await;
            }
        }
    }

    fn draw_sick_disk(&self, rng: &mut Rng) -> usize {
        self.plan.stores.only_sick.unwrap_or_else(|| self.machine.draw_index(rng))
    }

    async fn fill_a_disk(&self, rng: &mut Rng) {
        let disk = &self.machine.disks()[self.draw_sick_disk(rng)];
        disk.set_room(Some(rng.skewed(0, 40_000)));
        self.handle.sleep_micros(rng.skewed(1_000, 2_000_000)).await;
        disk.set_room(None);
    }

    /// Hardly a sync of one disk succeeds. False if the power goes: a disk like that often takes the machine with it.
    async fn outlives_a_spell(&self, rng: &mut Rng) -> bool {
        let index = self.draw_sick_disk(rng);
        let disk = &self.machine.disks()[index];
        disk.set_rates(Rates::spell(rng));
        self.handle.sleep_micros(rng.skewed(500, 500_000)).await;
        if rng.percent(40) {
            self.recorder.fault(Fault::Crash);
            self.handle.crash();
            return false;
        }
        disk.set_rates(self.plan.rates_of(index));
        true
    }

    /// One disk fails or hangs for a while, and the others are as they were.
    async fn take_a_disk_out(&self, rng: &mut Rng) {
        let index = self.draw_sick_disk(rng);
        let disk = &self.machine.disks()[index];
        disk.set_rates(*rng.pick(&[Rates::DEAD, Rates::HANGING]));
        self.handle.sleep_micros(rng.skewed(1_000, 2_000_000)).await;
        disk.set_rates(self.plan.rates_of(index));
    }

    fn step_clock(&self, rng: &mut Rng) {
        const MILLI: u64 = 1_000;
        let micros = match rng.below(4) {
            0 | 1 => rng.between(1, 2_000) * MILLI,
            2 => rng.between(2, 300) * 1_000 * MILLI,
            _ => rng.between(1, 5) * 3_600_000 * MILLI,
        } as i64;
        let back = match self.plan.clock {
            ClockPlan::Steady => return,
            ClockPlan::Forward => false,
            ClockPlan::BothWays => rng.percent(50),
        };
        self.recorder.fault(if back { Fault::ClockBack } else { Fault::ClockForward });
        self.wall.step(if back { -micros } else { micros });
    }
}
