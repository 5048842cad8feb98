//! Who this is, for operators who look at leases.

/// At most what the API takes.
const LENGTH_MAX: usize = 128;

/// The host and the process.
pub(crate) fn default() -> String {
    let system = rustix::system::uname();
    let host: String = system.nodename().to_string_lossy().chars().take(LENGTH_MAX - 20).collect();
    format!("{host}-{}", std::process::id())
}
