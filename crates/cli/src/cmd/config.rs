//! `windlass config`: what a server would run with, and why.

use std::collections::BTreeMap;

use clap::Args;
use serde::Serialize;
use windlass_server::config::{Config, KEYS};

use crate::config_flags::ConfigFlags;
use crate::exit::{Exit, Failure};
use crate::output::Output;

/// Show what a server would run with, and where each value comes from
#[derive(Debug, Args)]
#[command(after_help = "\
Takes the flags of `windlass serve`, reads the same file and variables, and starts nothing. What it prints is \
itself a config file.

Examples:
  windlass config
  windlass config --config /etc/windlass.toml --json
  windlass config > windlass.toml")]
pub(crate) struct ShowConfig {
    #[command(flatten)]
    flags: ConfigFlags,
}

/// A setting, as a document shows it.
#[derive(Debug, Serialize)]
struct Setting {
    /// None: it has no meaning beside the others.
    value: Option<toml::Value>,
    from: String,
}

impl ShowConfig {
    pub(crate) fn run(self, out: Output) -> Result<Exit, Failure> {
        let config = self.flags.load()?;
        for name in &config.ignored_variables {
            out.talk(&format!("{name} is set and is not a setting: correct its name or unset it"));
        }
        out.reply(&settings(&config), |_| config.to_toml())?;
        Ok(Exit::Done)
    }
}

fn settings(config: &Config) -> BTreeMap<&'static str, Setting> {
    let file: toml::Table = config.to_toml().parse().expect("what is shown is itself a config file");
    let setting = |name: &str| {
        let mut path = name.split('.');
        let first = file.get(path.next()?)?;
        path.try_fold(first, |table, name| table.get(name)).cloned()
    };
    let from = KEYS.iter().map(|key| (key.name, config.source(key).to_string()));
    from.map(|(name, from)| (name, Setting { value: setting(name), from })).collect()
}
