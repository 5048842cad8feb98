//! The output of `strace`: which calls made data durable, and when.

use std::collections::{BTreeMap, BTreeSet};

/// `sync_file_range` is not among them: it leaves data in the disk's cache.
pub(super) const CALLS: &str =
    "trace=fsync,fdatasync,msync,sync,syncfs,write,writev,pwrite64,pwritev,pwritev2";

const O_DSYNC: u32 = 0o10000;

/// Threads, and the files of each that are open with `O_DSYNC`: a write to them is a sync.
#[derive(Debug, Default)]
pub(super) struct DurableFiles(BTreeMap<u32, BTreeSet<u32>>);

impl DurableFiles {
    pub(super) fn of(pids: &[u32]) -> Self {
        let mut threads = BTreeMap::new();
        for pid in pids {
            let files: BTreeSet<u32> = numbers_in(&format!("/proc/{pid}/fdinfo"))
                .into_iter()
                .filter(|file| {
                    is_durable(
                        &std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{file}")).unwrap_or_default(),
                    )
                })
                .collect();
            threads.extend(
                numbers_in(&format!("/proc/{pid}/task")).into_iter().map(|thread| (thread, files.clone())),
            );
        }
        Self(threads)
    }

    fn has(&self, thread: u32, file: u32) -> bool {
        self.0.get(&thread).is_some_and(|files| files.contains(&file))
    }
}

fn numbers_in(directory: &str) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Whether the flags in `/proc/PID/fdinfo/FILE` have `O_DSYNC`.
fn is_durable(fdinfo: &str) -> bool {
    let flags = fdinfo.lines().find_map(|line| line.strip_prefix("flags:"));
    flags
        .and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok())
        .is_some_and(|flags| flags & O_DSYNC != 0)
}

/// When each sync that succeeded was seen, in seconds since 1970.
pub(super) fn sync_times(trace: &str, files: &DurableFiles) -> Vec<f64> {
    let mut unfinished = BTreeSet::new();
    trace.lines().filter_map(|line| sync_time(line, files, &mut unfinished)).collect()
}

/// A line is `THREAD TIME CALL(…) = RESULT`; a call that was interrupted by another thread's has two of them.
fn sync_time(line: &str, files: &DurableFiles, unfinished: &mut BTreeSet<u32>) -> Option<f64> {
    let (thread, rest) = line.split_once(' ')?;
    let (time, call) = rest.trim_start().split_once(' ')?;
    let thread = thread.parse().ok()?;
    if call.starts_with("<... ") {
        return (unfinished.remove(&thread) && succeeded(call)).then(|| time.parse().ok())?;
    }
    if !makes_durable(thread, call, files) {
        return None;
    }
    if call.ends_with("<unfinished ...>") {
        unfinished.insert(thread);
        return None;
    }
    succeeded(call).then(|| time.parse().ok())?
}

fn makes_durable(thread: u32, call: &str, files: &DurableFiles) -> bool {
    let Some((name, args)) = call.split_once('(') else { return false };
    match name {
        "fsync" | "fdatasync" | "sync" | "syncfs" => true,
        "msync" => args.contains("MS_SYNC"),
        _ => {
            args.contains("RWF_DSYNC")
                || args.contains("RWF_SYNC")
                || written_file(args).is_some_and(|file| files.has(thread, file))
        }
    }
}

fn written_file(args: &str) -> Option<u32> {
    args.split([',', ')']).next()?.trim().parse().ok()
}

fn succeeded(call: &str) -> bool {
    call.rsplit_once(" = ").is_some_and(|(_, result)| !result.starts_with('-') && !result.starts_with('?'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "\
100 1000.000001 write(4, \"x\"..., 200) = 200
100 1000.100000 fdatasync(7)            = 0
101 1000.200000 fsync(8 <unfinished ...>
100 1000.210000 write(9, \"x\"..., 200) = 200
101 1000.300000 <... fsync resumed>)    = 0
100 1000.400000 fdatasync(7)            = -1 EIO (Input/output error)
100 1000.500000 msync(0x7f, 4096, MS_ASYNC) = 0
100 1000.600000 pwritev2(7, [{iov_base=\"x\"...}], 1, 0, RWF_DSYNC) = 10
101 1000.700000 +++ exited with 0 +++
";

    #[test]
    fn syncs_are_seen_when_they_succeed_and_other_calls_are_not() {
        assert_eq!(sync_times(TRACE, &DurableFiles::default()), [1000.1, 1000.3, 1000.6]);
    }

    #[test]
    fn a_write_to_a_file_that_is_synced_by_itself_is_a_sync() {
        let files = DurableFiles([(100, [9].into())].into());
        assert_eq!(sync_times(TRACE, &files), [1000.1, 1000.21, 1000.3, 1000.6]);
    }

    #[test]
    fn a_file_is_durable_by_its_flags() {
        assert!(is_durable("pos:\t0\nflags:\t02010002\n"));
        assert!(!is_durable("pos:\t0\nflags:\t02000002\n"));
    }
}
