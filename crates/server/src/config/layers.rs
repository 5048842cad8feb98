//! Flags over environment over file over defaults, and the memory of which it was.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::error::{ConfigError, Source, Stated};
use super::keys::{FILE_VARIABLE, KEYS, Key, OTHER_VARIABLES, VARIABLE_PREFIX};
use super::raw::{Raw, RawConfig};
use super::stores::{self, StoreConfig};
use super::value;

#[derive(Debug, Default)]
pub(super) struct Layers {
    flags: RawConfig,
    environment: RawConfig,
    file: RawConfig,
    path: PathBuf,
    /// Variables that look like settings and are none.
    pub(super) ignored: Vec<String>,
    /// What was read so far.
    stated: BTreeMap<&'static str, Stated>,
}

impl Layers {
    pub(super) fn gather(
        flags: RawConfig,
        file: Option<PathBuf>,
        variables: impl Iterator<Item = (String, String)>,
    ) -> Result<Self, ConfigError> {
        let Variables { environment, file: file_variable, ignored } = read_variables(variables);
        let by_flag = file.map(|path| (path, Source::Flag("--config".to_owned())));
        let by_variable =
            file_variable.map(|path| (path.into(), Source::Environment(FILE_VARIABLE.to_owned())));
        let layers = Self { flags, environment, ignored, ..Self::default() };
        match by_flag.or(by_variable) {
            None => Ok(layers),
            Some((path, named_by)) => Ok(Self { file: read_file(&path, named_by)?, path, ..layers }),
        }
    }

    pub(super) fn read<T>(
        &mut self,
        key: &Key,
        parse: impl FnOnce(&Raw) -> Option<T>,
    ) -> Result<T, ConfigError> {
        let (value, source) = self.take(key);
        let stated = Stated { key: key.name, value, source };
        let Some(value) = parse(&stated.value) else {
            return Err(ConfigError::Wrong { stated, takes: key.takes });
        };
        self.stated.insert(key.name, stated);
        Ok(value)
    }

    /// The first entry that cannot be is named.
    pub(super) fn read_list<T>(
        &mut self,
        key: &Key,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Vec<T>, ConfigError> {
        let entries = self.read(key, value::entries)?;
        let wrong = |entry: &str| ConfigError::WrongEntry {
            entry: entry.into(),
            stated: self.stated(key).into(),
            takes: key.takes,
        };
        entries.iter().map(|entry| parse(entry).ok_or_else(|| wrong(entry))).collect()
    }

    fn take(&mut self, key: &Key) -> (Raw, Source) {
        if let Some(value) = (key.slot)(&mut self.flags).take() {
            (value, Source::Flag(key.flag()))
        } else if let Some(value) = (key.slot)(&mut self.environment).take() {
            (value, Source::Environment(key.variable()))
        } else if let Some(value) = (key.slot)(&mut self.file).take() {
            (value, Source::File(self.path.clone()))
        } else {
            (key.default.into(), Source::Default)
        }
    }

    /// Named in a file alone.
    pub(super) fn stores(&mut self, data: &Path) -> Result<Vec<StoreConfig>, ConfigError> {
        stores::stores(std::mem::take(&mut self.file.stores), data, &self.path)
    }

    pub(super) fn is_default(&self, key: &Key) -> bool {
        self.stated(key).source == Source::Default
    }

    pub(super) fn stated(&self, key: &Key) -> Stated {
        self.stated.get(key.name).expect("settings are compared after they were read").clone()
    }

    pub(super) fn into_sources(self) -> BTreeMap<&'static str, Source> {
        self.stated.into_iter().map(|(key, stated)| (key, stated.source)).collect()
    }
}

#[derive(Default)]
struct Variables {
    environment: RawConfig,
    /// The file that may be named beside the settings.
    file: Option<String>,
    ignored: Vec<String>,
}

/// A name that is no setting is not an error: cluster schedulers make variables of their own from the name of a
/// service, such as `WINDLASS_PORT`.
fn read_variables(variables: impl Iterator<Item = (String, String)>) -> Variables {
    let mut read = Variables::default();
    for (name, value) in variables.filter(|(name, _)| name.starts_with(VARIABLE_PREFIX)) {
        if name == FILE_VARIABLE {
            read.file = Some(value);
        } else if let Some(key) = KEYS.iter().find(|key| key.variable() == name) {
            *(key.slot)(&mut read.environment) = Some(value.into());
        } else if !OTHER_VARIABLES.contains(&name.as_str()) {
            read.ignored.push(name);
        }
    }
    read
}

fn read_file(path: &PathBuf, named_by: Source) -> Result<RawConfig, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Unreadable {
        path: path.clone(),
        named_by,
        source,
    })?;
    toml::from_str(&text)
        .map_err(|source| ConfigError::NotToml { path: path.clone(), source: Box::new(source) })
}
