//! The table of settings for people: the configuration in effect, and the reference page.

use std::fmt::Write as _;
use std::time::Duration;

use windlass_engine::store::log::Durability;

use super::keys::{KEYS, Key};
use super::{Config, Raw, Source, StoreConfig};

const INFALLIBLE: &str = "a string takes all that memory does";

impl Config {
    /// What is in effect and where each value came from, as a config file that says the same.
    pub fn to_toml(&self) -> String {
        let mut text =
            "# The configuration in effect. Flags win over WINDLASS_* variables, and these over a file.\n"
                .to_owned();
        let mut table = "";
        for key in KEYS {
            let (key_table, name) = key.name.rsplit_once('.').unwrap_or(("", key.name));
            if key_table != table {
                write!(text, "\n[{key_table}]\n").expect(INFALLIBLE);
                table = key_table;
            }
            self.show(key, name, &mut text);
        }
        self.stores.iter().for_each(|store| show_store(store, &mut text));
        text
    }

    fn show(&self, key: &Key, name: &str, text: &mut String) {
        let source = self.source(key);
        let line = match (key.show)(self) {
            Some(value) => format!("{name} = {value}"),
            None => format!("# {name} = \"{}\"", key.default),
        };
        write!(text, "\n# {}\n# From: {source}\n{line}\n", key.doc).expect(INFALLIBLE);
    }

    /// Where the value of a setting came from.
    pub fn source(&self, key: &Key) -> &Source {
        self.sources.get(key.name).unwrap_or(&Source::Default)
    }

    pub(super) fn durability_name(&self) -> &'static str {
        match self.durability {
            Durability::Always => "always",
            Durability::Interval(_) => "interval",
            Durability::None => "none",
        }
    }

    pub(super) fn sync_interval(&self) -> Option<Duration> {
        match self.durability {
            Durability::Interval(interval) => Some(interval.into()),
            Durability::Always | Durability::None => None,
        }
    }
}

fn show_store(StoreConfig { name, data }: &StoreConfig, text: &mut String) {
    let (name, data) = (Raw::from(name.as_str()), Raw::from(data.display().to_string()));
    write!(text, "\n[[stores]]\nname = {name}\ndata = {data}\n").expect(INFALLIBLE);
}

const STORES: &str = "
## `[[stores]]`

Further data directories, each with a name. The partitions of queues are spread over the one in `data`, which is the store
`default`, and these: a new partition goes to the store with the fewest. A store that fails makes its own partitions
faulty and no others, and returns by itself. Only in a file:

```toml
[[stores]]
name = \"a\"
data = \"/mnt/a/windlass\"
```

- A name is 1 to 128 of `A-Z a-z 0-9 . _ -`, and stays with the partitions in the store: one that is left out or renamed
  makes them faulty until it is named again.
- A directory belongs to one server. One that another server has used, or that has lost what was in it, is refused.
";

const INTRODUCTION: &str = "\
# Configuration

<!-- Made from the table in crates/server/src/config/keys.rs: `UPDATE_DOCS=1 cargo test -p windlass-server docs`. -->

Every setting can be given as a flag of the server, as an environment variable, or in a TOML file. Flags win over
variables, and variables over the file. A file is read only if `--config FILE` or `WINDLASS_CONFIG` names it. A name
that is not known is an error in the file; a variable that begins with `WINDLASS_` and is no setting is ignored, and the
server's log says so. `windlass config` shows what is in effect and where each value came from; what it prints is itself
a config file.

Durations are written like `250ms`, `30s`, `5m` or `1h30m`. Sizes are numbers of bytes, or written like `512KiB`, `16MiB`
or `1GB`. Relative paths count from the directory in which the server is started. In a file, a name with a dot stands in
a table: `limits.connections` is `connections` under `[limits]`.
";

/// The page about all settings, as Markdown.
pub fn reference() -> String {
    let mut page = INTRODUCTION.to_owned();
    for key in KEYS {
        let Key { name, takes, doc, .. } = key;
        let default = if key.default.is_empty() { "none".to_owned() } else { format!("`{}`", key.default) };
        let (flag, variable) = (key.flag(), key.variable());
        write!(
            page,
            "\n## `{name}`\n\n{doc}\n\n- Takes {takes}.\n- Default: {default}\n- Flag: `{flag}`\n- Variable: `{variable}`\n"
        )
        .expect(INFALLIBLE);
    }
    page.push_str(STORES);
    page
}
