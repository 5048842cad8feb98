//! Leftovers of a comparison that was killed: halted servers, and their directories.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Result;
use rustix::process::{Pid, Signal, kill_process};

use crate::server::tree;

/// The beginning of the name of every directory of a comparison.
pub(crate) const PREFIX: &str = "compare-";
/// Holds the id of the process that made a directory.
const OWNER: &str = "owner";

/// Writes the id of this process into a new directory.
pub(crate) fn claim(directory: &Path) -> Result<()> {
    Ok(std::fs::write(directory.join(OWNER), std::process::id().to_string())?)
}

/// Ends servers whose comparison is gone, and removes their directories.
pub(crate) fn remove(parent: &Path) {
    for directory in abandoned(parent) {
        let servers = tree::all_pids().into_iter().filter(|pid| works_in(*pid, &directory));
        let pids: BTreeSet<u32> = servers.flat_map(tree::descendants).collect();
        for pid in pids {
            let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
            let _may_be_gone = pid.map(|pid| kill_process(pid, Signal::KILL));
        }
        let _tried_again_next_time = std::fs::remove_dir_all(&directory);
    }
}

/// Directories whose owner does not run any more.
fn abandoned(parent: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(parent) else { return Vec::new() };
    let ours = entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX));
    ours.map(|entry| entry.path()).filter(|directory| owner(directory).is_some_and(tree::has_ended)).collect()
}

fn owner(directory: &Path) -> Option<u32> {
    std::fs::read_to_string(directory.join(OWNER)).ok()?.trim().parse().ok()
}

/// Whether the working directory of a process is within `directory`: servers are started in their own.
fn works_in(pid: u32, directory: &Path) -> bool {
    std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|at| at.starts_with(directory))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn servers_and_directories_of_a_dead_comparison_go_and_others_stay() {
        let parent = tempfile::tempdir().unwrap();
        let make = |name: &str, owner: &str| {
            let directory = parent.path().canonicalize().unwrap().join(name);
            std::fs::create_dir(&directory).unwrap();
            std::fs::write(directory.join(OWNER), owner).unwrap();
            directory
        };
        let mut ended = Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let dead = make("compare-dead", &ended.id().to_string());
        let alive = make("compare-alive", &std::process::id().to_string());
        let other = make("other", &ended.id().to_string());
        let mut server = Command::new("sleep").arg("60").current_dir(&dead).spawn().unwrap();
        remove(parent.path());
        assert!(!server.wait().unwrap().success());
        assert_eq!([dead, alive, other].map(|directory| directory.exists()), [false, true, true]);
    }
}
