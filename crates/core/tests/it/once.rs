use std::collections::BTreeMap;

use windlass_core::id::{ItemId, ItemNumber, PartitionId};
use windlass_core::item::Phase;
use windlass_core::limits::{IDEMPOTENCY_KEPT, IDEMPOTENCY_MARGIN};
use windlass_core::refusal::Refusal;
use windlass_core::row::{Change, Key};
use windlass_core::time::{Span, Timestamp};
use windlass_core::verbs::{
    Claim, CreateGroup, Digest, NewItem, ProduceOnce, Produced, ProducedOnce, StartGroup,
};

use crate::script::{START, Script, item, items, member, open_group};

const SOME: Digest = [1; 16];
const OTHER: Digest = [2; 16];

type Told = Result<(Timestamp, Vec<Result<Produced, Refusal>>), Refusal>;

fn part(claim: Claim, digest: Digest, indexes: Vec<u16>, items: Vec<NewItem>) -> ProduceOnce {
    ProduceOnce { key: "call 1".into(), digest, claim, indexes, held: BTreeMap::new(), items }
}

fn send(script: &mut Script, claim: Claim, digest: Digest, items: Vec<NewItem>) -> Told {
    send_part(script, part(claim, digest, Vec::new(), items))
}

fn send_part(script: &mut Script, part: ProduceOnce) -> Told {
    script.apply(part).map(|ProducedOnce { claimed_at, items }| (claimed_at, items))
}

fn waiting(script: &Script) -> u64 {
    script.partition.counts().waiting
}

#[test]
fn the_same_call_again_is_told_the_same_and_makes_nothing() {
    let mut script = Script::new();
    let later = NewItem { enqueue_at: Some(START + Span::from_secs(9)), ..item("default") };
    let taken = NewItem { address: Some("a".into()), ..item("default") };
    let first = script.produce([taken.clone()])[0];
    let call = || vec![item("default"), later.clone(), taken.clone()];
    let told = send(&mut script, Claim::First, SOME, call()).unwrap();
    assert_eq!(told.0, START);
    assert_eq!(told.1[2], Err(Refusal::DuplicateAddress { number: first }));
    let phases: Vec<_> = told.1.iter().flatten().map(|made| made.phase).collect();
    assert_eq!(phases, [Phase::Waiting, Phase::Scheduled]);

    script.pass(Span::from_secs(60));
    script.sweep();
    let held = script.lease_one();
    script.complete(held, None).unwrap();
    let before = script.partition.counts();
    assert_eq!(send(&mut script, Claim::First, SOME, call()), Ok(told), "the first answer's states too");
    assert!(script.changes.is_empty());
    assert_eq!(script.partition.counts(), before);
}

#[test]
fn members_are_told_again_that_they_were_held_and_others_that_there_was_no_place_for_them() {
    let mut script = Script::new();
    script.apply(open_group("open")).unwrap();
    script.apply(CreateGroup { start: true, ..open_group("done") }).unwrap();
    let call = || vec![member("none"), member("open"), member("done"), item("default"), member("open")];
    let told = send(&mut script, Claim::First, SOME, call()).unwrap();
    let outcomes: Vec<_> =
        told.1.iter().map(|told| told.as_ref().map(|made| made.phase).map_err(Clone::clone)).collect();
    let expected = [
        Err(Refusal::NoSuchGroup),
        Ok(Phase::Held),
        Err(Refusal::GroupFinished),
        Ok(Phase::Waiting),
        Ok(Phase::Held),
    ];
    assert_eq!(outcomes, expected);

    // Neither matters any more.
    script.apply(StartGroup("open".into())).unwrap();
    script.apply(open_group("none")).unwrap();
    assert_eq!(send(&mut script, Claim::First, SOME, call()), Ok(told));
    assert_eq!(script.changes, []);
    assert_eq!(script.partition.group("open").unwrap().live.waiting, 2);
}

#[test]
fn a_key_is_refused_other_items() {
    let mut script = Script::new();
    send(&mut script, Claim::First, SOME, items(2)).unwrap();
    assert_eq!(send(&mut script, Claim::First, OTHER, items(3)), Err(Refusal::KeyTaken));
    assert_eq!(waiting(&script), 2);
}

#[test]
fn a_key_is_free_again_after_a_day_swept_or_not() {
    for sweeps in [false, true] {
        let mut script = Script::new();
        send(&mut script, Claim::First, SOME, items(2)).unwrap();
        assert_eq!(script.partition.next_due(), Some(START + IDEMPOTENCY_KEPT + IDEMPOTENCY_MARGIN));
        script.pass(Span(IDEMPOTENCY_KEPT.0 - 1));
        script.sweep();
        assert_eq!(send(&mut script, Claim::First, OTHER, items(1)), Err(Refusal::KeyTaken));
        script.pass(Span(1));
        assert!(!script.partition.knows_call("call 1", script.now));
        if sweeps {
            script.pass(IDEMPOTENCY_MARGIN);
            script.sweep();
            assert_eq!(script.changes, [Change::Remove(Key::Once("call 1".into()))]);
        }
        let (claimed_at, _) = send(&mut script, Claim::First, OTHER, items(1)).unwrap();
        assert_eq!((claimed_at, waiting(&script)), (script.now, 3));
        assert!(script.partition.knows_call("call 1", script.now));
    }
}

#[test]
fn a_claim_needs_no_items() {
    let mut script = Script::new();
    assert_eq!(send(&mut script, Claim::First, SOME, Vec::new()), Ok((START, Vec::new())));
    assert_eq!(send(&mut script, Claim::First, OTHER, items(1)), Err(Refusal::KeyTaken));
}

#[test]
fn a_partition_that_is_not_the_keys_home_goes_by_the_claim() {
    let mut script = Script::new();
    let claim = Claim::Of(Timestamp(START.0 - 5));
    let told = send(&mut script, claim, SOME, items(2)).unwrap();
    assert_eq!(send(&mut script, claim, SOME, items(2)), Ok(told));
    assert_eq!(waiting(&script), 2);
    // The home has forgotten that call, and made a new one: this one must not answer for the old.
    send(&mut script, Claim::Of(Timestamp(START.0 - 4)), SOME, items(2)).unwrap();
    assert_eq!(waiting(&script), 4);
    assert_eq!(
        script.partition.next_due(),
        Some(Timestamp(START.0 - 4) + IDEMPOTENCY_KEPT + IDEMPOTENCY_MARGIN)
    );
}

#[test]
fn a_part_of_a_call_is_not_forgotten_while_a_repeat_that_its_home_still_knew_is_on_its_way() {
    let mut script = Script::new();
    let told = send(&mut script, Claim::Of(START), SOME, items(2)).unwrap();
    // The home was asked a moment before the day was over, and this one is after it.
    script.pass(IDEMPOTENCY_KEPT);
    script.sweep();
    assert_eq!(send(&mut script, Claim::Of(START), SOME, items(2)), Ok(told));
    assert_eq!(waiting(&script), 2);
}

#[test]
fn a_repeat_that_is_overtaken_by_a_new_call_of_its_key_makes_nothing() {
    let mut script = Script::new();
    send(&mut script, Claim::Of(START), SOME, items(2)).unwrap();
    script.pass(IDEMPOTENCY_KEPT);
    let anew = Claim::Of(script.now);
    let told = send(&mut script, anew, SOME, items(2)).unwrap();
    assert_eq!(send(&mut script, Claim::Of(START), SOME, items(2)), Err(Refusal::KeyTaken));
    assert_eq!(send(&mut script, anew, SOME, items(2)), Ok(told));
    assert_eq!(waiting(&script), 4);
}

#[test]
fn a_call_that_is_refused_as_a_whole_is_not_remembered() {
    let mut script = Script::new();
    let bad = NewItem { address: Some("".into()), ..item("default") };
    assert!(matches!(send(&mut script, Claim::First, SOME, vec![bad]), Err(Refusal::Invalid(_))));
    assert!(send(&mut script, Claim::First, OTHER, items(1)).is_ok());
}

#[test]
fn a_key_has_1_to_128_characters() {
    let mut script = Script::new();
    for key in [String::new(), "x".repeat(129), "a\0".into()] {
        let produce = ProduceOnce { key: key.into(), ..part(Claim::First, SOME, Vec::new(), items(1)) };
        let refused = script.apply(produce);
        assert!(matches!(refused, Err(Refusal::Invalid(invalid)) if invalid.field == "idempotency_key"));
    }
}

#[test]
fn a_part_of_a_call_is_remembered_item_by_item() {
    let mut script = Script::new();
    let told = send_part(&mut script, part(Claim::First, SOME, vec![1, 4], items(2))).unwrap();
    assert_eq!(waiting(&script), 2);
    // Some of it was answered before, the rest comes here for the first time.
    let more = send_part(&mut script, part(Claim::Of(told.0), SOME, vec![0, 1, 3, 4], items(4))).unwrap();
    assert_eq!((more.0, waiting(&script)), (told.0, 4));
    assert_eq!([&more.1[1], &more.1[3]], [&told.1[0], &told.1[1]]);
    let again = send_part(&mut script, part(Claim::First, SOME, vec![0, 1, 3, 4], items(4))).unwrap();
    assert_eq!((again, script.changes.len()), (more, 0));
}

#[test]
fn an_address_that_is_held_elsewhere_is_refused_and_stays_so() {
    let mut script = Script::new();
    let id = ItemId { number: ItemNumber(7), partition: PartitionId(9) };
    let taken = || vec![NewItem { address: Some("a".into()), ..item("default") }];
    let call = part(Claim::First, SOME, Vec::new(), taken());
    let told = send_part(&mut script, ProduceOnce { held: BTreeMap::from([(0, id)]), ..call }).unwrap();
    assert_eq!((told.1[0].clone(), waiting(&script)), (Err(Refusal::HeldElsewhere { id }), 0));
    assert_eq!(send(&mut script, Claim::First, SOME, taken()), Ok(told));
}
