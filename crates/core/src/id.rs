//! Who is who: partitions, items, permits.

use std::fmt;

use uuid::Uuid;

/// The largest number this system issues: it survives a trip through a JSON number.
pub const NUMBER_MAX: u64 = (1 << 53) - 1;

/// A partition's number: global to the server, never reused. Number 0 is the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId(pub u32);

impl PartitionId {
    pub const REGISTRY: Self = Self(0);
}

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An item's number in its partition: issued in the order of production, under 2^53.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ItemNumber(pub u64);

/// A group's number in its partition: one of those of items, so that a group made again under an old name is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupNumber(pub u64);

/// The right to one item until its lease ends. Larger with every item leased in the partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Permit(pub u64);

impl Permit {
    /// A permit that no lease has: for a lease that was not of this partition.
    pub const NONE: Self = Self(0);
}

/// What clients know an item by. It alone tells the partition, and sorts in the order of production within one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ItemId {
    pub number: ItemNumber,
    pub partition: PartitionId,
}

// A version 8 UUID: 48 bits, version, 12 bits, variant, 62 bits. The number takes the first 53 free bits,
// the partition the last 32; everything between is zero.
const VERSION: u128 = 0x8 << 76;
const VARIANT: u128 = 0b10 << 62;

impl ItemId {
    pub fn to_uuid(self) -> Uuid {
        let high = u128::from(self.number.0 >> 5) << 80;
        let low = u128::from(self.number.0 & 0x1f) << 71;
        Uuid::from_u128(high | VERSION | low | VARIANT | u128::from(self.partition.0))
    }

    /// `None` for a UUID that was not made by [`ItemId::to_uuid`], hence is no item's.
    pub fn from_uuid(uuid: Uuid) -> Option<Self> {
        let bits = uuid.as_u128();
        let number = ((bits >> 80) as u64) << 5 | ((bits >> 71) as u64 & 0x1f);
        let id = Self { number: ItemNumber(number), partition: PartitionId(bits as u32) };
        (id.to_uuid() == uuid).then_some(id)
    }

    /// Where any UUID stands among the ids: the last of them that is not after it, whether or not there is such an item.
    pub fn not_after(uuid: Uuid) -> Option<Self> {
        let id = |bits: u128| Self {
            number: ItemNumber((bits >> u32::BITS) as u64),
            partition: PartitionId(bits as u32),
        };
        // Bit by bit: ids sort as their UUIDs do.
        let bits = (0..NUMBER_MAX.count_ones() + u32::BITS).rev().fold(0, |bits, next| {
            let with_next = bits | 1 << next;
            if id(with_next).to_uuid() <= uuid { with_next } else { bits }
        });
        Some(id(bits)).filter(|id| id.to_uuid() <= uuid)
    }
}

impl fmt::Display for ItemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_uuid().fmt(f)
    }
}
