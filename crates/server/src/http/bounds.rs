//! Bounds that waiting does not mend: their names in `details.limit`, and what to do about them.

use windlass_api::Code;
use windlass_core::refusal::Limit;

use super::error::Problem;

pub(super) fn reached(limit: Limit, max: usize) -> Problem {
    let (name, message) = match limit {
        Limit::Queues => ("limits.queues", of_configuration("queues", "limits.queues", max)),
        Limit::Partitions => ("limits.partitions", of_configuration("partitions", "limits.partitions", max)),
        Limit::PartitionsPerQueue => (
            "partitions_per_queue",
            format!("a queue has at most {max} partitions: adopt this one into another queue"),
        ),
        Limit::Crons => {
            ("crons", format!("the server takes at most {max} crons: delete crons that are not needed"))
        }
        Limit::CronsPerQueue => (
            "crons_per_queue",
            format!(
                "a queue has at most {max} crons: delete crons that are not needed, or use another queue"
            ),
        ),
        Limit::RulesPerQueue => (
            "rules_per_queue",
            format!(
                "a queue has at most {max} rules: lift rules that are not needed, or stop the whole queue"
            ),
        ),
        Limit::ItemNumbers => ("item_numbers", used_up("numbers of items", max)),
        Limit::QueueVersions => ("queue_versions", used_up("versions of its settings", max)),
        Limit::Clears => ("clears", used_up("clears", max)),
        Limit::PartitionNumbers => (
            "partition_numbers",
            format!("the server has used up its {max} numbers of partitions: move to a new data directory"),
        ),
    };
    Problem { limit: Some(name), ..Problem::new(Code::Overloaded, message) }
}

fn of_configuration(what: &str, setting: &str, max: usize) -> String {
    format!(
        "the server takes at most {max} {what}: delete queues that are not needed, or raise `{setting}` in its configuration"
    )
}

fn used_up(what: &str, max: usize) -> String {
    format!("the queue has used up its {max} {what}: make another queue")
}
