mod config;
mod docs;
mod metrics;
