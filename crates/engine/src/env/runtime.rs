//! [`run`]: the threads of a server, and which of them may block for a commit ([`MayBlock`]).
//!
//! On one thread ([`Lone`]) nothing is handed from thread to thread, which costs more than a small request does. That thread is the
//! driver of a tokio runtime of one thread. When a commit is to block it, the driver leaves the runtime, carries the commit
//! out, and comes back. If the commit takes longer than a tick, the watcher of [`Blocking`] starts another driver, which goes on
//! with all that does not wait for the commit; the one that was relieved ends as soon as its commit has.
//!
//! On several threads, which are those of tokio, a commit blocks the thread that it is on, and one thread always stays free. Only
//! tokio's slot for the task that was woken last cannot be taken over there: whoever blocks must not have woken a task since
//! it was polled.

use std::cell::RefCell;
use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Waker};
use std::thread;

use tokio::runtime::{Builder, Handle, Runtime, RuntimeFlavor};

use super::blocking::{Blocked, Blocking};
use crate::lock::lock;

type Work = Box<dyn FnOnce() + Send>;

/// Runs `future` and all that it spawns on so many threads. It can make its [`super::TokioEnv`] there.
pub fn run<T: Send + 'static>(
    threads: NonZeroUsize,
    future: impl Future<Output = T> + Send + 'static,
) -> io::Result<T> {
    if threads.get() == 1 {
        return Lone::run(future);
    }
    let runtime = Builder::new_multi_thread().worker_threads(threads.get()).enable_all().build()?;
    let done = runtime.block_on(future);
    runtime.shutdown_background();
    Ok(done)
}

/// Leave to carry out something that blocks for a moment on a thread that others need.
#[derive(Debug)]
pub struct MayBlock(Place);

#[derive(Debug)]
enum Place {
    /// On the caller's thread, which nobody else needs.
    Unwatched,
    /// On the caller's thread.
    Here(Blocked),
    /// On the driver, as soon as it has nothing else to do.
    Driver(Arc<Post>),
}

impl MayBlock {
    /// For an [`super::Env`] whose threads nobody else needs.
    pub fn unwatched() -> Self {
        Self(Place::Unwatched)
    }

    /// At once on the caller's thread, or soon.
    pub fn carry_out(self, work: impl FnOnce() + Send + 'static) {
        match self.0 {
            Place::Unwatched => work(),
            Place::Here(_until_dropped) => work(),
            Place::Driver(post) => post.leave(Box::new(work)),
        }
    }
}

/// The threads of the runtime that an [`super::TokioEnv`] was made on.
#[derive(Debug)]
pub(super) enum Threads {
    One(Arc<Post>),
    Several(Arc<Blocking>),
}

impl Threads {
    pub(super) fn of(runtime: &Handle) -> Self {
        if let Some(post) = POST.with_borrow(Weak::upgrade) {
            return Self::One(post);
        }
        // Nobody could take over from the only thread of a runtime that has no driver.
        let has_several = runtime.runtime_flavor() == RuntimeFlavor::MultiThread;
        let threads_max = if has_several { runtime.metrics().num_workers() - 1 } else { 0 };
        let runtime = runtime.clone();
        // A task that does nothing wakes a thread of the runtime, which then looks for what others left behind and comes in.
        let take_over = move || drop(runtime.spawn(async {}));
        Self::Several(Blocking::new(threads_max, take_over))
    }

    pub(super) fn may_block(&self) -> Option<MayBlock> {
        let place = match self {
            Self::One(post) => Place::Driver(post.is_free().then(|| Arc::clone(post))?),
            Self::Several(blocking) => Place::Here(blocking.begin()?),
        };
        Some(MayBlock(place))
    }
}

thread_local! {
    /// The post of the runtime that this thread drives.
    static POST: RefCell<Weak<Post>> = const { RefCell::new(Weak::new()) };
}

/// Where work that blocks waits for the driver.
pub(super) struct Post(Mutex<Left>);

#[derive(Default)]
struct Left {
    work: Vec<Work>,
    driver: Option<Waker>,
    is_closed: bool,
}

impl fmt::Debug for Post {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Post").finish_non_exhaustive()
    }
}

impl Post {
    /// One commit at a time: of several the others are better carried out by threads of their own.
    fn is_free(&self) -> bool {
        lock(&self.0).work.is_empty()
    }

    fn leave(&self, work: Work) {
        let mut left = lock(&self.0);
        left.work.push(work);
        if let Some(driver) = left.driver.take() {
            drop(left);
            driver.wake();
        }
    }

    fn close(&self) {
        let mut left = lock(&self.0);
        left.is_closed = true;
        if let Some(driver) = left.driver.take() {
            drop(left);
            driver.wake();
        }
    }

    /// `None` once the runtime is at its end.
    fn poll_work(&self, cx: &Context<'_>) -> Poll<Option<Work>> {
        let mut left = lock(&self.0);
        match left.work.pop() {
            Some(work) => Poll::Ready(Some(work)),
            None if left.is_closed => Poll::Ready(None),
            None => {
                left.driver = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// A tokio runtime of one thread.
struct Lone {
    runtime: Runtime,
    post: Arc<Post>,
    blocking: Arc<Blocking>,
    /// Of the latest driver.
    turn: Mutex<Arc<Turn>>,
}

/// What a driver does.
#[derive(Default)]
struct Turn(AtomicU8);

impl Turn {
    const DRIVES: u8 = 0;
    const BLOCKS: u8 = 1;
    const RELIEVED: u8 = 2;

    fn begin_blocking(&self) {
        self.0.store(Self::BLOCKS, Ordering::SeqCst);
    }

    /// Tells whether the driver may go on.
    fn end_blocking(&self) -> bool {
        self.0.compare_exchange(Self::BLOCKS, Self::DRIVES, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Tells whether the driver blocked, and somebody else has to drive now.
    fn relieve(&self) -> bool {
        self.0.compare_exchange(Self::BLOCKS, Self::RELIEVED, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }
}

impl Lone {
    fn run<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> io::Result<T> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let lone = Arc::new_cyclic(|lone: &Weak<Self>| {
            let lone = Weak::clone(lone);
            let take_over = move || {
                if let Some(lone) = lone.upgrade() {
                    lone.relieve_driver();
                }
            };
            Self {
                runtime,
                post: Arc::new(Post(Mutex::default())),
                // Each is relieved when the next begins to block.
                blocking: Blocking::new(usize::MAX, take_over),
                turn: Mutex::default(),
            }
        });
        let turn = Arc::clone(&lock(&lone.turn));
        start({
            let lone = Arc::clone(&lone);
            move || lone.drive(&turn)
        })?;
        let task = lone.runtime.spawn(future);
        let done = lone.runtime.handle().block_on(task);
        lone.post.close();
        done.or_else(|failed| resume_unwind(failed.into_panic()))
    }

    fn drive(&self, turn: &Turn) {
        POST.set(Arc::downgrade(&self.post));
        while let Some(work) = self.runtime.block_on(poll_fn(|cx| self.post.poll_work(cx))) {
            turn.begin_blocking();
            let blocked = self.blocking.begin();
            // What panics has said so, and broke down: the store that it belongs to is closed.
            let _panicked = catch_unwind(AssertUnwindSafe(work));
            drop(blocked);
            if !turn.end_blocking() {
                return;
            }
        }
    }

    /// Starts another driver in place of one that blocks.
    fn relieve_driver(self: &Arc<Self>) {
        let lone = Arc::clone(self);
        let started = start(move || {
            let mut latest = lock(&lone.turn);
            // The driver may have come back meanwhile.
            if latest.relieve() {
                let turn = Arc::<Turn>::default();
                *latest = Arc::clone(&turn);
                drop(latest);
                lone.drive(&turn);
            }
        });
        if let Err(error) = started {
            tracing::warn!(%error, "cannot start a thread in place of one that waits for a disk");
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "this is where threads come in")]
fn start(drive: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name("windlass".to_owned()).spawn(drive).map(drop)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tokio::sync::oneshot;

    use super::*;
    use crate::env::{Env, TokioEnv};

    /// Has the driver carry out `work`, and waits for what it returns.
    async fn carried_out<T: Send + 'static>(env: &TokioEnv, work: impl FnOnce() -> T + Send + 'static) -> T {
        let (done, answer) = oneshot::channel();
        let leave = env.may_block().expect("nothing else waits for the driver");
        leave.carry_out(move || drop(done.send(work())));
        answer.await.expect("the work is carried out")
    }

    fn on_one_thread<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> T {
        run(NonZeroUsize::MIN, future).expect("a runtime")
    }

    #[test]
    fn the_only_thread_carries_out_work_outside_of_its_runtime() {
        let is_on_runtime = on_one_thread(async {
            let env = TokioEnv::new();
            let driver = thread::current().id();
            for _ in 0..100 {
                assert_eq!(carried_out(&env, || thread::current().id()).await, driver);
            }
            carried_out(&env, || Handle::try_current().is_ok()).await
        });
        assert!(!is_on_runtime);
    }

    /// Without another driver nobody would send what each work waits for.
    #[test]
    fn another_thread_drives_while_work_blocks() {
        on_one_thread(async {
            let env = Arc::new(TokioEnv::new());
            let mut drivers = vec![thread::current().id()];
            for _ in 0..3 {
                let (go_on, gone_on) = mpsc::channel();
                let blocking = Arc::clone(&env);
                let blocks = crate::env::spawn(&*env, "blocks", async move {
                    carried_out(&blocking, move || gone_on.recv()).await.expect("sent");
                });
                while thread::current().id() == *drivers.last().expect("there is a first") {
                    tokio::task::yield_now().await;
                }
                drivers.push(thread::current().id());
                go_on.send(()).expect("the work waits");
                blocks.await;
            }
        });
    }

    #[test]
    fn work_that_panics_does_not_end_its_thread() {
        on_one_thread(async {
            let env = TokioEnv::new();
            let (done, answer) = oneshot::channel::<()>();
            let leave = env.may_block().expect("nothing else waits for the driver");
            leave.carry_out(move || {
                let _dropped_by_the_panic = done;
                panic!("as a disk might");
            });
            answer.await.expect_err("it was not sent");
            assert_eq!(carried_out(&env, || 7).await, 7);
        });
    }

    #[test]
    fn several_threads_leave_one_free() {
        let threads = NonZeroUsize::new(2).expect("two");
        let left = run(threads, async {
            let env = TokioEnv::new();
            let first = env.may_block();
            assert!(env.may_block().is_none());
            first.is_some()
        });
        assert!(left.expect("a runtime"));
    }

    #[tokio::test]
    async fn the_only_thread_of_another_runtime_may_not_block() {
        assert!(TokioEnv::new().may_block().is_none());
    }
}
