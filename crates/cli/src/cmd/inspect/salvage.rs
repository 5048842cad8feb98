//! What is left of a damaged log, in a new one.

use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use windlass_core::id::PartitionId;
use windlass_engine::env::TokioEnv;
use windlass_engine::store::log::LogOptions;
use windlass_engine::store::log::disk::Disk;
use windlass_engine::store::log::inspect;
use windlass_engine::store::log::real::RealDisk;

use super::bar::Bar;
use super::check::Damage;
use super::failure;
use super::loss::Items;
use crate::exit::{Exit, Failure};
use crate::human::count;
use crate::output::Output;
use crate::table::facts;

#[derive(Debug, Serialize)]
struct Document {
    rows: u64,
    removals: u64,
    bodies: u64,
    lost: Vec<Damage>,
    harmless: Vec<Damage>,
    items: Items,
    /// Some partitions may be unclaimed. A drop record or another store may name them all the same: `inspect` knows.
    #[serde(skip)]
    may_be_unclaimed: bool,
}

pub(super) async fn run(from: Arc<dyn Disk>, to: &Path, out: Output) -> Result<Exit, Failure> {
    let target = RealDisk::new(to);
    let target = target.map_err(|error| Failure::local(format!("cannot use {}: {error}", to.display())))?;
    let (env, target) = (Arc::new(TokioEnv::new()), Arc::new(target));
    let mut bar = Bar::new(out, "salvaged");
    let progress = &mut |done, total| bar.tell(done, total);
    let salvaged = inspect::salvage_with(env, from, target, LogOptions::default(), progress).await;
    bar.end();
    let salvaged = salvaged.map_err(|error| failure(&error))?;
    let account = &salvaged.account;
    let unclaimed: Vec<u32> = account.unclaimed().map(|id| id.0).collect();
    let has_registry = account.partitions.contains_key(&PartitionId::REGISTRY);
    let document = Document {
        rows: salvaged.rows,
        removals: salvaged.removals,
        bodies: salvaged.bodies,
        lost: salvaged.lost.iter().map(Damage::of).collect(),
        harmless: salvaged.harmless.iter().map(Damage::of).collect(),
        may_be_unclaimed: !unclaimed.is_empty() || !has_registry,
        items: Items::of(account, unclaimed),
    };
    out.reply(&document, |_| document.shown(to))?;
    Ok(if document.lost.is_empty() { Exit::Done } else { Exit::Damaged })
}

impl Document {
    fn shown(&self, to: &Path) -> String {
        let counts = facts(&[
            ("written to", to.display().to_string()),
            ("rows", count(self.rows)),
            ("removals", count(self.removals)),
            ("bodies", count(self.bodies)),
            ("items", self.items.total()),
        ]);
        let harmless = Damage::shown_harmless(&self.harmless);
        let unclaimed = if self.may_be_unclaimed {
            "partitions may be unclaimed: `windlass inspect` on the new directory tells which, and what to do\n"
        } else {
            ""
        };
        format!("{counts}lost: {}\n{harmless}{}{unclaimed}", Damage::shown(&self.lost), self.items.shown())
    }
}
