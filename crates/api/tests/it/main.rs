//! The contract, checked against itself: code, protobuf schema and reference say the same.

mod contract;
mod document;
mod errors;
mod filters;
mod json;
mod payload;
mod proto;
mod reference;
mod sample;
mod schema;
mod shape;
mod storage;
mod strictness;
mod time;
