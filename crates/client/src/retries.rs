//! When to try again without being asked, and after how long.

use std::time::Duration;

use tokio::time::{Instant, sleep};
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
            // The time rules: as many as fit.
            attempts_max: u32::MAX,
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

    /// Tries until it is answered, or until trying again is unsafe, useless, or has gone on for long enough.
    ///
    /// What is `repeatable` may be sent again although it may have been done.
    pub(crate) async fn persist<T, F>(
        &self,
        repeatable: bool,
        attempt: impl Fn() -> F,
    ) -> Result<T, ClientError>
    where
        F: Future<Output = Result<T, ClientError>>,
    {
        let begun = Instant::now();
        let mut attempts = 0;
        loop {
            let error = match attempt().await {
                Ok(answer) => return Ok(answer),
                Err(error) if !worth_another(&error, repeatable) => return Err(error),
                Err(error) => error,
            };
            attempts += 1;
            let pause = self.backoff(attempts, fastrand::f64()).saturating_add(asked_pause(&error));
            if attempts >= self.attempts_max || begun.elapsed().saturating_add(pause) > self.total_max {
                return Err(error);
            }
            sleep(pause).await;
        }
    }

    /// Twice as long after each attempt, and spread over the upper half, so that many clients do not come back as one.
    /// `jitter` is between 0 and 1.
    pub(crate) fn backoff(&self, attempts: u32, jitter: f64) -> Duration {
        let doublings = attempts.saturating_sub(1).min(31);
        let half = self.delay_initial.saturating_mul(1 << doublings).min(self.delay_max) / 2;
        half + half.mul_f64(jitter)
    }
}

/// The spread comes on top of what the server asks for: it asks everyone for the same.
pub(crate) fn asked_pause(error: &ClientError) -> Duration {
    if let ClientError::Refused { retry_after: Some(pause), .. } = error { *pause } else { Duration::ZERO }
}

/// Whether sending again does no harm and may help.
fn worth_another(error: &ClientError, repeatable: bool) -> bool {
    let harmless = repeatable || error.outcome() == Outcome::NotApplied;
    harmless && may_pass(error)
}

/// Whether it is a trouble of the moment.
fn may_pass(error: &ClientError) -> bool {
    match error {
        ClientError::Unreachable { .. }
        | ClientError::Interrupted { .. }
        | ClientError::Timeout { .. }
        | ClientError::StreamLost { .. } => true,
        // A limit that an operator set: it is the same the next time.
        ClientError::Refused { details, .. } if details.limit.is_some() => false,
        // The caller said how long to try, and that time is over.
        ClientError::Refused { code, .. } if *code == Code::Timeout => false,
        ClientError::Refused { status, .. } => *status == 429 || *status >= 500,
        // A proxy that could not reach the server.
        ClientError::BadReply { status, .. } => (502..=504).contains(status),
        ClientError::BadUrl { .. } | ClientError::BadPayload(_) => false,
    }
}

/// The same for whoever goes on trying, as long as it takes: also what was not done within one call's time.
pub(crate) fn may_pass_some_day(error: &ClientError) -> bool {
    may_pass(error) || matches!(error, ClientError::Refused { code, .. } if *code == Code::Timeout)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use windlass_api::error::{Details, NOT_APPLIED, UNKNOWN};

    use super::*;

    const AT_ONCE: Retries = Retries { attempts_max: 4, total_max: Duration::from_secs(60), ..Retries::NONE };

    fn unreachable() -> ClientError {
        ClientError::Unreachable { url: "http://there".to_owned(), reason: "refused".to_owned() }
    }

    fn interrupted() -> ClientError {
        ClientError::Interrupted {
            url: "http://there".to_owned(),
            reason: "reset".to_owned(),
            outcome: Outcome::Unknown,
        }
    }

    fn refused(code: Code, outcome: Option<&str>, retry_after: Option<Duration>) -> ClientError {
        ClientError::Refused {
            code: code.as_str().to_owned().into(),
            message: "no".to_owned(),
            details: Box::new(Details { outcome: outcome.map(str::to_owned), ..Details::default() }),
            status: code.status(),
            request_id: None,
            retry_after,
        }
    }

    async fn attempts(retries: Retries, repeatable: bool, error: impl Fn() -> ClientError) -> u32 {
        let attempts = Cell::new(0);
        let attempt = async || {
            attempts.set(attempts.get() + 1);
            Err::<(), _>(error())
        };
        retries.persist(repeatable, attempt).await.expect_err("it never goes well");
        attempts.get()
    }

    #[test]
    fn the_backoff_doubles_up_to_its_maximum_within_the_upper_half() {
        let retries = Retries {
            delay_initial: Duration::from_millis(100),
            delay_max: Duration::from_secs(1),
            ..Retries::default()
        };
        let shortest = [50, 100, 200, 400, 500, 500].map(Duration::from_millis);
        let longest = [100, 200, 400, 800, 1000, 1000].map(Duration::from_millis);
        let delays = |jitter| [1, 2, 3, 4, 5, u32::MAX].map(|attempts| retries.backoff(attempts, jitter));
        assert_eq!(delays(0.0), shortest);
        assert_eq!(delays(1.0), longest);
    }

    #[test]
    fn the_backoff_of_absurd_settings_does_not_overflow() {
        let retries =
            Retries { delay_initial: Duration::MAX, delay_max: Duration::MAX, ..Retries::default() };
        assert!(retries.backoff(u32::MAX, 1.0) > Duration::from_secs(1 << 62));
    }

    #[tokio::test]
    async fn what_was_not_sent_is_tried_as_often_as_allowed() {
        assert_eq!(attempts(AT_ONCE, false, unreachable).await, 4);
        assert_eq!(attempts(Retries::NONE, false, unreachable).await, 1);
    }

    #[tokio::test]
    async fn what_may_have_been_done_is_tried_again_only_if_it_is_repeatable() {
        assert_eq!(attempts(AT_ONCE, false, interrupted).await, 1);
        assert_eq!(attempts(AT_ONCE, true, interrupted).await, 4);
        let unknown = || refused(Code::Unavailable, Some(UNKNOWN), None);
        assert_eq!(attempts(AT_ONCE, false, unknown).await, 1);
        assert_eq!(attempts(AT_ONCE, true, unknown).await, 4);
    }

    #[tokio::test]
    async fn a_refusal_is_final_unless_it_is_of_the_moment() {
        let overloaded = || refused(Code::Overloaded, None, None);
        let not_applied = || refused(Code::Unavailable, Some(NOT_APPLIED), None);
        let out_of_time = || refused(Code::Timeout, Some(NOT_APPLIED), None);
        assert_eq!(attempts(AT_ONCE, false, overloaded).await, 4);
        assert_eq!(attempts(AT_ONCE, false, not_applied).await, 4);
        assert_eq!(attempts(AT_ONCE, true, out_of_time).await, 1);
        assert!(may_pass_some_day(&out_of_time()), "who has more time than one call goes on");
        assert!(!may_pass_some_day(&refused(Code::NotFound, None, None)));
        assert_eq!(attempts(AT_ONCE, true, || refused(Code::NotFound, None, None)).await, 1);
    }

    #[tokio::test]
    async fn what_a_limit_of_the_server_forbids_is_not_sent_again() {
        let at_a_limit = || {
            let mut error = refused(Code::Overloaded, None, None);
            if let ClientError::Refused { details, .. } = &mut error {
                details.limit = Some("limits.queues".to_owned());
            }
            error
        };
        assert_eq!(attempts(AT_ONCE, true, at_a_limit).await, 1);
        assert!(!may_pass_some_day(&at_a_limit()));
    }

    #[tokio::test]
    async fn who_is_asked_to_stay_away_for_longer_than_allowed_gives_up_at_once() {
        for pause in [Duration::from_secs(61), Duration::MAX] {
            assert_eq!(attempts(AT_ONCE, false, || refused(Code::Overloaded, None, Some(pause))).await, 1);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_pause_is_as_long_as_the_server_asks() {
        let begun = Instant::now();
        let asked = Some(Duration::from_secs(7));
        assert_eq!(attempts(AT_ONCE, false, || refused(Code::Overloaded, None, asked)).await, 4);
        assert_eq!(begun.elapsed(), Duration::from_secs(21));
    }

    #[tokio::test(start_paused = true)]
    async fn by_default_it_is_tried_for_the_total_time_and_no_longer() {
        let retries = Retries::default();
        let begun = Instant::now();
        assert!(attempts(retries, false, unreachable).await > 10);
        let took = begun.elapsed();
        assert!(took >= retries.total_max - retries.delay_max, "gave up after {took:?}");
        // The timer counts in milliseconds.
        assert!(took <= retries.total_max + Duration::from_millis(1), "went on for {took:?}");
    }
}
