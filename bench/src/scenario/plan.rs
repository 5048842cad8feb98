//! Which scenarios the flags ask for.

use super::Scenario;
use super::cycles::Cycles;
use crate::args::{Args, Work};

/// Scenarios that share their servers.
pub(crate) type Group = Vec<Box<dyn Scenario>>;

pub(crate) fn groups(args: &Args) -> Vec<Group> {
    args.work().into_iter().map(|work| group(work, args)).collect()
}

fn group(work: Work, args: &Args) -> Group {
    match work {
        Work::Cycles => cycles(args),
    }
}

fn cycles(args: &Args) -> Group {
    let time = args.time();
    let mut group: Group = Vec::new();
    for payload in args.payloads() {
        for clients in args.clients() {
            for batch in args.batches() {
                group.push(Box::new(Cycles { clients, batch, payload, time }));
            }
        }
    }
    group
}
