//! The engine's answers, in the words of the history. Nothing else of the simulator keeps an answer of the engine.

use std::sync::Arc;

use windlass_core::attempt::Attempt;
use windlass_core::group::GroupView;
use windlass_core::item::{self, ItemError, State};
use windlass_core::row::Queue;
use windlass_core::verbs;
use windlass_engine::{self as engine, CronInfo, Granted, ItemView, PartitionStats, QueueStats};

use crate::history::{
    Emitted, Extended, FoundItem, Given, LoggedAttempt, Made, Origin, PartitionCounts, PartitionState,
    QueueCounts, ShownCron, ShownGroup, ShownItem, ShownQueue, reason_of,
};

impl From<&Granted> for Given {
    fn from(granted: &Granted) -> Self {
        let Granted { leased: item, input, body } = granted;
        Self {
            id: item.id,
            permit: item.permit,
            kind: Arc::clone(&item.kind),
            priority: item.priority,
            attempts: item.attempts,
            deadline: item.deadline,
            created_at: item.created_at,
            dead_timeout: item.dead_timeout,
            origin: item.origin.as_deref().map(|origin| Box::new(Origin::from(origin))),
            group: item.group.clone(),
            input: input.clone(),
            event_count: item.event_count,
            body: body.clone(),
        }
    }
}

impl From<&item::Origin> for Origin {
    fn from(origin: &item::Origin) -> Self {
        Self {
            queue: Arc::clone(&origin.queue),
            id: origin.id,
            group: origin.group.clone(),
            attempts: origin.attempts,
            reason: origin.reason,
            error: origin.error.as_ref().map(error_text),
            moved_at: origin.moved_at,
        }
    }
}

impl From<&ItemView> for ShownItem {
    fn from(view: &ItemView) -> Self {
        let item = &view.item;
        let (reason, finished_at) = match &item.state {
            State::Suspended(suspension) => (suspension.reason.as_deref().map(reason_of), None),
            State::Final(outcome) => (None, Some(outcome.finished_at)),
            State::Scheduled { .. } | State::Waiting { .. } | State::Leased(_) => (None, None),
        };
        let extras = item.extras.as_deref();
        Self {
            id: view.id,
            queue: Arc::clone(&view.queue.name),
            kind: Arc::clone(&item.kind),
            priority: item.priority,
            created_at: item.created_at,
            attempts: item.attempts,
            phase: view.phase(),
            reason,
            finished_at,
            dead_timeout: extras.and_then(|extras| extras.dead_timeout),
            max_attempts: Some(view.max_attempts),
            address: extras.and_then(|extras| extras.address.clone()),
            last_lease: extras
                .and_then(|extras| extras.last_lease.as_ref())
                .map(|last| (last.permit, last.end)),
            error: extras.and_then(|extras| extras.error.as_ref()).map(error_text),
            event_count: extras.map_or(0, |extras| extras.event_count),
            group: view.member.as_ref().map(|member| Arc::clone(&member.group)),
            origin: extras
                .and_then(|extras| extras.origin.as_deref())
                .map(|origin| Box::new(Origin::from(origin))),
            moved_to: extras.and_then(|extras| extras.moved_to.as_ref()).map(|moved_to| moved_to.id),
            attempt_log: None,
            payload: view.payload.clone(),
            result: view.result.clone(),
            text: format!("{:?} attempts {} place {}", item.state, item.attempts, item.place),
        }
    }
}

impl From<&ItemView> for FoundItem {
    fn from(view: &ItemView) -> Self {
        let extras = view.item.extras.as_deref();
        Self {
            id: view.id,
            kind: Arc::clone(&view.item.kind),
            phase: view.phase(),
            address: extras.and_then(|extras| extras.address.clone()),
        }
    }
}

impl From<&Attempt> for LoggedAttempt {
    fn from(attempt: &Attempt) -> Self {
        let Attempt { attempt, leased_at, ended_at, end, .. } = *attempt;
        Self { attempt, leased_at, ended_at, end }
    }
}

impl From<&Queue> for ShownQueue {
    fn from(queue: &Queue) -> Self {
        let homes = queue.homes().map(|(partition, store)| (partition, store.cloned()));
        Self { partitions: queue.partitions.clone(), homes: homes.collect() }
    }
}

impl From<&QueueStats> for QueueCounts {
    fn from(stats: &QueueStats) -> Self {
        Self {
            counts: stats.counts,
            kinds: stats.kinds.clone(),
            priorities: stats.priorities.clone(),
            retained: stats.retained,
            moving: stats.moving,
            lease_waiters: stats.lease_waiters,
            partitions: stats.partitions.iter().map(PartitionCounts::from).collect(),
        }
    }
}

impl From<&PartitionStats> for PartitionCounts {
    fn from(stats: &PartitionStats) -> Self {
        Self {
            partition: stats.partition,
            state: PartitionState::from(&stats.state),
            store: Arc::clone(&stats.store),
            counts: stats.counts,
            drains: stats.remaining.is_some(),
        }
    }
}

impl From<&engine::PartitionState> for PartitionState {
    fn from(state: &engine::PartitionState) -> Self {
        match state {
            engine::PartitionState::Loading => Self::Loading,
            engine::PartitionState::Available => Self::Available,
            engine::PartitionState::Faulty { error } => Self::Faulty { error: error.clone() },
            engine::PartitionState::Closed => Self::Closed,
        }
    }
}

impl From<&GroupView> for ShownGroup {
    fn from(group: &GroupView) -> Self {
        Self {
            name: Arc::clone(&group.name),
            created_at: group.created_at,
            state: group.state,
            live: group.live,
            ended: group.ended,
        }
    }
}

impl From<&CronInfo> for ShownCron {
    fn from(info: &CronInfo) -> Self {
        let cron = &info.view.cron;
        Self {
            queue: Arc::clone(&info.queue.name),
            name: Arc::clone(&cron.name),
            created_at: cron.created_at,
            schedule: Arc::clone(&cron.schedule),
            paused: cron.paused,
            next_at: cron.next_at,
            last_at: cron.last_at,
            serial: info.body.as_ref().and_then(|body| Made::serial_of(body)),
        }
    }
}

impl From<verbs::Extended> for Extended {
    fn from(extended: verbs::Extended) -> Self {
        Self { deadline: extended.deadline, cancel_requested: extended.cancel_requested }
    }
}

impl From<verbs::Emitted> for Emitted {
    fn from(emitted: verbs::Emitted) -> Self {
        Self { first_seq: emitted.first_seq, last_seq: emitted.last_seq }
    }
}

fn error_text(error: &ItemError) -> Arc<str> {
    match &error.code {
        Some(code) => format!("{code}: {}", error.message).into(),
        None => Arc::clone(&error.message),
    }
}
