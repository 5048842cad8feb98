//! What a client does with crons: few names, so that they collide and are used again.

use std::sync::Arc;

use windlass_core::cron::{CatchUp, Overlap};
use windlass_core::time::Span;

use super::{ADDRESSES, Client};
use crate::cron::{CronAsk, CronSpec};
use crate::history::Made;
use crate::plan::ClockPlan;

const NAMES: [&str; 3] = ["hourly", "nightly", "tick"];
/// Longer than a cron may be late, so that a time which runs twice can be told from the next one.
const EVERY_SECS: [u64; 4] = [6, 7, 10, 15];
/// Where the clock is set by hours: a cron that makes up for all of them must not fill the run.
const SELDOM_SECS: u64 = 1_200;

impl Client {
    pub(super) async fn cron_call(&mut self) {
        let ask = match self.rng.below(100) {
            0..=29 => CronAsk::Create { queue: self.queue(), spec: self.cron_spec() },
            30..=54 => CronAsk::Update(self.cron_spec()),
            55..=61 => CronAsk::Pause,
            62..=71 => CronAsk::Resume,
            72..=79 => CronAsk::Trigger,
            80..=86 => CronAsk::Delete,
            87..=93 => CronAsk::Info,
            _ => return drop(self.caller.crons().await),
        };
        let name = Arc::from(*self.rng.pick(&NAMES));
        self.caller.cron(&name, ask).await;
    }

    fn cron_spec(&mut self) -> CronSpec {
        let address = self.rng.percent(50).then(|| Arc::from(*self.rng.pick(&ADDRESSES)));
        let made = Made { enqueue_at: None, group: None, address, ..self.made() };
        let secs = match self.plan.clock {
            ClockPlan::Steady => *self.rng.pick(&EVERY_SECS),
            ClockPlan::Forward | ClockPlan::BothWays => SELDOM_SECS,
        };
        CronSpec {
            made,
            every: Span::from_secs(secs),
            catch_up: *self.rng.pick(&[CatchUp::Skip, CatchUp::One, CatchUp::All]),
            overlap: *self.rng.pick(&[Overlap::Allow, Overlap::Allow, Overlap::Skip]),
        }
    }
}
