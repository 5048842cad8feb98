//! Calls on crons.

use std::sync::Arc;

use windlass_api::crons::{
    CreateCronRequest, Cron, CronInfoRequest, CronItem, CronReply, DeleteCronReply, DeleteCronRequest,
    LastItem, ListCronsReply, ListCronsRequest, PauseCronRequest, ResumeCronReply, ResumeCronRequest,
    TriggerCronReply, TriggerCronRequest, UpdateCronRequest,
};
use windlass_api::items::NewItem;
use windlass_core::cron::{CatchUp, CronName, CronRefusal, Overlap};
use windlass_core::limits;
use windlass_core::verbs;
use windlass_core::verbs::{CronChange, NewCron};
use windlass_engine::{Committed, CronInfo, EngineError, GivenCron, Outcome};

use super::context::{Answer, Context};
use super::error::Problem;
use super::items::{Kinds, new_item, produced};
use super::missing::{Missing, naming};
use super::record::Record;
use super::{check, show};

const TIMEZONE_DEFAULT: &str = "UTC";

pub(super) async fn create(
    context: Context,
    request: CreateCronRequest,
) -> Result<Answer<CronReply>, Problem> {
    let CronName { name, .. } = named(&request.cron)?;
    let queue = check::queue_name(&request.queue)?;
    let (schedule, item) = (Arc::<str>::from(request.schedule), item(request.item, &context)?);
    let timezone = request.timezone.map(Arc::<str>::from);
    let catch_up = request.catch_up.as_deref().map(catch_up).transpose()?;
    let overlap = request.overlap.as_deref().map(overlap).transpose()?;
    let new = NewCron {
        name,
        schedule: Arc::clone(&schedule),
        timezone: timezone.clone().unwrap_or_else(|| TIMEZONE_DEFAULT.into()),
        item: item.clone(),
        catch_up: catch_up.unwrap_or_default(),
        overlap: overlap.unwrap_or_default(),
    };
    if !request.exists_ok {
        return changed(&context, context.engine().create_cron(&queue, new)).await;
    }
    let fields = CronChange { schedule: Some(schedule), timezone, item: Some(item), catch_up, overlap };
    let given = GivenCron { fields, is_same_body: Record::is_same_stored };
    changed(&context, context.engine().ensure_cron(&queue, new, given)).await
}

pub(super) async fn update(
    context: Context,
    request: UpdateCronRequest,
) -> Result<Answer<CronReply>, Problem> {
    let name = named(&request.cron)?;
    if let Some(queue) = &request.queue {
        let asking = context.engine().cron(&name);
        let own = context.within_or(check::COMMIT_TIMEOUT, Outcome::NotApplied, asking).await;
        let own = own.map_err(not_found(&name))?.queue;
        if *own.name != **queue {
            return Err(Problem::invalid(format!(
                "`queue` must be unset or `{}`: a cron stays in its queue. Delete it, and make it anew in the other",
                own.name
            )));
        }
    }
    let change = CronChange {
        schedule: request.schedule.map(Arc::from),
        timezone: request.timezone.map(Arc::from),
        item: request.item.map(|given| item(given, &context)).transpose()?,
        catch_up: request.catch_up.as_deref().map(catch_up).transpose()?,
        overlap: request.overlap.as_deref().map(overlap).transpose()?,
    };
    changed(&context, context.engine().update_cron(&name, change)).await.map_err(not_found(&name))
}

pub(super) async fn pause(context: Context, request: PauseCronRequest) -> Result<Answer<CronReply>, Problem> {
    let name = named(&request.cron)?;
    changed(&context, context.engine().pause_cron(&name)).await.map_err(not_found(&name))
}

async fn changed(
    context: &Context,
    change: impl Future<Output = Result<Committed<CronInfo>, EngineError>>,
) -> Result<Answer<CronReply>, Problem> {
    let Committed { value, commits } = context.within(check::COMMIT_TIMEOUT, change).await?;
    Ok(Answer::changed(CronReply { cron: with_state(context, value).await }, commits))
}

pub(super) async fn resume(
    context: Context,
    request: ResumeCronRequest,
) -> Result<Answer<ResumeCronReply>, Problem> {
    let name = named(&request.cron)?;
    let resuming = context.engine().resume_cron(&name);
    let resumed = context.within(check::COMMIT_TIMEOUT, resuming).await;
    let Committed { commits, .. } = resumed.map_err(not_found(&name))?;
    Ok(Answer::changed(ResumeCronReply {}, commits))
}

pub(super) async fn delete(
    context: Context,
    request: DeleteCronRequest,
) -> Result<Answer<DeleteCronReply>, Problem> {
    let name = named(&request.cron)?;
    let deleting = context.engine().delete_cron(&name);
    let deleted = context.within(check::COMMIT_TIMEOUT, deleting).await;
    let Committed { commits, .. } = deleted.map_err(not_found(&name))?;
    Ok(Answer::changed(DeleteCronReply {}, commits))
}

pub(super) async fn trigger(
    context: Context,
    request: TriggerCronRequest,
) -> Result<Answer<TriggerCronReply>, Problem> {
    let name = named(&request.cron)?;
    let triggering = context.engine().trigger_cron(&name);
    let triggered = context.within(check::COMMIT_TIMEOUT, triggering).await;
    let Committed { value, commits } = triggered.map_err(not_found(&name))?;
    Ok(Answer::changed(TriggerCronReply { item: produced(value) }, commits))
}

pub(super) async fn info(context: Context, request: CronInfoRequest) -> Result<Answer<CronReply>, Problem> {
    let name = named(&request.cron)?;
    let asking = context.engine().cron(&name);
    let cron = context.within_or(check::COMMIT_TIMEOUT, Outcome::NotApplied, asking).await;
    let cron = with_state(&context, cron.map_err(not_found(&name))?).await;
    Ok(Answer::read(CronReply { cron }))
}

pub(super) async fn list(
    context: Context,
    request: ListCronsRequest,
) -> Result<Answer<ListCronsReply>, Problem> {
    let (pivot, limit) = (check::name_pivot(request.pivot)?, check::list_limit(request.limit)?);
    let namespace = Arc::clone(&check::NAMESPACE);
    let listing = context.engine().crons(&namespace, pivot, limit);
    let crons = context.within_or(check::COMMIT_TIMEOUT, Outcome::NotApplied, listing).await?;
    Ok(Answer::read(ListCronsReply { crons: crons.into_iter().map(shown).collect() }))
}

fn named(cron: &str) -> Result<CronName, Problem> {
    limits::check_name("cron", cron)?;
    Ok(CronName { namespace: Arc::clone(&check::NAMESPACE), name: cron.into() })
}

/// Names the cron that was not found.
fn not_found(name: &CronName) -> impl FnOnce(Problem) -> Problem {
    naming(Missing::Cron(Arc::clone(&name.name)))
}

/// The cron with the state of its last item, unless that item is gone or cannot be asked for now.
async fn with_state(context: &Context, info: CronInfo) -> Cron {
    let last_item = info.last_item;
    let mut cron = shown(info);
    if let (Some(id), Some(shown)) = (last_item, &mut cron.last_item) {
        let looking = context.engine().phase(id);
        let phase = context.within_or(check::COMMIT_TIMEOUT, Outcome::NotApplied, looking).await;
        shown.state = phase.ok().map(|phase| show::state(phase).to_owned());
    }
    cron
}

/// Held to what any new one is.
fn item(item: CronItem, context: &Context) -> Result<verbs::NewItem, Problem> {
    let new = NewItem {
        json: item.json,
        utf8: item.utf8,
        bytes: item.bytes,
        kind: item.kind,
        priority: item.priority,
        max_attempts: item.max_attempts,
        dead_timeout: item.dead_timeout,
        delay: item.delay,
        address: item.address,
        reference: item.reference,
        headers: item.headers,
        ..NewItem::default()
    };
    new_item(format_args!("item."), new, &mut Kinds::default(), context)
}

fn catch_up(name: &str) -> Result<CatchUp, Problem> {
    match name {
        "skip" => Ok(CatchUp::Skip),
        "one" => Ok(CatchUp::One),
        "all" => Ok(CatchUp::All),
        _ => Err(Problem::invalid("`catch_up` must be `skip`, `one` or `all`")),
    }
}

fn overlap(name: &str) -> Result<Overlap, Problem> {
    match name {
        "allow" => Ok(Overlap::Allow),
        "skip" => Ok(Overlap::Skip),
        _ => Err(Problem::invalid("`overlap` must be `allow` or `skip`")),
    }
}

fn shown(info: CronInfo) -> Cron {
    let CronInfo { queue, view, body, last_item } = info;
    let cron = view.cron;
    Cron {
        cron: cron.name.to_string(),
        queue: queue.name.to_string(),
        schedule: cron.schedule.to_string(),
        timezone: cron.timezone.to_string(),
        catch_up: catch_up_name(cron.catch_up).to_owned(),
        overlap: overlap_name(cron.overlap).to_owned(),
        paused: cron.paused,
        next_at: cron.next_at.map(show::time),
        last_at: cron.last_at.map(show::time),
        next_times: view.next_times.into_iter().map(show::time).collect(),
        created_at: show::time(cron.created_at),
        last_item: last_item.map(|id| LastItem { id: id.to_string(), state: None }),
        item: {
            let record = body.map(Record::from_stored).unwrap_or_default();
            CronItem {
                json: record.json,
                utf8: record.utf8,
                bytes: record.bytes,
                kind: Some(cron.template.kind.to_string()),
                priority: Some(cron.template.priority.into()),
                address: cron.address.as_deref().map(str::to_owned),
                max_attempts: cron.template.max_attempts,
                dead_timeout: cron.template.dead_timeout.map(show::span),
                delay: cron.template.delay.map(show::span),
                reference: record.reference,
                headers: record.headers,
            }
        },
    }
}

fn catch_up_name(catch_up: CatchUp) -> &'static str {
    match catch_up {
        CatchUp::Skip => "skip",
        CatchUp::One => "one",
        CatchUp::All => "all",
    }
}

fn overlap_name(overlap: Overlap) -> &'static str {
    match overlap {
        Overlap::Allow => "allow",
        Overlap::Skip => "skip",
    }
}

impl From<CronRefusal> for Problem {
    fn from(refusal: CronRefusal) -> Self {
        use windlass_api::Code;
        match refusal {
            CronRefusal::Exists => Self::new(
                Code::AlreadyExists,
                "there is a cron of that name: choose another, or change it with crons.update",
            ),
            CronRefusal::Differs { field: field @ "queue" } => Self::new(
                Code::AlreadyExists,
                "there is a cron of that name, and its `queue` is another: choose another name, or delete that cron first",
            )
            .with_field(field),
            CronRefusal::Differs { field } => Self::differs("cron", "crons.update", field),
            // The call names the cron: `not_found`.
            CronRefusal::NotFound => Self::new(Code::NotFound, "there is no such cron"),
            CronRefusal::Leaves => {
                Self::not_now("the cron is on its way to another partition: send it again")
            }
            CronRefusal::Busy { .. } => Self::new(
                Code::WrongState,
                "the cron's new address belongs to another partition, where the cron goes once its previous item has ended: \
                 let that end first, or set `overlap` to `allow`",
            ),
            CronRefusal::Schedule(error) => Self::invalid(error.to_string()),
        }
    }
}
