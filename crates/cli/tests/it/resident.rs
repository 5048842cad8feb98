//! Memory that a server takes up, as the kernel counts it.

use crate::server_process::ServerProcess;

/// Resident memory of a process, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resident {
    pub(crate) now: usize,
    /// The most since the program started: the kernel keeps it, so that no peak is missed between two looks.
    pub(crate) peak: usize,
}

impl Resident {
    pub(crate) fn of(server: &ServerProcess) -> Self {
        let path = format!("/proc/{}/status", server.pid());
        let status = std::fs::read_to_string(path).expect("our own child is there");
        let kib = |name: &str| {
            let line =
                status.lines().find_map(|line| line.strip_prefix(name)).expect("a line of the kernel's");
            line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") * 1024
        };
        Self { now: kib("VmRSS:"), peak: kib("VmHWM:") }
    }
}
