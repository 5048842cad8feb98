//! Backups: where they are, what is removed before one is made, and what is told of damage.

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::http::Http;
use crate::world::TestServer;

const PAYLOAD: &str = "the payload that is found in a file";

async fn with_items() -> (TestServer, Http) {
    let (server, mut http) = TestServer::with_queue(json!({})).await;
    for text in [PAYLOAD, "another"] {
        http.produce("q", json!([{"utf8": text}])).await;
    }
    (server, http)
}

async fn back_up(http: &mut Http, name: &str) -> (PathBuf, Value) {
    let made = http.ok("server.backup", json!({"backup": name})).await;
    (PathBuf::from(made["path"].as_str().expect("a path")), made)
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("listed");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a text")).collect();
    names.sort();
    names
}

fn backups(server: &TestServer) -> PathBuf {
    server.data().with_file_name("data-backups")
}

#[tokio::test]
async fn a_backup_deletes_no_other_whatever_its_name() {
    let (server, mut http) = with_items().await;
    for name in ["a.unfinished", "a-unfinished", "a_unfinished", "a"] {
        back_up(&mut http, name).await;
    }
    assert_eq!(names(&backups(&server)), ["a", "a-unfinished", "a.unfinished", "a_unfinished"]);
}

#[tokio::test]
async fn what_an_unfinished_backup_left_behind_is_removed_and_nothing_else() {
    let (server, mut http) = with_items().await;
    let backups = backups(&server);
    let (leftover, own) = (backups.join("monday~unfinished"), backups.join("notes~unfinished"));
    for directory in [&leftover, &own] {
        fs::create_dir_all(directory).expect("made");
        fs::write(directory.join("00000001.seg"), "half").expect("written");
    }
    fs::write(leftover.join("unfinished-backup.tmp"), "").expect("written");
    back_up(&mut http, "tuesday").await;
    assert_eq!(names(&backups), ["notes~unfinished", "tuesday"]);
    let refused = http.post("server.backup", r#"{"backup": "notes"}"#).await;
    assert_eq!(refused.code(), "already_exists");
    assert_eq!(names(&own), ["00000001.seg"]);
}

#[tokio::test]
async fn an_unfinished_backup_that_got_no_marker_does_not_block_its_name() {
    let (server, mut http) = with_items().await;
    let backups = backups(&server);
    fs::create_dir_all(backups.join("monday~unfinished")).expect("made");
    back_up(&mut http, "monday").await;
    assert_eq!(names(&backups), ["monday"]);
}

#[tokio::test]
async fn the_mode_of_a_backup_dir_that_is_there_stays_as_it_is() {
    let (server, mut http) = with_items().await;
    let backups = backups(&server);
    fs::create_dir(&backups).expect("made");
    fs::set_permissions(&backups, fs::Permissions::from_mode(0o750)).expect("changed");
    let (path, _) = back_up(&mut http, "monday").await;
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!((mode(&backups), mode(&path)), (0o750, 0o700));
}

#[tokio::test]
async fn a_backup_is_closed_to_other_users_and_holds_only_the_log() {
    let (server, mut http) = with_items().await;
    let (path, made) = back_up(&mut http, "one").await;
    assert!(made.get("damage").is_none(), "{made}");
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    for directory in [server.data(), backups(&server), path] {
        assert_eq!(mode(&directory), 0o700, "{}", directory.display());
        for name in names(&directory).iter().filter(|name| *name != "one") {
            assert_eq!(mode(&directory.join(name)), 0o600, "{name}");
            assert!(name == "format" || name.ends_with(".seg") || name.ends_with(".snap"), "{name}");
        }
    }
}

#[tokio::test]
async fn a_backup_holds_what_queues_and_their_owners_say() {
    let (_server, mut http) = with_items().await;
    let create = json!({"queue": "noted", "meta": {"team": "post"}, "max_attempts": 9});
    http.ok("queues.create", create).await;
    let made = http.ok("queues.update", json!({"queue": "noted", "reference": "r"})).await;
    let (path, _) = back_up(&mut http, "one").await;
    let restored = TestServer::on(&path).await;
    let shown = restored.connect().await.ok("queues.info", json!({"queue": "noted"})).await;
    assert_eq!(shown, made);
}

/// Flips a bit of the payload in the server's own file.
fn spoil(data: &Path) -> String {
    for name in names(data).into_iter().filter(|name| name.ends_with(".seg")) {
        let file = fs::File::options().read(true).write(true).open(data.join(&name)).expect("opened");
        let bytes = fs::read(data.join(&name)).expect("read");
        let found = bytes.windows(PAYLOAD.len()).position(|window| window == PAYLOAD.as_bytes());
        if let Some(at) = found {
            file.write_all_at(&[bytes[at] ^ 1], at as u64).expect("written");
            return name;
        }
    }
    panic!("the payload is in no file")
}

#[tokio::test]
async fn damage_is_told_by_file_and_offset_and_the_backup_is_kept() {
    let (server, mut http) = with_items().await;
    let file = spoil(&server.data());
    let (path, made) = back_up(&mut http, "damaged").await;
    let damage = made["damage"].as_array().expect("a list");
    assert_eq!(damage.len(), 1, "{made}");
    assert_eq!(damage[0]["file"], file.as_str());
    assert!(damage[0]["offset"].as_u64().is_some_and(|offset| offset > 0), "{made}");
    assert!(damage[0]["what"].as_str().is_some_and(|what| !what.is_empty()), "{made}");
    let kept = names(&path);
    assert!(kept.contains(&file) && kept.contains(&"format".to_owned()), "{kept:?}");
    let size = |directory: &Path| fs::metadata(directory.join(&file)).expect("there").len();
    assert_eq!(size(&path), size(&server.data()));
}
