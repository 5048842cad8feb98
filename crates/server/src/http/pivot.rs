//! Pivots of items.find and items.change: opaque texts, good for as long as wanted, and only for what they were given for.

use std::fmt::Write;

use prost::Message;
use windlass_core::hash::{fnv1a, splitmix64};
use windlass_core::id::{ItemNumber, PartitionId};
use windlass_engine::{Walk, WalkPlace};

use super::error::Problem;

/// The first character of a pivot: others begin those of another form.
const VERSION: char = '1';

/// A walk as its pivot holds it, in hexadecimal digits.
#[derive(Clone, PartialEq, prost::Message)]
struct Record {
    /// Tells a pivot that was cut or is of something else.
    #[prost(fixed64, tag = "1")]
    check: u64,
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
        let places: Vec<Place> = places.collect();
        let record = Record { check: self.check(&places), places };
        let mut pivot = String::from(VERSION);
        for byte in record.encode_to_vec() {
            write!(pivot, "{byte:02x}").expect("a text grows");
        }
        pivot
    }

    pub(super) fn walk(&self, pivot: &str) -> Result<Walk, Problem> {
        let record = digits(pivot).and_then(|bytes| Record::decode(&*bytes).ok());
        let Some(record) = record.filter(|record| record.check == self.check(&record.places)) else {
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

fn digits(pivot: &str) -> Option<Vec<u8>> {
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
