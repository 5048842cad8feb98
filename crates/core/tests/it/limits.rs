use windlass_core::id::{ItemId, PartitionId, Permit};
use windlass_core::limits::{
    Invalid, check_batch, check_client_id, check_kind, check_name, check_partitions, check_settings,
};
use windlass_core::refusal::Refusal;
use windlass_core::settings::{RetryPolicy, Settings};
use windlass_core::time::Span;
use windlass_core::verbs::{Extend, Filter, Held, LeaseItems};

use crate::script::Script;

#[test]
fn queue_names_are_letters_digits_and_three_signs() {
    let longest = "x".repeat(128);
    for good in ["a", "A-z_0.9", "...", "-", &longest] {
        assert!(check_name("queue", good).is_ok(), "{good}");
    }
    let too_long = "x".repeat(129);
    for bad in ["", ".", "..", "a b", "ä", "a/b", "a\0", &too_long] {
        assert!(check_name("queue", bad).is_err(), "{bad}");
    }
}

#[test]
fn kinds_and_client_ids_are_counted_in_characters() {
    for good in ["a", "a b/c", &"ä".repeat(128), &"𝄞".repeat(128)] {
        assert!(check_kind(good).is_ok() && check_client_id(good).is_ok(), "{good}");
    }
    for bad in ["", "a\0b", &"a".repeat(129), &"𝄞".repeat(129)] {
        assert!(check_kind(bad).is_err() && check_client_id(bad).is_err(), "{bad}");
    }
}

#[test]
fn what_is_wrong_is_said_with_the_field_and_the_rule() {
    assert_eq!(check_batch("items", 0).unwrap_err().to_string(), "`items` must be 1 to 1000 items");
    assert!(check_batch("items", 1).is_ok() && check_batch("items", 1000).is_ok());
    assert!(check_batch("items", 1001).is_err());
    assert_eq!(check_partitions(0).unwrap_err().to_string(), "`partitions` must be 1 to 1024");
}

fn wrong_field(settings: &Settings) -> Option<&'static str> {
    check_settings(settings).err().map(|invalid| invalid.field)
}

#[test]
fn a_retry_policy_neither_shrinks_nor_leaps_and_is_made_of_numbers() {
    let with = |retry| Settings { retry, ..Settings::default() };
    let factor = |factor| with(RetryPolicy { factor, ..RetryPolicy::default() });
    let jitter = |jitter| with(RetryPolicy { jitter, ..RetryPolicy::default() });
    for good in [1.0, 2.5, 1000.0] {
        assert_eq!(wrong_field(&factor(good)), None, "{good}");
    }
    for bad in [0.0, 0.999, 1000.1, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert_eq!(wrong_field(&factor(bad)), Some("retry.factor"), "{bad}");
    }
    for good in [0.0, 0.5, 1.0] {
        assert_eq!(wrong_field(&jitter(good)), None, "{good}");
    }
    for bad in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        assert_eq!(wrong_field(&jitter(bad)), Some("retry.jitter"), "{bad}");
    }
}

#[test]
fn a_reference_is_counted_in_bytes() {
    let of = |reference: &str| Settings { reference: Some(reference.into()), ..Settings::default() };
    for good in ["", "a b", &"x".repeat(512), &"ä".repeat(256)] {
        assert_eq!(wrong_field(&of(good)), None, "{good}");
    }
    for bad in ["a\0b", &"x".repeat(513), &"ä".repeat(257)] {
        assert_eq!(wrong_field(&of(bad)), Some("reference"), "{bad}");
    }
}

#[test]
fn no_lease_is_shorter_than_a_millisecond() {
    let refusal = Refusal::Invalid(Invalid { field: "lease_timeout", rule: "at least 1ms" });
    let mut script = Script::new();
    let number = script.produce_one();
    for (timeout, fits) in
        [(Span::ZERO, false), (Span::from_micros(999), false), (Span::from_millis(1), true)]
    {
        assert_eq!(wrong_field(&Settings { lease_timeout: timeout, ..Settings::default() }).is_none(), fits);
        let lease = LeaseItems {
            client_id: "worker".into(),
            batch_size: 1,
            lease_timeout: Some(timeout),
            filter: Filter::ANY,
        };
        let leased = script.apply(lease);
        assert_eq!(leased.as_ref().err(), (!fits).then_some(&refusal), "{leased:?}");
        let held = Held { id: ItemId { number, partition: PartitionId(7) }, permit: Permit(1) };
        let extended = script.apply(Extend { lease_timeout: Some(timeout), items: vec![held] });
        assert_eq!(extended.as_ref().err(), (!fits).then_some(&refusal), "{extended:?}");
    }
}
