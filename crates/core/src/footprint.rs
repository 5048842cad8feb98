//! [`Footprint`]: which verbs are still carried out where a store runs out of room.

/// In the order in which they are refused when room runs out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Footprint {
    /// Makes the store larger: refused once the disk is full.
    Grows,
    /// Writes rows anew and frees nothing, as a lease or a heartbeat does. Refused when the last of the reserve is reached,
    /// which workers that only lease and extend would otherwise use up.
    Rewrites,
    /// Ends or removes items, or helps an operator to: never refused for want of room.
    Frees,
}
