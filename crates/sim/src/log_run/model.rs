//! What the log was told and what it answered, and from that what it may show.
//!
//! A commit that was refused never shows. One whose outcome is unknown shows or not, once and for all. One that was
//! answered stays, unless the log may go back: then what is lost is the end of what the log was told, over all partitions.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::row::Change;

use super::changes::Content;
use crate::history::Violation;

/// The registry: whatever it is answered is durable in every mode.
pub(super) const REGISTRY: u32 = 0;

#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) partitions: BTreeMap<u32, Past>,
    /// Dropped for sure.
    pub(super) gone: BTreeSet<u32>,
    /// Dropped, perhaps: nobody uses them any more.
    pub(super) abandoned: BTreeSet<u32>,
    /// Whether all that was answered is durable.
    pub(super) keeps_all: bool,
    /// When commits were answered that are lost.
    lost: Vec<u64>,
    clock: u64,
}

/// A partition as it was after each commit.
#[derive(Debug)]
pub(super) struct Past {
    /// The first is empty: before the first commit.
    pub(super) states: Vec<Content>,
    commits: Vec<Commit>,
    epoch: u64,
    acquired_at: u64,
    /// How often the log had gone back by then, at least.
    rollbacks: u64,
    /// What was answered by then is durable.
    durable_until: u64,
    /// Grows when commits are taken back.
    pub(super) cuts: u64,
}

#[derive(Clone, Copy, Debug)]
struct Commit {
    /// When its owner took the partition over.
    acquired_at: u64,
    sent_at: u64,
    answered_at: Option<u64>,
}

impl Default for Past {
    fn default() -> Self {
        let states = vec![Content::default()];
        let (commits, epoch, acquired_at, rollbacks, durable_until, cuts) = (Vec::new(), 0, 0, 0, 0, 0);
        Self { states, commits, epoch, acquired_at, rollbacks, durable_until, cuts }
    }
}

impl Past {
    pub(super) fn sequence(&self) -> u64 {
        self.commits.len() as u64
    }

    pub(super) fn content(&self) -> &Content {
        self.states.last().expect("there is always the empty one")
    }

    pub(super) fn answered(&self) -> u64 {
        self.answered_by(u64::MAX)
    }

    /// The last commit that was answered by then.
    fn answered_by(&self, moment: u64) -> u64 {
        let by = |commit: &Commit| commit.answered_at.is_some_and(|at| at <= moment);
        self.commits.iter().rposition(by).map_or(0, |index| index as u64 + 1)
    }
}

pub(super) fn wrong(rule: &'static str, text: String) -> Violation {
    Violation { rule, text }
}

impl Model {
    pub(super) fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// A new process begins: it counts owners from what is durable.
    pub(super) fn begin_process(&mut self) {
        self.partitions.values_mut().for_each(|past| past.epoch = 0);
    }

    pub(super) fn past(&mut self, partition: u32) -> &mut Past {
        self.partitions.entry(partition).or_default()
    }

    /// What was answered by then is durable, unless the log had gone back and its owner had not noticed.
    pub(super) fn synced(&mut self, moment: u64, rollbacks: u64) {
        for past in self.partitions.values_mut().filter(|past| past.rollbacks == rollbacks) {
            past.durable_until = past.durable_until.max(moment);
        }
    }

    /// What the partition's owner was answered by then is durable, whatever went back.
    pub(super) fn synced_within_term(&mut self, partition: u32, moment: u64) {
        let past = self.past(partition);
        past.durable_until = past.durable_until.max(moment);
    }

    pub(super) fn send(&mut self, partition: u32, changes: &[Change]) -> u64 {
        let sent_at = self.tick();
        let past = self.past(partition);
        let mut content = past.content().clone();
        changes.iter().for_each(|change| content.apply(change));
        past.states.push(content);
        past.commits.push(Commit { acquired_at: past.acquired_at, sent_at, answered_at: None });
        sent_at
    }

    pub(super) fn answered(&mut self, partition: u32, sent_at: u64, rollbacks: u64) {
        let now = self.tick();
        let past = self.past(partition);
        past.commits.last_mut().expect("it was sent").answered_at = Some(now);
        if partition == REGISTRY {
            self.synced(sent_at, rollbacks);
        }
    }

    /// The last commit never happened.
    pub(super) fn refused(&mut self, partition: u32) {
        let past = self.past(partition);
        past.states.pop();
        past.commits.pop();
    }

    /// What is not surely gone is of no interest any more, either.
    pub(super) fn dropped(&mut self, partition: u32, surely: bool) {
        self.partitions.remove(&partition);
        self.abandoned.insert(partition);
        if surely {
            self.gone.insert(partition);
        }
    }

    /// A new owner finds the partition at a sequence.
    pub(super) fn acquired(
        &mut self,
        partition: u32,
        epoch: u64,
        sequence: u64,
        bounds: Bounds,
        rollbacks: u64,
    ) -> Result<(), Violation> {
        let now = self.tick();
        let keeps_all = self.keeps_all || partition == REGISTRY;
        let past = self.past(partition);
        let until = match bounds {
            Bounds::Answered => u64::MAX,
            Bounds::Durable if keeps_all => u64::MAX,
            Bounds::Durable => past.durable_until,
            Bounds::Nothing => 0,
        };
        if epoch <= past.epoch {
            let text =
                format!("partition {partition} was taken over as {epoch}, and before as {}", past.epoch);
            return Err(wrong("fence", text));
        }
        let (least, most) = (past.answered_by(until), past.sequence());
        if sequence < least || sequence > most {
            let text =
                format!("partition {partition} is at commit {sequence}, and must be at {least} to {most}");
            return Err(wrong(if sequence < least { "lost" } else { "back" }, text));
        }
        past.epoch = epoch;
        (past.acquired_at, past.rollbacks) = (now, rollbacks);
        let kept = sequence as usize;
        past.cuts += u64::from(kept < past.commits.len());
        past.states.truncate(kept + 1);
        let lost: Vec<u64> = past.commits.drain(kept..).filter_map(|commit| commit.answered_at).collect();
        // Found there, it is as good as answered.
        if let Some(last) = past.commits.last_mut() {
            last.answered_at.get_or_insert(now);
        }
        self.lost.extend(lost);
        Ok(())
    }

    /// Once all partitions were acquired after a start: nothing survived that was sent after something lost was answered,
    /// by an owner of before.
    pub(super) fn lost_the_end_only(&self) -> Result<(), Violation> {
        for (partition, past) in &self.partitions {
            for (index, commit) in past.commits.iter().enumerate() {
                let after = |lost: &&u64| commit.sent_at > **lost && commit.acquired_at < **lost;
                if let Some(lost) = self.lost.iter().find(after) {
                    let text = format!(
                        "commit {} of partition {partition}, sent at {}, is there, and one answered at {lost} is lost",
                        index + 1,
                        commit.sent_at
                    );
                    return Err(wrong("suffix", text));
                }
            }
        }
        Ok(())
    }
}

/// What a partition must still have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Bounds {
    /// A bit flipped in the files: the end of the log may be unreadable.
    Nothing,
    /// Everything that is durable by the log's own promise.
    Durable,
    /// Everything that was answered.
    Answered,
}
