use windlass_core::item::{LeaseEnd, Phase};
use windlass_core::news::News;
use windlass_core::refusal::Refusal;
use windlass_core::time::Span;
use windlass_core::verbs::PutOff;

use crate::script::{Script, items};

#[test]
fn a_released_item_has_its_place_and_its_attempt_back() {
    let mut script = Script::new();
    let made = script.produce(items(3));
    let leased = script.lease(2);
    script.release(leased[1].held()).unwrap();
    assert_eq!(script.news, [News::Available]);
    script.release(leased[0].held()).unwrap();
    let got = script.lease(3);
    assert_eq!(got.iter().map(|got| got.id.number).collect::<Vec<_>>(), made);
    assert!(got.iter().all(|got| got.attempts == 1));
    assert!(got[0].permit > leased[1].permit);
}

#[test]
fn an_item_that_is_put_off_waits_uncharged_and_has_its_place_back_when_it_is_due() {
    let mut script = Script::new();
    let made = script.produce(items(2));
    let first = script.lease_one();
    let put_off = PutOff { items: vec![first], delay: Span::from_secs(30) };
    let done = script.apply(put_off).unwrap();
    assert_eq!(done, [Ok(())]);
    assert_eq!(script.phase(made[0]), Some(Phase::Scheduled));
    assert_eq!(script.get(made[0]).attempts, 0);
    let second = script.lease_one();
    assert_eq!(second.id.number, made[1]);
    script.release(second).unwrap();
    script.pass(Span::from_secs(30));
    script.sweep();
    assert_eq!(script.order(), made);
    assert_eq!(script.release(first), Err(Refusal::LeaseLost { reason: Some(LeaseEnd::Released) }));
}

#[test]
fn a_permit_is_void_after_its_release() {
    let mut script = Script::new();
    script.produce_one();
    let held = script.lease_one();
    script.release(held).unwrap();
    assert_eq!(script.release(held), Err(Refusal::LeaseLost { reason: Some(LeaseEnd::Released) }));
    assert_eq!(script.changes, []);
}
