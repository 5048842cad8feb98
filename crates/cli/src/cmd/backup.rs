//! `windlass backup`: a consistent copy of all data, made by the server while it runs.

use clap::Args;
use windlass_api::service::BackupRequest;

use crate::exit::{Exit, Failure};
use crate::human::bytes;
use crate::output::Output;
use crate::remote::Remote;
use crate::table::facts;

/// Have the server copy all its data, consistently, while it runs
#[derive(Debug, Args)]
#[command(after_help = "\
The copy is made on the server's machine. To use it, start a server with `--data` on it, or a copy of it.

Examples:
  windlass backup
  windlass backup before-upgrade")]
pub(crate) struct Backup {
    /// Its name: 1 to 128 of A-Z a-z 0-9 . _ - [the time]
    name: Option<String>,
}

impl Backup {
    pub(crate) async fn run(self, remote: &Remote, out: Output) -> Result<Exit, Failure> {
        let reply = remote.call(&BackupRequest { backup: self.name }).await?;
        out.reply(&reply, |_| {
            facts(&[
                ("backup", reply.backup.clone()),
                ("path", reply.path.clone()),
                ("size", bytes(reply.bytes)),
            ])
        })?;
        Ok(Exit::Done)
    }
}
