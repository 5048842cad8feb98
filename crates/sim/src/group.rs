//! What is asked about groups, and how a trace tells of it.

use std::fmt;
use std::sync::Arc;

use crate::history::{Made, QueueIndex, ShownGroup};
use crate::recorder::show_made;

#[derive(Clone, Debug)]
pub struct GroupOp {
    pub queue: QueueIndex,
    pub group: Arc<str>,
    pub ask: GroupAsk,
}

#[derive(Clone, Debug)]
pub enum GroupAsk {
    Create { ends: Ends, items: Vec<Made>, start: bool },
    SetEnd(Ends),
    Start,
    Cancel,
    Delete,
    Info,
}

/// What is to be made when a group is done, and when it is aborted.
#[derive(Clone, Debug, Default)]
pub struct Ends {
    pub end: Option<LastWord>,
    pub abort: Option<LastWord>,
}

/// An end or abort item as it is to be made.
#[derive(Clone, Debug)]
pub struct LastWord {
    /// Where.
    pub queue: QueueIndex,
    pub made: Made,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    End,
    Abort,
}

impl Ends {
    pub fn words(&self) -> impl Iterator<Item = (Word, &LastWord)> {
        let end = self.end.iter().map(|word| (Word::End, word));
        end.chain(self.abort.iter().map(|word| (Word::Abort, word)))
    }
}

impl GroupAsk {
    pub fn ends(&self) -> Option<&Ends> {
        match self {
            Self::Create { ends, .. } | Self::SetEnd(ends) => Some(ends),
            Self::Start | Self::Cancel | Self::Delete | Self::Info => None,
        }
    }

    /// As the coverage counts it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Create { .. } => "create group",
            Self::SetEnd(_) => "set group's end",
            Self::Start => "start group",
            Self::Cancel => "cancel group",
            Self::Delete => "delete group",
            Self::Info => "show group",
        }
    }
}

impl fmt::Display for GroupOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} q{} {}", self.ask.name(), self.queue, self.group)?;
        for (word, LastWord { queue, made }) in self.ask.ends().into_iter().flat_map(Ends::words) {
            write!(f, " {word:?} in q{queue}{}", show_made(made))?;
        }
        if let GroupAsk::Create { items, start, .. } = &self.ask {
            let members: String = items.iter().map(show_made).collect();
            write!(f, " members{members}{}", if *start { " and start" } else { "" })?;
        }
        Ok(())
    }
}

pub(crate) fn show_group(group: &ShownGroup) -> String {
    let ShownGroup { name, created_at, state, live, ended } = group;
    format!("{name} of {} {state:?} {live:?} {ended:?}", created_at.0)
}
