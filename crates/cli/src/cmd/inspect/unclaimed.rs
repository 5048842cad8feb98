//! Partitions of a data directory that no queue names.

use serde::Serialize;
use windlass_engine::store::log::inspect;

use crate::human::{count, counted};

#[derive(Debug, Serialize)]
pub(super) struct Unclaimed {
    pub(super) partition: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    items: Option<u64>,
}

/// Unset where there is no registry to compare with.
pub(super) fn of(found: inspect::Unclaimed) -> Option<Vec<Unclaimed>> {
    match found {
        inspect::Unclaimed::NotKnown => None,
        inspect::Unclaimed::Known(found) => Some(
            found
                .into_iter()
                .map(|(id, report)| Unclaimed {
                    partition: id.0,
                    queue: report.queue.map(|queue| queue.name.to_string()),
                    items: report.items,
                })
                .collect(),
        ),
    }
}

pub(super) fn shown(found: Option<&[Unclaimed]>) -> String {
    match found {
        None => "not known, because this directory holds no registry that can be read: the registry lists the queues and \
                 their partitions.\n  If the directory is that of a store under `[[stores]]`, this is right: the registry \
                 is in the directory that --data names.\n  If it is the directory that --data names, its queues are lost, \
                 and every partition in it is unclaimed. Start a server on it, list the partitions with `windlass storage \
                 unclaimed`, create the queues, and adopt each partition with `windlass storage adopt`"
            .into(),
        Some([]) => "none".into(),
        Some(found) => {
            let lines = found.iter().map(|unclaimed| {
                let queue = unclaimed.queue.as_ref().map(|queue| format!(", was of queue {queue}"));
                let items = unclaimed.items.map_or("unreadable".into(), |items| counted(items, "item"));
                format!("\n  {}: {items}{}", unclaimed.partition, queue.unwrap_or_default())
            });
            let how = "\n  start the server and adopt each with `windlass storage adopt`, or drop it with `windlass storage drop`";
            format!("{}{}{how}", count(found.len() as u64), lines.collect::<String>())
        }
    }
}
