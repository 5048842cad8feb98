//! Which verbs a partition still takes when more is sent to it than it can do.

/// In the order in which verbs are refused when an inbox fills up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// Brings work, asks for work, or asks about it. Whoever sends it can send it again.
    Ordinary,
    /// Keeps alive or ends work that has been leased, finishes a move, or tells the partition what the registry says.
    /// Refused for want of room, a heartbeat or a completion would have work done twice.
    Settling,
}
