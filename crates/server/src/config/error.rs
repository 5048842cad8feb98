//! What can be wrong with a configuration, and what to do about it.

use std::fmt;
use std::io;
use std::path::PathBuf;

use super::keys::INSECURE;
use super::raw::Raw;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Default,
    File(PathBuf),
    Environment(String),
    Flag(String),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Environment(variable) => write!(f, "environment {variable}"),
            Self::Flag(flag) => write!(f, "flag {flag}"),
        }
    }
}

/// A setting, what it was set to, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stated {
    pub key: &'static str,
    pub value: Raw,
    pub source: Source,
}

impl fmt::Display for Stated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {} ({})", self.key, self.value, self.source)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read the config file {} ({named_by}): {source}", .path.display())]
    Unreadable { path: PathBuf, named_by: Source, source: io::Error },
    #[error("the config file {} is not right: {source}", .path.display())]
    NotToml { path: PathBuf, source: Box<toml::de::Error> },
    #[error("the store `{name}` in the config file {} cannot be: {problem}", .file.display())]
    Store { file: PathBuf, name: String, problem: &'static str },
    #[error(
        "--take-over-store {name}: there is no store `{name}`. Name `default`, which is the one in `data`, or one under \
         `[[stores]]` in the config file"
    )]
    NoSuchStore { name: String },
    #[error(
        "backup_dir = {} is within {}, the directory of the store `{store}`: backups there are lost with the data. Set \
         `backup_dir` to a directory outside of it, best on another disk",
        .backup_dir.display(), .within.display()
    )]
    BackupsWithinData { backup_dir: PathBuf, within: PathBuf, store: String },
    #[error("{stated} cannot be: give {takes}")]
    Wrong { stated: Stated, takes: &'static str },
    #[error("{stated} cannot be, because of the entry {entry}: give {takes}")]
    WrongEntry { entry: Raw, stated: Box<Stated>, takes: &'static str },
    #[error(
        "{0} lets other machines in, and there is no authentication yet: whoever can connect can read and change \
         everything. Listen on a loopback address such as 127.0.0.1:9463; or, if only machines you trust can \
         connect, say so with insecure = true ({flag} or {variable}=true)",
        flag = INSECURE.flag(),
        variable = INSECURE.variable()
    )]
    NotLoopback(Stated),
    #[error("{interval} has no effect with {durability}: remove it, or choose durability = \"interval\"")]
    NoInterval { interval: Box<Stated>, durability: Box<Stated> },
    #[error("{part} is more than {whole}, so it could never be used up: lower it, or raise {}", .whole.key)]
    LargerThanWhole { part: Box<Stated>, whole: Box<Stated> },
}
