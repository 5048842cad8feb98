//! Web pages of others are kept out: a page in the operator's browser could otherwise reach a server on loopback, which
//! has no other lock yet.

use http::HeaderMap;
use http::header::{HOST, ORIGIN};
use windlass_api::Code;

use super::error::Problem;

/// A browser names the page that sends a request; other clients do not. The page must be this server's own; and on a
/// server that only this machine can reach its host must be this machine, for any name can be made to lead here.
pub(super) fn check(headers: &HeaderMap, local: bool) -> Result<(), Problem> {
    let Some(origin) = headers.get(ORIGIN).and_then(|origin| origin.to_str().ok()) else { return Ok(()) };
    let authority = origin.split_once("://").map_or(origin, |(_, authority)| authority);
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let message = "a web page of another origin may not call this server";
    let own = authority == host && (!local || is_this_machine(host));
    if own { Ok(()) } else { Err(Problem::new(Code::PermissionDenied, message)) }
}

fn is_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(origin: &str, host: &str, local: bool) -> bool {
        let headers = [(ORIGIN, origin), (HOST, host)].map(|(name, value)| (name, value.parse().unwrap()));
        check(&headers.into_iter().collect(), local).is_ok()
    }

    #[test]
    fn only_pages_of_the_server_itself_may_call_it() {
        for host in ["127.0.0.1:9463", "localhost:9463", "[::1]:9463"] {
            assert!(asked(&format!("http://{host}"), host, true), "{host}");
        }
        assert!(!asked("http://elsewhere.example", "127.0.0.1:9463", true));
        assert!(
            !asked("http://rebound.example:9463", "rebound.example:9463", true),
            "a name that was made to lead here"
        );
        assert!(asked("https://queue.example", "queue.example", false));
        assert!(!asked("null", "127.0.0.1:9463", true));
        assert!(check(&HeaderMap::new(), true).is_ok(), "no browser");
    }
}
