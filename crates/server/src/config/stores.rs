//! Further stores, each a directory with a name: only a file can name them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use windlass_core::limits;
use windlass_engine::store::DEFAULT_STORE;

use super::error::ConfigError;
use super::raw::RawStore;

/// A store beside the one in `data`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreConfig {
    pub name: String,
    pub data: PathBuf,
}

pub(super) fn stores(raw: Vec<RawStore>, data: &Path, file: &Path) -> Result<Vec<StoreConfig>, ConfigError> {
    let wrong =
        |name: &str, problem| ConfigError::Store { file: file.to_owned(), name: name.to_owned(), problem };
    let mut names = BTreeSet::from([DEFAULT_STORE.to_owned()]);
    let mut directories = BTreeSet::from([data.to_owned()]);
    let mut stores = Vec::with_capacity(raw.len());
    for RawStore { name, data } in raw {
        if limits::check_name("name", &name).is_err() {
            return Err(wrong(&name, "its name must be 1 to 128 of A-Z a-z 0-9 . _ - and neither . nor .."));
        }
        if !names.insert(name.clone()) {
            return Err(wrong(&name, "another store has that name (`default` is the one in `data`)"));
        }
        let fits = !data.is_empty() && !data.contains('\0');
        if !fits || !directories.insert(PathBuf::from(&data)) {
            return Err(wrong(&name, "its `data` must be a directory that no other store has"));
        }
        stores.push(StoreConfig { name, data: data.into() });
    }
    Ok(stores)
}
