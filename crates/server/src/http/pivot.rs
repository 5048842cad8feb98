//! Pivots of items.find and items.change: opaque texts, good for as long as wanted, and only for what they were given for.

use std::fmt::Write;

use prost::Message;
use windlass_core::hash::{fnv1a, splitmix64};
use windlass_core::id::{ItemNumber, PartitionId};
use windlass_core::limits::PARTITIONS_MAX;
use windlass_engine::{Walk, WalkPlace};

use super::error::Problem;

/// The first character of a pivot: others begin those of another form.
const VERSION: char = '1';

/// More places than a walk has: beside the partitions of a queue that take items there are retired ones, which are kept for
/// what they retain.
const PLACES_MAX: usize = 4 * PARTITIONS_MAX as usize;
/// The most bytes of an encoded [`Place`] in its [`Record`]: a tag and a length of a byte each, three tags, and the numbers.
const PLACE_BYTES_MAX: usize = 2 + 3 + 5 + 10 + 10;
/// The most characters of a pivot: the version, and two for each byte of the check and of the places.
const CHARS_MAX: usize = 1 + 2 * (9 + PLACES_MAX * PLACE_BYTES_MAX);

/// A walk as its pivot holds it, in hexadecimal digits.
#[derive(Clone, PartialEq, prost::Message)]
struct Record {
    /// Tells a pivot that was cut or is of something else.
    #[prost(fixed64, tag = "1")]
    check: u64,
    /// In the order of their partitions, each at most once.
    #[prost(message, repeated, tag = "2")]
    places: Vec<Place>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Place {
    #[prost(uint32, tag = "1")]
    partition: u32,
    #[prost(uint64, optional, tag = "2")]
    until: Option<u64>,
    #[prost(uint64, optional, tag = "3")]
    after: Option<u64>,
}

/// What the pivots of a walk are good for: they are refused with anything else.
pub(super) struct Scope(Vec<u8>);

impl Scope {
    /// `what`: the words of a request that must not change; `filter`: its filters as they are encoded.
    pub(super) fn new(what: &[&str], filter: &impl Message) -> Self {
        let words = what.iter().flat_map(|word| word.bytes().chain([0]));
        Self(words.chain(filter.encode_to_vec()).collect())
    }

    pub(super) fn pivot(&self, walk: &Walk) -> String {
        let places = walk.places.iter().map(|place| Place {
            partition: place.partition.0,
            until: place.until.map(|number| number.0),
            after: place.after.map(|number| number.0),
        });
        let mut places: Vec<Place> = places.collect();
        places.sort_unstable_by_key(|place| place.partition);
        let record = Record { check: self.check(&places), places };
        let mut pivot = String::from(VERSION);
        for byte in record.encode_to_vec() {
            write!(pivot, "{byte:02x}").expect("a text grows");
        }
        pivot
    }

    pub(super) fn walk(&self, pivot: &str) -> Result<Walk, Problem> {
        let record = digits(pivot).and_then(|bytes| Record::decode(&*bytes).ok());
        let is_own = |record: &Record| {
            let ascends = record.places.is_sorted_by(|one, next| one.partition < next.partition);
            ascends && record.check == self.check(&record.places)
        };
        let Some(record) = record.filter(is_own) else {
            return Err(Problem::invalid(
                "`pivot` must be that of an earlier page, with the same queue, filters, and order or action",
            ));
        };
        let place = |place: Place| WalkPlace {
            partition: PartitionId(place.partition),
            until: place.until.map(ItemNumber),
            after: place.after.map(ItemNumber),
        };
        Ok(Walk { places: record.places.into_iter().map(place).collect() })
    }

    fn check(&self, places: &[Place]) -> u64 {
        let mut checked = self.0.clone();
        checked.extend(Record { check: 0, places: places.to_vec() }.encode_to_vec());
        splitmix64(fnv1a(&checked))
    }
}

/// The bytes of a pivot, unless it is longer than any that is given out.
fn digits(pivot: &str) -> Option<Vec<u8>> {
    if pivot.len() > CHARS_MAX {
        return None;
    }
    let digits = pivot.strip_prefix(VERSION)?.as_bytes();
    let digit = |digit: &u8| char::from(*digit).to_digit(16);
    let byte = |pair: &[u8]| match pair {
        [high, low] => u8::try_from(digit(high)? << 4 | digit(low)?).ok(),
        _ => None,
    };
    digits.chunks(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use windlass_api::items::ItemFilter;

    use super::*;

    fn place(partition: u32, until: Option<u64>, after: Option<u64>) -> WalkPlace {
        let (until, after) = (until.map(ItemNumber), after.map(ItemNumber));
        WalkPlace { partition: PartitionId(partition), until, after }
    }

    #[test]
    fn a_pivot_leads_back_to_its_walk_and_to_no_other() {
        let walk = Walk { places: vec![place(1, Some(u64::MAX), Some(0)), place(77, None, None)] };
        let scope = Scope::new(&["q", "newest"], &ItemFilter::default());
        let pivot = scope.pivot(&walk);
        assert_eq!(scope.walk(&pivot).unwrap(), walk);
        let others = [
            Scope::new(&["p", "newest"], &ItemFilter::default()),
            Scope::new(&["q", "oldest"], &ItemFilter::default()),
            Scope::new(&["q", "newest"], &ItemFilter { cron: Some("c".into()), ..ItemFilter::default() }),
        ];
        assert!(others.iter().all(|other| other.walk(&pivot).is_err()));
    }

    #[test]
    fn a_pivot_with_a_partition_twice_is_refused_although_its_check_holds() {
        let scope = Scope::new(&["q", "newest"], &ItemFilter::default());
        let forged = |partitions: &[u32]| {
            let place = |partition: &u32| Place { partition: *partition, until: None, after: None };
            let places: Vec<Place> = partitions.iter().map(place).collect();
            let bytes = Record { check: scope.check(&places), places }.encode_to_vec();
            bytes.iter().fold(String::from(VERSION), |pivot, byte| format!("{pivot}{byte:02x}"))
        };
        assert!(scope.walk(&forged(&[1, 2, 5])).is_ok());
        assert!(scope.walk(&forged(&[1, 2, 2])).is_err());
        assert!(scope.walk(&forged(&[2, 1])).is_err(), "no pivot is given out in this order");
    }

    #[test]
    fn a_pivot_longer_than_any_that_is_given_out_is_refused() {
        let scope = Scope::new(&["q", "newest"], &ItemFilter::default());
        let of_places = |count: usize| {
            let all = (u32::MAX - count as u32)..u32::MAX;
            let places = all.rev().map(|number| place(number, Some(u64::MAX), Some(u64::MAX)));
            scope.pivot(&Walk { places: places.collect() })
        };
        let longest = of_places(PLACES_MAX);
        assert_eq!((longest.len(), scope.walk(&longest).unwrap().places.len()), (CHARS_MAX, PLACES_MAX));
        assert!(scope.walk(&of_places(PLACES_MAX + 1)).is_err());
    }

    #[test]
    fn a_pivot_that_was_cut_or_changed_is_refused() {
        let scope = Scope::new(&["q", "newest"], &ItemFilter::default());
        let pivot = scope.pivot(&Walk { places: vec![place(1, Some(9), Some(3)), place(2, Some(8), None)] });
        for len in 0..pivot.len() {
            assert!(scope.walk(&pivot[..len]).is_err(), "{len}");
            let mut changed = pivot.clone().into_bytes();
            changed[len] = if changed[len] == b'5' { b'6' } else { b'5' };
            assert!(scope.walk(&String::from_utf8(changed).unwrap()).is_err(), "{len}");
        }
        assert!(scope.walk("ä1").is_err() && scope.walk(&format!("{pivot}0")).is_err());
    }
}
