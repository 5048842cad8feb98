use windlass_core::item::{LeaseEnd, Phase};
use windlass_core::news::News;
use windlass_core::refusal::Refusal;
use windlass_core::settings::{Requeue, Settings};
use windlass_core::time::Span;
use windlass_core::verbs::NewItem;

use crate::script::{Script, item, items};

#[test]
fn a_revoked_item_has_its_place_back_and_its_attempt_counts() {
    let mut script = Script::with_settings(Settings { requeue: Requeue::Tail, ..Settings::default() });
    let made = script.produce(items(3));
    let leased = script.lease(2);
    script.revoke(leased[1].held()).unwrap();
    assert_eq!(script.news, [News::Available]);
    script.revoke(leased[0].held()).unwrap();
    let got = script.lease(3);
    assert_eq!(got.iter().map(|got| got.id.number).collect::<Vec<_>>(), made);
    assert_eq!(got.iter().map(|got| got.attempts).collect::<Vec<_>>(), [2, 2, 1]);
    assert_eq!(script.totals.revoked, 2);
}

#[test]
fn a_permit_is_void_after_its_revocation() {
    let mut script = Script::new();
    script.produce_one();
    let held = script.lease_one();
    script.revoke(held).unwrap();
    let lost = Err(Refusal::LeaseLost { reason: Some(LeaseEnd::Revoked) });
    assert_eq!(script.complete(held, None), lost);
    assert_eq!(script.revoke(held), lost);
    assert_eq!(script.changes, []);
}

#[test]
fn a_revocation_of_the_last_attempt_fails_the_item_as_an_expired_lease_does() {
    let mut script = Script::with_settings(Settings { max_attempts: 1, ..Settings::default() });
    let number = script.produce_one();
    let held = script.lease_one();
    script.revoke(held).unwrap();
    assert_eq!(script.phase(number), Some(Phase::Failed));
    let error = script.get(number).extras.and_then(|extras| extras.error).expect("an error");
    assert_eq!(error.code.as_deref(), Some("lease_expired"));
}

#[test]
fn a_revoked_item_that_somebody_wants_cancelled_is() {
    let mut script = Script::new();
    let number = script.produce_one();
    let held = script.lease_one();
    script.cancel(number).unwrap();
    script.revoke(held).unwrap();
    assert_eq!(script.phase(number), None);
    assert_eq!(script.totals.cancelled, 1);
}

#[test]
fn a_revoked_item_past_its_dead_timeout_expires() {
    let mut script = Script::new();
    let mortal = NewItem { dead_timeout: Some(Span::from_secs(5)), ..item("default") };
    let number = script.produce([mortal])[0];
    let held = script.lease_one();
    script.pass(Span::from_secs(6));
    script.revoke(held).unwrap();
    assert_eq!(script.phase(number), Some(Phase::Expired));
}
