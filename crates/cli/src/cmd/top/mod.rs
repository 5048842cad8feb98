//! `windlass top`: all queues, again and again.

mod frame;
mod screen;

use std::time::{Duration, Instant};

use clap::Args;
use windlass_api::Span;
use windlass_api::queues::{ListQueuesReply, ListQueuesRequest};
use windlass_client::ClientError;

use self::frame::{Seen, shown};
use self::screen::Screen;
use crate::exit::{Exit, Failure};
use crate::output::{Output, now};
use crate::remote::{Remote, described, failed};
use crate::safe;
use crate::signals::Signals;

/// Watch queues: counts, rates, ages and rules
#[derive(Debug, Args)]
#[command(after_help = "\
Rates are per second, over the last interval. On a terminal the view stays in place until Ctrl-C; elsewhere there is one \
table per interval, and with --json one line with what queues.list answers.

Examples:
  windlass top
  windlass top --interval 10s >> queues.log
  windlass top --once")]
pub(crate) struct Top {
    /// How long to wait between two looks, at least 100ms
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = interval)]
    interval: Span,
    /// Look once, and end
    #[arg(long)]
    once: bool,
}

const INTERVAL_MIN: Span = Span::from_millis(100);

fn interval(text: &str) -> Result<Span, String> {
    let span: Span = text.parse().map_err(|error| format!("{error}"))?;
    if span < INTERVAL_MIN { Err(format!("at least {INTERVAL_MIN}")) } else { Ok(span) }
}

impl Top {
    pub(crate) async fn run(self, remote: &Remote, out: Output) -> Result<Exit, Failure> {
        let mut signals = Signals::hear()?;
        let mut before = look(remote).await.map_err(|error| failed(&ListQueuesRequest::default(), error))?;
        let mut screen = if self.once { Screen::plain() } else { Screen::of(out) };
        screen.show(out, &drawn(out, &before, None, &screen))?;
        if self.once {
            return Ok(Exit::Done);
        }
        loop {
            tokio::select! {
                _stop = signals.asked() => return Ok(Exit::Done),
                () = tokio::time::sleep(Duration::from(self.interval)) => {}
            }
            match look(remote).await {
                Ok(seen) => {
                    screen.show(out, &drawn(out, &seen, Some(&before), &screen))?;
                    before = seen;
                }
                // It may be back at the next look; whoever reads a file of tables wants to know at once.
                Err(error) if screen.is_live() => screen.show(out, &format!("{}\n", described(&error)))?,
                Err(error) => return Err(failed(&ListQueuesRequest::default(), error)),
            }
        }
    }
}

async fn look(remote: &Remote) -> Result<Seen, ClientError> {
    let queues = remote.client().queues_with_counts().await?;
    let rules = remote.client().rules().await?;
    Ok(Seen { at: Instant::now(), time: now(), queues, rules })
}

fn drawn(out: Output, seen: &Seen, before: Option<&Seen>, screen: &Screen) -> String {
    if out.json() {
        let reply = ListQueuesReply { queues: seen.queues.clone() };
        let document = serde_json::to_string(&reply).expect("queues can be written");
        return format!("{}\n", safe::json(&document));
    }
    shown(seen, before, screen.rows())
}
