//! What the runs have met: every command, every change of state, every kind of fault, how often.

mod afterwards;
mod crons;
mod finds;
mod groups;
mod store_events;
mod stores;
mod streams;
mod suspends;

use std::collections::BTreeMap;
use std::fmt;

use windlass_core::item::{LeaseEnd, MoveReason, Phase};
use windlass_core::verbs::Retried;

use self::store_events::StoreCoverage;
use crate::check::{Facts, ItemFacts, merged};
use crate::fault::Fault;
use crate::history::{Call, History, OPERATOR, Op, Outcome, Verdict};

pub const COMMANDS: [&str; 51] = [
    "produce",
    "produce once",
    "lease",
    "complete",
    "retry",
    "extend",
    "release",
    "revoke",
    "suspend",
    "next",
    "resume",
    "cancel",
    "update item",
    "rerun",
    "latest of a chain",
    "find",
    "change many",
    "change many (dry run)",
    "get",
    "wait",
    "emit",
    "subscribe",
    "follow",
    "close streams",
    "clear",
    "redrive",
    "stats",
    "create queue",
    "update queue",
    "delete queue",
    "delete queue if empty",
    "rebalance queue",
    "pause or block",
    "resume or unblock",
    "pause or block a kind",
    "resume or unblock a kind",
    "create group",
    "set group's end",
    "start group",
    "cancel group",
    "delete group",
    "show group",
    "list groups",
    "create cron",
    "update cron",
    "pause cron",
    "resume cron",
    "trigger cron",
    "delete cron",
    "show cron",
    "list crons",
];

pub const CHANGES: [&str; 114] = [
    "produced → waiting",
    "produced → scheduled",
    "scheduled → waiting",
    "waiting → leased",
    "leased → waiting (retry)",
    "leased → scheduled (retry)",
    "leased → waiting (release)",
    "leased → waiting (revoke)",
    "leased → waiting (grant dropped)",
    "leased → waiting (expiry)",
    "leased → completed",
    "leased → failed (last retry)",
    "leased → failed (given up)",
    "leased → failed (last expiry)",
    "scheduled or waiting → expired",
    "leased → expired",
    "failed → moved (attempts)",
    "failed → moved (dead)",
    "expired → moved",
    "dead → redriven",
    "moved after a restart",
    "moved to another store",
    "live → cancelled",
    "leased, cancel requested",
    "live → cleared",
    "retained → forgotten",
    "live → final, told to who waits",
    "leased → suspended",
    "leased → suspended, shown live",
    "suspended, its permit refused",
    "suspended → waiting (input)",
    "suspended → waiting (no input)",
    "suspended → cancelled",
    "suspended → expired",
    "suspended over a restart",
    "not suspended, resume refused",
    "leased with input",
    "leased with its input again",
    "leased without the input of before",
    "input, shown in a stream",
    "followed from a live snapshot",
    "followed from a final snapshot",
    "snapshot with events → more of them",
    "stream closed, the rest shown first",
    "stream closed at once",
    "streams closed with nobody there",
    "stream closed → followed again",
    "stream closed, later events not shown",
    "produced → held",
    "held → leased",
    "held → cancelled with its group",
    "leased, cancelled with its group",
    "group done → its end item moved",
    "group aborted → its abort item moved",
    "group done → its end item",
    "group aborted → its abort item",
    "group open → started",
    "group open → cancelled",
    "group started → cancelled",
    "group → done",
    "group → aborted",
    "group's end replaced",
    "group deleted",
    "group's name used again",
    "group unfinished over a restart",
    "member refused by a finished group",
    "cron → its item",
    "cron triggered → its item",
    "cron ran over a restart",
    "cron ran in another partition",
    "cron paused → resumed",
    "cron caught up",
    "cron's item moved",
    "cron's name used again",
    "cron deleted with its queue",
    "waiting or held → updated",
    "scheduled → updated",
    "suspended → updated",
    "scheduled → waiting (update)",
    "waiting → scheduled (update)",
    "live → expired (update)",
    "updated → leased as updated",
    "not changeable, update refused",
    "completed → rerun",
    "failed → rerun",
    "cancelled → rerun",
    "expired → rerun",
    "rerun → final → rerun",
    "rerun with its address",
    "rerun in another partition",
    "rerun seen though nobody was told",
    "rerun refused, goes on as another",
    "rerun refused, no payload kept",
    "rerun refused, address taken",
    "final, with its payload",
    "attempts logged before a move",
    "chain followed to another",
    "letter redriven, tells where",
    "walk of several pages, to its end",
    "walk over a restart",
    "walk over a rebalance",
    "walk goes by states",
    "walk goes by an address",
    "walk showed what had to be shown",
    "many → cancelled",
    "many → rerun",
    "many → run now",
    "many → deleted",
    "many → another priority",
    "one of many refused",
    "kind stopped → leased again",
    "answered beside a stalled store",
    "closed while a store was stalled",
    "idle queue beside those in play",
];

#[derive(Clone, Debug, Default)]
pub struct Coverage {
    pub runs: u64,
    pub calls: u64,
    pub unknown: u64,
    commands: BTreeMap<&'static str, u64>,
    changes: BTreeMap<&'static str, u64>,
    faults: BTreeMap<Fault, u64>,
    /// What stores met, under an engine and alone.
    store: StoreCoverage,
    pub log_runs: u64,
}

impl Coverage {
    pub fn of(history: &History) -> Self {
        let mut coverage = Self { runs: 1, ..Self::default() };
        coverage.store.add(&history.store);
        for call in &history.calls {
            // The operator reads out when all is over: that says nothing about how rough it was.
            if call.client != OPERATOR {
                coverage.calls += 1;
                coverage.unknown += u64::from(call.outcome.is_unknown());
            }
            *coverage.commands.entry(command(&call.op)).or_default() += 1;
            // Counted with the first of the calls that a turn stands for.
            if call.turn == Some(call.begin.order) {
                *coverage.commands.entry("next").or_default() += 1;
            }
            if matches!(&call.outcome, Outcome::Cleared(count) if *count > 0) {
                coverage.change("live → cleared");
            }
        }
        for (_, fault) in &history.faults {
            *coverage.faults.entry(*fault).or_default() += 1;
        }
        *coverage.changes.entry("idle queue beside those in play").or_default() += history.idle_queues;
        let Ok(merged) = merged(history) else { return coverage };
        if let Ok(facts) = Facts::gather(&merged) {
            facts.items.iter().for_each(|item| coverage.add_item(item));
            facts.items.iter().for_each(|item| coverage.add_move(history, item));
            facts.items.iter().for_each(|item| coverage.add_suspends(item));
            facts.items.iter().for_each(|item| coverage.add_streams(item));
            facts.items.iter().for_each(|item| coverage.add_changes(item));
            facts.items.iter().for_each(|item| coverage.add_chain(&facts, item));
            coverage.add_groups(&facts);
            coverage.add_crons(&facts);
            coverage.add_kinds(&facts);
            coverage.add_stalls(&facts);
            coverage.add_stores(&facts);
            coverage.add_walks(&facts);
            coverage.add_many(&facts);
        }
        coverage
    }

    pub fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.calls += other.calls;
        self.unknown += other.unknown;
        self.log_runs += other.log_runs;
        self.store.merge(&other.store);
        other.commands.iter().for_each(|(name, count)| *self.commands.entry(name).or_default() += count);
        other.changes.iter().for_each(|(name, count)| *self.changes.entry(name).or_default() += count);
        other.faults.iter().for_each(|(fault, count)| *self.faults.entry(*fault).or_default() += count);
    }

    fn change(&mut self, name: &'static str) {
        *self.changes.entry(name).or_default() += 1;
    }

    fn add_item(&mut self, item: &ItemFacts<'_>) {
        match item.first_phase {
            Some(Phase::Waiting) => self.change("produced → waiting"),
            Some(Phase::Scheduled) => {
                self.change("produced → scheduled");
                if !item.grants.is_empty() {
                    self.change("scheduled → waiting");
                }
            }
            Some(Phase::Held) => {
                self.change("produced → held");
                if !item.grants.is_empty() {
                    self.change("held → leased");
                }
            }
            _ => {}
        }
        for (position, grant) in item.grants.iter().enumerate() {
            self.change("waiting → leased");
            let given_up = item
                .judged(grant.given.permit)
                .any(|judged| judged.verb.ends_lease() && judged.verdict.is_possible());
            let again = position + 1 < item.grants.len();
            if again && !grant.accepted {
                self.change("leased → waiting (grant dropped)");
            } else if again && !given_up {
                self.change("leased → waiting (expiry)");
            }
        }
        self.add_ends(item);
    }

    fn add_move(&mut self, history: &History, item: &ItemFacts<'_>) {
        if let Some((_, view)) = item.shown().find(|(_, view)| view.phase.is_final()) {
            let last_lease = view.last_lease;
            match (view.phase, last_lease) {
                (Phase::Failed, Some((_, LeaseEnd::Expired))) => self.change("leased → failed (last expiry)"),
                // Counted with the others that were suspended.
                (Phase::Expired, Some((_, LeaseEnd::Suspended))) => {}
                (Phase::Expired, Some(_)) => self.change("leased → expired"),
                (Phase::Expired, None) => self.change("scheduled or waiting → expired"),
                _ => {}
            }
        }
        let Some(origin) = item.origin else { return };
        self.change(match origin.reason {
            MoveReason::Attempts => "failed → moved (attempts)",
            MoveReason::Dead => "failed → moved (dead)",
            MoveReason::Expired => "expired → moved",
            MoveReason::Redrive => "dead → redriven",
            // Counted by how the item had ended.
            MoveReason::Rerun => return,
            MoveReason::GroupEnd => "group done → its end item moved",
            MoveReason::GroupAbort => "group aborted → its abort item moved",
        });
        let Some(grant) = item.grants.first() else { return };
        // Told by the clock, so only where nobody set it.
        let steady =
            !history.faults.iter().any(|(_, fault)| matches!(fault, Fault::ClockForward | Fault::ClockBack));
        let between = origin.moved_at..=grant.given.created_at;
        if steady && history.processes.iter().any(|process| between.contains(&process.wall)) {
            self.change("moved after a restart");
        }
    }

    fn add_ends(&mut self, item: &ItemFacts<'_>) {
        use crate::check::Verb;
        for judged in &item.verdicts {
            match (judged.verb, &judged.verdict) {
                (Verb::Complete { .. }, Verdict::Done) => self.change("leased → completed"),
                (Verb::Release, Verdict::Done) => self.change("leased → waiting (release)"),
                (Verb::Revoke, Verdict::Done) => self.change("leased → waiting (revoke)"),
                (Verb::Retry(retry), Verdict::Retried(Retried::Ended(Phase::Failed))) => {
                    self.change(if retry.dead {
                        "leased → failed (given up)"
                    } else {
                        "leased → failed (last retry)"
                    });
                }
                (Verb::Retry(retry), Verdict::Retried(Retried::Again { due_at })) => {
                    let later = retry.retry_at.is_some_and(|at| at == *due_at);
                    self.change(if later {
                        "leased → scheduled (retry)"
                    } else {
                        "leased → waiting (retry)"
                    });
                }
                _ => {}
            }
        }
        for cancel in &item.cancels {
            if matches!(cancel.outcome, Outcome::Cancelled(Phase::Cancelled)) {
                self.change("live → cancelled");
            } else if matches!(cancel.outcome, Outcome::Cancelled(Phase::Leased)) {
                self.change("leased, cancel requested");
            }
        }
        let waited = |call: &&Call| matches!(call.op, Op::Wait { wait, .. } if wait.0 > 0);
        let told = item.shown().filter(|(call, view)| waited(call) && view.phase.is_final());
        told.for_each(|_| self.change("live → final, told to who waits"));
        let kept = item.shown().find(|(_, view)| view.phase.is_final()).map(|(call, _)| call.end);
        if kept.is_some_and(|kept| {
            item.gets.iter().any(|get| get.begin > kept && matches!(get.outcome, Outcome::Refused(_)))
        }) {
            self.change("retained → forgotten");
        }
    }

    /// How often a change of state was met, by its name in [`CHANGES`].
    pub fn changes(&self, name: &str) -> u64 {
        self.changes.get(name).copied().unwrap_or(0)
    }

    /// Everything that was met less often than that, and whether too few outcomes were unknown.
    pub fn missing(&self, least: u64) -> Vec<String> {
        let mut missing: Vec<String> = self
            .rows()
            .into_iter()
            .filter(|(_, _, count)| *count < least)
            .map(|(section, name, count)| format!("{section} {name}: {count} of {least}"))
            .collect();
        if self.unknown * 100 < self.calls {
            missing.push(format!("unknown outcomes: {} of {} calls", self.unknown, self.calls));
        }
        missing
    }

    fn rows(&self) -> Vec<(&'static str, String, u64)> {
        let count = |counts: &BTreeMap<&'static str, u64>, name| counts.get(name).copied().unwrap_or(0);
        let commands =
            COMMANDS.iter().map(|name| ("command", (*name).to_owned(), count(&self.commands, name)));
        let changes = CHANGES.iter().map(|name| ("change", (*name).to_owned(), count(&self.changes, name)));
        let faults = Fault::ALL
            .iter()
            .map(|fault| ("fault", format!("{fault:?}"), self.faults.get(fault).copied().unwrap_or(0)));
        let engine = commands.chain(changes).chain(faults).filter(|_| self.runs > 0);
        engine.chain(self.store.rows()).collect()
    }
}

fn command(op: &Op) -> &'static str {
    match op {
        Op::Produce { .. } => "produce",
        Op::ProduceOnce { .. } => "produce once",
        Op::Lease { .. } => "lease",
        Op::Complete { .. } => "complete",
        Op::Retry { .. } => "retry",
        Op::Extend { .. } => "extend",
        Op::Release { .. } => "release",
        Op::Revoke { .. } => "revoke",
        Op::Suspend { .. } => "suspend",
        Op::Resume { .. } => "resume",
        Op::Cancel(_) => "cancel",
        Op::Change(_) => "update item",
        Op::Rerun { .. } => "rerun",
        Op::Find(_) => "find",
        Op::ChangeMany(op) if op.dry_run => "change many (dry run)",
        Op::ChangeMany(_) => "change many",
        Op::Latest(_) => "latest of a chain",
        Op::Get(_) => "get",
        Op::Wait { .. } => "wait",
        Op::Emit { .. } => "emit",
        Op::Subscribe(_) => "subscribe",
        Op::Follow { .. } => "follow",
        Op::Close { .. } => "close streams",
        Op::Clear { .. } => "clear",
        Op::Redrive { .. } => "redrive",
        Op::Stats(_) => "stats",
        Op::Create { .. } => "create queue",
        Op::Update { .. } => "update queue",
        Op::Rebalance { .. } => "rebalance queue",
        Op::Delete { force: true, .. } => "delete queue",
        Op::Delete { force: false, .. } => "delete queue if empty",
        Op::Stop { kind: None, .. } => "pause or block",
        Op::Go { kind: None, .. } => "resume or unblock",
        Op::Stop { kind: Some(_), .. } => "pause or block a kind",
        Op::Go { kind: Some(_), .. } => "resume or unblock a kind",
        Op::Group(op) => op.ask.name(),
        Op::Groups(_) => "list groups",
        Op::Cron(op) => op.ask.name(),
        Op::Crons => "list crons",
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (section, name, count) in self.rows() {
            writeln!(f, "{section:>8}  {name:<38} {count:>9}")?;
        }
        let share = self.unknown as f64 * 100.0 / self.calls.max(1) as f64;
        writeln!(
            f,
            "{} runs, {} calls, {} of unknown outcome ({share:.1} %), {} runs of the log alone",
            self.runs, self.calls, self.unknown, self.log_runs
        )
    }
}
