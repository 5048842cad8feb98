//! Handlers as the worker sees them: all alike, whatever they take and give.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass_api::payload::Payload;

use super::failure::Failure;
use super::work::Work;
use crate::payload::PayloadError;

/// What came out.
pub(super) type Outcome = Result<Option<Payload>, Failure>;

type Handling = Pin<Box<dyn Future<Output = Outcome> + Send>>;

#[derive(Clone)]
pub(super) struct Handler(Arc<dyn Fn(Work<Payload>) -> Handling + Send + Sync>);

impl Handler {
    pub(super) fn raw<F, E>(handler: impl Fn(Work<Payload>) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Option<Payload>, E>> + Send + 'static,
        E: Into<Failure>,
    {
        Self(Arc::new(move |work| {
            let handling = handler(work);
            Box::pin(async move { handling.await.map_err(Into::into) })
        }))
    }

    pub(super) fn typed<T, R, E, F>(handler: impl Fn(Work<T>) -> F + Send + Sync + 'static) -> Self
    where
        T: DeserializeOwned,
        R: Serialize,
        E: Into<Failure>,
        F: Future<Output = Result<R, E>> + Send + 'static,
    {
        Self(Arc::new(move |work| match work.parsed() {
            Ok(work) => {
                let handling = handler(work);
                Box::pin(async move { written(&handling.await.map_err(Into::into)?) })
            }
            Err(error) => Box::pin(std::future::ready(Err(Failure::bad_payload(&error)))),
        }))
    }

    pub(super) async fn handle(self, work: Work<Payload>) -> Outcome {
        (self.0)(work).await
    }
}

/// Nothing is no result: an item with one is kept for the queue's retention, and one without may be forgotten at once.
fn written(result: &impl Serialize) -> Outcome {
    let written = Payload::from_json(result).map_err(PayloadError::NotWritten);
    let payload = written.map_err(|error| Failure::bad_result(&error))?;
    Ok(Some(payload).filter(|payload| payload.json.as_deref() != Some("null")))
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handler").finish_non_exhaustive()
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Handlers {
    pub(super) by_kind: BTreeMap<String, Handler>,
    pub(super) others: Option<Handler>,
}

impl Handlers {
    pub(super) fn of(&self, kind: &str) -> Option<Handler> {
        self.by_kind.get(kind).or(self.others.as_ref()).cloned()
    }

    /// Those to be asked for; any kind if none.
    pub(super) fn kinds(&self) -> Option<Vec<String>> {
        self.others.is_none().then(|| self.by_kind.keys().cloned().collect())
    }
}
