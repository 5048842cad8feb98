//! What the server promises, from the outside.

#[cfg(test)]
mod connections;
#[cfg(test)]
mod hostile;
