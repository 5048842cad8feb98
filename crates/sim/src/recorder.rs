//! Writes the history and the trace, as it happens.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use windlass_core::id::{ItemId, Permit};
use windlass_core::item::Phase;
use windlass_core::settings::Settings;
use windlass_core::time::Timestamp;
use windlass_engine::store::Store;

use crate::cron::show_cron;
use crate::fault::Fault;
use crate::group::show_group;
use crate::history::{
    Call, ChangeOp, Damage, FoundPage, Given, History, Losses, Made, ManyPage, Moment, Op, Outcome, Process,
    ShownItem, Stall, SuspendOp, Teller, Verdict, Why,
};
use crate::trace::Trace;

#[derive(Clone)]
pub struct Recorder {
    book: Arc<Mutex<Book>>,
    clocks: Clocks,
}

/// What time it is: in a run, or in the real world.
#[derive(Clone)]
pub struct Clocks {
    /// Since the beginning; never falls.
    pub now_micros: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// What the machine's clock shows at that moment.
    pub wall: Arc<dyn Fn(u64) -> Timestamp + Send + Sync>,
    /// The latest that any server's clock can show at that moment.
    pub latest: Arc<dyn Fn(u64) -> Timestamp + Send + Sync>,
}

#[derive(Debug, Default)]
struct Book {
    history: History,
    trace: Trace,
    order: u64,
    /// Those of the process that runs now.
    stores: Vec<Arc<dyn Store>>,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

impl fmt::Debug for Clocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clocks").finish_non_exhaustive()
    }
}

/// A call under way. Dropped without an answer, it was abandoned or went down with the server.
#[derive(Debug)]
pub struct OpenCall {
    recorder: Recorder,
    index: usize,
    answered: bool,
}

impl Recorder {
    pub fn new(clocks: Clocks, history: History, trace_lines_max: usize) -> Self {
        let book = Book { history, trace: Trace::new(trace_lines_max), order: 0, ..Book::default() };
        Self { book: Arc::new(Mutex::new(book)), clocks }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().expect("nothing panics while it holds this lock")
    }

    fn tick(&self, book: &mut Book) -> Moment {
        book.order += 1;
        Moment { order: book.order, micros: (self.clocks.now_micros)() }
    }

    /// This one, after all that were recorded before.
    pub fn moment(&self) -> Moment {
        let mut book = self.book();
        self.tick(&mut book)
    }

    /// A line of the trace.
    pub fn note(&self, line: fmt::Arguments<'_>) {
        let mut book = self.book();
        let at = self.tick(&mut book);
        book.trace.line(format_args!("{at} {line}"));
    }

    pub fn process_begins(&self) {
        let mut book = self.book();
        let begin = self.tick(&mut book);
        book.history.losses.start();
        let wall = (self.clocks.wall)(begin.micros);
        book.history.processes.push(Process { begin, wall, ..Process::default() });
        let number = book.history.processes.len();
        book.trace.line(format_args!("{begin} process {number} begins"));
    }

    pub fn is_first_process(&self) -> bool {
        self.book().history.processes.len() == 1
    }

    pub fn process_opened(&self) {
        self.mark_process("serves", |process, at| process.opened = Some(at));
    }

    pub fn process_closing(&self) {
        self.mark_process("is asked to close", |process, at| process.closing = Some(at));
    }

    pub fn process_closed(&self) {
        self.mark_process("has closed", |process, at| process.closed = Some(at));
    }

    /// What the store has met is counted when the process ends, in whatever way.
    pub fn opened_store(&self, store: Arc<dyn Store>) {
        self.book().stores.push(store);
    }

    pub fn process_ended(&self, how: &str) {
        self.count_stores();
        self.mark_process(how, |process, at| process.end = Some(at));
    }

    fn count_stores(&self) {
        let stores = std::mem::take(&mut self.book().stores);
        let stats = stores.iter().map(|store| store.stats()).sum();
        let mut book = self.book();
        book.history.store = [book.history.store, stats].into_iter().sum();
    }

    fn mark_process(&self, what: &str, mark: impl FnOnce(&mut Process, Moment)) {
        let mut book = self.book();
        let at = self.tick(&mut book);
        let number = book.history.processes.len();
        mark(book.history.processes.last_mut().expect("a process began"), at);
        book.trace.line(format_args!("{at} process {number} {what}"));
    }

    pub fn fault(&self, fault: Fault) {
        let mut book = self.book();
        let at = self.tick(&mut book);
        book.history.faults.push((at, fault));
        // So frequent that they would drown the rest.
        if !matches!(fault, Fault::ShortWrite | Fault::SlowDisk) {
            book.trace.line(format_args!("{at} fault: {fault:?}"));
        }
    }

    /// The store does not answer from now on.
    pub fn stalls(&self, store: String, micros: u64) {
        self.fault(Fault::StalledDisk);
        let mut book = self.book();
        let begin = self.tick(&mut book);
        book.trace.line(format_args!("{begin} {store} stalls for {micros}"));
        let process = book.history.processes.len() - 1;
        let until_micros = begin.micros + micros;
        book.history.stalls.push(Stall { store: store.into(), process, begin, until_micros });
    }

    /// So many queues that nobody uses are there.
    pub fn idle_queues(&self, count: usize) {
        self.book().history.idle_queues += count as u64;
    }

    pub fn damage(&self, by: Teller, text: &str) {
        let mut book = self.book();
        let at = self.tick(&mut book);
        book.trace.line(format_args!("{at} damage told by {by:?}: {text}"));
        book.history.damage.push(Damage { at, by, text: text.to_owned() });
    }

    /// A server says that a body of the item is lost.
    pub fn lost_body(&self, item: String) {
        let mut book = self.book();
        let at = self.tick(&mut book);
        book.trace.line(format_args!("{at} the server says that a body of {item} is lost"));
        book.history.lost_bodies.insert(item);
    }

    pub fn losses(&self, found: impl FnOnce(&mut Losses)) {
        found(&mut self.book().history.losses);
    }

    pub fn has_met(&self, fault: Fault) -> bool {
        self.book().history.faults.iter().any(|(_, met)| *met == fault)
    }

    pub fn has_rot(&self) -> bool {
        self.book().history.has_rot()
    }

    /// Whether a log may hold something unreadable: what rotted, or a write that never came to its end. Of a torn frame
    /// at the end of a log nobody can tell which of the two it is.
    pub fn may_look_damaged(&self) -> bool {
        self.book().history.faults.iter().any(|(_, fault)| fault.leaves_unreadable())
    }

    /// A backup that was begun at that moment takes the place of the disks: of the calls that were answered later nobody
    /// knows whether it holds what they did.
    pub fn restored(&self, begun: Moment) {
        let mut book = self.book();
        let at = self.tick(&mut book);
        book.trace.line(format_args!("{at} the backup begun at {begun} is restored"));
        for call in book.history.calls.iter_mut().filter(|call| call.end > begun) {
            call.outcome = Outcome::Unknown(Why::Crashed);
            call.end = at;
        }
    }

    /// To the process that runs now.
    pub fn begin(&self, client: usize, op: Op) -> OpenCall {
        let latest = self.book().history.processes.len() - 1;
        self.begin_at(latest, client, op)
    }

    /// A worker's turn, as the calls that it stands for.
    pub fn begin_turn(&self, client: usize, ops: Vec<Op>) -> Vec<OpenCall> {
        let open: Vec<OpenCall> = ops.into_iter().map(|op| self.begin(client, op)).collect();
        let calls = &mut self.book().history.calls;
        let turn = open.first().map(|first| calls[first.index].begin.order);
        open.iter().for_each(|part| calls[part.index].turn = turn);
        open
    }

    /// To a process that may be gone by now.
    pub fn begin_at(&self, process: usize, client: usize, op: Op) -> OpenCall {
        let mut book = self.book();
        let begin = self.tick(&mut book);
        let index = book.history.calls.len();
        book.trace.line(format_args!("{begin} c{client} #{index} {}", show_op(&op)));
        let latest = (self.clocks.latest)(begin.micros);
        let outcome = Outcome::Open;
        book.history.calls.push(Call { client, process, begin, end: begin, latest, op, outcome, turn: None });
        drop(book);
        OpenCall { recorder: self.clone(), index, answered: false }
    }

    fn end(&self, index: usize, outcome: Outcome) {
        let mut book = self.book();
        let at = self.tick(&mut book);
        let latest = (self.clocks.latest)(at.micros);
        let call = &mut book.history.calls[index];
        call.end = at;
        call.latest = latest;
        let client = call.client;
        let line = show_outcome(&outcome);
        call.outcome = outcome;
        book.trace.line(format_args!("{at} c{client} #{index} = {line}"));
    }

    /// The history so far; what is still open is gone with the process.
    pub fn finish(&self) -> (History, Trace) {
        let mut book = self.book();
        (std::mem::take(&mut book.history), std::mem::take(&mut book.trace))
    }

    /// Where an item went on, as the last look at it told.
    pub fn moved_to(&self, id: ItemId) -> Option<ItemId> {
        let book = self.book();
        let views = book.history.calls.iter().rev().filter_map(|call| call.outcome.shown());
        views.filter(|view| view.id == id).find_map(|view| view.moved_to)
    }

    /// Whether some call waits for its answer.
    pub fn open_calls(&self) -> Vec<usize> {
        let book = self.book();
        let open = |(index, call): (usize, &Call)| matches!(call.outcome, Outcome::Open).then_some(index);
        book.history.calls.iter().enumerate().filter_map(open).collect()
    }
}

impl OpenCall {
    pub fn answered(mut self, outcome: Outcome) {
        self.answered = true;
        self.recorder.end(self.index, outcome);
    }

    pub fn abandoned(mut self) {
        self.answered = true;
        self.recorder.end(self.index, Outcome::Unknown(Why::Abandoned));
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        if !self.answered {
            self.recorder.end(self.index, Outcome::Unknown(Why::Crashed));
        }
    }
}

fn show_id(id: ItemId) -> String {
    format!("{}/{}", id.partition, id.number.0)
}

fn show_held(items: impl Iterator<Item = (ItemId, Permit)>) -> String {
    items.map(|(id, permit)| format!(" {}@{}", show_id(id), permit.0)).collect()
}

fn show_op(op: &Op) -> String {
    match op {
        Op::Produce { queue, items } | Op::ProduceOnce { queue, items } => {
            let once = if matches!(op, Op::ProduceOnce { .. }) { " once" } else { "" };
            format!("produce{once} q{queue}{}", items.iter().map(show_made).collect::<String>())
        }
        Op::Lease { queue, batch_size, timeout, filter, wait } => {
            let timeout = timeout.map_or(0, |timeout| timeout.0);
            let kinds = filter.kinds.as_ref().map(|kinds| kinds.join(",")).unwrap_or_default();
            let most = filter.max_priority;
            format!("lease q{queue} {batch_size} timeout {timeout} wait {} kinds [{kinds}] p<={most}", wait.0)
        }
        Op::Complete { queue, items } => {
            format!("complete q{queue}{}", show_held(items.iter().map(|(id, permit, _)| (*id, *permit))))
        }
        Op::Retry { queue, items } => {
            let item = |item: &crate::history::RetryOp| {
                let at = item.retry_at.map(|at| format!(" at {}", at.0)).unwrap_or_default();
                format!(" {}@{}{at}{}", show_id(item.id), item.permit.0, if item.dead { " dead" } else { "" })
            };
            format!("retry q{queue}{}", items.iter().map(item).collect::<String>())
        }
        Op::Extend { queue, timeout, items } => {
            let timeout = timeout.map_or(0, |timeout| timeout.0);
            format!("extend q{queue} timeout {timeout}{}", show_held(items.iter().copied()))
        }
        Op::Release { queue, items } => format!("release q{queue}{}", show_held(items.iter().copied())),
        Op::Revoke { queue, items } => format!("revoke q{queue}{}", show_held(items.iter().copied())),
        Op::Suspend { queue, items } => {
            let item = |item: &SuspendOp| {
                let reason = item.reason.map(|reason| format!(" for {reason}")).unwrap_or_default();
                format!(" {}@{}{reason}", show_id(item.id), item.permit.0)
            };
            format!("suspend q{queue}{}", items.iter().map(item).collect::<String>())
        }
        Op::Resume { id, input } => {
            let input = input.map(|input| format!(" with {input}")).unwrap_or_default();
            format!("resume {}{input}", show_id(*id))
        }
        Op::Cancel(id) => format!("cancel {}", show_id(*id)),
        Op::Change(op) => show_change(op),
        Op::Rerun { id, delay } => {
            let delay = delay.map(|delay| format!(" after {}", delay.0)).unwrap_or_default();
            format!("rerun {}{delay}", show_id(*id))
        }
        Op::Find(op) => op.to_string(),
        Op::ChangeMany(op) => op.to_string(),
        Op::Latest(id) => format!("latest of {}", show_id(*id)),
        Op::Get(id) => format!("get {}", show_id(*id)),
        Op::Wait { id, wait } => format!("wait {} for {}", show_id(*id), wait.0),
        Op::Emit { id, permit, events } => format!("emit {}@{} {events:?}", show_id(*id), permit.0),
        Op::Subscribe(id) => format!("subscribe to {}", show_id(*id)),
        Op::Follow { id, after, micros, .. } => format!("follow {} after {after} for {micros}", show_id(*id)),
        Op::Close { id, mode } => format!("close {} {mode:?}", show_id(*id)),
        Op::Clear { queue, clear } => {
            format!(
                "clear q{queue} waiting {} scheduled {} leased {} suspended {}",
                clear.waiting, clear.scheduled, clear.leased, clear.suspended
            )
        }
        Op::Redrive { queue, to, kind, limit } => {
            let to = to.map(|to| format!(" to q{to}")).unwrap_or_default();
            let kind = show_kind(kind.as_deref());
            let limit = limit.map(|limit| format!(" at most {limit}")).unwrap_or_default();
            format!("redrive q{queue}{to}{kind}{limit}")
        }
        Op::Stats(queue) => format!("stats q{queue}"),
        Op::Create { queue, partitions, settings } => format!(
            "create q{queue} partitions {partitions} retention {}{}",
            settings.retention.0,
            show_settings(settings)
        ),
        Op::Update { queue, settings } => format!("update q{queue}{}", show_settings(settings)),
        Op::Delete { queue, force: true } => format!("delete q{queue}"),
        Op::Rebalance { queue, partitions } => format!("rebalance q{queue} partitions {partitions}"),
        Op::Delete { queue, force: false } => format!("delete q{queue} if it is empty"),
        Op::Stop { queue, kind, stop, until } => {
            let until = until.map(|until| format!(" until {}", until.0)).unwrap_or_default();
            format!("{} q{queue}{}{until}", stop.name(), show_kind(kind.as_deref()))
        }
        Op::Go { queue, kind, stop } => {
            format!("lift the {} of q{queue}{}", stop.name(), show_kind(kind.as_deref()))
        }
        Op::Group(op) => op.to_string(),
        Op::Groups(queue) => format!("groups q{queue}"),
        Op::Cron(op) => op.to_string(),
        Op::Crons => "crons".to_owned(),
    }
}

pub(crate) fn show_made(made: &Made) -> String {
    let due = made.enqueue_at.map(|at| format!(" due {}", at.0)).unwrap_or_default();
    let lives = made.dead_timeout.map(|span| format!(" lives {}", span.0)).unwrap_or_default();
    let at = made.address.as_ref().map(|address| format!(" at {address}")).unwrap_or_default();
    let of = made.group.as_ref().map(|group| format!(" of {group}")).unwrap_or_default();
    format!(" [{} {}B {} p{}{due}{lives}{at}{of}]", made.serial, made.len, made.kind, made.priority)
}

fn show_change(op: &ChangeOp) -> String {
    let ChangeOp { id, priority, enqueue_at, max_attempts, dead_timeout, edit } = op;
    let priority = priority.map(|priority| format!(" p{priority}")).unwrap_or_default();
    let due = enqueue_at.map(|at| format!(" due {}", at.0)).unwrap_or_default();
    let attempts = max_attempts.map(|attempts| format!(" attempts {attempts}")).unwrap_or_default();
    let lives = dead_timeout.map(|span| format!(" lives {}", span.0)).unwrap_or_default();
    let edit = edit.map(|edit| format!(" edit {edit}")).unwrap_or_default();
    format!("change {}{priority}{due}{attempts}{lives}{edit}", show_id(*id))
}

fn show_kind(kind: Option<&str>) -> String {
    kind.map(|kind| format!(" kind {kind}")).unwrap_or_default()
}

fn show_produced(items: &[(ItemId, Phase)]) -> String {
    items.iter().map(|(id, phase)| format!("{} {phase:?} ", show_id(*id))).collect()
}

fn show_settings(settings: &Settings) -> String {
    let Settings { lease_timeout, max_attempts, requeue, dead_timeout, dead_queue, .. } = settings;
    let (payloads, keep) = (settings.retain_payload, settings.keep);
    let dead_queue = dead_queue.as_deref().unwrap_or("nowhere");
    let (timeout, lives) = (lease_timeout.0, dead_timeout.0);
    format!(
        " timeout {timeout} attempts {max_attempts} {requeue:?} lives {lives} then {dead_queue} payloads {payloads:?} keeps {keep:?}"
    )
}

fn show_outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Open => "open".to_owned(),
        Outcome::Produced(items) => show_produced(items),
        Outcome::Granted { items, accepted } => {
            let item = |given: &Given| {
                let serial = Made::serial_of(&given.body).unwrap_or_default();
                let origin = given.origin.as_deref().map(|origin| {
                    format!(" from {} {}", origin.id.map(show_id).unwrap_or_default(), origin.reason.name())
                });
                let input = given.input.as_ref().map(|input| format!(" with {input:?}")).unwrap_or_default();
                format!(
                    " [{serial} {}@{} p{} attempt {} until {}{}{input}]",
                    show_id(given.id),
                    given.permit.0,
                    given.priority,
                    given.attempts,
                    given.deadline.0,
                    origin.unwrap_or_default()
                )
            };
            let items: String = items.iter().map(item).collect();
            format!("granted{}{items}", if *accepted { "" } else { " and dropped" })
        }
        Outcome::Judged(verdicts) => {
            verdicts.iter().map(|verdict| format!("{} ", show_verdict(verdict))).collect()
        }
        Outcome::Resumed => "resumed".to_owned(),
        Outcome::Cancelled(phase) => format!("{phase:?}"),
        Outcome::Changed(view) => format!("changed {}", view.text),
        Outcome::Rerun(id, phase) => format!("made {} {phase:?}", show_id(*id)),
        Outcome::Found(page) => show_found(page),
        Outcome::ManyChanged(page) => show_many(page),
        Outcome::Latest(id) => show_id(*id),
        Outcome::Shown(view) => show_view(view),
        Outcome::Subscribed { view, last_seq } => format!("{} with {last_seq} events", view.text),
        Outcome::Emitted(emitted) => format!("emitted {} to {}", emitted.first_seq, emitted.last_seq),
        Outcome::Followed(followed) => format!("{followed:?}"),
        Outcome::Closed(count) => format!("closed {count}"),
        Outcome::Cleared(count) => format!("cleared {count}"),
        Outcome::Redriven(count) => format!("redriven {count}"),
        Outcome::Counted(stats) => format!(
            "{:?} moving {} retained {} waiters {} states {:?}",
            stats.counts,
            stats.moving,
            stats.retained,
            stats.lease_waiters,
            stats.partitions.iter().map(|partition| &partition.state).collect::<Vec<_>>()
        ),
        Outcome::Queue(queue) => format!("partitions {:?}", queue.partitions),
        Outcome::Deleted => "deleted".to_owned(),
        Outcome::Ruled => "done".to_owned(),
        Outcome::Group(group) => show_group(group),
        Outcome::GroupMade(group, items) => format!("{} with {}", show_group(group), show_produced(items)),
        Outcome::Groups(groups) => groups.iter().map(|group| format!("[{}] ", show_group(group))).collect(),
        Outcome::Cron(cron) => show_cron(cron),
        Outcome::Crons(crons) => crons.iter().map(|cron| format!("[{}] ", show_cron(cron))).collect(),
        Outcome::CronDone => "done".to_owned(),
        Outcome::Triggered(id) => format!("made {}", show_id(*id)),
        Outcome::Refused(refusal) => format!("refused {refusal:?}"),
        Outcome::TooLarge => "too large".to_owned(),
        Outcome::NotApplied(reason) => format!("not applied: {reason}"),
        Outcome::Unknown(why) => format!("unknown: {why:?}"),
    }
}

fn show_found(page: &FoundPage) -> String {
    let items = page.items.iter().map(|item| format!(" {} {:?}", show_id(item.id), item.phase));
    format!("found{}{}", items.collect::<String>(), if page.has_next { ", goes on" } else { ", the end" })
}

fn show_many(page: &ManyPage) -> String {
    let results =
        page.results.iter().map(|(id, verdict)| format!(" {} {}", show_id(*id), show_verdict(verdict)));
    format!("changed{}{}", results.collect::<String>(), if page.has_next { ", more left" } else { "" })
}

fn show_view(view: &ShownItem) -> String {
    let moved_to = view.moved_to.map(|id| format!(" moved to {}", show_id(id))).unwrap_or_default();
    let log = view.attempt_log.as_deref().unwrap_or_default();
    let log: String = log.iter().map(|logged| format!(" {}:{}", logged.attempt, logged.end.name())).collect();
    format!("{}{moved_to} log [{log}]", view.text)
}

fn show_verdict(verdict: &Verdict) -> String {
    format!("{verdict:?}")
}
