//! A process that has no file descriptor left.

use std::process::Command;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use windlass_server::listener::Limits;

use super::world::World;

const CHILD: &str = "WINDLASS_TEST_FEW_DESCRIPTORS";
const DESCRIPTORS: u64 = 64;

/// The limit is the process's: this one runs the test again in a process of its own.
#[test]
fn a_server_without_descriptors_goes_on_when_it_has_some_again() {
    let mut test = Command::new(std::env::current_exe().unwrap());
    test.args(["--exact", "hostile::descriptors::with_few_descriptors", "--ignored"]);
    let ran = test.env(CHILD, "1").output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
}

#[tokio::test]
#[ignore = "takes the process's descriptors; the test above runs it"]
async fn with_few_descriptors() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let few = Rlimit { current: Some(DESCRIPTORS), ..getrlimit(Resource::Nofile) };
    setrlimit(Resource::Nofile, few).unwrap();
    let world = World::new(Limits::default()).await;
    let mut before = world.client().await;
    before.echo("/echo", b"there are some").await;
    let mut taken = Vec::new();
    while let Ok(file) = std::fs::File::open("/dev/null") {
        taken.push(file);
    }
    // One is enough to connect with, and there is none to accept with.
    drop(taken.pop());
    let mut client = world.client().await;
    while world.traffic.accept_failures() == 0 {
        before.echo("/echo", b"there are none").await;
    }
    drop(taken);
    client.echo("/echo", b"better late than never").await;
    world.finish().await;
}
