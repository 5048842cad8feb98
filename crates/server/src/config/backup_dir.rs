//! Where backups go: never into the data that they are copies of.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use windlass_engine::store::DEFAULT_STORE;

use super::Config;
use super::error::ConfigError;

/// The default: a sibling of the data directory, so that who deletes or moves the one does not take the other along.
pub(super) fn beside(data: &Path) -> PathBuf {
    let named = if data.file_name().is_some() { data.to_owned() } else { resolved(data) };
    let mut name = named.file_name().map(OsString::from).unwrap_or_default();
    name.push("-backups");
    named.with_file_name(name)
}

pub(super) fn check(config: &Config) -> Result<(), ConfigError> {
    let backup_dir = resolved(&config.backup_dir);
    let others = config.stores.iter().map(|store| (store.name.as_str(), &store.data));
    for (store, data) in std::iter::once((DEFAULT_STORE, &config.data)).chain(others) {
        if backup_dir.starts_with(resolved(data)) {
            return Err(ConfigError::BackupsWithinData {
                backup_dir: config.backup_dir.clone(),
                within: data.clone(),
                store: store.to_owned(),
            });
        }
    }
    Ok(())
}

/// The whole path, without links as far as it is there already.
fn resolved(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let there = path.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    let Some((above, real)) = there else { return path };
    let mut resolved = real;
    for part in path.strip_prefix(above).unwrap_or(Path::new("")) {
        match part.to_str() {
            Some("..") => drop(resolved.pop()),
            Some(".") => {}
            Some(_) | None => resolved.push(part),
        }
    }
    resolved
}
