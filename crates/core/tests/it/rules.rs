use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::id::{ItemNumber, PartitionId};
use windlass_core::item::Phase;
use windlass_core::limits::{Invalid, RULES_MAX};
use windlass_core::machine::Machine;
use windlass_core::news::News;
use windlass_core::partition::{Partition, Reason};
use windlass_core::refusal::{Limit, Refusal};
use windlass_core::row::{Change, Key, Row};
use windlass_core::rule::{Rule, RuleKey, RuleSet, Stop};
use windlass_core::settings::Settings;
use windlass_core::time::{Span, Timestamp};
use windlass_core::verb::Verb;
use windlass_core::verbs::{
    Clear, CreateGroup, CreateQueue, Delete, DeleteQueue, LiftRule, Produce, Redrive, RedriveTo, SetRule,
    StartGroup, TakeRules,
};

use crate::registry_script::{RegistryScript, queue_name};
use crate::script::{START, Script, again, at_once, item, items, kinds, open_group};

/// A partition and the rules it was told last.
#[derive(Default)]
struct Told(BTreeMap<RuleKey, Rule>, u64);

fn key(kind: Option<&str>, stop: Stop) -> RuleKey {
    RuleKey { queue: None, kind: kind.map(Arc::from), stop }
}

impl Told {
    fn set(&mut self, script: &mut Script, kind: Option<&str>, stop: Stop) {
        self.set_until(script, kind, stop, None);
    }

    fn set_until(&mut self, script: &mut Script, kind: Option<&str>, stop: Stop, until: Option<Timestamp>) {
        let key = key(kind, stop);
        let rule =
            Rule { key: key.clone(), reason: None, until, created_at: script.now, unknown: Vec::new() };
        self.0.insert(key, rule);
        self.tell(script);
    }

    fn lift(&mut self, script: &mut Script, kind: Option<&str>, stop: Stop) {
        self.0.remove(&key(kind, stop));
        self.tell(script);
    }

    fn tell(&mut self, script: &mut Script) {
        self.1 += 1;
        let set = RuleSet { version: self.1, rules: self.0.values().cloned().collect() };
        script.apply(TakeRules(Arc::new(set))).unwrap();
    }
}

fn numbers_of(reasons: &[Reason]) -> Option<u64> {
    reasons.iter().find_map(|reason| match reason {
        Reason::Behind { position, exact: true } => Some(*position),
        _ => None,
    })
}

#[test]
fn work_runs_only_when_neither_pause_nor_block_stands_at_either_level() {
    for level in [None, Some("default")] {
        for set in [[Stop::Pause, Stop::Block], [Stop::Block, Stop::Pause]] {
            for lifted in [[Stop::Pause, Stop::Block], [Stop::Block, Stop::Pause]] {
                let (mut script, mut told) = (Script::new(), Told::default());
                script.produce_one();
                set.into_iter().for_each(|stop| told.set(&mut script, level, stop));
                assert_eq!(script.order(), []);
                told.lift(&mut script, level, lifted[0]);
                assert_eq!((script.order(), script.partition.stopped()), (vec![], 1), "{level:?} {lifted:?}");
                told.lift(&mut script, level, lifted[1]);
                assert_eq!((script.partition.stopped(), script.order().len()), (0, 1));
            }
        }
    }
}

#[test]
fn a_kind_runs_only_when_neither_it_nor_the_queue_is_stopped() {
    let (mut script, mut told) = (Script::new(), Told::default());
    let made = script.produce([item("mail"), item("report")]);
    told.set(&mut script, Some("mail"), Stop::Pause);
    told.set(&mut script, None, Stop::Block);
    assert_eq!((script.order(), script.partition.stopped()), (vec![], 2));
    told.lift(&mut script, None, Stop::Block);
    assert_eq!(script.partition.stopped(), 1);
    assert_eq!(script.lease_with(9, kinds(&["mail"])), []);
    assert_eq!(script.order(), [made[1]]);
    told.set(&mut script, None, Stop::Block);
    told.lift(&mut script, Some("mail"), Stop::Pause);
    assert_eq!(script.order(), []);
    told.lift(&mut script, None, Stop::Block);
    assert_eq!(script.order(), [made[0]]);
}

#[test]
fn what_waits_behind_a_rule_keeps_its_order_and_its_state() {
    let (mut script, mut told) = (Script::new(), Told::default());
    told.set(&mut script, None, Stop::Pause);
    let made = script.produce(items(5));
    assert_eq!(script.phase(made[0]), Some(Phase::Waiting));
    assert_eq!((script.partition.counts().waiting, script.partition.stopped()), (5, 5));
    assert_eq!(script.partition.oldest_waiting(), Some(Timestamp(made[0].0)));
    assert_eq!(script.news, []);
    told.lift(&mut script, None, Stop::Pause);
    assert_eq!(script.news, [News::Available]);
    assert_eq!(script.order(), made);
}

#[test]
fn lifting_a_rule_under_which_nothing_waits_tells_nobody() {
    let (mut script, mut told) = (Script::new(), Told::default());
    script.produce([item("mail")]);
    told.set(&mut script, None, Stop::Pause);
    told.set(&mut script, Some("mail"), Stop::Block);
    told.lift(&mut script, None, Stop::Pause);
    assert_eq!(script.news, []);
}

#[test]
fn a_running_lease_goes_on_and_what_is_retried_waits_with_its_attempts() {
    let (mut script, mut told) = (Script::new(), Told::default());
    script.produce(items(3));
    let held = [(); 3].map(|()| script.lease_one());
    told.set(&mut script, Some("default"), Stop::Pause);
    script.extend(held[0], None).unwrap();
    script.complete(held[0], None).unwrap();
    script.retry(at_once(held[1])).unwrap();
    script.release(held[2]).unwrap();
    assert_eq!((script.order(), script.partition.stopped()), (vec![], 2));
    assert_eq!([held[1], held[2]].map(|held| script.get(held.id.number).attempts), [1, 0]);
    told.lift(&mut script, Some("default"), Stop::Pause);
    let attempts: Vec<_> = script.lease(9).iter().map(|leased| leased.attempts).collect();
    assert_eq!(attempts, [2, 1]);
}

#[test]
fn an_item_that_falls_due_or_whose_lease_ends_under_a_rule_waits_for_its_end() {
    let (mut script, mut told) = (Script::new(), Told::default());
    let late = script.now + Span::from_secs(5);
    script.produce([item("default")]);
    script.produce([windlass_core::verbs::NewItem { enqueue_at: Some(late), ..item("default") }]);
    script.lease(1);
    told.set(&mut script, None, Stop::Block);
    script.pass(Span::from_secs(100));
    script.sweep();
    assert_eq!((script.partition.counts().waiting, script.partition.stopped()), (2, 2));
    assert_eq!((script.news.clone(), script.order()), (vec![], vec![]));
    told.lift(&mut script, None, Stop::Block);
    assert_eq!(script.order().len(), 2);
}

#[test]
fn stopped_items_expire_and_can_be_cancelled_deleted_redriven_and_cleared() {
    let (mut script, mut told) = (Script::new(), Told::default());
    let dead_timeout = Some(Span::from_secs(5));
    let mut new = items(5);
    new[0].dead_timeout = dead_timeout;
    let made = script.produce(new);
    told.set(&mut script, None, Stop::Pause);
    told.set(&mut script, Some("default"), Stop::Block);
    script.pass(Span::from_secs(6));
    script.sweep();
    assert_eq!(script.phase(made[0]), Some(Phase::Expired));
    script.cancel(made[1]).unwrap();
    script.apply(Delete(vec![made[2]])).unwrap();
    assert_eq!(script.partition.stopped(), 2);
    let redrive = Redrive {
        to: RedriveTo::Queue("other".into()),
        kind: None,
        limit: 1,
        from: None,
        asked: BTreeMap::new(),
    };
    assert_eq!(script.apply(redrive).unwrap().count, 1);
    assert_eq!(script.clear(Clear { waiting: true, scheduled: false, leased: false, suspended: false }), 1);
    assert_eq!(script.partition.stopped(), 0);
}

#[test]
fn members_of_a_group_that_is_not_started_are_held_and_not_stopped() {
    let (mut script, mut told) = (Script::new(), Told::default());
    let create = CreateGroup { items: items(3), ..open_group("all") };
    script.apply(create).unwrap();
    told.set(&mut script, Some("default"), Stop::Pause);
    assert_eq!((script.partition.counts().held, script.partition.stopped()), (3, 0));
    script.apply(StartGroup("all".into())).unwrap();
    assert_eq!((script.partition.stopped(), script.order()), (3, vec![]));
    told.lift(&mut script, Some("default"), Stop::Pause);
    assert_eq!(script.order().len(), 3);
}

#[test]
fn a_rule_on_a_kind_that_nobody_has_produced_yet_holds_it_when_it_comes() {
    let (mut script, mut told) = (Script::new(), Told::default());
    told.set(&mut script, Some("mail"), Stop::Pause);
    let made = script.produce([item("report"), item("mail")]);
    assert_eq!(script.order(), [made[0]]);
    script.apply(Delete(vec![made[1]])).unwrap();
    script.produce([item("mail")]);
    assert_eq!((script.order(), script.partition.stopped()), (vec![], 1));
    told.lift(&mut script, Some("mail"), Stop::Pause);
    assert_eq!(script.order().len(), 1);
}

#[test]
fn a_rule_lifts_itself_at_its_time_and_serves_what_waits() {
    let (mut script, mut told) = (Script::new(), Told::default());
    script.produce_one();
    let until = script.now + Span::from_secs(10);
    told.set_until(&mut script, None, Stop::Pause, Some(until));
    assert_eq!(script.partition.next_due(), Some(until));
    script.pass(Span(Span::from_secs(10).0 - 1));
    assert_eq!((script.sweep(), script.order()), (0, vec![]));
    script.pass(Span(1));
    assert_eq!((script.sweep(), script.news.clone()), (1, vec![News::Available]));
    assert_eq!(
        (script.order().len(), script.partition.next_due().is_some_and(|due| due == until)),
        (1, false)
    );
}

#[test]
fn rules_that_are_not_the_latest_or_have_lifted_themselves_are_not_taken() {
    let (mut script, mut told) = (Script::new(), Told::default());
    let until = script.now + Span::from_secs(1);
    told.set_until(&mut script, Some("mail"), Stop::Pause, Some(until));
    script.pass(Span::from_secs(2));
    script.sweep();
    told.set(&mut script, Some("report"), Stop::Pause);
    let rules = |script: &Script| script.partition.rows().filter(|row| matches!(row, Row::Rule(_))).count();
    assert_eq!(rules(&script), 1, "the one that lifted itself has not come back");
    told.1 -= 1;
    told.0.clear();
    told.tell(&mut script);
    assert_eq!((rules(&script), script.changes.len()), (1, 0));
}

/// Rows that a verb wrote or removed.
fn written(partition: &mut Partition, verb: impl Verb) -> usize {
    let applied = partition.apply(START, verb);
    applied.reply.unwrap();
    applied.changes.len()
}

fn pause_and_resume_of(count: usize) -> [usize; 4] {
    let mut partition = Partition::new(PartitionId(7), START);
    for _ in 0..count / 10 {
        let mut batch = items(5);
        batch.extend(vec![item("mail"); 5]);
        written(&mut partition, Produce { items: batch });
    }
    let rule = |kind| Rule {
        key: key(kind, Stop::Pause),
        reason: None,
        until: None,
        created_at: START,
        unknown: Vec::new(),
    };
    let set = |version, rules| TakeRules(Arc::new(RuleSet { version, rules }));
    let rows = [
        written(&mut partition, set(1, vec![rule(None)])),
        written(&mut partition, set(2, vec![])),
        written(&mut partition, set(3, vec![rule(Some("mail"))])),
        written(&mut partition, set(4, vec![])),
    ];
    assert_eq!(partition.counts().waiting, count as u64);
    rows
}

#[test]
fn a_pause_on_a_million_items_writes_as_many_rows_as_on_ten() {
    assert_eq!(pause_and_resume_of(10), [2; 4]);
    assert_eq!(pause_and_resume_of(1_000_000), [2; 4]);
}

#[test]
fn a_start_of_a_group_writes_as_many_rows_under_a_rule_as_without() {
    let start = |count: usize| {
        let (mut script, mut told) = (Script::new(), Told::default());
        told.set(&mut script, None, Stop::Pause);
        let create = CreateGroup { items: items(count), ..open_group("all") };
        script.apply(create).unwrap();
        script.apply(StartGroup("all".into())).unwrap();
        script.changes.len()
    };
    assert_eq!(start(10), start(1000));
}

fn registry() -> RegistryScript {
    let mut script = RegistryScript::new();
    for name in ["first", "second"] {
        script.create(name, 1).unwrap();
    }
    script
}

fn pause(name: &str) -> SetRule {
    SetRule { queue: queue_name(name), kind: None, stop: Stop::Pause, reason: None, until: None }
}

fn lift(script: &mut RegistryScript, name: &str, kind: Option<&str>) -> Result<(), Refusal> {
    let lift = LiftRule { queue: queue_name(name), kind: kind.map(Arc::from), stop: Stop::Pause };
    script.apply(lift)
}

#[test]
fn a_rule_that_is_set_again_takes_the_new_words_and_stands_since_it_was_set_first() {
    let mut script = registry();
    let first = script.apply(SetRule { reason: Some("a deploy".into()), ..pause("first") }).unwrap();
    let version = script.registry.rule_set(&queue_name("first")).version;
    script.pass(Span::from_secs(1));
    assert_eq!(
        script.apply(SetRule { reason: Some("a deploy".into()), ..pause("first") }),
        Ok(first.clone())
    );
    assert_eq!(script.changes, [], "nothing new was said");
    let until = Some(script.now + Span::from_secs(1));
    let again = script.apply(SetRule { until, ..pause("first") }).unwrap();
    assert_eq!(again, Rule { reason: None, until, ..first.clone() });
    assert!(script.registry.rule_set(&queue_name("first")).version > version);
    script.pass(Span::from_secs(1));
    let anew = script.apply(pause("first")).unwrap();
    assert_eq!(anew.created_at, script.now, "the one before had lifted itself");
}

#[test]
fn a_rule_that_ends_in_the_past_is_refused() {
    let mut script = registry();
    for until in [Timestamp(0), script.now] {
        let refused = script.apply(SetRule { until: Some(until), ..pause("first") });
        assert!(matches!(refused, Err(Refusal::Invalid(Invalid { field: "until", .. }))), "{refused:?}");
    }
    assert_eq!(script.registry.rules(None), []);
}

#[test]
fn lifting_what_does_not_stand_lifts_nothing_and_is_counted() {
    let mut script = registry();
    script.apply(pause("first")).unwrap();
    let paused = script.registry.rules(None);
    lift(&mut script, "first", Some("mail")).unwrap();
    assert_eq!(script.registry.rules(None), paused);
    for _ in 0..2 {
        let before = script.registry.rule_set(&queue_name("first")).version;
        lift(&mut script, "first", None).unwrap();
        assert_eq!(script.registry.rules(None), []);
        assert!(script.registry.rule_set(&queue_name("first")).version > before);
    }
    assert_eq!(lift(&mut script, "third", None), Err(Refusal::NoSuchQueue { queue: "third".into() }));
    assert_eq!(script.apply(pause("third")), Err(Refusal::NoSuchQueue { queue: "third".into() }));
}

#[test]
fn the_registry_tells_rules_by_queue_and_lifts_them_itself() {
    let mut script = registry();
    let until = Some(script.now + Span::from_secs(3));
    let of_first = script.apply(SetRule { until, ..pause("first") }).unwrap();
    let of_second = script.apply(SetRule { kind: Some("mail".into()), ..pause("second") }).unwrap();
    assert_eq!(script.registry.rules(None), [of_first.clone(), of_second.clone()]);
    assert_eq!(script.registry.rules(Some(&queue_name("first"))), [of_first]);
    let copy = Rule { key: key(Some("mail"), Stop::Pause), ..of_second.clone() };
    assert_eq!(script.registry.rule_set(&queue_name("second")).rules, [copy]);
    assert_eq!(script.registry.next_due(), until);
    script.pass(Span::from_secs(3));
    script.sweep();
    assert_eq!(script.registry.rules(None), [of_second]);
}

#[test]
fn a_queue_that_is_deleted_takes_its_rules_along() {
    let mut script = registry();
    script.apply(pause("first")).unwrap();
    script.apply(SetRule { kind: Some("mail".into()), ..pause("first") }).unwrap();
    let other = script.apply(pause("second")).unwrap();
    script.apply(DeleteQueue(queue_name("first"))).unwrap();
    assert_eq!(script.registry.rules(None), [other]);
    let of_rules = |change: &&Change| matches!(change, Change::Remove(Key::Rule(_) | Key::Rules(_)));
    assert_eq!(script.changes.iter().filter(of_rules).count(), 3);
    let create = CreateQueue::new(queue_name("first"), Settings::default(), 1);
    script.apply(create).unwrap();
    assert_eq!(*script.registry.rule_set(&queue_name("first")), RuleSet::default());
}

#[test]
fn there_are_only_so_many_rules_and_their_words_are_bounded() {
    let mut script = registry();
    for reason in ["x".repeat(513), "\0".into()] {
        let refused = script.apply(SetRule { reason: Some(reason.into()), ..pause("first") });
        assert!(matches!(refused, Err(Refusal::Invalid(Invalid { field: "reason", .. }))), "{refused:?}");
    }
    let refused = script.apply(SetRule { kind: Some("".into()), ..pause("first") });
    assert!(matches!(refused, Err(Refusal::Invalid(Invalid { field: "kind", .. }))), "{refused:?}");
    let on = |number: usize| SetRule { kind: Some(format!("kind {number}").into()), ..pause("first") };
    for number in 0..RULES_MAX {
        let applied = script.registry.apply(script.now, on(number));
        applied.reply.unwrap();
    }
    assert!(matches!(script.apply(on(RULES_MAX)), Err(Refusal::AtLimit { limit: Limit::RulesPerQueue, .. })));
    script.apply(SetRule { reason: Some("said anew".into()), ..on(7) }).unwrap();
    script.apply(pause("second")).unwrap();
}

fn reasons(script: &Script, number: ItemNumber) -> Vec<Reason> {
    script.partition.explain(number).expect("it is there").reasons
}

#[test]
fn an_item_is_told_everything_that_stands_in_its_way() {
    let (mut script, mut told) = (Script::new(), Told::default());
    let made = script.produce([item("mail"), item("report"), item("mail")]);
    assert_eq!(reasons(&script, made[0]), []);
    assert_eq!(reasons(&script, made[2]), [Reason::Behind { position: 2, exact: true }]);
    told.set(&mut script, None, Stop::Block);
    told.set(&mut script, Some("mail"), Stop::Pause);
    let rule = |kind, stop| Reason::Stopped(told.0[&key(kind, stop)].clone());
    let (blocked, paused) = (rule(None, Stop::Block), rule(Some("mail"), Stop::Pause));
    assert_eq!(reasons(&script, made[0]), [blocked.clone(), paused]);
    assert_eq!(reasons(&script, made[1]), [blocked], "what is paused does not go before it");
    assert_eq!(numbers_of(&reasons(&script, made[2])), Some(2));
}

#[test]
fn an_item_that_does_not_wait_is_told_why() {
    let mut script =
        Script::with_settings(Settings { dead_queue: Some("dead".into()), ..Settings::default() });
    let until = script.now + Span::from_secs(60);
    let later = windlass_core::verbs::NewItem { enqueue_at: Some(until), ..item("default") };
    let made = script.produce([later, item("default")]);
    assert_eq!(reasons(&script, made[0]), [Reason::Scheduled { until }]);
    let held = script.lease_one();
    let deadline = script.now + Span::from_secs(60);
    assert_eq!(reasons(&script, made[1]), [Reason::Leased { client_id: "worker".into(), deadline }]);
    script.retry(crate::script::RetryItem { dead: true, ..again(held) }).unwrap();
    assert_eq!(reasons(&script, made[1]), [Reason::Moving { to: "dead".into() }, Reason::Final]);
    let create = CreateGroup { items: items(1), ..open_group("all") };
    let members = script.apply(create).unwrap().items;
    assert_eq!(reasons(&script, members[0].number), [Reason::Held { group: "all".into() }]);
    assert_eq!(script.partition.explain(ItemNumber(1)), None);
}
