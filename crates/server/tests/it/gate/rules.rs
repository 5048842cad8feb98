//! Which requests pass the gate, by the settings of the server.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use windlass_server::gate::{Asked, BadHost, Gate, Refused};

/// Without any setting.
fn gate(is_loopback: bool) -> Gate {
    Gate {
        is_loopback,
        public_url: None,
        allowed_hosts: Vec::new(),
        allowed_origins: Vec::new(),
        trusted_proxies: Vec::new(),
    }
}

/// `head`: lines of `name: value`.
fn check_as(
    gate: &Gate,
    method: &Method,
    target: &str,
    head: &str,
    peer: Option<IpAddr>,
) -> Result<(), Refused> {
    let mut headers = HeaderMap::new();
    for (name, value) in head.lines().map(|line| line.split_once(": ").expect("a header")) {
        headers.append(name.parse::<HeaderName>().unwrap(), value.parse::<HeaderValue>().unwrap());
    }
    let target: Uri = target.parse().unwrap();
    gate.check(Asked { method, target: &target, headers: &headers, peer })
}

fn check(gate: &Gate, target: &str, head: &str) -> Result<(), Refused> {
    check_as(gate, &Method::GET, target, head, None)
}

fn refused_host(gate: &Gate, host: &str) -> bool {
    matches!(check(gate, "/health", &format!("host: {host}")), Err(Refused::Host(_)))
}

fn refused_origin(gate: &Gate, host: &str, origin: &str) -> bool {
    let head = format!("host: {host}\norigin: {origin}");
    matches!(check(gate, "/health", &head), Err(Refused::Origin(_)))
}

#[test]
fn a_loopback_listener_answers_to_this_machine_alone() {
    let gate = gate(true);
    for host in
        ["localhost", "LOCALHOST.:1", "127.0.0.1:9463", "127.9.9.9", "[::1]:9463", "[::ffff:127.0.0.1]"]
    {
        assert!(!refused_host(&gate, host), "{host}");
    }
    for host in
        ["0.0.0.0", "10.0.0.5", "[::]", "[fd00::1]", "127.1", "a.localhost", "localhost.example", "queue"]
    {
        assert!(refused_host(&gate, host), "{host}");
    }
}

#[test]
fn a_listener_for_other_machines_answers_to_every_address_and_to_no_name() {
    let gate = gate(false);
    for host in ["localhost", "10.0.0.5:9463", "[fd00::1]", "192.0.2.1"] {
        assert!(!refused_host(&gate, host), "{host}");
    }
    for host in ["queue.example", "rebound.example:9463"] {
        assert!(refused_host(&gate, host), "{host}");
    }
}

#[test]
fn hosts_of_the_settings_are_answered_to() {
    let settings = Gate {
        public_url: Some("https://queue.example:8443".parse().unwrap()),
        allowed_hosts: vec!["*.internal".parse().unwrap(), "10.0.0.5".parse().unwrap()],
        ..gate(true)
    };
    for host in ["queue.example", "Queue.Example.:1", "a.b.internal:80", "10.0.0.5"] {
        assert!(!refused_host(&settings, host), "{host}");
    }
    for host in ["internal", "other.example", "10.0.0.6"] {
        assert!(refused_host(&settings, host), "{host}");
    }
}

#[test]
fn a_host_other_than_that_of_an_absolute_target_is_bad() {
    let gate = gate(true);
    let bad = Err(Refused::BadHost(BadHost::OtherThanTarget));
    for (target, host, passes) in [
        ("http://localhost:9463/health", "LOCALHOST.:9463", true),
        ("http://localhost/health", "localhost:80", true),
        ("http://localhost/health", "127.0.0.1", false),
        ("http://localhost:9463/health", "localhost:9464", false),
        ("http://rebound.example/health", "localhost", false),
        ("http://localhost/health", "rebound.example", false),
        ("http://user@localhost/health", "localhost", false),
    ] {
        let expected = if passes { Ok(()) } else { bad.clone() };
        assert_eq!(check(&gate, target, &format!("host: {host}")), expected, "{target} {host}");
    }
}

#[test]
fn a_page_of_the_server_itself_is_known_by_scheme_host_and_port() {
    let gate = gate(true);
    for host in ["127.0.0.1:9463", "localhost:9463", "[::1]:9463", "localhost"] {
        assert!(!refused_origin(&gate, host, &format!("http://{host}")), "{host}");
    }
    for origin in [
        "https://localhost:9463",
        "http://localhost",
        "http://localhost:3000",
        "http://127.0.0.1:9463",
        "http://localhost:9463/",
        "localhost:9463",
        "null",
        "",
        "http://localhost:9463 http://localhost:9463",
    ] {
        assert!(refused_origin(&gate, "localhost:9463", origin), "{origin}");
    }
    assert!(refused_origin(&gate, "localhost", "http://localhost\norigin: http://localhost"), "sent twice");
}

#[test]
fn origins_of_the_settings_pass() {
    let settings = Gate {
        public_url: Some("https://queue.example".parse().unwrap()),
        allowed_origins: vec!["https://app.example".parse().unwrap()],
        ..gate(true)
    };
    for origin in ["https://queue.example", "https://app.example"] {
        assert!(!refused_origin(&settings, "localhost:9463", origin), "{origin}");
    }
    for origin in
        ["http://queue.example", "http://app.example", "https://a.app.example", "https://app.example:8443"]
    {
        assert!(refused_origin(&settings, "localhost:9463", origin), "{origin}");
    }
}

#[test]
fn what_another_site_asks_for_is_refused_unless_it_opens_a_page() {
    let gate = gate(true);
    let site = "host: localhost\nsec-fetch-site: cross-site\nsec-fetch-mode: ";
    let opens = |method, target| check_as(&gate, &method, target, &format!("{site}navigate"), None);
    for page in ["/", "/health", "/ready", "/openapi.json", "/nothing", "/v1x"] {
        assert_eq!(opens(Method::GET, page), Ok(()), "{page}");
        assert_eq!(opens(Method::POST, page), Err(Refused::CrossSite), "{page}");
        for mode in ["no-cors", "cors", "websocket"] {
            assert_eq!(
                check(&gate, page, &format!("{site}{mode}")),
                Err(Refused::CrossSite),
                "{page} {mode}"
            );
        }
    }
    for path in ["/metrics", "/v1", "/v1/", "/v1/item.events?id=1", "/metrics?x"] {
        assert_eq!(opens(Method::GET, path), Err(Refused::CrossSite), "{path}");
    }
    for site in ["same-origin", "same-site", "none"] {
        assert_eq!(
            check(&gate, "/metrics", &format!("host: localhost\nsec-fetch-site: {site}")),
            Ok(()),
            "{site}"
        );
    }
}

#[test]
fn an_allowed_origin_may_be_of_another_site() {
    let allowed = Gate { allowed_origins: vec!["https://app.example".parse().unwrap()], ..gate(true) };
    let head =
        "host: localhost\norigin: https://app.example\nsec-fetch-site: cross-site\nsec-fetch-mode: cors";
    assert_eq!(check(&allowed, "/v1/queues.list", head), Ok(()));
}

#[test]
fn a_proxy_must_be_trusted_by_its_address() {
    let trusting = Gate { trusted_proxies: vec!["10.0.0.0/8".parse().unwrap()], ..gate(true) };
    for header in ["forwarded: for=192.0.2.1", "x-forwarded-for: 192.0.2.1", "X-Forwarded-For: "] {
        let from = |peer: Option<&str>| {
            let peer = peer.map(|peer| peer.parse().unwrap());
            check_as(&trusting, &Method::GET, "/health", &format!("host: localhost\n{header}"), peer)
        };
        assert_eq!(from(Some("10.1.2.3")), Ok(()), "{header}");
        assert_eq!(from(Some("::ffff:10.1.2.3")), Ok(()), "{header}");
        for peer in [Some("127.0.0.1"), Some("::1"), None] {
            assert!(matches!(from(peer), Err(Refused::Forwarded { .. })), "{header} {peer:?}");
        }
    }
}

#[test]
fn refusals_win_in_their_order() {
    let gate = gate(true);
    let head = "origin: http://elsewhere.example\nforwarded: for=192.0.2.1";
    assert_eq!(check(&gate, "/health", head), Err(Refused::BadHost(BadHost::Missing)));
    let with_host = |host: &str| check(&gate, "/health", &format!("host: {host}\n{head}"));
    assert_eq!(with_host("a b"), Err(Refused::BadHost(BadHost::Unreadable)));
    assert!(matches!(with_host("rebound.example"), Err(Refused::Host(_))));
    assert!(matches!(with_host("localhost"), Err(Refused::Origin(_))));
}

#[test]
fn a_refusal_repeats_only_the_beginning_of_an_origin() {
    let head = format!("host: localhost\norigin: {}", "x".repeat(10_000));
    let Err(refused @ Refused::Origin(_)) = check(&gate(true), "/", &head) else { panic!("it passed") };
    assert!(refused.to_string().len() < 600, "{refused}");
}
