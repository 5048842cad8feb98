//! Settings as somebody wrote them: in a file, in the environment or as flags. Nothing is checked here.

use std::fmt;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};

/// What one source says. Text is understood for every setting, so flags and variables need no types.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawConfig {
    pub data: Option<Raw>,
    pub listen: Option<Raw>,
    pub insecure: Option<Raw>,
    pub public_url: Option<Raw>,
    pub allowed_hosts: Option<Raw>,
    pub allowed_origins: Option<Raw>,
    pub trusted_proxies: Option<Raw>,
    pub durability: Option<Raw>,
    pub sync_interval: Option<Raw>,
    pub backup_dir: Option<Raw>,
    pub log_format: Option<Raw>,
    pub log_level: Option<Raw>,
    pub shutdown_grace: Option<Raw>,
    pub threads: Option<Raw>,
    pub limits: RawLimits,
    pub stores: Vec<RawStore>,
}

/// A store beside the one in `data`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawStore {
    pub name: String,
    pub data: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawLimits {
    pub connections: Option<Raw>,
    pub waiting_requests: Option<Raw>,
    pub payload_bytes: Option<Raw>,
    pub body_bytes: Option<Raw>,
    pub bytes_in_flight: Option<Raw>,
    pub queues: Option<Raw>,
    pub partitions: Option<Raw>,
    pub memory: Option<Raw>,
}

/// A value as it was written. Shown as TOML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Raw {
    Bool(bool),
    Integer(i64),
    Text(String),
    /// Only a file has lists; elsewhere they are texts with commas.
    List(Vec<String>),
}

impl From<bool> for Raw {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Raw {
    fn from(value: i64) -> Self {
        Self::Integer(value)
    }
}

impl From<&str> for Raw {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Raw {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl From<Vec<String>> for Raw {
    fn from(value: Vec<String>) -> Self {
        Self::List(value)
    }
}

impl fmt::Display for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => value.fmt(f),
            Self::Integer(value) => value.fmt(f),
            // Escapes what has to be.
            Self::Text(value) => toml::Value::from(value.as_str()).fmt(f),
            Self::List(values) => toml::Value::from(values.clone()).fmt(f),
        }
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyRaw)
    }
}

struct AnyRaw;

impl<'de> Visitor<'de> for AnyRaw {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text in quotes, a whole number, true, false or a list of texts")
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Raw, E> {
        Ok(value.into())
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Raw, E> {
        Ok(value.into())
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Raw, E> {
        Ok(value.into())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Raw, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list)).map(Raw::List)
    }
}
