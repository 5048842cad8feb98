//! [`Desk`]: where requests to the log wait, and where its [`Committer`] rests while there are none.
//!
//! A commit that finds the committer at rest is carried out on the thread that brought it: waking another thread would cost
//! more than the write. The committer's own thread ([`serve`]) does everything else: what came while the committer was at
//! work, requests that are no commits, and a commit that turned out to wait for something (such as a fresh segment).

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use tokio::sync::{Notify, oneshot};

use super::Request;
use super::committer::{Committer, Step};
use super::run::Write;
use crate::env::BoxFuture;
use crate::lock::lock;
use crate::store::StoreError;
use crate::store::log::shared::{Panics, Shared};

/// Names the committer's thread, in the log of the server too.
pub(crate) const THREAD: &str = "log-committer";

#[derive(Debug)]
pub(crate) struct Desk {
    shared: Arc<Shared>,
    state: Mutex<State>,
    /// There is something for the committer's thread.
    thread: Notify,
}

#[derive(Debug)]
struct State {
    /// At most one commit per partition, and few others.
    waiting: VecDeque<Request>,
    post: Post,
    /// No request is taken any more.
    closed: bool,
    /// The committer's thread has ended: nobody takes over what is handed over.
    ended: bool,
}

/// Where the committer is.
enum Post {
    AtRest(Box<Committer>),
    /// For the committer's thread to take.
    HandedOver(Work),
    WithThread,
    /// With the caller of [`Desk::commit`], who looks at the desk again.
    WithCaller,
}

enum Work {
    Serve(Box<Committer>),
    /// Go on with what another thread has begun.
    GoOn(BoxFuture<'static, Box<Committer>>),
}

impl fmt::Debug for Post {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AtRest(_) => "AtRest",
            Self::HandedOver(_) => "HandedOver",
            Self::WithThread => "WithThread",
            Self::WithCaller => "WithCaller",
        })
    }
}

impl Desk {
    pub(crate) fn new(shared: Arc<Shared>, committer: Committer) -> Arc<Self> {
        let post = Post::AtRest(Box::new(committer));
        let state = Mutex::new(State { waiting: VecDeque::new(), post, closed: false, ended: false });
        Arc::new(Self { shared, state, thread: Notify::new() })
    }

    /// Asks the committer's thread, and waits for the answer.
    pub(crate) async fn ask<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<Result<T, StoreError>>) -> Request,
    ) -> Result<T, StoreError> {
        let (answer, answered) = oneshot::channel();
        self.send(request(answer))?;
        answered.await.map_err(|_| StoreError::Closed)?
    }

    /// Leaves a request to the committer's thread.
    pub(crate) fn send(&self, request: Request) -> Result<(), StoreError> {
        if let Some(committer) = self.put(request)? {
            self.hand_over(Work::Serve(committer));
        }
        Ok(())
    }

    /// Carries a commit out on the caller's thread if the committer is at rest and that thread may block; otherwise leaves it to
    /// the committer's thread.
    pub(crate) fn commit(self: &Arc<Self>, write: Write) -> Result<(), StoreError> {
        let may_block = write.may_block;
        let Some(committer) = self.put(Request::Write(write))? else { return Ok(()) };
        match (may_block && committer.is_quick()).then(|| self.shared.env.may_block()).flatten() {
            Some(leave) => {
                let desk = Arc::clone(self);
                leave.carry_out(move || desk.carry_out(committer));
            }
            None => self.hand_over(Work::Serve(committer)),
        }
        Ok(())
    }

    /// Gives out the committer if it was at rest: whoever has it must see to the request. Otherwise whoever has the committer
    /// looks here again before it rests.
    fn put(&self, request: Request) -> Result<Option<Box<Committer>>, StoreError> {
        let mut state = self.state();
        if state.closed {
            return Err(StoreError::Closed);
        }
        state.waiting.push_back(request);
        match std::mem::replace(&mut state.post, Post::WithCaller) {
            Post::AtRest(committer) => return Ok(Some(committer)),
            Post::WithCaller => {}
            other @ (Post::HandedOver(_) | Post::WithThread) => {
                state.post = other;
                self.thread.notify_one();
            }
        }
        Ok(None)
    }

    /// One run of commits. On a real disk it is done when this returns; if it has to wait, the committer's thread goes on.
    fn carry_out(self: &Arc<Self>, mut committer: Box<Committer>) {
        let _panics = Panics::new(&self.shared, THREAD);
        let desk = Arc::clone(self);
        let mut run: BoxFuture<'static, Box<Committer>> = Box::pin(async move {
            let _cannot_be_a_close = committer.step(&desk).await;
            committer
        });
        match run.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(committer) => self.rest(committer),
            Poll::Pending => self.hand_over(Work::GoOn(run)),
        }
    }

    /// After a run on another thread than the committer's: what waits by now is left to the committer's thread.
    fn rest(&self, committer: Box<Committer>) {
        let mut state = self.state();
        if state.waiting.is_empty() && !state.closed && !self.shared.is_broken() {
            state.post = Post::AtRest(committer);
            return;
        }
        drop(state);
        self.hand_over(Work::Serve(committer));
    }

    /// Once the committer's thread has ended, the work is dropped, and its callers hear that the store is closed.
    fn hand_over(&self, work: Work) {
        let mut state = self.state();
        if !state.ended {
            state.post = Post::HandedOver(work);
            self.thread.notify_one();
        }
    }

    pub(super) fn next(&self) -> Option<Request> {
        self.state().waiting.pop_front()
    }

    /// The next commits that wait, while they take no more than so many bytes together.
    pub(super) fn next_writes(&self, mut bytes_left: usize) -> Vec<Write> {
        let mut state = self.state();
        let mut writes = Vec::new();
        while let Some(Request::Write(write)) = state.waiting.front()
            && write.frame.len() <= bytes_left
        {
            bytes_left -= write.frame.len();
            let Some(Request::Write(write)) = state.waiting.pop_front() else {
                unreachable!("it was looked at")
            };
            writes.push(write);
        }
        writes
    }

    /// Commits that were taken and did not fit: they come next.
    pub(super) fn put_back(&self, writes: Vec<Write>) {
        let mut state = self.state();
        if state.ended {
            return;
        }
        for write in writes.into_iter().rev() {
            state.waiting.push_front(Request::Write(write));
        }
    }

    /// Takes no more requests. The committer's thread ends when nothing waits.
    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.thread.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Lets the committer rest, unless something waits.
    fn try_rest(&self, committer: Box<Committer>) -> Option<Box<Committer>> {
        let mut state = self.state();
        if !state.waiting.is_empty() || state.closed {
            return Some(committer);
        }
        state.post = Post::AtRest(committer);
        None
    }

    /// Takes the committer for its thread, when it is handed over or the desk is closed. `None` if the store broke down.
    async fn taken_over(&self) -> Option<Work> {
        loop {
            if let Some(work) = self.take_over() {
                return Some(work);
            }
            tokio::select! {
                biased;
                () = self.shared.broke.notified() => return None,
                () = self.thread.notified() => {}
            }
        }
    }

    fn take_over(&self) -> Option<Work> {
        let mut state = self.state();
        match std::mem::replace(&mut state.post, Post::WithThread) {
            Post::HandedOver(work) => Some(work),
            Post::AtRest(committer) if state.closed => Some(Work::Serve(committer)),
            other @ (Post::AtRest(_) | Post::WithThread | Post::WithCaller) => {
                state.post = other;
                None
            }
        }
    }

    /// When the committer's thread has ended: whoever still waits is told that the store is closed.
    fn end(&self) {
        let mut state = self.state();
        (state.closed, state.ended) = (true, true);
        let (waiting, post) =
            (std::mem::take(&mut state.waiting), std::mem::replace(&mut state.post, Post::WithThread));
        drop(state);
        // Outside of the lock: their callers hear of it.
        drop((waiting, post));
    }
}

/// Serves on the committer's thread, until the log is closed or nobody is left who could ask.
pub(crate) async fn serve(desk: Arc<Desk>) {
    // `End` is dropped also when the thread panics.
    let _ends = End(Arc::clone(&desk));
    while let Some(work) = desk.taken_over().await {
        let committer = match work {
            Work::Serve(committer) => committer,
            Work::GoOn(run) => run.await,
        };
        if serve_with(committer, &desk).await == Step::Closed {
            break;
        }
    }
}

/// Ends the desk with the committer's thread.
struct End(Arc<Desk>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Until nothing waits and the committer may rest.
async fn serve_with(mut committer: Box<Committer>, desk: &Desk) -> Step {
    loop {
        if desk.shared.is_broken() {
            return Step::Closed;
        }
        match committer.step(desk).await {
            Step::Done => {}
            Step::Closed => return Step::Closed,
            Step::Idle if desk.state().closed => return Step::Closed,
            Step::Idle if committer.must_stay() => {
                tokio::select! {
                    biased;
                    () = desk.shared.broke.notified() => return Step::Closed,
                    () = desk.thread.notified() => {}
                    () = committer.sync_due() => committer.sync_written().await,
                }
            }
            Step::Idle => match desk.try_rest(committer) {
                Some(back) => committer = back,
                None => return Step::Idle,
            },
        }
    }
}
