//! A directory: names as they are, and as a crash would leave them.

use std::collections::BTreeMap;

use crate::rng::Rng;

pub(super) type FileId = u64;

#[derive(Debug, Default)]
pub(super) struct Names {
    live: BTreeMap<String, FileId>,
    durable: BTreeMap<String, FileId>,
    /// Since the last sync, oldest first.
    unsynced: Vec<Step>,
}

#[derive(Clone, Debug)]
enum Step {
    Create { name: String, file: FileId },
    Rename { from: String, to: String, file: FileId },
    Remove { name: String },
}

impl Step {
    fn apply(self, names: &mut BTreeMap<String, FileId>) {
        match self {
            Self::Create { name, file } => {
                names.insert(name, file);
            }
            Self::Rename { from, to, file } => {
                // The old name may be another file's by now, if this step is kept and an earlier one is not.
                if names.get(&from) == Some(&file) {
                    names.remove(&from);
                }
                names.insert(to, file);
            }
            Self::Remove { name } => {
                names.remove(&name);
            }
        }
    }
}

impl Names {
    pub(super) fn get(&self, name: &str) -> Option<FileId> {
        self.live.get(name).copied()
    }

    pub(super) fn list(&self) -> Vec<String> {
        self.live.keys().cloned().collect()
    }

    pub(super) fn files(&self) -> impl Iterator<Item = FileId> {
        self.live.values().copied()
    }

    pub(super) fn create(&mut self, name: &str, file: FileId) {
        self.step(Step::Create { name: name.to_owned(), file });
    }

    pub(super) fn rename(&mut self, from: &str, to: &str, file: FileId) {
        self.step(Step::Rename { from: from.to_owned(), to: to.to_owned(), file });
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.step(Step::Remove { name: name.to_owned() });
    }

    fn step(&mut self, step: Step) {
        step.clone().apply(&mut self.live);
        self.unsynced.push(step);
    }

    pub(super) fn mark(&self) -> usize {
        self.unsynced.len()
    }

    /// The first so many steps are durable.
    pub(super) fn synced(&mut self, mark: usize) {
        let mark = mark.min(self.unsynced.len());
        for step in self.unsynced.drain(..mark) {
            step.apply(&mut self.durable);
        }
    }

    /// Keeps each step or not; true if some step was lost.
    pub(super) fn crash(&mut self, rng: &mut Rng) -> bool {
        let mut lost = false;
        for step in std::mem::take(&mut self.unsynced) {
            if rng.percent(50) {
                step.apply(&mut self.durable);
            } else {
                lost = true;
            }
        }
        self.live.clone_from(&self.durable);
        lost
    }
}
