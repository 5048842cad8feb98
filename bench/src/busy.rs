//! Whether other programs keep the machine busy: figures are then poor.

/// A warning, if more than half a processor's worth of programs has wanted to run in the last minute.
pub(crate) fn warning() -> Option<String> {
    let load = load_average(&std::fs::read_to_string("/proc/loadavg").ok()?)?;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    (load > LOAD_MAX).then(|| {
        format!(
            "the machine is busy (load {load:.1}, {processors} processors): expect low rates and wide spreads"
        )
    })
}

const LOAD_MAX: f64 = 0.5;

/// The average of the last minute.
fn load_average(loadavg: &str) -> Option<f64> {
    loadavg.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_of_the_last_minute_is_read() {
        assert_eq!(load_average("7.44 7.75 7.66 3/512 12345\n"), Some(7.44));
        assert_eq!(load_average(""), None);
    }
}
