//! Which scenarios the flags ask for.

use super::Scenario;
use super::backlog::Backlog;
use super::cycles::Cycles;
use super::pickup::Pickup;
use super::scheduled::Scheduled;
use super::switches::Switches;
use super::waiting::Waiting;
use crate::args::{Args, Work};

/// Scenarios that share their servers.
pub(crate) type Group = Vec<Box<dyn Scenario>>;

pub(crate) fn groups(args: &Args) -> Vec<Group> {
    args.work().into_iter().map(|work| group(work, args)).collect()
}

fn group(work: Work, args: &Args) -> Group {
    match work {
        Work::Cycles => cycles(args),
        Work::Switches => vec![Box::new(Switches { time: args.time() })],
        Work::Pickup => vec![Box::new(Pickup { time: args.time() })],
        Work::Backlog => backlogs(args),
        Work::Scheduled => vec![Box::new(Scheduled { items: args.scheduled() })],
        Work::Waiting => vec![Box::new(Waiting { leases: args.waiting() })],
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

fn backlogs(args: &Args) -> Group {
    let backlog = |items| -> Box<dyn Scenario> { Box::new(Backlog::new(items, args.time())) };
    args.backlogs().into_iter().map(backlog).collect()
}
