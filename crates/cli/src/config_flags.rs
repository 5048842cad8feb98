//! Every setting of the server as a flag, made from the server's own table.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, value_parser};
use serde_json::{Map, Value};
use windlass_server::config::{self, Config, KEYS, Key, RawConfig};

use crate::cmd::work;
use crate::exit::Failure;

const FILE: &str = "config";

#[derive(Debug, Default)]
pub(crate) struct ConfigFlags {
    file: Option<PathBuf>,
    raw: RawConfig,
}

impl ConfigFlags {
    pub(crate) fn load(self) -> Result<Config, Failure> {
        // `windlass work` tells its command about the item: that is no setting.
        let settings = config::environment().filter(|(name, _)| !work::VARIABLES.contains(&name.as_str()));
        config::load(self.raw, self.file, settings).map_err(|error| Failure::usage(error.to_string()))
    }
}

impl Args for ConfigFlags {
    fn augment_args(command: Command) -> Command {
        let file = Arg::new(FILE).long(FILE).value_name("FILE").value_parser(value_parser!(PathBuf));
        let file = file.help("A TOML file with settings [env: WINDLASS_CONFIG]");
        command.arg(file).args(KEYS.iter().map(flag))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ConfigFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Self::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.file = matches.get_one::<PathBuf>(FILE).cloned();
        let mut settings = Map::new();
        for key in KEYS {
            if let Some(value) = matches.get_one::<String>(key.name) {
                put(&mut settings, key.name, value);
            }
        }
        self.raw = serde_json::from_value(settings.into()).expect("every key has its place in `RawConfig`");
        Ok(())
    }
}

/// A dot stands for a table.
fn put(settings: &mut Map<String, Value>, name: &str, value: &str) {
    match name.split_once('.') {
        None => drop(settings.insert(name.to_owned(), value.into())),
        Some((table, name)) => {
            let table = settings.entry(table).or_insert_with(|| Map::new().into());
            put(table.as_object_mut().expect("a name with a dot stands in a table"), name, value);
        }
    }
}

fn flag(key: &'static Key) -> Arg {
    // Clap wants names that live as long as the program, and so do these few.
    let long = key.flag().trim_start_matches('-').to_owned().leak();
    let default = if key.default.is_empty() { "none" } else { key.default };
    let help = format!("{} [default: {default}]", key.doc);
    let long_help = format!("{help}\n\nTakes {}. Also from {}.", key.takes, key.variable());
    let flag = Arg::new(key.name).long(&*long).value_name("VALUE").help(help).long_help(long_help);
    let is_switch = key.default.parse::<bool>().is_ok();
    if is_switch { flag.num_args(0..=1).require_equals(true).default_missing_value("true") } else { flag }
}
