//! Finding the programs of peers, and installing packages that are missing.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Where Debian has servers that are not in everybody's PATH.
const FURTHER: [&str; 3] = ["/usr/sbin", "/usr/local/sbin", "/usr/lib/rabbitmq/bin"];
const POSTGRES: &str = "/usr/lib/postgresql";

/// A program in PATH or where Debian puts it.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(FURTHER.iter().map(PathBuf::from));
    directories
        .chain(postgres_directories())
        .map(|directory| directory.join(name))
        .find(|file| file.is_file())
}

/// `/usr/lib/postgresql/VERSION/bin`, the newest first.
fn postgres_directories() -> Vec<PathBuf> {
    let Ok(versions) = std::fs::read_dir(Path::new(POSTGRES)) else { return Vec::new() };
    let mut versions: Vec<u32> =
        versions.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    versions.sort_unstable();
    versions.iter().rev().map(|version| Path::new(POSTGRES).join(version.to_string()).join("bin")).collect()
}

/// Installs Debian packages, which needs root.
pub(crate) fn install(packages: &[&str]) -> Result<()> {
    let mut command = Command::new("apt-get");
    command.args(["install", "--yes", "--no-install-recommends"]).args(packages);
    command.env("DEBIAN_FRONTEND", "noninteractive").stdout(std::io::stderr());
    let status = command.status().context("cannot run apt-get: install the peers in another way")?;
    let names = packages.join(" ");
    ensure!(status.success(), "apt-get could not install {names}: run it as root, or leave out --install");
    Ok(())
}
