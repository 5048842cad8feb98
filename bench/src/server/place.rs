//! Where a server has its data, and where it listens.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The directory of one server, and the path of `windlass`.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    directory: PathBuf,
    windlass: PathBuf,
}

impl Place {
    /// Makes a directory of its own under `parent`.
    pub(crate) fn new(parent: &Path, name: &str, windlass: &Path) -> Result<Self> {
        let directory = parent.join(name);
        std::fs::create_dir_all(&directory).with_context(|| {
            format!("cannot make {}: choose another place with --data-dir", directory.display())
        })?;
        Ok(Self { directory, windlass: windlass.to_owned() })
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn windlass(&self) -> &Path {
        &self.windlass
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.directory.with_extension("log")
    }

    /// A loopback address that nobody listens on right now.
    pub(crate) fn free_address(&self) -> Result<SocketAddr> {
        let listener = TcpListener::bind("127.0.0.1:0").context("there is no free port on 127.0.0.1")?;
        Ok(listener.local_addr()?)
    }
}
