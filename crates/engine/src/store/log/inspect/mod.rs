//! A log looked at from outside, while no server has it open: [`check`] it, [`export`] what is in it, [`salvage`] what
//! is left of a damaged one. Nothing here writes to the log it looks at.
//!
//! On a real disk these block: call them from a thread that may.

mod check;
mod export;
mod guess;
mod loss;
mod reading;
mod refused;
mod salvage;
mod unclaimed;

pub(super) use check::examine;
pub use check::{FileReport, PartitionReport, Report, Use, check, check_with};
pub use export::{Exported, export};
pub use loss::account::{Account, PartitionAccount};
pub use salvage::{Salvaged, salvage, salvage_with};
pub use unclaimed::{Unclaimed, UnclaimedReport};

use super::disk::Disk;
use super::format::{self, Format, Found};
use super::opening;
use crate::store::StoreError;

/// A function that is told how many bytes are done, and of how many.
pub type Progress<'a> = &'a mut (dyn FnMut(u64, u64) + Send);

/// Takes the log for as long as it is looked at, so that no server writes to it meanwhile.
struct Locked<'a>(&'a dyn Disk);

impl<'a> Locked<'a> {
    async fn take(disk: &'a dyn Disk) -> Result<Self, StoreError> {
        opening::lock(disk).await?;
        Ok(Self(disk))
    }

    async fn format(&self) -> Result<Format, StoreError> {
        Ok(self.found().await?.format)
    }

    /// The `format` file, and the damage to one of its copies.
    async fn found(&self) -> Result<Found, StoreError> {
        let found = format::read(self.0).await?;
        let empty = || StoreError::Unusable(format!("{}: there is no log here", self.0.path("")));
        found.ok_or_else(empty)
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.0.unlock();
    }
}
