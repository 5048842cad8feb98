//! The gate before routing: hosts, origins and proxies.

mod asking;
mod parsing;
mod rules;
mod sharing;
mod walk;
