//! Where new items go that have no key of their own.

/// What is known of a partition's load; a hint, for it may have changed since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    pub healthy: bool,
    pub waiting: u64,
    pub scheduled: u64,
}

/// The healthy partition with the fewest items of the kind being produced: waiting and scheduled ones count apart,
/// since a partition full of next week's work is idle today. Among equals the first from `start` on, which the
/// caller moves on with every call.
pub fn pick(loads: &[Load], scheduled: bool, start: usize) -> Option<usize> {
    let start = start.checked_rem(loads.len())?;
    let turn = (start..loads.len()).chain(0..start);
    let items = |at: &usize| if scheduled { loads[*at].scheduled } else { loads[*at].waiting };
    turn.filter(|&at| loads[at].healthy).min_by_key(items)
}
