use windlass_core::limits::{check_batch, check_client_id, check_kind, check_name, check_partitions};

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
