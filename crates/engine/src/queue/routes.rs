//! Which routes of a queue count, and whether the queue is about to be deleted. Whoever brings something new while it is about
//! to be deleted waits for the outcome: the partitions, which are closed by then, would refuse it.

use tokio::sync::watch;
use windlass_core::refusal::Refusal;
use windlass_core::row::QueueName;

use crate::error::EngineError;

#[derive(Debug)]
pub(crate) struct Routes {
    queue: QueueName,
    latest: watch::Sender<Latest>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Latest {
    /// The version that counts.
    Version(u64),
    Deleting,
    Gone,
    /// The server shuts down.
    Shut,
}

impl Routes {
    pub(super) fn new(queue: QueueName, version: u64) -> Self {
        Self { queue, latest: watch::Sender::new(Latest::Version(version)) }
    }

    pub(super) fn is_latest(&self, version: u64) -> bool {
        *self.latest.borrow() == Latest::Version(version)
    }

    /// Whether no deletion is under way.
    pub(crate) fn are_open(&self) -> bool {
        matches!(*self.latest.borrow(), Latest::Version(_))
    }

    /// Takes a step that sends something new, once no deletion is under way. No deletion begins and no other routes come to count
    /// during the step. The step is told the version that counts.
    pub(super) async fn pass<T>(&self, step: impl FnOnce(u64) -> T) -> Result<T, EngineError> {
        let mut step = Some(step);
        if let Some(passed) = self.try_pass(&mut step) {
            return passed;
        }
        let mut latest = self.latest.subscribe();
        loop {
            let decided = latest.wait_for(|latest| *latest != Latest::Deleting).await.is_ok();
            assert!(decided, "the sender is ours");
            if let Some(passed) = self.try_pass(&mut step) {
                return passed;
            }
        }
    }

    /// Nothing while a deletion is under way.
    fn try_pass<T>(&self, step: &mut Option<impl FnOnce(u64) -> T>) -> Option<Result<T, EngineError>> {
        // Borrowed during the step: whoever changes it waits.
        let latest = self.latest.borrow();
        match *latest {
            Latest::Version(version) => step.take().map(|step| Ok(step(version))),
            Latest::Deleting => None,
            Latest::Gone => Some(Err(Refusal::no_such_queue(&self.queue).into())),
            Latest::Shut => Some(Err(EngineError::not_applied("shutting down"))),
        }
    }

    /// From the end of the step on this version counts, and nobody waits for a deletion any more.
    pub(crate) fn supersede<T>(&self, version: u64, step: impl FnOnce() -> T) -> T {
        self.go(Latest::Version(version), step)
    }

    /// From the end of the step on nobody passes until the outcome of the deletion is known.
    pub(crate) fn close<T>(&self, step: impl FnOnce() -> T) -> T {
        self.go(Latest::Deleting, step)
    }

    pub(crate) fn gone(&self) {
        self.go(Latest::Gone, || ());
    }

    pub(crate) fn shut(&self) {
        self.go(Latest::Shut, || ());
    }

    /// `Gone` and `Shut` are final states.
    fn go<T>(&self, next: Latest, step: impl FnOnce() -> T) -> T {
        let mut done = None;
        self.latest.send_modify(|latest| {
            match *latest {
                Latest::Version(_) | Latest::Deleting => *latest = next,
                Latest::Gone | Latest::Shut => {}
            }
            done = Some(step());
        });
        done.expect("the step was taken")
    }
}
