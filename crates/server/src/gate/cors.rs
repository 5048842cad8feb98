//! What lets pages of `allowed_origins` call the server and read its replies. Never all origins, and never with
//! credentials.

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::{HeaderMap, HeaderValue, Method};

use super::{Asked, Gate, stated_origin};

const METHODS: &str = "GET, POST";
/// Those that calls and streams look at.
const REQUEST_HEADERS: &str = "accept, content-type, last-event-id";
const REPLY_HEADERS: &str = "windlass-request-id, windlass-commit, retry-after";
/// Seconds for which a browser need not ask again.
const MAX_AGE: &str = "600";

/// Who may read the reply to a request, beside pages of the server itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sharing {
    /// One of `allowed_origins`, as the request states it.
    origin: Option<HeaderValue>,
    /// Whether a reply differs by origin, so that caches must keep them apart.
    varies: bool,
}

impl Gate {
    pub fn sharing(&self, headers: &HeaderMap) -> Sharing {
        let is_allowed =
            matches!(stated_origin(headers), Ok(Some(origin)) if self.allowed_origins.contains(&origin));
        let origin = headers.get(ORIGIN).filter(|_| is_allowed).cloned();
        Sharing { origin, varies: !self.allowed_origins.is_empty() }
    }
}

impl Sharing {
    /// Whether a browser asks if a page may make a call. A request that passed the gate is one only of `allowed_origins`.
    pub fn is_preflight(&self, asked: Asked<'_>) -> bool {
        let asks = asked.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        self.origin.is_some() && asks && asked.method == Method::OPTIONS
    }

    /// What the reply to a preflight says besides.
    pub fn permit(headers: &mut HeaderMap) {
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS));
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(REQUEST_HEADERS));
        headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(MAX_AGE));
    }

    /// What every reply says.
    pub fn mark(self, headers: &mut HeaderMap) {
        if self.varies {
            headers.append(VARY, HeaderValue::from_static("Origin"));
        }
        if let Some(origin) = self.origin {
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(REPLY_HEADERS));
        }
    }
}
