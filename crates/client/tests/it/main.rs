//! What the client promises, seen from a server that plays a script; and what needs a real one.

#[cfg(test)]
mod bench;
#[cfg(test)]
mod connections;
#[cfg(test)]
mod encodings;
#[cfg(test)]
mod errors;
#[cfg(test)]
mod hang_up;
#[cfg(test)]
#[path = "../../examples/render/library.rs"]
mod library;
#[cfg(test)]
mod methods;
#[cfg(test)]
mod real_server;
#[cfg(test)]
mod relay;
#[cfg(test)]
mod render;
#[cfg(test)]
mod repeats;
#[cfg(test)]
mod script;
#[cfg(test)]
mod streams;
#[cfg(test)]
mod worker;
#[cfg(test)]
mod worker_events;
#[cfg(test)]
mod worker_turns;
#[cfg(test)]
mod world;
