//! The changes that a batch makes to bodies.

use bytes::Bytes;
use windlass_core::id::ItemNumber;
use windlass_core::row::{Key, Part};

use super::BodyKey;

#[derive(Clone, Debug)]
pub(crate) enum BodyChange {
    Put {
        key: BodyKey,
        /// Where the body begins: within the bytes of all bodies, or within whatever the store wrote them into.
        at: u32,
        length: u32,
        crc: u32,
        /// Empty if the change was read back: only the place is told then.
        body: Bytes,
    },
    Remove {
        key: BodyKey,
    },
    /// Removes all bodies of an item but its events.
    RemoveAll {
        number: ItemNumber,
    },
    RemoveEvents {
        number: ItemNumber,
    },
}

impl BodyChange {
    /// The bodies that go with a row when it is removed.
    pub(crate) fn with_row(key: &Key) -> Option<Self> {
        match key {
            Key::Item(number) => Some(Self::RemoveAll { number: *number }),
            Key::Events(number, None) => Some(Self::RemoveEvents { number: *number }),
            Key::Events(number, Some(first_seq)) => {
                Some(Self::Remove { key: BodyKey::new(*number, Part::Events(*first_seq)) })
            }
            Key::Numbers
            | Key::Settings
            | Key::Cleared
            | Key::Partitions
            | Key::Queue(_)
            | Key::Taken(_)
            | Key::Once(_)
            | Key::Group(_)
            | Key::Intake
            | Key::Rules(_)
            | Key::Rule(_)
            | Key::Cron(_)
            | Key::CronHome(_)
            | Key::Dropped(_) => None,
        }
    }
}
