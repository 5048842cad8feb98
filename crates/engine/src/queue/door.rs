//! The door that everything produced comes through. It is closed while the queue is about to be deleted, so that what
//! was found empty stays so.

use tokio::sync::watch;
use windlass_core::command::Refusal;

use crate::error::EngineError;

#[derive(Debug)]
pub(crate) struct Door {
    state: watch::Sender<State>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// For a while: who comes waits.
    Closed,
    /// The queue was deleted.
    Gone,
    /// The server shuts down.
    Shut,
}

impl Default for Door {
    fn default() -> Self {
        Self { state: watch::Sender::new(State::Open) }
    }
}

impl Door {
    /// Steps through once the door is open, and nobody closes it meanwhile.
    pub(crate) async fn pass<T>(&self, step: impl FnOnce() -> T) -> Result<T, EngineError> {
        let mut step = Some(step);
        if let Some(passed) = self.try_pass(&mut step) {
            return passed;
        }
        let mut states = self.state.subscribe();
        loop {
            let decided = states.wait_for(|state| *state != State::Closed).await.is_ok();
            assert!(decided, "the sender is ours");
            if let Some(passed) = self.try_pass(&mut step) {
                return passed;
            }
        }
    }

    /// Nothing while the door is closed.
    fn try_pass<T>(&self, step: &mut Option<impl FnOnce() -> T>) -> Option<Result<T, EngineError>> {
        // Held while stepping through: closing waits for it.
        let state = self.state.borrow();
        match *state {
            State::Open => step.take().map(|step| Ok(step())),
            State::Closed => None,
            State::Gone => Some(Err(Refusal::NoSuchQueue.into())),
            State::Shut => Some(Err(EngineError::not_applied("shutting down"))),
        }
    }

    /// From here on nobody steps through.
    pub(crate) fn close(&self) -> Result<(), EngineError> {
        self.go(State::Closed);
        match *self.state.borrow() {
            State::Open | State::Closed => Ok(()),
            State::Gone => Err(Refusal::NoSuchQueue.into()),
            State::Shut => Err(EngineError::not_applied("shutting down")),
        }
    }

    pub(crate) fn open(&self) {
        self.go(State::Open);
    }

    pub(crate) fn gone(&self) {
        self.go(State::Gone);
    }

    pub(crate) fn shut(&self) {
        self.go(State::Shut);
    }

    /// Whoever is told that the queue is gone, or the server about to be, is told so for good.
    fn go(&self, next: State) {
        self.state.send_if_modified(|state| {
            let moves = match *state {
                State::Open | State::Closed => *state != next,
                State::Gone | State::Shut => false,
            };
            if moves {
                *state = next;
            }
            moves
        });
    }
}
