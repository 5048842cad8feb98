use crate::world::{Server, says};

#[test]
fn a_group_is_made_started_shown_cancelled_and_deleted() {
    let server = Server::with_queue("mail", &[]);
    let args = ["group", "create", "mail", "letter", "--item", "1", "--item", "2", "--abort", "\"stopped\""];
    let made = server.run(&args).ok();
    assert!(says(&made, "state", "open") && says(&made, "held", "2"), "{made}");
    server.run(&["produce", "mail", "3", "--group", "letter"]).ok();
    server.run(&["group", "set-end", "mail", "letter", "--end", "\"sent\"", "--end-kind", "notice"]).ok();
    let started = server.run(&["group", "start", "mail", "letter", "--json"]).json();
    assert_eq!(
        (&started["group"]["state"], &started["group"]["members"]["waiting"]),
        (&"started".into(), &3.into())
    );
    let list = server.run(&["group", "list", "mail"]).ok();
    let row: Vec<&str> = list.lines().nth(1).expect("one group").split_whitespace().collect();
    assert_eq!(row, ["letter", "started", "3", "0", "0"]);
    assert!(server.run(&["group", "delete", "mail", "letter"]).failed(1).contains("(wrong_state)"));
    assert_eq!(
        server.run(&["group", "cancel", "mail", "letter", "--json"]).json()["group"]["state"],
        "aborted"
    );
    assert!(says(&server.run(&["group", "info", "mail", "letter"]).ok(), "cancelled", "3"));
    assert_eq!(server.run(&["group", "delete", "mail", "letter"]).ok(), "group letter is deleted\n");
    assert_eq!(server.run(&["group", "list", "mail"]).ok(), "");
}

#[test]
fn the_queue_of_an_end_item_that_is_not_there_is_the_one_blamed() {
    let server = Server::with_queue("mail", &[]);
    let args = ["group", "create", "mail", "letter", "--end", "1", "--end-queue", "nosuch"];
    let told = "no queue `nosuch`: make it with `windlass queue create nosuch` (not_found)";
    assert_eq!(server.run(&args).failed(1), format!("error: {told}\n"));
    let err = server.run(&["group", "start", "mail", "letter"]).failed(1);
    assert!(err.contains("`windlass group create mail letter`"), "{err}");
}
