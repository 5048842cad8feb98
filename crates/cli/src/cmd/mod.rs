//! One file for each thing that can be asked for.

pub(crate) mod backup;
pub(crate) mod bench;
pub(crate) mod complete;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod cron;
pub(crate) mod emit;
pub(crate) mod extend;
pub(crate) mod group;
pub(crate) mod inspect;
pub(crate) mod item;
pub(crate) mod items;
pub(crate) mod lease;
pub(crate) mod produce;
pub(crate) mod queue;
pub(crate) mod reference;
pub(crate) mod release;
pub(crate) mod retry;
pub(crate) mod rules;
pub(crate) mod serve;
pub(crate) mod server;
pub(crate) mod storage;
pub(crate) mod top;
pub(crate) mod update;
pub(crate) mod watch;
pub(crate) mod work;
