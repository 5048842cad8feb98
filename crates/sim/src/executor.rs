//! One thread that plays all of them. Each step polls one ready task, chosen by the seed; when nothing is ready the
//! clock jumps to the next timer.
//!
//! There is one process at a time. A crash drops its tasks, all at once and in the order they were spawned.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};

use windlass_engine::env::BoxFuture;

use crate::rng::Rng;

const NANOS_PER_MICRO: u64 = 1_000;

/// A timer beyond a century of virtual time waits for nothing that comes.
const NEVER_NANOS: u64 = 100 * 365 * 86_400 * 1_000_000_000;

/// Why [`Executor::run`] came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Somebody called [`Handle::finish`].
    Finished,
    /// Somebody called [`Handle::crash`].
    Crashed,
    /// The step set by [`Executor::crash_after_steps`] came.
    CrashedAtStep,
    /// A task panicked: see [`Executor::panic_message`].
    Panicked,
    /// Nothing is ready, nothing is timed, and nobody has finished.
    Hung,
    /// The limit of steps or of virtual time was reached: a livelock, or someone waits for ever.
    Exhausted,
}

#[derive(Debug)]
pub struct Executor {
    shared: Arc<Shared>,
    rng: Rng,
    steps: u64,
    crash_at_step: Option<u64>,
}

/// What tasks know of their executor. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Handle {
    shared: Arc<Shared>,
    process: u64,
}

#[derive(Debug)]
struct Shared {
    now_nanos: AtomicU64,
    process: AtomicU64,
    state: Mutex<State>,
    // Apart from the rest: wakers fire while a task is being polled or dropped. Sorted, so that the order in which
    // somebody's hash or pointer made them ready does not matter.
    ready: Arc<Mutex<BTreeSet<u64>>>,
}

#[derive(Debug, Default)]
struct State {
    next_task: u64,
    next_timer: u64,
    tasks: BTreeMap<u64, Task>,
    timers: BTreeMap<(u64, u64), Waker>,
    stop: Option<Stop>,
    panic_message: String,
}

struct Task {
    name: &'static str,
    waker: Waker,
    /// Out while it is polled.
    future: Option<BoxFuture<'static, ()>>,
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

struct TaskWaker {
    task: u64,
    ready: Arc<Mutex<BTreeSet<u64>>>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        lock(&self.ready).insert(self.task);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nothing panics while it holds this lock")
}

impl Executor {
    pub fn new(rng: Rng) -> Self {
        let shared = Shared {
            now_nanos: AtomicU64::new(0),
            process: AtomicU64::new(1),
            state: Mutex::default(),
            ready: Arc::default(),
        };
        Self { shared: Arc::new(shared), rng, steps: 0, crash_at_step: None }
    }

    /// For the process that lives now.
    pub fn handle(&self) -> Handle {
        Handle { shared: self.shared.clone(), process: self.shared.process.load(Ordering::Relaxed) }
    }

    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Counted from now.
    pub fn crash_after_steps(&mut self, steps: Option<u64>) {
        self.crash_at_step = steps.map(|steps| self.steps + steps);
    }

    /// Runs until something stops it, at most so many steps and so much virtual time from now.
    pub fn run(&mut self, steps_max: u64, micros_max: u64) -> Stop {
        let steps_end = self.steps + steps_max;
        let end_nanos = self.handle().now_nanos() + micros_max * NANOS_PER_MICRO;
        loop {
            if let Some(stop) = lock(&self.shared.state).stop.take() {
                return stop;
            }
            if self.crash_at_step.is_some_and(|at| at <= self.steps) {
                self.crash_at_step = None;
                return Stop::CrashedAtStep;
            }
            if self.steps >= steps_end || self.handle().now_nanos() >= end_nanos {
                return Stop::Exhausted;
            }
            if !self.step() {
                return Stop::Hung;
            }
        }
    }

    /// What is still there, and how many of each, for the report of a hang.
    pub fn task_names(&self) -> BTreeMap<&'static str, usize> {
        let mut names = BTreeMap::new();
        for task in lock(&self.shared.state).tasks.values() {
            *names.entry(task.name).or_default() += 1;
        }
        names
    }

    /// Ends the process: drops all its tasks and timers. What they spawn or set while they are dropped is gone too.
    pub fn kill(&mut self) {
        self.shared.process.fetch_add(1, Ordering::Relaxed);
        loop {
            let next = lock(&self.shared.state).tasks.pop_first();
            match next {
                Some((_, task)) => drop(task),
                None => break,
            }
        }
        let timers = std::mem::take(&mut lock(&self.shared.state).timers);
        drop(timers);
        lock(&self.shared.ready).clear();
        lock(&self.shared.state).stop = None;
        self.crash_at_step = None;
    }

    /// False if there is nothing to do, now or later.
    fn step(&mut self) -> bool {
        self.steps += 1;
        self.pass_a_moment();
        self.fire_timers();
        if lock(&self.shared.ready).is_empty() && !self.jump_to_next_timer() {
            return false;
        }
        if let Some(task) = self.choose() {
            self.poll(task);
        }
        true
    }

    /// Code takes time too: now and then a microsecond or a few, so that many steps still share one.
    fn pass_a_moment(&mut self) {
        if self.rng.percent(30) {
            let nanos = self.rng.between(1, 3 * NANOS_PER_MICRO);
            self.shared.now_nanos.fetch_add(nanos, Ordering::Relaxed);
        }
    }

    fn fire_timers(&self) {
        let now = self.handle().now_nanos();
        loop {
            let due = {
                let mut state = lock(&self.shared.state);
                match state.timers.first_entry() {
                    Some(first) if first.key().0 <= now => first.remove(),
                    _ => return,
                }
            };
            due.wake();
        }
    }

    fn jump_to_next_timer(&self) -> bool {
        let next = lock(&self.shared.state).timers.first_key_value().map(|(&(at, _), _)| at);
        let Some(at) = next.filter(|at| *at < NEVER_NANOS) else { return false };
        self.shared.now_nanos.fetch_max(at, Ordering::Relaxed);
        self.fire_timers();
        true
    }

    fn choose(&mut self) -> Option<u64> {
        let mut ready = lock(&self.shared.ready);
        let chosen = self.rng.index(ready.len());
        let task = ready.iter().nth(chosen).copied()?;
        ready.remove(&task);
        Some(task)
    }

    fn poll(&self, id: u64) {
        // A waker may outlive its task.
        let Some((mut future, waker)) = self.take(id) else { return };
        let polled =
            catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut Context::from_waker(&waker))));
        let Ok(poll) = polled.map_err(|panic| self.panicked(&*panic)) else {
            // What it holds may not take being dropped.
            std::mem::forget(future);
            return;
        };
        if poll.is_pending() {
            if let Some(task) = lock(&self.shared.state).tasks.get_mut(&id) {
                task.future = Some(future);
            }
        } else {
            let ended = lock(&self.shared.state).tasks.remove(&id);
            drop(ended);
        }
    }

    fn panicked(&self, panic: &(dyn Any + Send)) {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        let mut state = lock(&self.shared.state);
        state.panic_message = text.to_owned();
        state.stop = Some(Stop::Panicked);
    }

    pub fn panic_message(&self) -> String {
        lock(&self.shared.state).panic_message.clone()
    }

    fn take(&self, id: u64) -> Option<(BoxFuture<'static, ()>, Waker)> {
        let mut state = lock(&self.shared.state);
        let task = state.tasks.get_mut(&id)?;
        let future = task.future.take().expect("only one task is polled at a time");
        Some((future, task.waker.clone()))
    }
}

impl Handle {
    pub fn now_nanos(&self) -> u64 {
        self.shared.now_nanos.load(Ordering::Relaxed)
    }

    /// Virtual time since the beginning of the run.
    pub fn now_micros(&self) -> u64 {
        self.now_nanos() / NANOS_PER_MICRO
    }

    /// Whether the process this handle was made for still lives.
    pub fn is_alive(&self) -> bool {
        self.shared.process.load(Ordering::Relaxed) == self.process
    }

    pub fn process(&self) -> u64 {
        self.process
    }

    pub fn spawn(&self, name: &'static str, future: BoxFuture<'static, ()>) {
        if !self.is_alive() {
            return;
        }
        let mut state = lock(&self.shared.state);
        let id = state.next_task;
        state.next_task += 1;
        let waker = Waker::from(Arc::new(TaskWaker { task: id, ready: self.shared.ready.clone() }));
        state.tasks.insert(id, Task { name, waker, future: Some(future) });
        lock(&self.shared.ready).insert(id);
    }

    pub fn sleep_micros(&self, micros: u64) -> Sleep {
        self.sleep_until_nanos(self.now_nanos() + micros * NANOS_PER_MICRO)
    }

    pub fn sleep_until_nanos(&self, at_nanos: u64) -> Sleep {
        Sleep { shared: self.shared.clone(), at_nanos, timer: None }
    }

    /// The process has done what it was to do.
    pub fn finish(&self) {
        self.stop(Stop::Finished);
    }

    /// The power goes.
    pub fn crash(&self) {
        self.stop(Stop::Crashed);
    }

    fn stop(&self, stop: Stop) {
        if self.is_alive() {
            lock(&self.shared.state).stop.get_or_insert(stop);
        }
    }
}

/// Lets everybody else who is ready have a turn, or several.
#[derive(Debug)]
pub struct Sleep {
    shared: Arc<Shared>,
    at_nanos: u64,
    timer: Option<(u64, u64)>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.forget();
        if self.shared.now_nanos.load(Ordering::Relaxed) >= self.at_nanos {
            return Poll::Ready(());
        }
        let timer = {
            let mut state = lock(&self.shared.state);
            let timer = (self.at_nanos, state.next_timer);
            state.next_timer += 1;
            state.timers.insert(timer, context.waker().clone());
            timer
        };
        self.timer = Some(timer);
        Poll::Pending
    }
}

impl Sleep {
    fn forget(&mut self) {
        if let Some(timer) = self.timer.take() {
            let waker = lock(&self.shared.state).timers.remove(&timer);
            drop(waker);
        }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.forget();
    }
}
