//! What a history may be made of.

use std::sync::Arc;

use proptest::prelude::*;
use windlass_core::settings::{Requeue, Settings};
use windlass_core::time::Span;

use super::crons::CronStep;
use super::groups::Ends;
use super::{crons, events, groups, intake, rules};

/// One command to be, with what it is about chosen when its turn comes.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Pass(u64),
    Produce(Vec<New>),
    /// Under a key, a call that some partition claimed so many seconds ago, or this one now.
    ProduceOnce(u8, Option<u8>, Vec<New>),
    /// How many, bits of kinds (0: any), the largest priority.
    Lease(usize, u8, u8),
    Complete(Pick, bool),
    /// Seconds until due (none: the policy decides), dead, with an error.
    Retry(Pick, Option<u8>, bool, bool),
    Extend(Pick, Option<u8>),
    Release(Pick),
    Revoke(Pick),
    Watch(usize),
    Unwatch(usize),
    Cancel(usize),
    Clear(bool, bool, bool, bool),
    Sweep(usize),
    Import(Vec<Imported>),
    /// Also if it has ended, or only while it lives.
    Delete(usize, bool),
    /// How many.
    Redrive(usize),
    Assign(usize),
    /// What was assigned so far has arrived, all but so many of it.
    Arrive(usize),
    /// So many of what is on its way stay, if more is than may.
    FallBack(usize),
    /// So many arrive here, and so many of them for the second time.
    Take(usize, usize),
    /// Which group, what is made at its end, its first members, whether it is started.
    CreateGroup(u8, Ends, Vec<New>, bool),
    SetGroupEnd(u8, Ends),
    StartGroup(u8),
    CancelGroup(u8),
    DeleteGroup(u8),
    Route(bool, Option<u16>),
    /// Which of all rules there can be, seconds until they lift themselves, whether what is said of them is out of date.
    TakeRules(u8, Option<u8>, bool),
    /// After which number, counted back from the last (none: any), and how many bytes each event comes to.
    Emit(Pick, Option<u8>, Vec<u32>),
    Suspend(Pick),
    /// With an answer or without.
    Resume(usize, bool),
    Follow(usize),
    Unfollow(usize),
    Cron(CronStep),
    Update(usize, Changed),
    /// Seconds until it is due (none: at once).
    Rerun(usize, Option<u8>),
}

/// Kind, priority, seconds until due (0: at once), own attempts, seconds it may live, address, group.
pub(crate) type New = (u8, u8, u8, Option<u8>, Option<u8>, Option<u8>, Option<u8>);

/// Priority, seconds until due, own attempts, seconds it may live (0: any), bytes of a new payload and whether it has facts; what is
/// unset stays as it is.
pub(crate) type Changed = (Option<u8>, Option<u8>, Option<u8>, Option<u8>, Option<(u8, bool)>);

/// Kind, priority, seconds until due (0: at once), attempts so far, address, group.
pub(crate) type Imported = (u8, u8, u8, u8, Option<u8>, Option<u8>);

/// One of the permits given out so far, counted from the latest; now and then a forged one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pick {
    pub(super) back: usize,
    pub(super) forged: bool,
}

pub(crate) fn settings() -> impl Strategy<Value = Settings> {
    let dead = (prop_oneof![Just(0), 1..30u64], prop::option::of(Just(Arc::from("dead"))));
    // A batch of events alone comes to more than most others have to show.
    let retention_max_bytes = prop_oneof![0..60u64, 0..1000u64];
    (0..4u32, any::<bool>(), 1..40u64, 0..6u64, retention_max_bytes, dead).prop_map(
        |(
            max_attempts,
            tail,
            retention,
            retention_max_items,
            retention_max_bytes,
            (dead_timeout, dead_queue),
        )| Settings {
            dead_timeout: Span::from_secs(dead_timeout),
            dead_queue,
            version: 1,
            lease_timeout: Span::from_secs(5),
            max_attempts,
            requeue: if tail { Requeue::Tail } else { Requeue::Keep },
            retention: Span::from_secs(retention),
            retention_max_items,
            retention_max_bytes,
            ..Settings::default()
        },
    )
}

pub(crate) fn steps(len: usize) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 1..len)
}

pub(super) fn new() -> impl Strategy<Value = New> {
    (
        0..3u8,
        0..3u8,
        prop_oneof![3 => Just(0), 1 => 1..8u8],
        prop::option::weighted(0.2, 0..3u8),
        prop::option::weighted(0.3, 0..9u8),
        prop::option::weighted(0.3, 0..3u8),
        prop::option::weighted(0.4, 0..3u8),
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => plain_step(),
        3 => groups::step(),
        1 => intake::step(),
        1 => rules::step(),
        4 => events::step(),
        1 => crons::step(),
        1 => update(),
        1 => (0..20usize, prop::option::weighted(0.3, 0..6u8)).prop_map(|(back, delay)| Step::Rerun(back, delay)),
    ]
}

fn update() -> impl Strategy<Value = Step> {
    let sometimes = |values: std::ops::Range<u8>| prop::option::weighted(0.3, values);
    let record = prop::option::weighted(0.3, (0..30u8, any::<bool>()));
    let due = prop::option::weighted(0.5, prop_oneof![Just(0), 0..9u8]);
    let changed = (sometimes(0..3), due, sometimes(0..4), sometimes(0..60), record);
    (0..20usize, changed).prop_map(|(back, changed)| Step::Update(back, changed))
}

fn plain_step() -> impl Strategy<Value = Step> {
    let one_of_three = || prop::option::weighted(0.3, 0..3u8);
    let imported = (0..3u8, 0..3u8, 0..4u8, 0..3u8, one_of_three(), one_of_three());
    prop_oneof![
        4 => prop_oneof![Just(1), 1..3_000_000u64, 1..20_000_000u64].prop_map(Step::Pass),
        4 => prop::collection::vec(new(), 1..6).prop_map(Step::Produce),
        3 => (0..3u8, prop::option::weighted(0.3, 0..3u8), prop::collection::vec(new(), 0..3))
            .prop_map(|(key, claimed, items)| Step::ProduceOnce(key, claimed, items)),
        1 => (80_000_000_000..90_000_000_000u64).prop_map(Step::Pass),
        5 => (1..5usize, prop_oneof![Just(0), 0..8u8], prop_oneof![Just(255), 0..3u8])
            .prop_map(|(count, kinds, max)| Step::Lease(count, kinds, max)),
        3 => (pick(), any::<bool>()).prop_map(|(pick, result)| Step::Complete(pick, result)),
        3 => (pick(), prop::option::of(0..6u8), prop::bool::weighted(0.1), any::<bool>())
            .prop_map(|(pick, due, dead, error)| Step::Retry(pick, due, dead, error)),
        2 => (pick(), prop::option::of(1..9u8)).prop_map(|(pick, timeout)| Step::Extend(pick, timeout)),
        2 => pick().prop_map(Step::Release),
        2 => pick().prop_map(Step::Revoke),
        3 => (0..20usize).prop_map(Step::Watch),
        1 => (0..20usize).prop_map(Step::Unwatch),
        2 => (0..20usize).prop_map(Step::Cancel),
        1 => any::<(bool, bool, bool, bool)>()
            .prop_map(|(waiting, scheduled, leased, suspended)| Step::Clear(waiting, scheduled, leased, suspended)),
        4 => prop_oneof![Just(1000), 1..6usize].prop_map(Step::Sweep),
        1 => prop::collection::vec(imported, 1..4).prop_map(Step::Import),
        1 => (0..20usize, any::<bool>()).prop_map(|(back, any)| Step::Delete(back, any)),
        1 => (0..4usize).prop_map(Step::Redrive),
        1 => (1..6usize).prop_map(Step::Assign),
        1 => (0..3usize).prop_map(Step::Arrive),
        1 => (1..4usize).prop_map(Step::FallBack),
        1 => (1..4usize, 0..3usize).prop_map(|(new, old)| Step::Take(new, old)),
    ]
}

pub(super) fn pick() -> impl Strategy<Value = Pick> {
    (0..8usize, prop::bool::weighted(0.1)).prop_map(|(back, forged)| Pick { back, forged })
}
