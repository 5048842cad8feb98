//! `windlass items`: items by state, kind, header, error or time, and changes of all that match.

mod action;
mod change;
pub(super) mod dead_letters;
mod filter;
mod find;
pub(super) mod shown;

use clap::{Args, Subcommand};

use self::change::Change;
use self::find::Find;
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::remote::Remote;

/// Find items by state, kind, header, error or time, and change all that match
#[derive(Debug, Args)]
pub(crate) struct Items {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Find(Find),
    Change(Change),
}

impl Items {
    pub(crate) async fn run(self, remote: &Remote, out: Output) -> Result<Exit, Failure> {
        match self.verb {
            Verb::Find(find) => find.run(remote, out).await,
            Verb::Change(change) => change.run(remote, out).await,
        }
    }
}
