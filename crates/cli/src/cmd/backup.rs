//! `windlass backup`: a consistent copy of all data, made by the server while it runs.

use clap::Args;
use windlass_api::service::{BackupDamage, BackupReply, BackupRequest};

use crate::exit::{Exit, Failure};
use crate::human::{bytes, count, counted};
use crate::output::Output;
use crate::remote::Remote;
use crate::table::facts;

/// Have the server copy all its data, consistently, while it runs
#[derive(Debug, Args)]
#[command(after_help = "\
The copy is made on the server's machine, of all stores at one moment, and every byte of it is checked. If some of the \
data is damaged, the copy is kept all the same; the damage is listed, and the exit code is 5.

To use the copy, start a server with `--data` on it, or better on a copy of it. Other stores are in its directory \
`stores`, under their names.

Examples:
  windlass backup
  windlass backup before-upgrade")]
pub(crate) struct Backup {
    /// Its name: 1 to 128 of A-Z a-z 0-9 . _ - [the time]
    name: Option<String>,
}

impl Backup {
    pub(crate) async fn run(self, remote: &Remote, out: Output) -> Result<Exit, Failure> {
        let waiting = out.waiting("the server copies its data and checks the copy");
        let reply = remote.call(&BackupRequest { backup: self.name }).await;
        waiting.finish_and_clear();
        let reply = reply?;
        out.reply(&reply, |_| shown(&reply))?;
        Ok(if reply.damage.is_empty() { Exit::Done } else { Exit::Damaged })
    }
}

fn shown(reply: &BackupReply) -> String {
    facts(&[
        ("backup", reply.backup.clone()),
        ("path", reply.path.clone()),
        ("size", bytes(reply.bytes)),
        ("damage", damage(&reply.damage)),
    ])
}

fn damage(damage: &[BackupDamage]) -> String {
    if damage.is_empty() {
        return "none".into();
    }
    let place = |damage: &BackupDamage| match (&damage.file, damage.offset) {
        (Some(file), Some(offset)) => format!("\n  {file}, byte {}: {}", count(offset), damage.what),
        (Some(file), None) => format!("\n  {file}: {}", damage.what),
        (None, _) => format!("\n  {}", damage.what),
    };
    let places: String = damage.iter().map(place).collect();
    format!("{}{places}", counted(damage.len() as u64, "place"))
}
