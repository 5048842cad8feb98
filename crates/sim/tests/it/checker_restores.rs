//! What the checker makes of a run whose last life was on a restored backup.

use std::sync::Arc;

use windlass_core::item::Phase;
use windlass_core::refusal::Refusal;
use windlass_core::settings::Settings;
use windlass_core::time::Timestamp;
use windlass_sim::check::check;
use windlass_sim::history::{History, Moment, OPERATOR, Op, Outcome};
use windlass_sim::recorder::{Clocks, Recorder};

use crate::story::{id, made};

/// One life that serves, with a queue that keeps everything.
fn recorder() -> Recorder {
    let clocks = Clocks {
        now_micros: Arc::new(|| 0),
        wall: Arc::new(|_| Timestamp(1)),
        latest: Arc::new(|_| Timestamp(1)),
    };
    let recorder = Recorder::new(clocks, History { keeps_everything: true, ..History::default() }, 0);
    recorder.process_begins();
    recorder.process_opened();
    let create = Op::Create { queue: 0, settings: Settings::default(), partitions: 1 };
    recorder.begin(OPERATOR, create).answered(Outcome::Deleted);
    recorder
}

fn produce(recorder: &Recorder, serial: u64) {
    let call = recorder.begin(0, Op::Produce { queue: 0, items: vec![made(serial)] });
    call.answered(Outcome::Produced(vec![(id(serial), Phase::Waiting)]));
}

/// The last life finds nothing in the restored backup.
fn verdict_of_an_empty_restore(recorder: &Recorder, begun: Moment) -> Option<&'static str> {
    recorder.process_ended("crashed");
    recorder.restored(begun);
    recorder.process_begins();
    recorder.process_opened();
    recorder.begin(OPERATOR, Op::Get(id(1))).answered(Outcome::Refused(Refusal::NotFound));
    check(&recorder.finish().0).err().map(|violation| violation.rule)
}

#[test]
fn an_item_acknowledged_before_the_backup_began_is_in_it() {
    let recorder = recorder();
    produce(&recorder, 1);
    let begun = recorder.moment();
    assert_eq!(verdict_of_an_empty_restore(&recorder, begun), Some("lost"));
}

#[test]
fn an_item_acknowledged_after_the_backup_began_may_be_missing() {
    let recorder = recorder();
    let begun = recorder.moment();
    produce(&recorder, 1);
    assert_eq!(verdict_of_an_empty_restore(&recorder, begun), None);
}
