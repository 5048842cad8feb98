//! The README keeps its word: its commands are taken out of it and run as they stand.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const SERVE: &str = "cargo run -- serve";
const TEST: &str = "cargo test --workspace";
const DEFAULT_ADDRESS: &str = "127.0.0.1:9463";

fn root() -> PathBuf {
    let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_root.ancestors().nth(2).expect("the crate is in the workspace").to_owned()
}

/// The shell blocks of the README, in order.
fn blocks() -> Vec<String> {
    let text = std::fs::read_to_string(root().join("README.md")).expect("there is a README");
    let starts = text.split("```sh\n").skip(1);
    starts.map(|rest| rest.split("```").next().expect("a block ends").trim().to_owned()).collect()
}

/// Ends the server, and what `cargo run` started, with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // A process group of its own: cargo, and the server that cargo runs.
        let group = format!("-{}", self.0.id());
        let _gone_already = Command::new("kill").args(["-TERM", "--", &group]).status();
        let _reaped = self.0.wait();
    }
}

/// Runs the README's first command, on a free port and a temporary directory; tells where it listens.
fn serve(data: &Path) -> (Server, String) {
    let mut command = Command::new("bash");
    command.args(["-c", &format!("exec {SERVE}")]).current_dir(root()).process_group(0);
    command.env("WINDLASS_LISTEN", "127.0.0.1:0").env("WINDLASS_DATA", data).stdout(Stdio::piped());
    let mut server = Server(command.spawn().expect("bash runs"));
    let mut lines = BufReader::new(server.0.stdout.take().expect("piped")).lines();
    let ready = lines.next().expect("the server says that it is ready").expect("a line");
    let address = ready.split("http://").nth(1).and_then(|rest| rest.split(',').next());
    (server, address.unwrap_or_else(|| panic!("no address: {ready}")).to_owned())
}

#[test]
fn the_two_commands_are_those_that_ci_runs() {
    assert_eq!(blocks()[..2], [SERVE, TEST]);
    let ci = std::fs::read_to_string(root().join(".ci/run")).expect("there is a CI script");
    assert!(ci.lines().any(|line| line.trim() == TEST), "CI runs the README's test command as it stands");
}

#[test]
fn the_quick_start_does_what_it_says() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (_server, address) = serve(&directory.path().join("data"));
    // One shell for all of it, as somebody at a terminal has; only the port is another.
    let script = blocks()[2..].join("\n").replace(DEFAULT_ADDRESS, &address);
    let script = format!("set -euo pipefail\n{script}\nwindlass queue stats mail --json\n");
    let mut shell = Command::new("bash");
    shell.args(["-c", &script]).current_dir(root()).env("WINDLASS_URL", format!("http://{address}"));
    let output = shell.output().expect("bash runs");
    let (said, talk) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}\n{talk}");
    assert!(said.contains(r#"{"completed":1,"failed":[]}"#), "curl completed its item: {said}\n{talk}");
    assert!(said.contains("completed") && said.contains(r#"{"sent": true}"#), "the item is shown: {said}");
    let left = ["waiting", "scheduled", "leased"].map(|state| last_document(&said)["counts"][state].as_u64());
    assert_eq!(left, [Some(0); 3], "nothing is left: {said}\n{talk}");
}

fn last_document(said: &str) -> serde_json::Value {
    let start = said.rfind("\n{").map_or(0, |at| at + 1);
    serde_json::from_str(&said[start..]).unwrap_or_else(|error| panic!("{error}: {said}"))
}
