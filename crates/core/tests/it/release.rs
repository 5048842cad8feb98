use windlass_core::command::{News, Refusal};
use windlass_core::item::LeaseEnd;

use crate::script::{Script, held, items};

#[test]
fn a_released_item_has_its_place_and_its_attempt_back() {
    let mut script = Script::new();
    let made = script.produce(items(3));
    let leased = script.lease(2);
    script.release(held(&leased[1])).unwrap();
    assert_eq!(script.news, [News::Available]);
    script.release(held(&leased[0])).unwrap();
    let got = script.lease(3);
    assert_eq!(got.iter().map(|got| got.number).collect::<Vec<_>>(), made);
    assert!(got.iter().all(|got| got.attempts == 1));
    assert!(got[0].permit > leased[1].permit);
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
