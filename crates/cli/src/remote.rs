//! Talking to a server, and what to say when that fails.

use std::time::Duration;

use indicatif::ProgressBar;
use windlass_api::error::{Details, Error, NOT_APPLIED};
use windlass_api::service::BackupRequest;
use windlass_api::{Call, Code, DEFAULT_ADDRESS};
use windlass_client::{Client, ClientError, Outcome, RefusalCode, Retries};

use crate::args::{Encoding, Global};
use crate::exit::{Exit, Failure, Why};
use crate::human::excerpt;
use crate::output::Output;

/// The server that was named, and how to speak with it.
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    client: Client,
    patient: Client,
    watching: Client,
}

impl Remote {
    pub(crate) fn new(global: &Global) -> Result<Self, Failure> {
        let url = global.url().unwrap_or_else(|| format!("http://{DEFAULT_ADDRESS}"));
        let builder = Client::builder(&url).encoding(global.encoding().into());
        let client = builder.clone().retries(Retries::NONE).build()?;
        let told_at_once = Retries { total_max: Duration::ZERO, ..Retries::default() };
        let watching = builder.clone().retries(told_at_once).build()?;
        Ok(Self { client, patient: builder.build()?, watching })
    }

    /// For a person who waits: whatever goes wrong is told at once.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// For long work: what cannot have happened is tried again for a while.
    pub(crate) fn patient(&self) -> &Client {
        &self.patient
    }

    /// For streams that somebody watches: whatever goes wrong is told at once, and who asks again is paced.
    pub(crate) fn watching(&self) -> &Client {
        &self.watching
    }

    pub(crate) async fn call<C: Call>(&self, request: &C) -> Result<C::Reply, Failure> {
        self.client.call(request).await.map_err(|error| failed(request, error))
    }
}

/// The pages of a long call. A failure of the first page is told at once; from then on, what cannot have happened is tried again for
/// a while, and that is told.
#[derive(Debug)]
pub(crate) struct LongCall<'a> {
    remote: &'a Remote,
    out: Output,
    bar: ProgressBar,
    begun: bool,
}

impl<'a> LongCall<'a> {
    /// `bar` makes room for what is told.
    pub(crate) fn new(remote: &'a Remote, out: Output, bar: ProgressBar) -> Self {
        Self { remote, out, bar, begun: false }
    }

    pub(crate) async fn call<C: Call>(&mut self, request: &C) -> Result<C::Reply, ClientError> {
        let error = match self.remote.client.call(request).await {
            Ok(reply) => {
                self.begun = true;
                return Ok(reply);
            }
            Err(error) => error,
        };
        if !self.begun || !error.may_pass() || error.outcome() != Outcome::NotApplied {
            return Err(error);
        }
        self.bar.suspend(|| self.out.talk(&format!("trying again: {}", described(&error))));
        self.remote.patient.call(request).await
    }
}

/// What to say of a call that failed.
pub(crate) fn failed<C: Call>(request: &C, error: ClientError) -> Failure {
    let mut failure = Failure::from(error);
    // A backup changes no item, yet one may be there now.
    let changes = C::CHANGES || C::NAME == BackupRequest::NAME;
    if failure.exit == Exit::Unknown && !changes {
        failure = nothing_done(failure);
    }
    if let Why::Server(error) = &mut failure.why
        && let Some(message) = not_found(error, request)
    {
        error.message = message;
    }
    failure
}

/// A message for `not_found` that says what to do about it, in words of this program.
fn not_found<C: Call>(error: &Error, request: &C) -> Option<String> {
    let details = error.details.as_ref().filter(|_| error.code == Code::NotFound.as_str())?;
    match details {
        Details { address: Some(_), .. } | Details { partition: Some(_), .. } => None,
        Details { queue: Some(queue), .. } => {
            Some(format!("no queue `{queue}`: make it with `windlass queue create {queue}`"))
        }
        Details { group: Some(group), .. } => {
            let queue = queue_of(request)?;
            Some(format!(
                "no group `{group}` in {queue}: make it with `windlass group create {queue} {group}`"
            ))
        }
        Details { cron: Some(cron), .. } => {
            Some(format!("no cron `{cron}`: make it with `windlass cron create {cron}`"))
        }
        Details { .. } => None,
    }
}

/// What to say when reading failed: that changes nothing.
pub(crate) fn not_read(error: ClientError) -> Failure {
    let failure = Failure::from(error);
    if failure.exit == Exit::Unknown { nothing_done(failure) } else { failure }
}

/// The failure of a reading call: its outcome is `not_applied`, even if the server answered `unknown`.
fn nothing_done(failure: Failure) -> Failure {
    match failure.why {
        Why::Own(error) => Failure::new(Exit::Unreachable, error.message),
        Why::Server(error) => {
            let outcome = Some(NOT_APPLIED.to_owned());
            let details = Some(Details { outcome, ..error.details.clone().unwrap_or_default() });
            let error = Error { details, message: NOTHING_DONE.to_owned(), ..*error };
            Failure { exit: Exit::Unreachable, why: Why::Server(Box::new(error)) }
        }
        Why::NobodyListens => Failure { exit: Exit::Unreachable, ..failure },
    }
}

const NOTHING_DONE: &str = "the server could not do it now, and nothing was changed: try again a little later. The server's \
                            log tells why";

/// Every request about a group has the group's queue in a field of this name.
fn queue_of<C: Call>(request: &C) -> Option<String> {
    let fields = serde_json::to_value(request).ok()?;
    Some(fields.get("queue")?.as_str()?.to_owned())
}

impl From<Encoding> for windlass_client::Encoding {
    fn from(encoding: Encoding) -> Self {
        match encoding {
            Encoding::Json => Self::Json,
            Encoding::Protobuf => Self::Protobuf,
        }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let exit = exit_of(&error);
        let ClientError::Refused { code, message, details, .. } = error else {
            return Self::new(exit, message_of(&error));
        };
        let details = (*details != Details::default()).then_some(*details);
        let error = Error { code: code.as_str().into(), message, details };
        Self { exit, why: Why::Server(Box::new(error)) }
    }
}

fn exit_of(error: &ClientError) -> Exit {
    match error {
        _ if error.outcome() == Outcome::Unknown => Exit::Unknown,
        ClientError::BadUrl { .. } => Exit::Usage,
        ClientError::Refused { code, details, .. } if !passing(code) || details.limit.is_some() => {
            Exit::Refused
        }
        ClientError::BadPayload(_) => Exit::Refused,
        ClientError::Unreachable { .. }
        | ClientError::Refused { .. }
        | ClientError::Interrupted { .. }
        | ClientError::Timeout { .. }
        | ClientError::StreamLost { .. }
        | ClientError::BadReply { .. } => Exit::Unreachable,
    }
}

/// Not the request is wrong, but the moment.
fn passing(code: &RefusalCode) -> bool {
    [Code::Overloaded, Code::Unavailable, Code::Timeout, Code::Internal].iter().any(|known| code == known)
}

/// What went wrong, for people.
pub(crate) fn described(error: &ClientError) -> String {
    if let ClientError::Refused { code, message, .. } = error {
        return excerpt(&format!("{message} ({code})"), usize::MAX);
    }
    message_of(error)
}

fn message_of(error: &ClientError) -> String {
    match error {
        ClientError::Unreachable { url, reason } => format!(
            "cannot reach {url}: {reason}. Is the server running? Start it with `windlass serve`, or name another \
             with --url"
        ),
        ClientError::Refused { .. }
        | ClientError::Interrupted { .. }
        | ClientError::Timeout { .. }
        | ClientError::StreamLost { .. }
        | ClientError::BadReply { .. }
        | ClientError::BadUrl { .. }
        | ClientError::BadPayload(_) => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use windlass_api::error::UNKNOWN;
    use windlass_api::queues::CreateQueueRequest;
    use windlass_api::storage::ReloadQueueRequest;

    use super::*;

    fn refused(code: Code, details: Details) -> ClientError {
        ClientError::Refused {
            code: code.as_str().to_owned().into(),
            message: "it may or may not have been done".to_owned(),
            details: Box::new(details),
            status: code.status(),
            request_id: None,
            retry_after: None,
        }
    }

    fn unknown() -> ClientError {
        refused(Code::Unavailable, Details { outcome: Some(UNKNOWN.to_owned()), ..Details::default() })
    }

    #[test]
    fn a_call_that_changes_nothing_is_never_told_to_have_an_unknown_outcome() {
        let failure = failed(&ReloadQueueRequest::default(), unknown());
        assert_eq!(failure.exit, Exit::Unreachable);
        let error = failure.as_error().expect("there is something to tell");
        assert!(error.message.contains("nothing was changed"), "{}", error.message);
        let details = error.details.expect("the outcome is told");
        assert_eq!(details.outcome.as_deref(), Some(NOT_APPLIED));
    }

    #[test]
    fn a_change_with_an_unknown_outcome_is_told_so_in_words_and_by_the_exit_code() {
        let failure = failed(&CreateQueueRequest::default(), unknown());
        assert_eq!(failure.exit, Exit::Unknown);
        assert!(failure.to_string().contains("may or may not have been done"), "{failure}");
    }

    #[test]
    fn a_limit_of_the_server_is_a_refusal_and_no_trouble_of_the_moment() {
        let at_a_limit = Details { limit: Some("limits.queues".to_owned()), ..Details::default() };
        assert_eq!(
            failed(&CreateQueueRequest::default(), refused(Code::Overloaded, at_a_limit)).exit,
            Exit::Refused
        );
        let busy = refused(Code::Overloaded, Details::default());
        assert_eq!(failed(&CreateQueueRequest::default(), busy).exit, Exit::Unreachable);
    }
}
