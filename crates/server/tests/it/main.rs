//! What the server promises, from the outside.

#[cfg(test)]
mod config;
#[cfg(test)]
mod docs;
#[cfg(test)]
mod metrics;
