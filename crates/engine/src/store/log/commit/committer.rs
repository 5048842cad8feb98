//! [`Committer`]: writes the log. It takes the commits that wait at the [`Desk`], writes them with one write, makes them
//! durable with one sync, only then puts them into the tables, and answers everyone.
//!
//! After a failed write or sync nobody knows what is on the disk, so nothing above the last durable frame counts any
//! more, whatever a read shows: see [`super::repair`].

use std::sync::Arc;
use std::time::Duration;

use windlass_core::mutant::{Mutant, active};

use super::Request;
use super::desk::Desk;
use super::run::{Begins, Run, Write, admit, refuse};
use crate::store::log::Durability;
use crate::store::log::read::view::{PartitionView, View};
use crate::store::log::recovery::End;
use crate::store::log::segment::Segment;
use crate::store::log::segment::frame::{self, HEADER_BYTES, Header, Kind, Role, padded};
use crate::store::log::segment::hint::Hint;
use crate::store::log::shared::Shared;
use crate::store::log::tables::{Link, Slot, Tables};
use crate::store::{CommitError, StoreError};

/// Bytes that one run takes at most, so that nobody waits long behind others.
const RUN_BYTES_MAX: usize = 4 << 20;
/// A disk whose syncs take longer than this is waited for by the committer's thread alone.
const QUICK_SYNC: Duration = Duration::from_millis(2);

#[derive(Debug)]
pub(crate) struct Committer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) current: Arc<Segment>,
    pub(crate) generation: u64,
    pub(crate) offset: u32,
    /// The last frame written.
    pub(crate) lsn: u64,
    open: u32,
    /// The hint for the segment before, left as soon as the start of this one is durable.
    hint: Option<Hint>,
    /// When what was written without a sync is to be synced.
    sync_at: Option<Duration>,
    /// Why nothing can be written until the log is repaired.
    pub(crate) failed: Option<StoreError>,
    /// How long a sync takes, on average of the last ones.
    usual_sync: Duration,
}

/// What became of a [`Committer::step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Done,
    /// No request waits.
    Idle,
    /// The log is closed.
    Closed,
}

impl Committer {
    pub(crate) fn new(shared: Arc<Shared>, end: End, open: u32) -> Self {
        Self {
            shared,
            current: end.segment,
            generation: end.generation,
            offset: end.offset,
            lsn: end.lsn,
            open,
            hint: None,
            sync_at: None,
            failed: None,
            usual_sync: Duration::ZERO,
        }
    }

    /// Serves one request that waits at the desk, or as many commits as go into one run.
    pub(super) async fn step(&mut self, desk: &Desk) -> Step {
        // Asked here too: under load there is always a request, and nobody waits for `sync_due`.
        if self.sync_at.is_some_and(|at| at <= self.shared.env.boot()) {
            self.sync_written().await;
        }
        let Some(request) = desk.next() else { return Step::Idle };
        match request {
            Request::Write(first) => self.write_together(first, desk).await,
            Request::Acquire { partition, answer } => {
                let _caller_gone = answer.send(self.acquire(partition).await);
            }
            Request::View { answer } => {
                let _caller_gone = answer.send(self.view().await);
            }
            Request::Hold { answer, released } => {
                let view = self.view().await.map(|view| (view, self.closing()));
                if answer.send(view).is_ok() {
                    let _dropped_or_told = released.await;
                }
            }
            Request::Sync { answer } => {
                let _caller_gone = answer.send(self.sync_all().await);
            }
            Request::Close { answer } => {
                self.close().await;
                let _caller_gone = answer.send(());
                return Step::Closed;
            }
        }
        Step::Done
    }

    /// Whether a commit takes so little time that a thread that others need may wait for it.
    pub(super) fn is_quick(&self) -> bool {
        !self.must_stay() && self.failed.is_none() && self.usual_sync < QUICK_SYNC
    }

    /// Whether the committer belongs on its own thread also while no request waits: what it wrote is yet to be synced.
    pub(super) fn must_stay(&self) -> bool {
        self.shared.options.durability != Durability::Always
    }

    /// Waits until what was written is to be synced.
    pub(super) async fn sync_due(&self) {
        match self.sync_at {
            Some(at) => self.shared.env.sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    async fn write_together(&mut self, first: Write, desk: &Desk) {
        let more = desk.next_writes(RUN_BYTES_MAX.saturating_sub(first.frame.len()));
        let writes = std::iter::once(first).chain(more).collect::<Vec<_>>();
        if self.failed.is_some()
            && let Err(error) = self.repair().await
        {
            return refuse(writes, &error);
        }
        let asked = writes.len();
        let writes = admit(&self.shared.tables(), writes);
        let refused = asked - writes.len();
        self.shared.count(|events| events.commits_fenced += refused as u64);
        let Some(first) = writes.first() else { return };
        let run = if self.current.has_room(self.offset, padded(first.frame.len())) {
            let synced = self.shared.tables().synced;
            let last = self.header(Kind::Commit, self.generation, self.lsn, synced);
            Run::after(last, Arc::clone(&self.current), self.offset)
        } else {
            match self.next_segment().await {
                Ok(begins) => {
                    let start = self.start_header(&begins);
                    Run::beginning(begins, start)
                }
                Err(error) => return refuse(writes, &error),
            }
        };
        self.carry_out(run, writes, desk).await;
    }

    /// The segment to go on in. What is in the current one is durable before anything is written to the next.
    async fn next_segment(&mut self) -> Result<Begins, StoreError> {
        self.ensure_synced().await?;
        let segment = self.shared.take_segment().await?;
        let generation = self.shared.tables().take_generation();
        Ok(Begins { segment, generation, after: self.lsn })
    }

    fn header(&self, kind: Kind, generation: u64, lsn: u64, synced: u64) -> Header {
        let (log, open) = (self.shared.log, self.open);
        let role = Role::Main;
        Header { kind, role, log, open, partition: 0, generation, lsn, synced, epoch: 0, sequence: 0, now: 0 }
    }

    fn start_header(&self, begins: &Begins) -> Header {
        let Begins { segment, generation, after } = begins;
        segment.start(self.header(Kind::SegmentStart, *generation, *after, *after))
    }

    async fn carry_out(&mut self, mut run: Run, writes: Vec<Write>, desk: &Desk) {
        desk.put_back(run.fill(writes));
        let sync_now = self.shared.options.durability == Durability::Always
            || run.writes.iter().any(Write::is_of_queues);
        let mut done = run.segment.write(run.base, &run.buffer).await;
        if matches!(done, Err(StoreError::Full)) {
            return self.no_room(run);
        }
        if done.is_ok() && sync_now {
            done = self.sync(&run.segment).await;
        }
        if let Err(error) = done {
            return self.broken(run, error);
        }
        if let Some(begins) = &run.begins {
            self.hint = Some(self.hint_to(&begins.segment));
        }
        self.carried_out(run, sync_now);
        if sync_now {
            self.leave_hint().await;
        }
    }

    /// Tells the pool how much of the current segment is left.
    fn tell_left(&self) {
        self.shared.pool().set_left(self.current.bytes.saturating_sub(self.offset));
    }

    /// Says behind the last frame of the segment so far where the log goes on.
    fn hint_to(&self, next: &Segment) -> Hint {
        let synced = self.shared.tables().synced;
        let last = self.header(Kind::Commit, self.generation, self.lsn, synced);
        Hint::behind(last, &self.current, self.offset, next)
    }

    /// Leaves the hint once the segment's start is durable: a hint without a start then proves that the start was lost.
    async fn leave_hint(&mut self) {
        if let Some(hint) = self.hint.take() {
            hint.leave().await;
        }
    }

    pub(crate) async fn sync(&mut self, segment: &Segment) -> Result<(), StoreError> {
        if active(Mutant::SkipSync) {
            return Ok(());
        }
        self.shared.counters.synced();
        let began = self.shared.env.boot();
        let synced = segment.sync().await;
        self.usual_sync = (self.usual_sync * 7 + self.shared.env.boot().saturating_sub(began)) / 8;
        if active(Mutant::TrustAfterFailedSync) { Ok(()) } else { synced }
    }

    fn carried_out(&mut self, run: Run, synced: bool) {
        self.shared.counters.written(run.writes.len(), run.buffer.len());
        let before = self.lsn;
        self.offset = run.end();
        self.lsn = run.lsn();
        self.current = run.segment;
        self.tell_left();
        let mut tables = self.shared.tables();
        if let Some(Begins { segment, generation, after }) = run.begins {
            self.generation = generation;
            begin(&mut tables, &segment, generation, after);
        }
        for ((header, place), write) in run.frames.iter().zip(&run.writes) {
            tables.apply(header, *place, &write.bodies);
        }
        if synced {
            // Bodies that died before their removal was durable can be let go only now.
            tables.something_died |= tables.synced < before;
            tables.synced = self.lsn;
            self.sync_at = None;
        } else {
            self.sync_at = self.sync_at.or_else(|| self.shared.next_sync());
        }
        let kicks = self.shared.kicks(&mut tables);
        drop(tables);
        self.shared.cache_bodies(&run.writes);
        self.shared.kick(kicks);
        for write in run.writes {
            write.answer(Ok(()));
        }
    }

    /// The disk took nothing of the run: the log is as it was, and sound.
    fn no_room(&self, run: Run) {
        self.shared.no_room_to_write(run.begins.map(|begins| begins.segment));
        refuse(run.writes, &StoreError::Full);
    }

    fn broken(&mut self, run: Run, error: StoreError) {
        for write in run.writes {
            write.answer(Err(CommitError::Unknown(error.clone())));
        }
        if error.is_full() {
            self.shared.no_room_to_write(None);
        }
        if let Some(begins) = run.begins {
            self.shared.discard(begins.segment);
        }
        self.fail(error);
    }

    pub(crate) fn fail(&mut self, error: StoreError) {
        tracing::error!(%error, "the log failed: what is not durable is void");
        self.sync_at = None;
        self.hint = None;
        self.failed = Some(error);
    }

    /// Syncs what was written without a sync.
    pub(super) async fn sync_written(&mut self) {
        self.sync_at = None;
        let segment = Arc::clone(&self.current);
        if let Err(error) = self.sync(&segment).await {
            return self.fail(error);
        }
        let kicks = {
            let mut tables = self.shared.tables();
            tables.synced = self.lsn;
            tables.something_died = true;
            self.shared.kicks(&mut tables)
        };
        self.shared.kick(kicks);
        self.leave_hint().await;
    }

    async fn ensure_synced(&mut self) -> Result<(), StoreError> {
        if self.failed.is_none() && self.shared.tables().synced < self.lsn {
            self.sync_written().await;
        }
        self.failed.clone().map_or(Ok(()), Err)
    }

    async fn acquire(&mut self, partition: u32) -> Result<PartitionView, StoreError> {
        if self.failed.is_some() {
            self.repair().await?;
        }
        let mut tables = self.shared.tables();
        let raised = u64::from(!active(Mutant::AcquireWithoutFencing));
        tables.partitions.entry(partition).or_default().epoch += raised;
        Ok(PartitionView::of(&tables, partition, &self.shared.keeper_kick))
    }

    /// For those who ask: after a failure nothing else may come that repairs the log.
    async fn sync_all(&mut self) -> Result<(), StoreError> {
        if self.failed.is_some() {
            self.repair().await?;
        }
        self.ensure_synced().await
    }

    async fn view(&mut self) -> Result<View, StoreError> {
        self.sync_all().await?;
        Ok(View::of(&self.shared.tables(), &self.shared.keeper_kick, self.offset))
    }

    /// The frame that says that everything before it is durable.
    fn closing(&self) -> Vec<u8> {
        frame::bare(&self.header(Kind::Close, self.generation, self.lsn + 1, self.lsn)).to_vec()
    }

    async fn close(&mut self) {
        if self.ensure_synced().await.is_err() {
            return;
        }
        let (segment, frame) = (Arc::clone(&self.current), self.closing());
        let written = segment.write(self.offset, &frame).await;
        if written.is_ok() {
            let _next_open_finds_out = self.sync(&segment).await;
        }
    }

    /// Goes on in a segment that makes void whatever comes after the last durable frame elsewhere.
    pub(crate) async fn begin_anew(&mut self, segment: Arc<Segment>) -> Result<(), StoreError> {
        let after = self.shared.tables().synced;
        let generation = self.shared.tables().take_generation();
        let begins = Begins { segment: Arc::clone(&segment), generation, after };
        segment.write(0, &frame::bare(&self.start_header(&begins))).await?;
        self.sync(&segment).await?;
        begin(&mut self.shared.tables(), &segment, generation, after);
        // In place of the first frame that is void, or behind those that are.
        self.hint_to(&segment).leave().await;
        // Durable if it can be: should the start above rot, nothing else would tell that frames here are void.
        let _only_a_hint = self.current.sync().await;
        self.generation = generation;
        self.current = segment;
        self.offset = HEADER_BYTES as u32;
        self.tell_left();
        self.lsn = after;
        self.failed = None;
        Ok(())
    }
}

fn begin(tables: &mut Tables, segment: &Arc<Segment>, generation: u64, after: u64) {
    tables.slots.insert(segment.number, Slot::new(Arc::clone(segment), generation, Role::Main));
    tables.chain.push_back(Link { segment: segment.number, after });
}
