//! The settings of the queue, as the registry says them.

use crate::footprint::Footprint;
use crate::partition::{Output, Partition};
use crate::row::Row;
use crate::settings::Settings;
use crate::time::Timestamp;
use crate::urgency::Urgency;
use crate::verb::{Decided, Verb};

/// Takes the queue's settings over, unless their version is the one the partition has. An older version counts too: the
/// registry may have been restored from a backup.
#[derive(Clone, Debug)]
pub struct Configure(pub Settings);

impl Verb for Configure {
    type Reply = ();
    const FOOTPRINT: Footprint = Footprint::Frees;
    const URGENCY: Urgency = Urgency::Settling;

    fn decide(self, partition: &mut Partition, _now: Timestamp, out: &mut Output) -> Decided<Self> {
        partition.configure(self.0, out);
        Ok(())
    }
}

impl Partition {
    fn configure(&mut self, settings: Settings, out: &mut Output) {
        if settings.version != self.settings.version {
            // What could not go to the dead queue there was may go to the one there is now, and what waits for a queue that
            // does not exist may be more than may wait for it now.
            let concerns_moves = settings.dead_queue != self.settings.dead_queue
                || settings.retention_max_bytes != self.settings.retention_max_bytes;
            out.outgoing |= concerns_moves && self.has_outgoing();
            let indexed_since = self.indexed_since(&settings);
            self.record(Row::Settings(Settings { indexed_since, ..settings }), out);
        }
    }
}
