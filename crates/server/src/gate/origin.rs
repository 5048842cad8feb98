//! Origins: where web pages come from.

use std::fmt;
use std::str::FromStr;

use super::host::{Authority, Host, Unreadable};

pub(super) const HTTP: &str = "http";
pub(super) const HTTPS: &str = "https";

/// Scheme, host and port of a web page, as browsers send it in `Origin`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// In lower case.
    scheme: String,
    /// Without the port that the scheme has anyway.
    authority: Authority,
}

impl Origin {
    pub fn new(scheme: &str, authority: Authority) -> Self {
        let port = authority.port.filter(|port| Some(*port) != default_port(scheme));
        Self { scheme: scheme.to_owned(), authority: Authority { port, ..authority } }
    }

    pub fn host(&self) -> &Host {
        &self.authority.host
    }

    /// Whether a server can have it, rather than a browser's extension.
    pub fn is_web(&self) -> bool {
        [HTTP, HTTPS].contains(&self.scheme.as_str())
    }
}

fn default_port(scheme: &str) -> Option<u16> {
    match scheme {
        HTTP => Some(80),
        HTTPS => Some(443),
        _ => None,
    }
}

impl FromStr for Origin {
    type Err = Unreadable;

    /// `https://queue.example:8443`; `null` is none.
    fn from_str(text: &str) -> Result<Self, Unreadable> {
        let (scheme, authority) = text.split_once("://").ok_or(Unreadable)?;
        let is_of_scheme = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        if !scheme.starts_with(|first: char| first.is_ascii_alphabetic()) || !scheme.bytes().all(is_of_scheme)
        {
            return Err(Unreadable);
        }
        Ok(Self::new(&scheme.to_ascii_lowercase(), authority.parse()?))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme, self.authority)
    }
}
