//! Hosts as requests and settings name them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Of DNS.
const NAME_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;

/// The text is not what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it cannot be read")]
pub struct Unreadable;

/// A host without its port. Two hosts are equal if they lead to the same place: case and a final dot do not count, and an
/// IPv4-mapped address is the IPv4 address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// In lower case, without a final dot.
    Name(String),
    Address(IpAddr),
}

impl Host {
    pub fn is_localhost(&self) -> bool {
        match self {
            Self::Name(name) => name == "localhost",
            Self::Address(_) => false,
        }
    }
}

impl FromStr for Host {
    type Err = Unreadable;

    /// `queue.example`, `127.0.0.1` or `[::1]`.
    fn from_str(text: &str) -> Result<Self, Unreadable> {
        if let Some(bracketed) = text.strip_prefix('[') {
            let address = bracketed.strip_suffix(']').ok_or(Unreadable)?;
            let address: Ipv6Addr = address.parse().map_err(|_| Unreadable)?;
            return Ok(Self::Address(address.to_canonical()));
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        match name.parse::<Ipv4Addr>() {
            Ok(address) => Ok(Self::Address(address.into())),
            Err(_) if is_name(name) => Ok(Self::Name(name.to_ascii_lowercase())),
            Err(_) => Err(Unreadable),
        }
    }
}

fn is_name(name: &str) -> bool {
    name.len() <= NAME_BYTES_MAX && name.split('.').all(is_label)
}

fn is_label(label: &str) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=LABEL_BYTES_MAX).contains(&label.len()) && label.bytes().all(is_of_name)
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => address.fmt(f),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

/// A host and, if it is stated, a port: what `Host` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    pub host: Host,
    pub port: Option<u16>,
}

impl FromStr for Authority {
    type Err = Unreadable;

    fn from_str(text: &str) -> Result<Self, Unreadable> {
        let (host, port) = match text.rsplit_once(':') {
            // A colon before the closing bracket belongs to the address.
            Some((host, port)) if !port.ends_with(']') => (host, port),
            Some(_) | None => (text, ""),
        };
        Ok(Self { host: host.parse()?, port: port_of(port)? })
    }
}

/// A colon without a port after it means the same as none.
fn port_of(text: &str) -> Result<Option<u16>, Unreadable> {
    match text {
        "" => Ok(None),
        digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            digits.parse().map(Some).map_err(|_| Unreadable)
        }
        _ => Err(Unreadable),
    }
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}:{port}", self.host),
            None => self.host.fmt(f),
        }
    }
}

/// An entry of `allowed_hosts`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostPattern {
    Exactly(Host),
    /// `*.example.com`: every name below `example.com`, at any depth, and not `example.com` itself.
    Below(String),
}

impl HostPattern {
    pub fn matches(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::Exactly(allowed), host) => allowed == host,
            (Self::Below(parent), Host::Name(name)) => {
                name.strip_suffix(parent.as_str()).is_some_and(|child| child.ends_with('.'))
            }
            (Self::Below(_), Host::Address(_)) => false,
        }
    }
}

impl FromStr for HostPattern {
    type Err = Unreadable;

    /// An IPv6 address may stand without brackets.
    fn from_str(text: &str) -> Result<Self, Unreadable> {
        if let Ok(address) = text.parse::<Ipv6Addr>() {
            return Ok(Self::Exactly(Host::Address(address.to_canonical())));
        }
        let Some(parent) = text.strip_prefix("*.") else { return text.parse().map(Self::Exactly) };
        match parent.parse()? {
            Host::Name(parent) => Ok(Self::Below(parent)),
            Host::Address(_) => Err(Unreadable),
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(host) => host.fmt(f),
            Self::Below(parent) => write!(f, "*.{parent}"),
        }
    }
}
