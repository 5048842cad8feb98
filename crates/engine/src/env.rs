//! Everything the engine takes from the outside world: time, chance, tasks and threads. Disks come with the store.
//!
//! Production uses [`TokioEnv`]; the simulator brings its own, and then the whole engine runs from one seed.

mod blocking;
mod deadlines;
pub mod runtime;

use std::fmt;
use std::future::Future;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use rustix::time::{ClockId, clock_gettime};
use tokio::sync::oneshot;
use tokio::time::Instant;
use windlass_core::time::Timestamp;

pub use self::deadlines::{Deadlines, Until};
pub use self::runtime::MayBlock;
use self::runtime::Threads;

pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

pub trait Env: Send + Sync + fmt::Debug + 'static {
    /// Time since some fixed moment: never set, never falls, and goes on while the machine sleeps.
    fn boot(&self) -> Duration;

    /// What the machine's clock says, right or wrong.
    fn wall(&self) -> Timestamp;

    /// A number that nobody outside can guess.
    fn random(&self) -> u64;

    /// Ends no earlier than `at` on the boot clock.
    fn sleep_until(&self, at: Duration) -> BoxFuture<'static, ()>;

    /// Runs a future that never blocks.
    fn spawn_boxed(&self, name: &'static str, future: BoxFuture<'static, ()>);

    /// Runs a future that may block (disk I/O) on a thread of its own.
    fn spawn_thread_boxed(&self, name: &'static str, future: BoxFuture<'static, ()>);

    /// Leave to carry out something that blocks (disk I/O) for a moment on a thread that others need. `None` if none may now.
    fn may_block(&self) -> Option<MayBlock> {
        None
    }
}

/// A task somebody owns: await it to know that it ended.
#[derive(Debug)]
pub struct Task(oneshot::Receiver<()>);

impl Future for Task {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // An error means the sender was dropped with the task: it ended too.
        Pin::new(&mut self.0).poll(context).map(|_ended| ())
    }
}

pub fn spawn(env: &dyn Env, name: &'static str, future: impl Future<Output = ()> + Send + 'static) -> Task {
    let (future, task) = owned(future);
    env.spawn_boxed(name, future);
    task
}

pub fn spawn_thread(
    env: &dyn Env,
    name: &'static str,
    future: impl Future<Output = ()> + Send + 'static,
) -> Task {
    let (future, task) = owned(future);
    env.spawn_thread_boxed(name, future);
    task
}

fn owned(future: impl Future<Output = ()> + Send + 'static) -> (BoxFuture<'static, ()>, Task) {
    let (ended, task) = oneshot::channel();
    let future = async move {
        let _ends_with_the_task = ended;
        future.await;
    };
    (Box::pin(future), Task(task))
}

/// The real world: the tokio runtime it was made on, and the machine's clocks.
#[derive(Debug)]
pub struct TokioEnv {
    runtime: tokio::runtime::Handle,
    threads: Threads,
    deadlines: Arc<Deadlines>,
}

impl TokioEnv {
    /// Must be called on a tokio runtime with its timer enabled.
    pub fn new() -> Self {
        let runtime = tokio::runtime::Handle::current();
        Self { threads: Threads::of(&runtime), deadlines: Arc::default(), runtime }
    }
}

impl Default for TokioEnv {
    fn default() -> Self {
        Self::new()
    }
}

impl Env for TokioEnv {
    fn boot(&self) -> Duration {
        // Not `Instant`: on Linux that stands still while the machine is suspended.
        let now = clock_gettime(ClockId::Boottime);
        Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
    }

    #[expect(clippy::disallowed_methods, reason = "this is where the clock comes in")]
    fn wall(&self) -> Timestamp {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Timestamp(u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX))
    }

    fn random(&self) -> u64 {
        // Its keys come from the operating system, and differ from call to call.
        RandomState::new().build_hasher().finish()
    }

    fn sleep_until(&self, at: Duration) -> BoxFuture<'static, ()> {
        let left = at.saturating_sub(self.boot());
        Box::pin(self.deadlines.until(after(left)))
    }

    fn spawn_boxed(&self, _name: &'static str, future: BoxFuture<'static, ()>) {
        self.runtime.spawn(future);
    }

    #[expect(clippy::disallowed_methods, reason = "this is where threads come in")]
    fn spawn_thread_boxed(&self, name: &'static str, future: BoxFuture<'static, ()>) {
        let runtime = self.runtime.clone();
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || runtime.block_on(future))
            .expect("a thread can be started");
    }

    fn may_block(&self) -> Option<MayBlock> {
        self.threads.may_block()
    }
}

/// So much later than now; a time that nobody lives to see if that is too far away.
fn after(left: Duration) -> Instant {
    const NEVER: Duration = Duration::from_hours(24 * 365 * 30);
    Instant::now() + left.min(NEVER)
}
