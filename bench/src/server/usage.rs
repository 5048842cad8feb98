//! Processor time and context switches of processes.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::tree::field_of;

/// Ticks a second in `/proc/PID/stat`: 100 on every Linux that Rust runs on.
const TICKS: f64 = 100.0;
/// `utime`, `stime`, and the same of children that have ended, in `/proc/PID/stat`.
const TIMES: std::ops::RangeInclusive<usize> = 11..=14;

/// Processor seconds of some processes, those of their ended children included.
pub(crate) fn cpu_seconds(pids: &[u32]) -> f64 {
    let stats = pids.iter().filter_map(|pid| std::fs::read_to_string(format!("/proc/{pid}/stat")).ok());
    stats.map(|stat| seconds_of(&stat)).sum()
}

fn seconds_of(stat: &str) -> f64 {
    TIMES.filter_map(|index| field_of(stat, index)).sum::<u64>() as f64 / TICKS
}

/// Processor seconds of this process, to the nanosecond.
pub(crate) fn own_cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32).as_secs_f64()
}

/// Times that threads of some processes gave up their processor to wait for something.
pub(crate) fn voluntary_switches(pids: &[u32]) -> u64 {
    pids.iter().map(|pid| switches_of_threads(*pid)).sum()
}

fn switches_of_threads(pid: u32) -> u64 {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return 0 };
    let statuses =
        threads.flatten().filter_map(|thread| std::fs::read_to_string(thread.path().join("status")).ok());
    statuses.filter_map(|status| switches_in(&status)).sum()
}

fn switches_in(status: &str) -> Option<u64> {
    status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_counts_ended_children() {
        let stat = "1 (a) S 0 1 1 0 -1 4194560 1 2 3 4 150 50 7 3 20 0 1 0 99 0 0";
        assert_eq!(seconds_of(stat), 2.1);
    }

    #[test]
    fn only_voluntary_switches_count() {
        let status = "Name:\ta\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t7\n";
        assert_eq!(switches_in(status), Some(12));
    }

    #[test]
    fn this_process_uses_processor_time() {
        let before = own_cpu_seconds();
        let mut sum = 0_u64;
        while own_cpu_seconds() - before < 0.02 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(own_cpu_seconds() > before);
    }
}
