use windlass_core::item::{LeaseEnd, Phase};
use windlass_core::refusal::Refusal;
use windlass_core::time::Span;
use windlass_core::verbs::Extended;

use crate::script::{START, Script};

const SECOND: Span = Span::from_secs(1);

#[test]
fn an_extension_counts_from_now_by_the_timeout_the_lease_has() {
    let mut script = Script::new();
    script.produce_one();
    let held = script.lease_one();
    script.pass(Span::from_secs(59));
    let deadline = START + Span::from_secs(119);
    assert_eq!(script.extend(held, None), Ok(Extended { deadline, cancel_requested: false }));
    assert_eq!(script.partition.next_due(), Some(deadline));
    script.pass(Span::from_secs(59));
    assert_eq!(script.complete(held, None), Ok(()));
}

#[test]
fn a_new_timeout_becomes_the_leases_own() {
    let mut script = Script::new();
    let number = script.produce_one();
    let held = script.lease_one();
    script.extend(held, Some(SECOND)).unwrap();
    assert_eq!(script.extend(held, None).unwrap().deadline, START + SECOND);
    script.pass(SECOND);
    assert_eq!(script.extend(held, None), Err(Refusal::LeaseLost { reason: Some(LeaseEnd::Expired) }));
    script.sweep();
    assert_eq!(script.phase(number), Some(Phase::Waiting));
}

#[test]
fn an_extension_brings_word_of_a_cancel() {
    let mut script = Script::new();
    let number = script.produce_one();
    let held = script.lease_one();
    assert_eq!(script.cancel(number), Ok(Phase::Leased));
    assert!(script.extend(held, None).unwrap().cancel_requested);
}
