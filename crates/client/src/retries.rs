//! When to try again by itself, and after how long.

use std::time::Duration;

use windlass_api::Code;

use crate::error::{ClientError, Outcome};

/// How often, and for how long, a call is tried again whose failure is known to have changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    /// How often a call is sent at most, the first time included.
    pub attempts_max: u32,
    /// The pause before the second attempt, about; each one after that is twice as long.
    pub delay_initial: Duration,
    /// No pause is longer, unless the server asks for it.
    pub delay_max: Duration,
    /// No attempt begins later than this after the first.
    pub total_max: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Self {
            attempts_max: 6,
            delay_initial: Duration::from_millis(100),
            delay_max: Duration::from_secs(5),
            total_max: Duration::from_secs(30),
        }
    }
}

impl Retries {
    /// Every failure is the caller's at once.
    pub const NONE: Self = Self {
        attempts_max: 1,
        delay_initial: Duration::ZERO,
        delay_max: Duration::ZERO,
        total_max: Duration::ZERO,
    };

    /// The pause before the next attempt: none if there shall be none.
    ///
    /// `attempts` were made, the first of them `spent` ago; `jitter` is between 0 and 1.
    pub(crate) fn pause(
        &self,
        attempts: u32,
        spent: Duration,
        error: &ClientError,
        jitter: f64,
    ) -> Option<Duration> {
        let pause = backoff(self.delay_initial, self.delay_max, attempts, jitter) + asked_pause(error);
        let within = attempts < self.attempts_max && spent + pause <= self.total_max;
        within.then_some(pause)
    }
}

/// Twice as long after each attempt, and spread over the upper half, so that many clients do not come back as one.
fn backoff(initial: Duration, max: Duration, attempts: u32, jitter: f64) -> Duration {
    let doublings = attempts.saturating_sub(1).min(31);
    let whole = initial.saturating_mul(1 << doublings).min(max);
    whole.mul_f64(0.5 + jitter / 2.0)
}

/// The spread comes on top of what the server asks for: it asks everyone for the same.
fn asked_pause(error: &ClientError) -> Duration {
    if let ClientError::Refused { retry_after: Some(pause), .. } = error { *pause } else { Duration::ZERO }
}

/// Whether sending again does no harm and may help.
pub(crate) fn worth_another(error: &ClientError, repeatable: bool) -> bool {
    let harmless = repeatable || error.outcome() == Outcome::NotApplied;
    harmless && may_pass(error)
}

/// Whether it is a trouble of the moment.
fn may_pass(error: &ClientError) -> bool {
    match error {
        ClientError::Unreachable { .. } | ClientError::Interrupted { .. } | ClientError::Timeout { .. } => {
            true
        }
        // The caller said how long to try, and that time is over.
        ClientError::Refused { code: crate::RefusalCode::Known(Code::Timeout), .. } => false,
        ClientError::Refused { status, .. } => *status == 429 || *status >= 500,
        ClientError::BadReply { status, .. } => (502..=504).contains(status),
        ClientError::BadUrl { .. } | ClientError::BadPayload(_) => false,
    }
}
