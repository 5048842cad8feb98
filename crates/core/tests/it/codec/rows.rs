//! Rows of every sort, at random.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use windlass_core::cron::{CatchUp, Cron, CronHome, Leaves, Overlap};
use windlass_core::event::EventBatch;
use windlass_core::group::{Ended, Group, GroupState, Template};
use windlass_core::headers::{Hashes, IndexedNames, ItemHashes};
use windlass_core::id::{GroupNumber, ItemId, ItemNumber, NUMBER_MAX, PartitionId, Permit};
use windlass_core::item::{
    Assigned, CronRun, End, Extras, Item, ItemError, LastLease, Lease, LeaseEnd, MoveNumber, MoveReason,
    MovedTo, Origin, Outcome, Outgoing, PayloadSize, Phase, State, Suspension,
};
use windlass_core::refusal::Refusal;
use windlass_core::route::{SLOTS, Slot, SlotMap, SlotSet};
use windlass_core::row::{
    Answers, Clearable, Cleared, Dropped, Intake, Numbers, Once, Partitions, Queue, QueueName, Row,
    StoreNames, Stored, Taken,
};
use windlass_core::rule::{Rule, RuleKey, RulesVersion, Stop};
use windlass_core::settings::{Keep, Requeue, RetainPayload, RetryPolicy, RetryStrategy, Settings};
use windlass_core::time::{Span, Timestamp};
use windlass_core::verbs::{Arrived, Produced};

fn text() -> impl Strategy<Value = Arc<str>> {
    prop_oneof![Just("default".to_owned()), "[a-c\u{0}é]{0,4}", "\\PC{0,20}"].prop_map(Arc::from)
}

/// Fields numbered beyond any that this version has: one of each type.
fn unknown() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        2 => Just(Vec::new()),
        1 => (0..100u8, prop::collection::vec(any::<u8>(), 0..20)).prop_map(|(number, bytes)| {
            let mut out = vec![60 << 1, number, 61 << 1 | 1, bytes.len() as u8];
            out.extend(bytes);
            out
        }),
    ]
}

fn state() -> impl Strategy<Value = State> {
    prop_oneof![
        any::<u64>().prop_map(|since| State::Waiting { since: Timestamp(since) }),
        any::<u64>().prop_map(|at| State::Scheduled { due_at: Timestamp(at) }),
        lease().prop_map(|lease| State::Leased(Box::new(lease))),
        prop::option::of("\\PC{1,20}")
            .prop_map(|reason| { State::Suspended(Box::new(Suspension { reason: reason.map(Arc::from) })) }),
        outcome().prop_map(|outcome| State::Final(Box::new(outcome))),
    ]
}

fn lease() -> impl Strategy<Value = Lease> {
    (any::<[u64; 4]>(), text(), any::<bool>()).prop_map(|(numbers, client_id, cancel_requested)| Lease {
        permit: Permit(numbers[0]),
        client_id,
        leased_at: Timestamp(numbers[1]),
        deadline: Timestamp(numbers[2]),
        timeout: Span(numbers[3]),
        cancel_requested,
    })
}

fn outcome() -> impl Strategy<Value = Outcome> {
    let end = prop::sample::select(vec![End::Completed, End::Failed, End::Cancelled, End::Expired]);
    (end, any::<[u64; 3]>(), any::<[bool; 2]>(), prop::option::of(outgoing())).prop_map(
        |(end, [changed_at, finished_at, kept_bytes], [has_result, payload_kept], outgoing)| Outcome {
            end,
            changed_at: Timestamp(changed_at),
            finished_at: Timestamp(finished_at),
            kept_bytes,
            has_result,
            payload_kept,
            outgoing: outgoing.map(Box::new),
        },
    )
}

fn reason() -> impl Strategy<Value = MoveReason> {
    prop::sample::select(vec![
        MoveReason::Attempts,
        MoveReason::Dead,
        MoveReason::Expired,
        MoveReason::Redrive,
        MoveReason::Rerun,
        MoveReason::GroupEnd,
        MoveReason::GroupAbort,
    ])
}

fn outgoing() -> impl Strategy<Value = Outgoing> {
    let assigned = prop::option::of(any::<(u32, u64)>());
    let times = [(); 2].map(|()| prop::option::of(any::<u64>().prop_map(Timestamp)));
    let flags = any::<[bool; 2]>();
    (text(), reason(), flags, assigned, times, prop::option::of(text()), unknown()).prop_map(
        |(to, reason, [forgotten, deleted], assigned, [due_at, left_at], address, unknown)| Outgoing {
            to,
            reason,
            due_at,
            left_at,
            forgotten,
            deleted,
            address,
            assigned: assigned.map(|(partition, number)| Assigned {
                partition: PartitionId(partition),
                number: MoveNumber(number),
            }),
            unknown,
        },
    )
}

fn item_error() -> impl Strategy<Value = ItemError> {
    (prop::option::of(text()), text()).prop_map(|(code, message)| ItemError { code, message })
}

fn origin() -> impl Strategy<Value = Origin> {
    let id = prop::option::of(any::<(u64, u32)>());
    let attempts = prop::option::of(any::<u32>());
    let (error, names) =
        (prop::option::of(item_error()), (prop::option::of(text()), prop::option::of(text())));
    (text(), id, names, attempts, reason(), error, any::<u64>(), unknown()).prop_map(
        |(queue, id, (group, address), attempts, reason, error, moved_at, unknown)| Origin {
            queue,
            group,
            address,
            id: id.map(|(number, partition)| ItemId {
                number: ItemNumber(number),
                partition: PartitionId(partition),
            }),
            attempts,
            reason,
            error,
            moved_at: Timestamp(moved_at),
            unknown,
        },
    )
}

fn lease_end() -> impl Strategy<Value = LeaseEnd> {
    prop::sample::select(vec![
        LeaseEnd::Expired,
        LeaseEnd::Revoked,
        LeaseEnd::Cancelled,
        LeaseEnd::Completed,
        LeaseEnd::Retried,
        LeaseEnd::Released,
        LeaseEnd::Suspended,
    ])
}

fn extras() -> impl Strategy<Value = Option<Box<Extras>>> {
    let last_lease = (any::<[u64; 2]>(), lease_end(), text()).prop_map(|([permit, at], end, client_id)| {
        LastLease { permit: Permit(permit), end, client_id, leased_at: Timestamp(at) }
    });
    let moved_to = (text(), any::<u32>(), any::<u64>()).prop_map(|(queue, partition, number)| {
        let id = ItemId { partition: PartitionId(partition), number: ItemNumber(number) };
        Box::new(MovedTo { queue, id })
    });
    let changed_at = any::<u64>().prop_map(Timestamp);
    let after = (prop::option::of(last_lease), prop::option::of(moved_to), prop::option::of(changed_at));
    let after = (after, any::<[u32; 3]>());
    let run =
        (text(), any::<u64>()).prop_map(|(name, at)| Box::new(CronRun { name, scheduled_at: Timestamp(at) }));
    let limits = (prop::option::of(any::<u32>()), prop::option::of(any::<u64>()), prop::option::of(run));
    let (error, origin) = (prop::option::of(item_error()), prop::option::of(origin()));
    let address = prop::option::of(text());
    let hash = || prop_oneof![9 => any::<u64>(), 1 => Just(u64::MAX)];
    let hashes = prop::collection::vec(hash(), 0..4).prop_map(|hashes| ItemHashes::from(&*hashes));
    let facts = (prop_oneof![Just(0), any::<u64>()], hashes);
    let events = (any::<u64>(), any::<u64>(), any::<bool>(), any::<bool>());
    (limits, address, after, error, origin, facts, events, unknown()).prop_map(
        |(
            (max_attempts, dead_timeout, cron),
            address,
            after,
            error,
            origin,
            (facts_bytes, header_hashes),
            events,
            unknown,
        )| {
            let ((last_lease, moved_to, changed_at), [attempts_logged, attempt_bytes, error_attempt]) = after;
            let (event_count, event_bytes, has_input, payload_lost) = events;
            let (dead_timeout, origin) = (dead_timeout.map(Span), origin.map(Box::new));
            let extras = Extras {
                max_attempts,
                dead_timeout,
                address,
                origin,
                cron,
                moved_to,
                last_lease,
                changed_at,
                attempts_logged,
                attempt_bytes,
                error_attempt,
                error,
                facts_bytes,
                event_count,
                event_bytes,
                has_input,
                payload_lost,
                header_hashes,
                unknown: unknown.into(),
            };
            (extras != Extras::default()).then(|| Box::new(extras))
        },
    )
}

fn item() -> impl Strategy<Value = Item> {
    let numbers = (0..=NUMBER_MAX, 0..=NUMBER_MAX, any::<bool>(), any::<u64>());
    let group = prop::option::of((0..=NUMBER_MAX).prop_map(GroupNumber));
    let small = any::<(u8, u32, u32, u32)>();
    (numbers, text(), small, group, state(), extras()).prop_map(
        |((number, place, own_place, created_at), kind, small, group, state, extras)| {
            let (priority, attempts, era, payload) = small;
            Item {
                number: ItemNumber(number),
                place: if own_place { number } else { place },
                kind,
                priority,
                created_at: Timestamp(created_at),
                attempts,
                era,
                group,
                payload_size: PayloadSize::of(payload.into()),
                state,
                extras,
            }
        },
    )
}

fn template() -> impl Strategy<Value = Template> {
    let time = || prop::option::of(any::<u64>());
    let limits = (prop::option::of(any::<u32>()), time(), time(), time());
    let known = (any::<u64>(), prop::collection::vec(any::<u64>(), 0..3))
        .prop_map(|(names, hashes)| Hashes::Known { names: IndexedNames(names), hashes: hashes.into() });
    let facts = (any::<[u64; 2]>(), prop_oneof![Just(Hashes::Unknown), known]);
    (0..=NUMBER_MAX, facts, prop::option::of(text()), text(), any::<u8>(), limits, unknown()).prop_map(
        |(
            body,
            ([body_bytes, facts_bytes], hashes),
            queue,
            kind,
            priority,
            (max_attempts, dead, due, delay),
            unknown,
        )| {
            Template {
                body: ItemNumber(body),
                body_bytes,
                facts_bytes,
                hashes,
                queue,
                kind,
                priority,
                due_at: due.map(Timestamp),
                delay: delay.map(Span),
                max_attempts,
                dead_timeout: dead.map(Span),
                unknown,
            }
        },
    )
}

fn group() -> impl Strategy<Value = Group> {
    let at = || any::<u64>().prop_map(Timestamp);
    let state = prop_oneof![
        Just(GroupState::Open),
        Just(GroupState::Started),
        at().prop_map(|at| GroupState::Done { at }),
        at().prop_map(|at| GroupState::Cancelled { at }),
        (at(), at()).prop_map(|(cancelled_at, at)| GroupState::Aborted { cancelled_at, at }),
    ];
    let templates = (prop::option::of(template()), prop::option::of(template()));
    let marks = (any::<[bool; 3]>(), prop::option::of(at()));
    (0..=NUMBER_MAX, text(), at(), state, any::<[u64; 4]>(), templates, marks, unknown()).prop_map(
        |(number, name, created_at, state, ended, (end, abort), marks, unknown)| Group {
            number: GroupNumber(number),
            name,
            created_at,
            state,
            ended: Ended { completed: ended[0], failed: ended[1], cancelled: ended[2], expired: ended[3] },
            end: end.map(Box::new),
            abort: abort.map(Box::new),
            deleted: marks.0[0],
            started_at: marks.1,
            keeps_all: marks.0[1],
            drops_payload: marks.0[2],
            unknown,
        },
    )
}

fn leaves() -> impl Strategy<Value = Option<Leaves>> {
    let leaves = (text(), any::<u32>(), any::<u64>()).prop_map(|(queue, partition, number)| Leaves {
        queue,
        assigned: Assigned { partition: PartitionId(partition), number: MoveNumber(number) },
    });
    prop::option::of(leaves)
}

fn cron() -> impl Strategy<Value = Cron> {
    let at = || prop::option::of(any::<u64>().prop_map(Timestamp));
    let catch_up = prop::sample::select(vec![CatchUp::Skip, CatchUp::One, CatchUp::All]);
    let overlap = prop::sample::select(vec![Overlap::Allow, Overlap::Skip]);
    let last = prop::option::of((any::<u64>(), prop::option::of(any::<u32>())));
    let state = (any::<bool>(), at(), at(), last, leaves());
    let definition = (text(), text(), catch_up, overlap, template(), prop::option::of(text()));
    (text(), any::<[u64; 2]>(), definition, state, unknown()).prop_map(
        |(name, [number, created_at], definition, (paused, next_at, last_at, last, leaves), unknown)| {
            let (schedule, timezone, catch_up, overlap, template, address) = definition;
            let last = last.map(|(number, partition)| (ItemNumber(number), partition.map(PartitionId)));
            let elsewhere =
                |(number, partition): (_, Option<_>)| Some(ItemId { partition: partition?, number });
            Cron {
                name,
                number,
                created_at: Timestamp(created_at),
                schedule,
                timezone,
                catch_up,
                overlap,
                template,
                address,
                paused,
                next_at,
                last_at,
                last_item: last.filter(|(_, partition)| partition.is_none()).map(|(number, _)| number),
                last_item_elsewhere: last.and_then(elsewhere),
                leaves,
                unknown,
            }
        },
    )
}

fn settings() -> impl Strategy<Value = Settings> {
    let policy = (any::<bool>(), any::<[u64; 2]>(), any::<[u32; 2]>()).prop_map(|(fixed, spans, floats)| {
        RetryPolicy {
            strategy: if fixed { RetryStrategy::Fixed } else { RetryStrategy::Exponential },
            initial: Span(spans[0]),
            factor: f64::from(floats[0]) / 1000.0,
            max: Span(spans[1]),
            jitter: f64::from(floats[1]) / 3.0,
        }
    });
    let texts = (prop::option::of(text()), prop::option::of(text()));
    let payloads = prop::sample::select(vec![RetainPayload::Failed, RetainPayload::All, RetainPayload::None]);
    let ways = (any::<bool>(), any::<bool>(), payloads);
    let since = prop::collection::btree_map(text(), any::<u64>().prop_map(ItemNumber), 0..4);
    let indexed = (prop::collection::vec(text(), 0..4), since);
    (any::<[u64; 7]>(), any::<u32>(), policy, ways, texts, indexed, unknown()).prop_map(
        |(
            numbers,
            max_attempts,
            retry,
            (tail, all, retain_payload),
            (reference, dead_queue),
            indexed,
            unknown,
        )| {
            let (indexed_headers, indexed_since) = indexed;
            Settings {
                dead_timeout: Span(numbers[6]),
                dead_queue,
                version: numbers[0],
                lease_timeout: Span(numbers[1]),
                max_attempts,
                retry,
                requeue: if tail { Requeue::Tail } else { Requeue::Keep },
                retention: Span(numbers[2]),
                retention_max_items: numbers[3],
                retention_max_bytes: numbers[4],
                retain_payload,
                keep: if all { Keep::All } else { Keep::Shown },
                max_items: numbers[5],
                reference,
                indexed_headers,
                indexed_since,
                unknown,
            }
        },
    )
}

fn queue_name() -> impl Strategy<Value = QueueName> {
    (text(), text()).prop_map(|(namespace, name)| QueueName { namespace, name })
}

fn arrived() -> impl Strategy<Value = (BTreeMap<MoveNumber, ItemNumber>, BTreeSet<MoveNumber>)> {
    let moved = || any::<u64>().prop_map(MoveNumber);
    let item = (0..=NUMBER_MAX).prop_map(ItemNumber);
    (prop::collection::btree_map(moved(), item, 0..5), prop::collection::btree_set(moved(), 0..5))
}

type Intakes = (u64, bool, Option<SlotSet>, Option<QueueName>, u32, Vec<u8>);

fn intakes() -> impl Strategy<Value = Intakes> {
    let (slots, queue) = (prop::option::of(slot_set()), prop::option::of(queue_name()));
    (any::<u64>(), any::<bool>(), slots, queue, any::<u32>(), unknown())
}

fn stored() -> impl Strategy<Value = Stored> {
    let store = text().prop_map(|store| Some(store).filter(|store| !store.is_empty()));
    (any::<u32>(), store).prop_map(|(partition, store)| Stored { partition: PartitionId(partition), store })
}

fn times() -> impl Strategy<Value = BTreeMap<(Clearable, u32), Timestamp>> {
    let which = prop::sample::select(vec![
        Clearable::Waiting,
        Clearable::Scheduled,
        Clearable::Leased,
        Clearable::Suspended,
    ]);
    prop::collection::btree_map((which, any::<u32>()), any::<u64>().prop_map(Timestamp), 0..4)
}

fn once() -> impl Strategy<Value = Once> {
    let number = any::<u64>().prop_map(ItemNumber);
    let phase = prop::sample::select(vec![Phase::Waiting, Phase::Scheduled, Phase::Held]);
    let answer = prop_oneof![
        (number.clone(), phase).prop_map(|(number, phase)| Ok(Produced { number, phase })),
        number.clone().prop_map(|number| Err(Refusal::DuplicateAddress { number })),
        (number, any::<u32>()).prop_map(|(number, partition)| {
            Err(Refusal::HeldElsewhere { id: ItemId { number, partition: PartitionId(partition) } })
        }),
        prop::sample::select(vec![Err(Refusal::NoSuchGroup), Err(Refusal::GroupFinished)]),
    ];
    let answers = prop::collection::vec(answer, 0..20);
    let slots = slot_set().prop_map(|slots| slots.iter().collect());
    (text(), any::<[u8; 16]>(), any::<u64>(), answers, any::<bool>(), slots, unknown()).prop_map(
        |(key, digest, claimed_at, answers, scattered, slots, unknown)| {
            let packed = Answers::of(&answers);
            assert_eq!(packed.unpack(), answers);
            let indexes = (0..answers.len() as u16).filter(|_| scattered).map(|index| 60 * index).collect();
            Once { key, digest, claimed_at: Timestamp(claimed_at), indexes, answers: packed, slots, unknown }
        },
    )
}

fn slot_set() -> impl Strategy<Value = SlotSet> {
    any::<u64>().prop_map(|seed| Slot::all().filter(|slot| seed >> (slot.index() % 64) & 1 == 1).collect())
}

type Routes =
    (u64, BTreeSet<PartitionId>, BTreeMap<PartitionId, Option<Arc<str>>>, BTreeMap<PartitionId, SlotSet>);

fn routes() -> impl Strategy<Value = Routes> {
    let partition = || any::<u32>().prop_map(PartitionId);
    let store = prop::option::of("[a-z]{1,9}".prop_map(Arc::from));
    (
        any::<u64>(),
        prop::collection::btree_set(partition(), 0..4),
        prop::collection::btree_map(partition(), store, 0..4),
        prop::collection::btree_map(partition(), slot_set(), 0..4),
    )
}

fn rule() -> impl Strategy<Value = Rule> {
    let stop = prop::sample::select(Stop::ALL.to_vec());
    let key = (prop::option::of(queue_name()), prop::option::of(text()), stop);
    let times = (any::<u64>(), prop::option::of(any::<u64>().prop_map(Timestamp)));
    (key, prop::option::of(text()), times, unknown()).prop_map(
        |((queue, kind, stop), reason, (created_at, until), unknown)| Rule {
            key: RuleKey { queue, kind, stop },
            reason,
            until,
            created_at: Timestamp(created_at),
            unknown,
        },
    )
}

fn event_batch() -> impl Strategy<Value = EventBatch> {
    (0..=NUMBER_MAX, 0..=NUMBER_MAX, 0..2000u64, any::<u64>()).prop_map(|(item, first_seq, more, bytes)| {
        EventBatch { item: ItemNumber(item), first_seq, last_seq: first_seq + more, bytes }
    })
}

pub(super) fn row() -> impl Strategy<Value = Row> {
    let partitions = prop::collection::vec(any::<u32>().prop_map(PartitionId), 0..5);
    let stores = prop::collection::vec(text(), 0..5).prop_map(StoreNames);
    let slots = prop::collection::vec(0..3u16, 0..=SLOTS).prop_map(SlotMap);
    let facts = (prop::option::of(text()), any::<[u64; 2]>());
    prop_oneof![
        6 => item().prop_map(Row::Item),
        1 => (any::<[u64; 3]>(), unknown()).prop_map(|([item, permit, moved], unknown)| {
            Row::Numbers(Numbers { item, permit, moved: MoveNumber(moved), unknown })
        }),
        2 => settings().prop_map(Row::Settings),
        1 => (any::<[u32; 4]>(), times(), unknown()).prop_map(|(before, times, unknown)| {
            let [waiting_before, scheduled_before, leased_before, suspended_before] = before;
            Row::Cleared(Cleared {
                waiting_before,
                scheduled_before,
                leased_before,
                suspended_before,
                keeps_all: times.keys().step_by(2).copied().collect(),
                drops_payload: times.keys().step_by(3).copied().collect(),
                times,
                unknown,
            })
        }),
        2 => (queue_name(), settings(), facts, partitions, stores, slots, routes(), unknown()).prop_map(
            |(name, settings, facts, partitions, stores, slots, routes, unknown)| {
                let (route_version, draining, retired, former) = routes;
                let (meta, [created_at, updated_at]) = facts;
                let (created_at, updated_at) = (Timestamp(created_at), Timestamp(updated_at));
                Row::Queue(Box::new(Queue {
                    name, settings, meta, created_at, updated_at, partitions, stores, slots, route_version, draining,
                    retired, former, unknown,
                }))
            }
        ),
        1 => intakes().prop_map(
            |(version, closed, at_home, queue, shares, unknown)| {
                Row::Intake(Box::new(Intake { version, closed, at_home, queue, shares, unknown }))
            }
        ),
        1 => (any::<u32>(), any::<u64>(), arrived(), unknown()).prop_map(|(source, last, arrived, unknown)| {
            let (items, turned_away) = arrived;
            let arrived = Arrived { last: MoveNumber(last), items, turned_away };
            Row::Taken(Taken { source: PartitionId(source), arrived, unknown })
        }),
        1 => once().prop_map(|once| Row::Once(Box::new(once))),
        2 => group().prop_map(|group| Row::Group(Box::new(group))),
        2 => event_batch().prop_map(Row::Events),
        2 => cron().prop_map(|cron| Row::Cron(Box::new(cron))),
        1 => (text(), queue_name(), unknown()).prop_map(|(name, queue, unknown)| {
            Row::CronHome(Box::new(CronHome { name, queue, unknown }))
        }),
        1 => (stored(), unknown()).prop_map(|(stored, unknown)| Row::Dropped(Dropped { stored, unknown })),
        1 => (any::<u32>(), unknown()).prop_map(|(last, unknown)| Row::Partitions(Partitions { last, unknown })),
        1 => (prop::option::of(queue_name()), any::<u64>(), unknown()).prop_map(|(queue, version, unknown)| {
            Row::Rules(RulesVersion { queue, version, unknown })
        }),
        3 => rule().prop_map(|rule| Row::Rule(Box::new(rule))),
    ]
}
