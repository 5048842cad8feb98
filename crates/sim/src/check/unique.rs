//! Numbers: each permit is given once, and ids and permits grow in the order in which a partition gave them.

use std::collections::BTreeMap;

use windlass_core::id::{ItemId, PartitionId, Permit};

use super::facts::{Facts, violation};
use crate::history::{Call, Violation};

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    permits_are_given_once(facts)?;
    let ids = |call: &Call| {
        call.outcome.produced().iter().map(|(id, _)| (id.partition, id.number.0)).collect::<Vec<_>>()
    };
    grows(facts, "id", ids)?;
    let permits = |call: &Call| {
        call.outcome.granted().iter().map(|item| (item.id.partition, item.permit.0)).collect::<Vec<_>>()
    };
    grows(facts, "permit", permits)
}

fn permits_are_given_once(facts: &Facts<'_>) -> Result<(), Violation> {
    let mut given: BTreeMap<(PartitionId, Permit), ItemId> = BTreeMap::new();
    for grant in facts.items.iter().flat_map(|item| &item.grants) {
        let (id, permit) = (grant.given.id, grant.given.permit);
        if let Some(other) = given.insert((id.partition, permit), id) {
            return Err(violation(
                "unique",
                format!("permit {} was given for {other:?} and for {id:?}", permit.0),
            ));
        }
    }
    Ok(())
}

/// What a call was given after another had its answer is greater.
fn grows(
    facts: &Facts<'_>,
    what: &'static str,
    numbers: impl Fn(&Call) -> Vec<(PartitionId, u64)>,
) -> Result<(), Violation> {
    let calls: Vec<(&Call, Vec<(PartitionId, u64)>)> = facts
        .history
        .calls
        .iter()
        .map(|call| (call, numbers(call)))
        .filter(|(_, all)| !all.is_empty())
        .collect();
    let mut begins: Vec<usize> = (0..calls.len()).collect();
    begins.sort_by_key(|index| calls[*index].0.begin);
    let mut ends: Vec<usize> = (0..calls.len()).collect();
    ends.sort_by_key(|index| calls[*index].0.end);
    let mut ended = ends.into_iter().peekable();
    let mut highest: BTreeMap<PartitionId, u64> = BTreeMap::new();
    for index in begins {
        let (call, numbers) = &calls[index];
        while let Some(done) = ended.next_if(|done| calls[*done].0.end < call.begin) {
            for (partition, number) in &calls[done].1 {
                let top = highest.entry(*partition).or_default();
                *top = (*top).max(*number);
            }
        }
        for (partition, number) in numbers {
            if highest.get(partition).is_some_and(|highest| number <= highest) {
                let text =
                    format!("{what} {number} of partition {partition} is not above those given before");
                return Err(violation("unique", text));
            }
        }
    }
    Ok(())
}
