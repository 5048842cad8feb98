//! Crons at the end of a run. They are paused while everything is read out, so that queues become empty; then each must run
//! again, whatever befell it before; and once they are deleted nothing more comes of them.

use windlass_core::row::QueueName;
use windlass_core::settings::Settings;
use windlass_core::time::Timestamp;

use super::SECOND;
use crate::caller::Caller;
use crate::cron::CronAsk;
use crate::fault::Fault;
use crate::history::{QueueIndex, ShownCron, Violation};
use crate::plan::queue_name;

/// How long a cron may take to run, beside twice its span: longer than whoever carries a cron on rests after a failure.
const RUNS_WITHIN: u64 = 60 * SECOND;

/// Tells whether there is any.
pub(super) async fn pause_all(caller: &Caller) -> bool {
    let crons = caller.crons().await.unwrap_or_default();
    for info in &crons {
        caller.cron(&info.name, CronAsk::Pause).await;
    }
    !crons.is_empty()
}

/// Has every cron run where it is, and again after its queue got other partitions; then deletes them all.
pub(super) async fn run_and_end(caller: &Caller, queues: &[QueueIndex]) -> Result<(), Violation> {
    break_cycles(caller, queues).await;
    for info in caller.crons().await.unwrap_or_default() {
        caller.cron(&info.name, CronAsk::Resume).await;
    }
    let_all_run(caller).await?;
    for queue in queues {
        let width = caller.engine.queue_info(&queue_name(*queue)).map_or(1, |queue| queue.width());
        caller.rebalance(*queue, if width == 1 { 3 } else { 1 }).await;
    }
    let crons = let_all_run(caller).await?;
    for info in &crons {
        caller.cron(&info.name, CronAsk::Trigger).await;
        caller.cron(&info.name, CronAsk::Delete).await;
    }
    caller.handle.sleep_micros(longest_turn(&crons)).await;
    match caller.crons().await.unwrap_or_default().first() {
        None => Ok(()),
        Some(left) => Err(wrong(left, "is there although it was deleted")),
    }
}

/// Items that expire at once would go round for ever between queues that send their dead to each other.
async fn break_cycles(caller: &Caller, queues: &[QueueIndex]) {
    let settings = |queue: &QueueName| Some(caller.engine.queue_info(queue)?.settings);
    for queue in queues {
        let name = queue_name(*queue);
        let next = |queue: &QueueName| {
            let dead = settings(queue)?.dead_queue?;
            Some(QueueName { name: dead, ..queue.clone() })
        };
        let goes_round = std::iter::successors(next(&name), next).take(queues.len()).any(|dead| dead == name);
        if let Some(settings) = settings(&name).filter(|_| goes_round) {
            caller.update(*queue, Settings { dead_queue: None, ..settings }).await;
        }
    }
}

/// Tells which crons there are: none where damage keeps a partition from serving, for then they cannot be listed.
async fn let_all_run(caller: &Caller) -> Result<Vec<ShownCron>, Violation> {
    let Some(before) = caller.crons().await else { return Ok(Vec::new()) };
    caller.handle.sleep_micros(longest_turn(&before)).await;
    let Some(after) = caller.crons().await else { return Ok(Vec::new()) };
    // Where the clock was set, a cron may have come to a partition whose clock is hours from the one that it was made by.
    let is_steady = ![Fault::ClockForward, Fault::ClockBack].iter().any(|set| caller.recorder.has_met(*set));
    before.iter().try_for_each(|info| is_there(info, &after, is_steady))?;
    Ok(after)
}

/// How long it takes at most until each of them has run.
fn longest_turn(crons: &[ShownCron]) -> u64 {
    2 * crons.iter().map(every_micros).max().unwrap_or(0) + RUNS_WITHIN
}

/// And has run, if it must. An item may not have been made, because of an earlier one: but then the time counts as run.
fn is_there(before: &ShownCron, after: &[ShownCron], must_run: bool) -> Result<(), Violation> {
    let is_it = |info: &&ShownCron| info.name == before.name;
    let Some(after) = after.iter().find(is_it) else {
        return Err(wrong(before, "is gone although nobody deleted it"));
    };
    let last_at = |info: &ShownCron| info.last_at.unwrap_or(Timestamp(0));
    if !must_run || last_at(after) > last_at(before) {
        return Ok(());
    }
    Err(wrong(after, "does not run although nothing is wrong"))
}

fn every_micros(info: &ShownCron) -> u64 {
    let schedule = &info.schedule;
    let secs = schedule.trim_start_matches("@every ").trim_end_matches('s').parse::<u64>();
    secs.map_or(0, |secs| secs * SECOND)
}

fn wrong(info: &ShownCron, what: &str) -> Violation {
    let cron = &info;
    let text = format!("{} {what}: next {:?}, last {:?}", cron.name, cron.next_at, cron.last_at);
    Violation { rule: "cron", text }
}
