//! The gate before routing, for pages and calls alike: which hosts, origins and proxies a request may come by.
//!
//! There are no keys yet, so whoever reaches the server may read and change everything. Three kinds of requests reach a
//! server although nobody meant to let them in:
//! - those of a web page whose name was made to lead here (DNS rebinding): `Host` tells them;
//! - those of a web page of another origin in an operator's browser: `Origin` and `Sec-Fetch-Site` tell them;
//! - those that a proxy passes on from machines that cannot connect themselves: `Forwarded` and `X-Forwarded-For` tell them.
//!
//! Read [`Gate::check`] first. `cors` lets pages of `allowed_origins` read replies.

mod cors;
mod host;
mod network;
mod origin;

use std::net::IpAddr;

use http::header::{FORWARDED, HOST, ORIGIN};
use http::{HeaderMap, HeaderName, Method, Uri};

pub use self::cors::Sharing;
pub use self::host::{Authority, Host, HostPattern, Unreadable};
pub use self::network::Network;
pub use self::origin::Origin;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
/// `Sec-Fetch-Site` of a request by a page of another site.
pub const CROSS_SITE: &str = "cross-site";
/// A refusal repeats only so much of what the request says.
const TOLD_CHARS_MAX: usize = 200;
const NAVIGATE: &str = "navigate";

/// What may pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// Whether only this machine can connect.
    pub is_loopback: bool,
    /// Where browsers find the server, if not where it listens.
    pub public_url: Option<Origin>,
    pub allowed_hosts: Vec<HostPattern>,
    pub allowed_origins: Vec<Origin>,
    pub trusted_proxies: Vec<Network>,
}

/// What the gate looks at.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    pub method: &'a Method,
    pub target: &'a Uri,
    pub headers: &'a HeaderMap,
    /// Who is connected; `None` if that is not known, which is nobody to trust.
    pub peer: Option<IpAddr>,
}

/// Why a request did not pass. The message is for its sender.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error(transparent)]
    BadHost(#[from] BadHost),
    #[error(
        "this server does not answer to the host `{0}`: ask it as `localhost` or by its address, or have the host added to \
         `allowed_hosts` in its configuration"
    )]
    Host(Host),
    #[error(
        "a web page of the origin `{0}` may not call this server: have the origin added to `allowed_origins` in its \
         configuration; one under which the server itself is published belongs into `public_url`"
    )]
    Origin(String),
    #[error(
        "a web page of another site may not ask for this: have its origin added to `allowed_origins` in the configuration \
         of the server, and let the page send `Origin` (fetch with mode `cors`)"
    )]
    CrossSite,
    #[error(
        "the request has `{header}`, so a proxy passed it on, and the server has no keys to tell who may come from there: \
         have the address of the proxy{} added to `trusted_proxies` in its configuration",
        .peer.map(|peer| format!(" ({peer})")).unwrap_or_default()
    )]
    Forwarded { header: HeaderName, peer: Option<IpAddr> },
}

impl Refused {
    fn origin(text: &str) -> Self {
        Self::Origin(text.chars().take(TOLD_CHARS_MAX).collect())
    }
}

/// A `Host` that tells nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadHost {
    #[error("the header `Host` must be set to the host of the server, in HTTP/1.0 too")]
    Missing,
    #[error("the header `Host` must be sent once")]
    Repeated,
    #[error("`Host` must be a name or an address, with a port or without, such as `127.0.0.1:9463`")]
    Unreadable,
    #[error("`Host` must be the host and the port that the request line names")]
    OtherThanTarget,
}

impl Gate {
    /// In the order in which refusals win: `Host` unreadable, host, origin, proxy.
    pub fn check(&self, asked: Asked<'_>) -> Result<(), Refused> {
        let authority = authority(asked)?;
        if !self.answers_to(&authority.host) {
            return Err(Refused::Host(authority.host));
        }
        self.check_origin(asked, authority)?;
        self.check_proxy(asked)
    }

    fn answers_to(&self, host: &Host) -> bool {
        let is_here = match host {
            Host::Name(_) => host.is_localhost(),
            Host::Address(address) => !self.is_loopback || address.is_loopback(),
        };
        is_here || self.is_public(host) || self.allowed_hosts.iter().any(|allowed| allowed.matches(host))
    }

    fn is_public(&self, host: &Host) -> bool {
        self.public_url.as_ref().is_some_and(|public| public.host() == host)
    }

    fn check_origin(&self, asked: Asked<'_>, authority: Authority) -> Result<(), Refused> {
        match stated_origin(asked.headers)? {
            Some(origin) if self.is_own(&origin, authority) || self.allowed_origins.contains(&origin) => {
                Ok(())
            }
            Some(origin) => Err(Refused::origin(&origin.to_string())),
            None if is_cross_site(asked.headers) && !is_navigation_to_page(asked) => Err(Refused::CrossSite),
            None => Ok(()),
        }
    }

    /// The server speaks plain HTTP: only `public_url` can make it `https`.
    fn is_own(&self, origin: &Origin, authority: Authority) -> bool {
        self.public_url.as_ref() == Some(origin) || *origin == Origin::new(origin::HTTP, authority)
    }

    fn check_proxy(&self, asked: Asked<'_>) -> Result<(), Refused> {
        let forwarding =
            [FORWARDED, X_FORWARDED_FOR].into_iter().find(|name| asked.headers.contains_key(name));
        match forwarding {
            Some(header) if !self.trusts(asked.peer) => Err(Refused::Forwarded { header, peer: asked.peer }),
            Some(_) | None => Ok(()),
        }
    }

    fn trusts(&self, peer: Option<IpAddr>) -> bool {
        peer.is_some_and(|peer| self.trusted_proxies.iter().any(|network| network.contains(peer)))
    }
}

/// Which server the request is for.
fn authority(asked: Asked<'_>) -> Result<Authority, BadHost> {
    let mut hosts = asked.headers.get_all(HOST).iter();
    let host = hosts.next().filter(|host| !host.is_empty()).ok_or(BadHost::Missing)?;
    if hosts.next().is_some() {
        return Err(BadHost::Repeated);
    }
    let host = host.to_str().map_err(|_| BadHost::Unreadable)?;
    let host: Authority = host.parse().map_err(|Unreadable| BadHost::Unreadable)?;
    match asked.target.authority() {
        Some(target) if !is_same(&host, target.as_str(), asked.target.scheme_str()) => {
            Err(BadHost::OtherThanTarget)
        }
        Some(_) | None => Ok(host),
    }
}

fn is_same(host: &Authority, target: &str, scheme: Option<&str>) -> bool {
    let scheme = scheme.unwrap_or(origin::HTTP);
    let target = target.parse().map(|target| Origin::new(scheme, target));
    target == Ok(Origin::new(scheme, host.clone()))
}

/// What `Origin` says; `Err` if that is `null` or cannot be read.
fn stated_origin(headers: &HeaderMap) -> Result<Option<Origin>, Refused> {
    let mut origins = headers.get_all(ORIGIN).iter();
    let Some(first) = origins.next() else { return Ok(None) };
    let text = String::from_utf8_lossy(first.as_bytes());
    match (text.parse(), origins.next()) {
        (Ok(origin), None) => Ok(Some(origin)),
        (Ok(_) | Err(Unreadable), _) => Err(Refused::origin(&text)),
    }
}

fn is_cross_site(headers: &HeaderMap) -> bool {
    headers
        .get_all(SEC_FETCH_SITE)
        .iter()
        .any(|site| site.as_bytes().eq_ignore_ascii_case(CROSS_SITE.as_bytes()))
}

/// A link to a page of the server: the other site sees nothing of it.
fn is_navigation_to_page(asked: Asked<'_>) -> bool {
    let path = asked.target.path();
    let is_page = path != "/v1" && !path.starts_with("/v1/") && path != "/metrics";
    let navigates = asked.headers.get(SEC_FETCH_MODE).is_some_and(|mode| mode == NAVIGATE);
    is_page && navigates && asked.method == Method::GET
}
