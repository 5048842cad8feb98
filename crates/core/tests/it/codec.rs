//! Rows and keys as bytes.

mod rows;

use proptest::prelude::*;
use windlass_core::codec::{decode_key, decode_row, encode_key, encode_value};
use windlass_core::id::{ItemNumber, Permit};
use windlass_core::item::{Item, Lease, PayloadSize, State};
use windlass_core::row::{Key, QueueName, Row};
use windlass_core::time::{Span, Timestamp};

use rows::row;

fn encoded(row: &Row) -> (Vec<u8>, Vec<u8>) {
    let (mut key, mut value) = (Vec::new(), Vec::new());
    encode_key(&row.key(), &mut key);
    encode_value(row, &mut value);
    (key, value)
}

fn key_bytes(key: &Key) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_key(key, &mut bytes);
    bytes
}

proptest! {
    #[test]
    fn every_row_comes_back_as_it_went_fields_of_a_newer_version_included(row in row()) {
        let (key, value) = encoded(&row);
        prop_assert_eq!(decode_row(&key, &value), Ok(row));
    }

    #[test]
    fn the_bytes_of_keys_sort_as_the_keys_do(one in row(), other in row()) {
        let (one, other) = (one.key(), other.key());
        prop_assert_eq!(key_bytes(&one).cmp(&key_bytes(&other)), one.cmp(&other));
        if let Key::Events(item, Some(_)) = one {
            let all = Key::Events(item, None);
            prop_assert_eq!(decode_key(&key_bytes(&all)), Ok(all.clone()));
            prop_assert!(all < one && key_bytes(&one).starts_with(&key_bytes(&all)));
            prop_assert_eq!(key_bytes(&all).cmp(&key_bytes(&other)), all.cmp(&other));
        }
    }

    #[test]
    fn no_bytes_make_the_decoder_panic(key in any::<Vec<u8>>(), tag in 0..16u8, value in any::<Vec<u8>>()) {
        let _any_answer_will_do = decode_row(&key, &value);
        let tagged: Vec<u8> = std::iter::once(tag).chain(key).collect();
        let _any_answer_will_do = decode_row(&tagged, &value);
    }

    #[test]
    fn no_damage_to_a_row_makes_the_decoder_panic(
        row in row(), at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>(),
    ) {
        let (key, mut value) = encoded(&row);
        if !value.is_empty() {
            let at = at.index(value.len());
            value[at] = byte;
            value.truncate(cut.index(value.len()) + 1);
        }
        if let Ok(read) = decode_row(&key, &value) {
            let (key, value) = encoded(&read);
            prop_assert!(decode_row(&key, &value).is_ok());
        }
    }
}

#[test]
fn a_fresh_item_takes_few_bytes() {
    let now = 1_800_000_000_000_000;
    let mut item = Item {
        number: ItemNumber(now + 3),
        place: now + 3,
        kind: "default".into(),
        priority: 0,
        created_at: Timestamp(now),
        attempts: 0,
        era: 0,
        group: None,
        payload_size: PayloadSize::default(),
        state: State::Waiting { since: Timestamp(now) },
        extras: None,
    };
    assert_eq!(encoded(&Row::Item(item.clone())).1.len(), 2);
    item.attempts = 1;
    item.state = State::Leased(Box::new(Lease {
        permit: Permit(now + 1_000_007),
        client_id: "worker".into(),
        leased_at: Timestamp(now + 1_000_000),
        deadline: Timestamp(now + 61_000_000),
        timeout: Span::from_secs(60),
        cancel_requested: false,
    }));
    assert_eq!(encoded(&Row::Item(item)).1.len(), 23);
}

#[test]
fn settings_of_a_version_without_max_items_have_no_limit() {
    let old = [1 << 1, 5, 2 << 1, 100];
    let Ok(Row::Settings(settings)) = decode_row(&key_bytes(&Key::Settings), &old) else {
        panic!("readable")
    };
    assert_eq!((settings.version, settings.lease_timeout, settings.max_items), (5, Span(100), 0));
}

/// A time in 1970 would be shown for the missing one.
#[test]
fn a_queue_without_created_at_is_refused() {
    let key = key_bytes(&Key::Queue(QueueName { namespace: "default".into(), name: "mail".into() }));
    let partitions = [2 << 1 | 1, 1, 7];
    let refused = decode_row(&key, &partitions).unwrap_err().to_string();
    assert_eq!(refused, "field 9 of the row is missing");
    let Ok(Row::Queue(queue)) = decode_row(&key, &[&partitions[..], &[9 << 1, 0]].concat()) else {
        panic!("readable")
    };
    assert_eq!((queue.created_at, queue.updated_at), (Timestamp(0), Timestamp(0)));
    let (_, value) = encoded(&Row::Queue(queue.clone()));
    assert_eq!(decode_row(&key, &value), Ok(Row::Queue(queue)));
}

#[test]
fn what_is_wrong_with_a_row_is_said_with_its_place() {
    let key = key_bytes(&Key::Item(ItemNumber(1)));
    let says = |value: &[u8]| decode_row(&key, value).unwrap_err().to_string();
    assert_eq!(says(&[3 << 1, 0x80, 0x02, 2 << 1 | 1, 1, 0xff]), "field 2 of the row is not UTF-8");
    assert_eq!(says(&[3 << 1, 0x80, 0x02]), "field 3 of the row holds too large a number");
    assert_eq!(says(&[12 << 1, 1, 13 << 1, 1]), "the row says two states of one item");
    assert_eq!(
        decode_key(&[99]).unwrap_err().to_string(),
        "the row's key is of a kind that this version does not know"
    );
    assert_eq!(decode_key(&[0, 0]).unwrap_err().to_string(), "the row's key goes on after its end");
}
