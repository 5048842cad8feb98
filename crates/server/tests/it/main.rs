//! What the server promises, from the outside.

#[cfg(test)]
mod addresses;
mod afterwards;
#[cfg(test)]
mod amplification;
#[cfg(test)]
mod backups;
mod bad_input;
#[cfg(test)]
mod calls;
#[cfg(test)]
mod config;
#[cfg(test)]
mod connections;
#[cfg(test)]
mod crons;
#[cfg(test)]
mod delays;
#[cfg(test)]
mod docs;
#[cfg(test)]
mod encodings;
#[cfg(test)]
mod exists_ok;
#[cfg(test)]
mod find;
#[cfg(test)]
mod find_all_queues;
#[cfg(test)]
mod find_missing;
#[cfg(test)]
mod find_scanned;
#[cfg(test)]
mod follow;
#[cfg(test)]
mod gate;
#[cfg(test)]
mod groups;
#[cfg(test)]
mod half_closed;
#[cfg(test)]
mod history;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod http;
#[cfg(test)]
mod http1;
#[cfg(test)]
mod idempotency;
#[cfg(test)]
mod item_errors;
#[cfg(test)]
mod item_update;
#[cfg(test)]
mod items_change;
#[cfg(test)]
mod kept;
#[cfg(test)]
mod lasting_limits;
mod life;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod lockout;
#[cfg(test)]
mod metrics;
#[cfg(test)]
mod named_items;
#[cfg(test)]
mod next;
#[cfg(test)]
mod not_found;
#[cfg(test)]
mod nul;
#[cfg(test)]
mod order;
#[cfg(test)]
mod payloads;
mod rebalance;
#[cfg(test)]
mod redrive;
#[cfg(test)]
mod refused;
#[cfg(test)]
mod reruns;
#[cfg(test)]
mod rules;
#[cfg(test)]
mod server_info;
#[cfg(test)]
mod stalled_disk;
#[cfg(test)]
mod still_clock;
mod storage;
#[cfg(test)]
mod stores;
mod streams;
#[cfg(test)]
mod told;
#[cfg(test)]
mod unclaimed;
#[cfg(test)]
mod waits;
#[cfg(test)]
mod world;
