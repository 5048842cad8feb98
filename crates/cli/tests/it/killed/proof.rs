//! The checker sees what was answered over HTTP: histories that must not pass do not.

use windlass_api::error::Failed;
use windlass_api::items::{CompleteReply, LeaseReply, LeasedItem, ProduceReply, ProducedItem};
use windlass_core::id::{ItemId, ItemNumber, PartitionId, Permit};
use windlass_core::settings::Settings;
use windlass_core::time::Span;
use windlass_core::verbs::Filter;
use windlass_sim::check;
use windlass_sim::history::{Made, Op, Outcome};
use windlass_sim::recorder::Recorder;

use super::worker::now;
use super::{recorder, told};

const ID: ItemId = ItemId { number: ItemNumber(7), partition: PartitionId(1) };
const PERMIT: Permit = Permit(9);

fn made() -> Made {
    Made {
        serial: 1,
        len: 10,
        kind: "mail".into(),
        priority: 0,
        enqueue_at: None,
        max_attempts: None,
        dead_timeout: None,
        address: None,
        group: None,
    }
}

/// One item was produced, and that was acknowledged.
fn produced() -> Recorder {
    let recorder = recorder();
    recorder.process_begins();
    recorder.process_opened();
    let settings = Settings { max_attempts: 0, ..Settings::default() };
    recorder.begin(0, Op::Create { queue: 0, settings, partitions: 1 }).abandoned();
    let call = recorder.begin(0, Op::Produce { queue: 0, items: vec![made()] });
    let item = ProducedItem { id: Some(ID.to_string()), state: Some("waiting".to_owned()), error: None };
    call.answered(told::produced(&ProduceReply { items: vec![item] }, 1));
    recorder
}

fn lease(recorder: &Recorder, change: impl FnOnce(&mut LeasedItem)) {
    let (timeout, wait) = (Some(Span::from_secs(60)), Span::ZERO);
    let call = recorder.begin(0, Op::Lease { queue: 0, batch_size: 1, timeout, filter: Filter::ANY, wait });
    let item = told::new_item(&made());
    let mut leased = LeasedItem {
        json: item.json,
        utf8: item.utf8,
        bytes: item.bytes,
        id: ID.to_string(),
        permit: PERMIT.0,
        partition: ID.partition.0,
        kind: made().kind.to_string(),
        attempts: 1,
        lease_deadline: told::time(now() + Span::from_secs(60)),
        ..LeasedItem::default()
    };
    change(&mut leased);
    let items = told::granted(&LeaseReply { items: vec![leased] });
    call.answered(Outcome::Granted { items, accepted: true });
}

fn complete(recorder: &Recorder, failed: Vec<Failed>) {
    let call = recorder.begin(0, Op::Complete { queue: 0, items: vec![(ID, PERMIT, None)] });
    let reply = CompleteReply { completed: 1 - failed.len() as u64, failed };
    call.answered(told::completed(&reply, &[(ID, PERMIT)]));
}

fn broken_rule(recorder: &Recorder) -> Option<&'static str> {
    check::check(&recorder.finish().0).err().map(|violation| violation.rule)
}

#[test]
fn an_item_that_comes_and_goes_as_it_should_passes() {
    let recorder = produced();
    lease(&recorder, |_| {});
    complete(&recorder, Vec::new());
    assert_eq!(broken_rule(&recorder), None);
}

#[test]
fn an_acknowledged_item_that_is_never_seen_again_is_lost() {
    assert_eq!(broken_rule(&produced()), Some("lost"));
}

#[test]
fn an_item_leased_after_its_completion_is_found() {
    let recorder = produced();
    lease(&recorder, |_| {});
    complete(&recorder, Vec::new());
    lease(&recorder, |item| (item.permit, item.attempts) = (PERMIT.0 + 1, 2));
    assert_eq!(broken_rule(&recorder), Some("back"));
}

#[test]
fn a_permit_that_is_refused_before_its_time_is_found() {
    let recorder = produced();
    lease(&recorder, |_| {});
    let code = "lease_lost".to_owned();
    complete(&recorder, vec![Failed { id: ID.to_string(), permit: PERMIT.0, code, ..Failed::default() }]);
    assert_eq!(broken_rule(&recorder), Some("lease lost"));
}

#[test]
fn a_payload_that_comes_back_in_another_field_is_nobodys() {
    let recorder = produced();
    lease(&recorder, |item| {
        item.utf8 = item.bytes.take().map(|bytes| String::from_utf8(bytes.to_vec()).expect("ASCII"));
        assert!(item.utf8.is_some(), "it was sent as bytes");
    });
    assert_eq!(broken_rule(&recorder), Some("body"));
}
