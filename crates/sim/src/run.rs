//! One run: from a seed to a verdict.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use windlass_engine::env::BoxFuture;

use crate::check;
use crate::client::Memory;
use crate::coverage::Coverage;
use crate::disk::FaultLog;
use crate::ear;
use crate::env::WallClock;
use crate::executor::{Executor, Handle, Stop};
use crate::fault::Fault;
use crate::history::{History, Promise, Violation};
use crate::machine::Machine;
use crate::plan::{End, LastStep, Phase, Plan};
use crate::recorder::{Clocks, Recorder};
use crate::restore::Vault;
use crate::rng::Rng;
use crate::server::{Life, Server};
use crate::trace::Trace;

const STEPS_MAX: u64 = 3_000_000;
const MICROS_MAX: u64 = 48 * 3600 * 1_000_000;

#[derive(Debug)]
pub struct Report {
    pub seed: u64,
    pub trace: Trace,
    pub coverage: Coverage,
    pub violation: Option<Violation>,
}

/// Everything that outlives a process.
struct World {
    executor: Executor,
    server: Server,
    faults: FaultLog,
    rng: Rng,
}

pub fn run_seed(seed: u64, trace_lines_max: usize) -> Report {
    let mut rng = Rng::new(seed);
    let plan = Arc::new(Plan::draw(&mut rng));
    let mut world = World::new(rng, &plan, trace_lines_max);
    world.server.recorder.note(format_args!("seed {seed}: {plan:?}"));
    let listening = ear::listen(world.server.recorder.clone());
    let stopped = world.live(&plan.phases);
    drop(listening);
    let complaint = world.server.complaint.lock().expect("nothing panics while it holds this lock").take();
    let (history, trace) = world.server.recorder.finish();
    let complaint = complaint.filter(|complaint| !check::excuses(&history, complaint));
    let violation = complaint.or(stopped).or_else(|| check::check(&history).err());
    if violation.is_some() {
        // What a failed run left behind may not take being dropped.
        std::mem::forget(world);
    }
    Report { seed, trace, coverage: Coverage::of(&history), violation }
}

fn empty_history(plan: &Plan) -> History {
    History { promise: plan.promise(), keeps_everything: plan.keeps_everything, ..History::default() }
}

fn clocks(handle: &Handle, wall: &WallClock) -> Clocks {
    let (handle, shown, highest) = (handle.clone(), wall.clone(), wall.clone());
    Clocks {
        now_micros: Arc::new(move || handle.now_micros()),
        wall: Arc::new(move |micros| shown.at(micros)),
        latest: Arc::new(move |micros| highest.latest_possible(micros)),
    }
}

impl World {
    fn new(mut rng: Rng, plan: &Arc<Plan>, trace_lines_max: usize) -> Self {
        let executor = Executor::new(rng.fork());
        let handle = executor.handle();
        let wall = WallClock::default();
        let recorder = Recorder::new(clocks(&handle, &wall), empty_history(plan), trace_lines_max);
        let faults: FaultLog = {
            let recorder = recorder.clone();
            Arc::new(move |fault| recorder.fault(fault))
        };
        let machine = Machine::new(plan.stores.count, &mut rng, &faults);
        let memory = Memory::new(plan.clients + 1);
        let complaint = Arc::new(Mutex::new(None));
        let refused = Arc::new(AtomicBool::new(false));
        let vault = (plan.last_step == LastStep::Restore).then(|| Vault::new(plan, &mut rng, &faults));
        let plan = plan.clone();
        let server = Server { handle, machine, wall, recorder, plan, memory, complaint, refused, vault };
        Self { executor, server, faults, rng }
    }

    /// All lives of the server, one after the other, and then the last one, which reads everything out.
    fn live(&mut self, phases: &[Phase]) -> Option<Violation> {
        for (index, phase) in phases.iter().enumerate() {
            let life = Life { index, is_last: index + 1 == phases.len(), phase: *phase };
            if let Some(violation) = self.live_once(life).or_else(|| self.rot_after(index)) {
                return Some(violation);
            }
            if self.is_refused() {
                break;
            }
        }
        self.restore();
        if self.server.plan.last_step == LastStep::Salvage || self.is_refused() {
            return self.salvage().or_else(|| self.conclude());
        }
        let violation = self.conclude();
        if violation.is_none() && self.is_refused() {
            return self.salvage().or_else(|| self.conclude());
        }
        violation
    }

    fn live_once(&mut self, life: Life) -> Option<Violation> {
        let server = self.boot();
        server.machine.set_rates(|disk| server.plan.rates_of(disk));
        let rng = self.rng.fork();
        match life.phase.end {
            End::CrashAtStep(steps) => self.executor.crash_after_steps(Some(steps)),
            End::CrashAtChange(changes) => {
                server.machine.draw_disk(&mut self.rng).crash_in(Some(changes));
            }
            End::Close | End::CloseEarly { .. } => {}
        }
        let handle = server.handle.clone();
        handle.spawn("server", Box::pin(server.serve(life, rng)));
        self.run_to_the_end()
    }

    fn conclude(&mut self) -> Option<Violation> {
        let server = self.boot();
        let handle = server.handle.clone();
        handle.spawn("server", Box::pin(server.conclude()));
        self.run_to_the_end()
    }

    fn is_refused(&self) -> bool {
        self.server.refused.load(Ordering::Relaxed)
    }

    /// Flips bits after a life, if they are to flip then, and has the logs looked through if they have flipped.
    fn rot_after(&mut self, life: usize) -> Option<Violation> {
        let rot = self.server.plan.rot.filter(|rot| rot.life == life)?;
        if !rot.is_live {
            let mut rng = self.rng.fork();
            self.server.rot(rot, &mut rng);
        }
        if self.server.recorder.has_rot() { self.run_tool(|server| Box::pin(server.inspect())) } else { None }
    }

    /// Puts the copies of a finished backup in the place of the disks.
    fn restore(&mut self) {
        let Some(vault) = &self.server.vault else { return };
        if let Some(begun) = vault.begun() {
            vault.machine.crash();
            self.server.machine = vault.machine.clone();
            self.server.recorder.restored(begun);
        }
    }

    /// Salvages every log to a fresh disk, which takes its place.
    fn salvage(&mut self) -> Option<Violation> {
        let fresh = Machine::new(self.server.plan.stores.count, &mut self.rng, &self.faults);
        let to = fresh.clone();
        let violation = self.run_tool(|server| Box::pin(server.salvage(to)));
        fresh.crash();
        self.server.machine = fresh;
        // What was salvaged has no damage any more.
        self.server.refused.store(true, Ordering::Relaxed);
        violation
    }

    /// Runs something that is no server, to its end.
    fn run_tool(&mut self, tool: impl FnOnce(Server) -> BoxFuture<'static, ()>) -> Option<Violation> {
        self.server.handle = self.executor.handle();
        self.server.machine.mend();
        self.server.handle.spawn("tool", tool(self.server.clone()));
        let stop = self.executor.run(STEPS_MAX, MICROS_MAX);
        let violation = self.violation_of(stop);
        self.executor.kill();
        self.server.machine.process_ended();
        violation
    }

    fn boot(&mut self) -> Server {
        self.server.handle = self.executor.handle();
        self.server.machine.mend();
        self.server.recorder.process_begins();
        self.server.clone()
    }

    fn run_to_the_end(&mut self) -> Option<Violation> {
        let stop = self.executor.run(STEPS_MAX, MICROS_MAX);
        match stop {
            Stop::Finished => self.ended(),
            Stop::Crashed => self.crashed(),
            Stop::CrashedAtStep => {
                self.server.recorder.fault(Fault::Crash);
                self.crashed();
            }
            Stop::Hung | Stop::Exhausted | Stop::Panicked => {}
        }
        self.violation_of(stop)
    }

    fn violation_of(&self, stop: Stop) -> Option<Violation> {
        match stop {
            Stop::Finished | Stop::Crashed | Stop::CrashedAtStep => None,
            Stop::Hung => Some(self.stuck("nothing will ever happen again")),
            Stop::Exhausted => Some(self.stuck("it does not come to an end")),
            Stop::Panicked => Some(Violation { rule: "panic", text: self.executor.panic_message() }),
        }
    }

    /// Now and then the power goes once the process has ended: what was closed properly is durable.
    fn ended(&mut self) {
        self.executor.kill();
        self.server.machine.process_ended();
        if self.rng.percent(30) && self.server.plan.promise() == Promise::Kept {
            self.server.machine.crash();
        }
        self.server.recorder.process_ended("ended");
    }

    fn crashed(&mut self) {
        self.executor.kill();
        self.server.machine.crash();
        self.server.recorder.process_ended("crashed");
    }

    fn stuck(&self, what: &str) -> Violation {
        let open = self.server.recorder.open_calls();
        let tasks = self.executor.task_names();
        Violation { rule: "hang", text: format!("{what}; open calls {open:?}, tasks {tasks:?}") }
    }
}
