//! What the client promises, seen from a server that plays a script.

#[cfg(test)]
mod connections;
#[cfg(test)]
mod encodings;
#[cfg(test)]
mod errors;
#[cfg(test)]
mod methods;
#[cfg(test)]
mod repeats;
#[cfg(test)]
mod script;
