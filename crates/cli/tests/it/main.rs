//! What the binary promises, from the outside.

#[cfg(test)]
mod readme;
