use tempfile::TempDir;

use crate::world::{Server, run, windlass};

#[test]
fn one_line_says_that_it_is_ready() {
    let server = Server::start();
    let expected = format!(
        "windlass {} is ready on {}, data in {}\n",
        env!("CARGO_PKG_VERSION"),
        server.url,
        server.data().display()
    );
    assert_eq!(server.ready, expected);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_directory_in_use_is_refused() {
    let server = Server::start();
    let data = server.data().to_str().unwrap();
    let err = run(&["serve", "--listen", "127.0.0.1:0", "--data", data]).failed(1);
    assert!(err.contains("in use") && err.contains("--data"), "{err}");
}

#[test]
fn variables_that_tell_about_an_item_are_not_taken_for_settings() {
    let mut command = windlass();
    command.arg("config").env("WINDLASS_ITEM_ID", "x").env("WINDLASS_QUEUE", "q");
    let said =
        |command: &mut std::process::Command| String::from_utf8(command.output().unwrap().stderr).unwrap();
    assert_eq!(said(&mut command), "");
    assert!(
        said(command.env("WINDLASS_LISTN", "x")).starts_with("WINDLASS_LISTN is set and is not a setting")
    );
}

#[test]
fn what_was_done_is_there_after_a_restart() {
    let directory = TempDir::new().unwrap();
    let data = directory.path().join("data");
    let server = Server::start_on(&data);
    server.run(&["queue", "create", "mail"]).ok();
    let id = server.run(&["produce", "mail", "hello"]).ok();
    assert_eq!(server.stop(), Some(0));
    let server = Server::start_on(&data);
    let item = server.run(&["item", "get", id.trim(), "--json"]).json();
    assert_eq!(item["item"]["utf8"], "hello");
}
