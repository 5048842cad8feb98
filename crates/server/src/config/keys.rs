//! Every setting there is. Flags, variables, `windlass config` and the reference are made from this table.

use super::raw::{Raw, RawConfig};
use super::{Config, value};

/// One setting, and how it is given and shown.
#[derive(Debug)]
pub struct Key {
    /// In a file; a dot stands for a TOML table.
    pub name: &'static str,
    /// What it can be, after "give".
    pub takes: &'static str,
    pub default: &'static str,
    pub doc: &'static str,
    pub(super) slot: fn(&mut RawConfig) -> &mut Option<Raw>,
    /// `None`: it has no meaning beside the other settings.
    pub(super) show: fn(&Config) -> Option<Raw>,
}

impl Key {
    /// `WINDLASS_LIMITS_CONNECTIONS`
    pub fn variable(&self) -> String {
        format!("{VARIABLE_PREFIX}{}", self.name.replace('.', "_").to_uppercase())
    }

    /// `--limits-connections`
    pub fn flag(&self) -> String {
        format!("--{}", self.name.replace(['.', '_'], "-"))
    }
}

pub(super) const VARIABLE_PREFIX: &str = "WINDLASS_";
/// Names a config file.
pub(super) const FILE_VARIABLE: &str = "WINDLASS_CONFIG";
/// What other parts of Windlass read from the environment.
pub(super) const OTHER_VARIABLES: [&str; 1] = ["WINDLASS_URL"];

macro_rules! keys {
    ($($constant:ident = $name:literal ($($field:ident).+, $show:expr):
        $takes:literal, default $default:literal. $doc:literal;)+) => {
        $(pub(super) const $constant: Key = Key {
            name: $name,
            takes: $takes,
            default: $default,
            doc: $doc,
            slot: |raw| &mut raw.$($field).+,
            show: $show,
        };)+

        /// In the order in which they are shown: those of a TOML table together, and last.
        pub const KEYS: &[Key] = &[$($constant),+];
    };
}

keys! {
    DATA = "data" (data, |config| Some(config.data.display().to_string().into())):
        "a directory",
        default "./windlass-data".
        "Holds everything durable, and is made if it is missing; one server at a time can have it.";
    LISTEN = "listen" (listen, |config| Some(config.listen.to_string().into())):
        "an address as IP:PORT, such as `127.0.0.1:9463` or `[::1]:9463` (port 0: any free one)",
        default "127.0.0.1:9463".
        "Where the server takes connections.";
    INSECURE = "insecure" (insecure, |config| Some(config.insecure.into())):
        "`true` or `false`",
        default "false".
        "Allows a `listen` address that other machines can reach, although there is no authentication yet.";
    PUBLIC_URL = "public_url" (public_url, |config| {
        config.gate.public_url.as_ref().map(|url| url.to_string().into())
    }):
        "a URL without a path, such as `https://queue.example` or `http://queue.example:8080`",
        default "".
        "Where browsers find the server if a proxy stands before it: requests may name its host, and web pages from there \
         are the server's own.";
    ALLOWED_HOSTS = "allowed_hosts" (allowed_hosts, |config| Some(value::show_list(&config.gate.allowed_hosts))):
        "names or addresses without scheme and port, such as `queue.example`, `*.example.com` (every name below it) or \
         `10.0.0.5`: in a file as a list, elsewhere with commas between them",
        default "".
        "Hosts that requests may name in `Host` besides `localhost`, addresses (of this machine, if `listen` is loopback) \
         and the host of `public_url`. Any other host is refused, because a web page can make a name of its own lead here.";
    ALLOWED_ORIGINS = "allowed_origins" (allowed_origins, |config| {
        Some(value::show_list(&config.gate.allowed_origins))
    }):
        "origins as SCHEME://HOST or SCHEME://HOST:PORT, such as `https://app.example` (neither `*` nor `null`): in a file \
         as a list, elsewhere with commas between them",
        default "".
        "Web pages of other origins that may call the server and read its replies (CORS). Such a page can read and \
         change everything.";
    TRUSTED_PROXIES = "trusted_proxies" (trusted_proxies, |config| {
        Some(value::show_list(&config.gate.trusted_proxies))
    }):
        "addresses or networks, such as `127.0.0.1`, `10.0.0.0/8` or `fd00::/8` (no bits set after the prefix): in a file as \
         a list, elsewhere with commas between them",
        default "".
        "Proxies that may pass on requests of others, which have `Forwarded` or `X-Forwarded-For`. The server has no \
         authentication yet: such a proxy must have its own.";
    DURABILITY = "durability" (durability, |config| Some(config.durability_name().into())):
        "`always`, `interval` or `none`",
        default "always".
        "When a change is answered: once it is synced to disk (nothing answered is ever lost), or once it is written \
         and synced every `sync_interval` or only now and then (a crash of the machine may take the latest).";
    SYNC_INTERVAL = "sync_interval" (sync_interval, |config| config.sync_interval().map(value::show_duration)):
        "a duration from `1ms` to `1m`, such as `100ms`",
        default "100ms".
        "How much of the latest a crash of the machine may take; only with `durability = \"interval\"`.";
    BACKUP_DIR = "backup_dir" (backup_dir, |config| Some(config.backup_dir.display().to_string().into())):
        "a directory",
        default "<data>-backups".
        "Where `server.backup` puts backups, each in a directory of its own. Not within the directory of a store, and \
         best on another disk.";
    LOG_FORMAT = "log_format" (log_format, |config| Some(config.log_format.name().into())):
        "`text` or `json`",
        default "text".
        "How the server's own log is written to standard error.";
    LOG_LEVEL = "log_level" (log_level, |config| Some(config.log_level.as_str().into())):
        "`error`, `warn`, `info`, `debug` or `trace`, or a filter such as `info,windlass_engine=debug`",
        default "info".
        "What is logged.";
    SHUTDOWN_GRACE = "shutdown_grace" (shutdown_grace, |config| Some(value::show_duration(config.shutdown_grace))):
        "a duration up to `1h`, such as `30s`",
        default "30s".
        "How long requests under way may still take once the server was told to stop.";
    THREADS = "threads" (threads, |config| {
        Some(config.threads.map_or_else(|| value::AUTO.into(), |threads| value::show_count(threads.get())))
    }):
        "a number from 1 to 1000, or `auto`",
        default "auto".
        "Threads that answer requests. `auto`: half as many as the machine has processors, because disks and clients need some too. \
         With 1 no request is handed from thread to thread, which takes the least processor time.";
    CONNECTIONS = "limits.connections" (limits.connections, |config| {
        Some(value::show_count(config.limits.connections))
    }):
        "a number from 1 to 1000000",
        default "16384".
        "Connections at once; further ones are refused.";
    WAITING_REQUESTS = "limits.waiting_requests" (limits.waiting_requests, |config| {
        Some(value::show_count(config.limits.waiting_requests))
    }):
        "a number from 1 to 1000000",
        default "16384".
        "Requests that wait at once, for work or for an item to end; further ones are `overloaded`.";
    PAYLOAD_BYTES = "limits.payload_bytes" (limits.payload_bytes, |config| {
        Some(value::show_bytes(config.limits.payload_bytes))
    }):
        "a size from `1KiB` to `15MiB`, such as `1MiB`, or a number of bytes",
        default "1MiB".
        "The largest payload or result of an item.";
    BODY_BYTES = "limits.body_bytes" (limits.body_bytes, |config| {
        Some(value::show_bytes(config.limits.body_bytes))
    }):
        "a size from `1KiB` to `1GiB`, such as `16MiB`, or a number of bytes",
        default "16MiB".
        "The largest request body.";
    BYTES_IN_FLIGHT = "limits.bytes_in_flight" (limits.bytes_in_flight, |config| {
        Some(value::show_bytes(config.limits.bytes_in_flight))
    }):
        "a size from `1MiB` to `1024GiB`, such as `256MiB`, or a number of bytes",
        default "256MiB".
        "The bytes of all request bodies together that are being read or worked on, and as much again of large replies; at the limit the slowest are refused as `overloaded`. A quarter more is kept for bodies up to 16 KiB, and an eighth for larger ones of calls that extend leases or end work.";
    QUEUES = "limits.queues" (limits.queues, |config| Some(value::show_count(config.limits.queues))):
        "a number from 1 to 1000000",
        default "100000".
        "Queues of the server; beyond, `queues.create` is `overloaded`.";
    PARTITIONS = "limits.partitions" (limits.partitions, |config| Some(value::show_count(config.limits.partitions))):
        "a number from 1 to 1000000",
        default "100000".
        "Partitions of all queues together, those included that are being emptied; beyond, `queues.create` and `queue.rebalance` are `overloaded`.";
    MEMORY = "limits.memory" (limits.memory, |config| {
        Some(config.limits.memory.map_or_else(|| value::OFF.into(), value::show_bytes))
    }):
        "a size from `64MiB` to `1024GiB`, such as `4GiB`, or a number of bytes, or `off`",
        default "off".
        "The memory that the process may take up; beyond, what is produced or imported is `overloaded` until there is less, and workers go on. Linux only.";
}
