//! One run: from a seed to a verdict.

use std::sync::{Arc, Mutex};

use crate::check;
use crate::client::Memory;
use crate::coverage::Coverage;
use crate::disk::FaultLog;
use crate::env::WallClock;
use crate::executor::{Executor, Handle, Stop};
use crate::fault::Fault;
use crate::history::{History, Promise, Violation};
use crate::machine::Machine;
use crate::plan::{End, Phase, Plan};
use crate::recorder::{Clocks, Recorder};
use crate::rng::Rng;
use crate::server::Server;
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
    rng: Rng,
}

pub fn run_seed(seed: u64, trace_lines_max: usize) -> Report {
    let mut rng = Rng::new(seed);
    let plan = Arc::new(Plan::draw(&mut rng));
    let mut world = World::new(rng, &plan, trace_lines_max);
    world.server.recorder.note(format_args!("seed {seed}: {plan:?}"));
    let stopped = world.live(&plan.phases);
    let complaint = world.server.complaint.lock().expect("nothing panics while it holds this lock").take();
    let (history, trace) = world.server.recorder.finish();
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
        let memory = Memory::new(plan.clients);
        let complaint = Arc::new(Mutex::new(None));
        let server = Server { handle, machine, wall, recorder, plan: plan.clone(), memory, complaint };
        Self { executor, server, rng }
    }

    /// All lives of the server, one after the other.
    fn live(&mut self, phases: &[Phase]) -> Option<Violation> {
        for phase in phases {
            let server = self.boot();
            server.machine.set_rates(|disk| server.plan.rates_of(disk));
            let rng = self.rng.fork();
            match phase.end {
                End::CrashAtStep(steps) => self.executor.crash_after_steps(Some(steps)),
                End::CrashAtChange(changes) => {
                    server.machine.draw_disk(&mut self.rng).crash_in(Some(changes));
                }
                End::Close | End::CloseEarly { .. } => {}
            }
            let handle = server.handle.clone();
            handle.spawn("server", Box::pin(server.serve(*phase, rng)));
            if let Some(violation) = self.run_to_the_end() {
                return Some(violation);
            }
        }
        let server = self.boot();
        let handle = server.handle.clone();
        handle.spawn("server", Box::pin(server.conclude()));
        self.run_to_the_end()
    }

    fn boot(&mut self) -> Server {
        self.server.handle = self.executor.handle();
        self.server.machine.mend();
        self.server.recorder.process_begins();
        self.server.clone()
    }

    fn run_to_the_end(&mut self) -> Option<Violation> {
        match self.executor.run(STEPS_MAX, MICROS_MAX) {
            Stop::Finished => self.ended(),
            Stop::Crashed => self.crashed(),
            Stop::CrashedAtStep => {
                self.server.recorder.fault(Fault::Crash);
                self.crashed();
            }
            Stop::Hung => return Some(self.stuck("nothing will ever happen again")),
            Stop::Exhausted => return Some(self.stuck("it does not come to an end")),
            Stop::Panicked => {
                return Some(Violation { rule: "panic", text: self.executor.panic_message() });
            }
        }
        None
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
