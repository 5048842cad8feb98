use crate::world::Server;

#[test]
fn a_server_shows_its_version_its_limits_and_its_stores() {
    let server = Server::start();
    let shown = server.run(&["server", "info"]).ok();
    let says = |words: &[&str]| {
        shown.lines().any(|line| line.split_whitespace().take(words.len()).eq(words.iter().copied()))
    };
    assert!(says(&["version", env!("CARGO_PKG_VERSION")]) && says(&["queues", "100,000"]), "{shown}");
    assert!(says(&["payload", "1.0", "MiB"]) && says(&["memory", "no", "limit"]), "{shown}");
    assert!(says(&["STORE", "KIND", "STATE", "FREE"]) && says(&["default", "log", "open"]), "{shown}");
    for encoding in ["json", "protobuf"] {
        let info = server.run(&["server", "info", "--json", "--encoding", encoding]).json();
        assert_eq!(info["server"]["limits"]["payload_bytes"], 1 << 20, "{info}");
        assert_eq!(info["server"]["stores"][0]["store"], "default", "{info}");
    }
}
