//! Partitions of a data directory that no queue names.

use serde::Serialize;
use windlass_engine::store::log::inspect;

use crate::human::{count, counted};

#[derive(Debug, Serialize)]
pub(super) struct Unclaimed {
    partition: u32,
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
        None => "not known: the registry, which names those that queues have, is not in this directory. A server that \
                 opens the directory keeps all that no queue names"
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
