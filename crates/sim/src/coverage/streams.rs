//! What those have met who follow items.

use windlass_engine::CloseMode;

use super::Coverage;
use crate::check::ItemFacts;
use crate::history::{Call, Followed, Op, Outcome};

impl Coverage {
    pub(super) fn add_streams(&mut self, item: &ItemFacts<'_>) {
        for call in &item.gets {
            let Outcome::Subscribed { view, .. } = &call.outcome else { continue };
            self.change(if view.phase.is_final() {
                "followed from a final snapshot"
            } else {
                "followed from a live snapshot"
            });
        }
        for call in &item.follows {
            let (Op::Follow { after, is_subscribed, .. }, Outcome::Followed(followed)) =
                (&call.op, &call.outcome)
            else {
                continue;
            };
            if *is_subscribed && *after > 0 && !followed.events.is_empty() {
                self.change("snapshot with events → more of them");
            }
            self.add_closed(item, call, followed);
        }
        if item.closes.iter().any(|close| matches!(close.outcome, Outcome::Closed(0))) {
            self.change("streams closed with nobody there");
        }
    }

    fn add_closed(&mut self, item: &ItemFacts<'_>, call: &Call, followed: &Followed) {
        let meets = |close: &&&Call| {
            let closed = matches!(close.outcome, Outcome::Closed(count) if count > 0);
            closed && followed.opened < close.begin && close.begin < call.end && close.process == call.process
        };
        let Some(close) = item.closes.iter().filter(|_| followed.is_closed()).find(meets) else { return };
        let Op::Close { mode, .. } = close.op else { return };
        match mode {
            CloseMode::Immediate => self.change("stream closed at once"),
            CloseMode::Graceful if followed.shown_until > close.begin => {
                self.change("stream closed, the rest shown first");
            }
            CloseMode::Graceful => {}
        }
        let later = |other: &&&Call| other.begin > close.end && matches!(other.outcome, Outcome::Followed(_));
        if item.follows.iter().any(|other| later(&other)) {
            self.change("stream closed → followed again");
        }
        let mut emits =
            item.verdicts.iter().filter(|judged| matches!(judged.call.outcome, Outcome::Emitted(_)));
        if emits.any(|emit| emit.call.begin > close.end) {
            self.change("stream closed, later events not shown");
        }
    }
}
