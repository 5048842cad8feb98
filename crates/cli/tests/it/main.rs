//! The program from the outside, as scripts and people meet it; and its small pure parts, as they are.

#[cfg(test)]
mod after_the_fact;
#[cfg(test)]
mod amplification;
#[cfg(test)]
mod asking_commands;
#[cfg(test)]
mod bench;
#[cfg(test)]
mod budget;
#[cfg(test)]
mod changes;
#[cfg(test)]
mod crons;
#[cfg(test)]
mod docs;
#[cfg(test)]
mod fake_server;
#[cfg(test)]
mod full_pipe;
#[cfg(test)]
mod gate;
#[cfg(test)]
mod groups;
#[cfg(test)]
mod hostile_words;
#[cfg(test)]
mod inspect;
#[cfg(test)]
mod items;
#[cfg(test)]
mod killed;
#[cfg(test)]
mod killed_crons;
#[cfg(test)]
mod killed_streams;
#[cfg(test)]
mod lockout;
#[cfg(test)]
mod lost_workers;
#[cfg(test)]
mod panics;
#[cfg(test)]
mod parts;
#[cfg(test)]
mod produce;
#[cfg(test)]
mod proxy;
#[cfg(test)]
mod queues;
#[cfg(test)]
mod raw_http;
#[cfg(test)]
mod readme;
#[cfg(test)]
mod resident;
#[cfg(test)]
mod rules;
#[cfg(test)]
mod serve;
#[cfg(test)]
mod server_info;
#[cfg(test)]
mod server_process;
#[cfg(test)]
mod signals;
#[cfg(test)]
mod storage;
#[cfg(test)]
mod terminal;
#[cfg(test)]
mod unclaimed;
#[cfg(test)]
mod unread_log;
#[cfg(test)]
mod unread_metrics;
#[cfg(test)]
mod unread_streams;
#[cfg(test)]
mod usage;
#[cfg(test)]
mod waiters;
#[cfg(test)]
mod watch;
#[cfg(test)]
mod work;
#[cfg(test)]
mod world;

// What parts say to each other as `crate::…`.
#[cfg(test)]
use parts::{human, lines as feed, payload, table};
