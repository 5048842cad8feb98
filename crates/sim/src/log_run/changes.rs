//! Batches of changes as an engine might send them, and what they make of a partition.

use std::collections::BTreeMap;

use bytes::Bytes;
use windlass_core::attempt::LOGGED_MAX;
use windlass_core::event::EventBatch;
use windlass_core::id::ItemNumber;
use windlass_core::item::{Item, PayloadSize, State};
use windlass_core::row::{Change, Key, Part, Row};
use windlass_core::time::Timestamp;

use crate::rng::Rng;

/// Few, so that they are put and removed again and again.
pub(super) const NUMBERS: u64 = 24;
const BODY_MAX: u64 = 700;
const SEQS: [u64; 4] = [1, 5, 9, 14];

/// A partition's rows and bodies.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Content {
    pub(super) rows: BTreeMap<Key, Row>,
    pub(super) bodies: BTreeMap<(ItemNumber, Part), Bytes>,
}

impl Content {
    pub(super) fn apply(&mut self, change: &Change) {
        match change {
            Change::Put(row) => {
                self.rows.insert(row.key(), row.clone());
            }
            Change::Remove(key) => self.remove(key),
            Change::PutBody { number, part, body } => {
                self.bodies.insert((*number, *part), body.clone());
            }
            Change::RemoveBody { number, part } => {
                self.bodies.remove(&(*number, *part));
            }
        }
    }

    fn remove(&mut self, key: &Key) {
        match key {
            Key::Item(number) => {
                self.rows.remove(key);
                Part::ALL.iter().for_each(|part| drop(self.bodies.remove(&(*number, *part))));
            }
            Key::Events(number, None) => {
                for seq in SEQS {
                    self.remove(&Key::Events(*number, Some(seq)));
                }
            }
            Key::Events(number, Some(seq)) => {
                self.rows.remove(key);
                self.bodies.remove(&(*number, Part::Events(*seq)));
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
            | Key::Dropped(_) => drop(self.rows.remove(key)),
        }
    }
}

/// `serial` is in all that is put, so that no two puts are the same.
pub(super) fn draw_batch(rng: &mut Rng, serial: u64) -> Vec<Change> {
    let count = rng.between(1, 4);
    (0..count).flat_map(|part| draw_changes(rng, serial * 10 + part)).collect()
}

fn draw_changes(rng: &mut Rng, serial: u64) -> Vec<Change> {
    let number = draw_number(rng);
    match rng.below(12) {
        0..=3 => vec![Change::Put(item(number, serial)), put_body(rng, number, Part::Payload, serial)],
        4 => {
            let part = draw_part(rng);
            vec![put_body(rng, number, part, serial)]
        }
        5 => vec![Change::RemoveBody { number, part: draw_part(rng) }],
        6..=8 => vec![Change::Remove(Key::Item(number))],
        9 => {
            let first_seq = *rng.pick(&SEQS);
            let batch = EventBatch { item: number, first_seq, last_seq: first_seq, bytes: serial };
            vec![Change::Put(Row::Events(batch)), put_body(rng, number, Part::Events(first_seq), serial)]
        }
        10 => vec![Change::Remove(Key::Events(number, None))],
        _ => vec![Change::Remove(Key::Events(number, Some(*rng.pick(&SEQS))))],
    }
}

fn draw_part(rng: &mut Rng) -> Part {
    *rng.pick(&Part::ALL)
}

/// High ones seldom: what is put there stays for long.
fn draw_number(rng: &mut Rng) -> ItemNumber {
    ItemNumber(rng.skewed(1, NUMBERS))
}

pub(super) fn item(number: ItemNumber, serial: u64) -> Row {
    Row::Item(Item {
        number,
        place: serial,
        kind: "mail".into(),
        priority: 0,
        created_at: Timestamp(serial),
        attempts: 0,
        era: 0,
        group: None,
        payload_size: PayloadSize::default(),
        state: State::Waiting { since: Timestamp(serial) },
        extras: None,
    })
}

fn put_body(rng: &mut Rng, number: ItemNumber, part: Part, serial: u64) -> Change {
    let body = body(serial, rng.skewed(0, BODY_MAX) as usize);
    Change::PutBody { number, part, body }
}

pub(super) fn body(serial: u64, len: usize) -> Bytes {
    let mut body = format!("{serial}:").into_bytes();
    body.resize(len.max(body.len()), b'a' + (serial % 26) as u8);
    body.into()
}

/// Any body there might be.
pub(super) fn draw_body_key(rng: &mut Rng) -> (ItemNumber, Part) {
    let part = match rng.below(10) {
        0 | 1 => Part::Events(*rng.pick(&SEQS)),
        2 => Part::Attempt(rng.below(u64::from(LOGGED_MAX)) as u8),
        _ => draw_part(rng),
    };
    (draw_number(rng), part)
}

pub(super) fn all_body_keys() -> Vec<(ItemNumber, Part)> {
    let parts = || Part::ALL.into_iter().chain(SEQS.map(Part::Events));
    (1..=NUMBERS).flat_map(|number| parts().map(move |part| (ItemNumber(number), part))).collect()
}
