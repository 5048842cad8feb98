//! Which processes descend from which, read from `/proc`.

use std::collections::BTreeMap;

/// A process and everything it started, as far as it still runs.
pub(crate) fn descendants(root: u32) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for pid in all_pids() {
        if let Some(parent) = stat_field(pid, PARENT) {
            children.entry(parent as u32).or_default().push(pid);
        }
    }
    let mut found = vec![root];
    let mut at = 0;
    while at < found.len() {
        found.extend(children.remove(&found[at]).unwrap_or_default());
        at += 1;
    }
    found
}

/// Whether a process is gone, or a zombie that only waits to be asked how it ended.
pub(crate) fn has_ended(pid: u32) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => after_name(&stat).is_some_and(|fields| fields.starts_with('Z')),
        Err(_) => true,
    }
}

const PARENT: usize = 1;

pub(crate) fn all_pids() -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// A number from `/proc/PID/stat`, counted from the state, which is field 0 here and field 3 in proc(5).
pub(crate) fn stat_field(pid: u32, index: usize) -> Option<u64> {
    field_of(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?, index)
}

pub(crate) fn field_of(stat: &str, index: usize) -> Option<u64> {
    after_name(stat)?.split(' ').nth(index)?.parse().ok()
}

/// The fields after the name: that stands in brackets, and may itself have spaces and brackets.
fn after_name(stat: &str) -> Option<&str> {
    Some(stat.rsplit_once(')')?.1.trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "4242 (a (odd) name) S 17 4242 4242 0 -1 4194560 1 2 3 4 150 50 7 8 20 0 1 0 99 0 0";

    #[test]
    fn fields_are_counted_after_a_name_with_brackets() {
        assert_eq!(field_of(STAT, PARENT), Some(17));
        assert_eq!(field_of(STAT, 11), Some(150));
        assert_eq!(field_of("nonsense", PARENT), None);
    }

    #[test]
    fn a_child_descends_from_this_process_until_it_ends() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(descendants(std::process::id()).contains(&child.id()));
        assert!(!has_ended(child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(has_ended(child.id()));
    }
}
