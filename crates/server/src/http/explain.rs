//! Why an item is not running, in words.

use windlass_api::explain::{ExplainItemReply, ExplainItemRequest, Reason as WireReason};
use windlass_core::partition::Reason;
use windlass_core::rule::{Rule, Stop};
use windlass_engine::{Outcome, WhyNot};

use super::context::{Answer, Context};
use super::error::Problem;
use super::item::{Sought, sought};
use super::missing::naming;
use super::{check, show};

pub(super) async fn explain(
    context: Context,
    request: ExplainItemRequest,
) -> Result<Answer<ExplainItemReply>, Problem> {
    let name = check::item_name(request.id, request.queue, request.address)?;
    let Sought { id, missing } = sought(&context, name, check::COMMIT_TIMEOUT).await?;
    let asking = context.engine().explain(id);
    let asking = context.within_or(check::COMMIT_TIMEOUT, Outcome::NotApplied, asking);
    let explained = asking.await.map_err(naming(missing))?;
    Ok(Answer::read(ExplainItemReply {
        id: id.to_string(),
        state: explained.phase.map(|phase| show::state(phase).to_owned()),
        reasons: explained.reasons.into_iter().map(shown).collect(),
    }))
}

fn shown(why: WhyNot) -> WireReason {
    match why {
        WhyNot::Reason(reason) => of_partition(reason),
        WhyNot::NoWorker { kind, priority } => told(
            "no_worker",
            format!(
                "no waiting lease would take kind `{kind}` at priority {priority}: all workers for it are busy, or there \
                 are none"
            ),
        ),
        WhyNot::PartitionFaulty { error } => WireReason {
            error: Some(error.clone()),
            ..told(
                "partition_faulty",
                format!("its partition cannot serve and is tried again by itself: {error}"),
            )
        },
    }
}

fn of_partition(reason: Reason) -> WireReason {
    match reason {
        Reason::Scheduled { until } => {
            let until = show::time(until);
            WireReason { until: Some(until), ..told("scheduled", format!("it is due at {until}")) }
        }
        Reason::Held { group } => WireReason {
            group: Some(group.to_string()),
            ..told("held", format!("its group `{group}` is not started: start it with group.start"))
        },
        Reason::Stopped(rule) => stopped(&rule),
        Reason::Behind { position, exact } => {
            let about = if exact { "" } else { "about " };
            let goes = if position == 1 { "1 item goes".to_owned() } else { format!("{position} items go") };
            WireReason {
                position: Some(position),
                exact: Some(exact),
                ..told("behind", format!("{about}{goes} before it"))
            }
        }
        Reason::Leased { client_id, deadline } => {
            let deadline = show::time(deadline);
            WireReason {
                client_id: Some(client_id.to_string()),
                lease_deadline: Some(deadline),
                ..told(
                    "leased",
                    format!("`{client_id}` works on it, until {deadline} unless it extends its lease"),
                )
            }
        }
        Reason::Suspended { reason } => {
            let because = reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
            WireReason {
                reason: reason.as_deref().map(str::to_owned),
                ..told(
                    "suspended",
                    format!("its worker waits for an answer{because}: give it with item.resume"),
                )
            }
        }
        Reason::Moving { to } => WireReason {
            to: Some(to.to_string()),
            ..told(
                "moving",
                format!("it ended here, and queue `{to}` has not taken it yet: is that queue there?"),
            )
        },
        Reason::Final => told("final", "it has ended: nobody will work on it any more".to_owned()),
    }
}

fn stopped(rule: &Rule) -> WireReason {
    let (code, done, undo) = match rule.key.stop {
        Stop::Pause => ("paused", "paused", "queue.resume"),
        Stop::Block => ("blocked", "blocked", "queue.unblock"),
    };
    let what = match &rule.key.kind {
        Some(kind) => format!("kind `{kind}` is"),
        None => "the queue is".to_owned(),
    };
    let because = rule.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    let until = rule.until.map(|until| format!(", until {}", show::time(until))).unwrap_or_default();
    let since = show::time(rule.created_at);
    WireReason {
        kind: rule.key.kind.as_deref().map(str::to_owned),
        reason: rule.reason.as_deref().map(str::to_owned),
        until: rule.until.map(show::time),
        created_at: Some(since),
        ..told(code, format!("{what} {done} since {since}{until}{because}: lift it with {undo}"))
    }
}

fn told(code: &str, message: String) -> WireReason {
    WireReason { code: code.to_owned(), message, ..WireReason::default() }
}
