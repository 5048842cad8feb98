//! `windlass bench`: how much a server does in a second, and how long each call takes.

mod bed;
mod caller;
mod due;
mod figures;
mod matrix;
mod phases;
mod pickup;
mod rounds;
mod shown;
mod watched;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Serialize;

use self::bed::{Bed, EngineBed, HttpBed};
use self::due::{Burst, Lateness};
use self::phases::Stage;
use self::pickup::Pickup;
use self::rounds::Measured;
use self::watched::Watched;
use crate::args::{Encoding, Global};
use crate::exit::{Exit, Failure};
use crate::human::counted;
use crate::output::Output;
use crate::signals::Signals;

const SECONDS: u64 = 5;
const MATRIX_SECONDS: u64 = 2;

/// Measure rates and latencies, of a running server or of one started for it
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
With --url (or WINDLASS_URL) a running server is measured, in queues of its own that are deleted afterwards. \
Without, a server is started in this process on a temporary directory; choose its disk with --data-dir.

Each client has a connection of its own. First all of them only produce, then only lease, then only complete; then \
each produces a batch, leases a batch and completes it, over and over: that is a full cycle. Last, one client waits \
in a lease while another produces one item: the pickup; and for items that fall due one by one: how late they come. \
With --due, so many items fall due in one moment while all clients go on with full cycles. With --subscribers, a worker \
emits 1,000 events a second in batches, by turns followed by so many and by nobody.

Examples:
  windlass bench
  windlass bench --clients 16 --batch 100 --encoding protobuf --engine --data-dir /var/lib
  windlass bench --backlog 1000000 --seconds 10
  windlass bench --due 1000000 --seconds 10
  windlass bench --subscribers 50 --seconds 30
  windlass bench --url http://10.0.0.5:9463 --matrix --json > figures.json")]
pub(crate) struct Bench {
    /// Clients at a time, each with a connection of its own
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
    clients: u16,
    /// Items in each call: 1 to 1000
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1000))]
    batch: u16,
    /// The size of each payload
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    payload: usize,
    /// Items that wait beforehand
    #[arg(long, value_name = "N", default_value_t = 0)]
    backlog: u64,
    /// Also measure full cycles while so many items fall due in one moment
    #[arg(long, value_name = "N", conflicts_with = "matrix")]
    due: Option<u64>,
    /// Also measure emits of a worker whom so many follow, against one whom nobody does
    #[arg(long, value_name = "N", conflicts_with = "matrix", value_parser = clap::value_parser!(u16).range(1..))]
    subscribers: Option<u16>,
    /// How long each measurement takes [5; 2 with --matrix]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,
    /// When the started server answers [always]
    #[arg(long)]
    durability: Option<Durability>,
    /// Where the started server has its temporary directory
    #[arg(long, value_name = "PARENT")]
    data_dir: Option<PathBuf>,
    /// Run the same load on the engine as well, on the same disk and without HTTP, and show the ratio
    #[arg(long)]
    engine: bool,
    /// Full cycles with 1, 16 and 64 clients, batches of 1 to 1000, and both encodings or the one given
    #[arg(long, conflicts_with_all = ["clients", "batch"])]
    matrix: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Durability {
    Always,
    Interval,
    None,
}

/// What is done, how often at a time, and for how long.
#[derive(Clone, Copy, Debug, Serialize)]
struct Load {
    clients: usize,
    batch: usize,
    payload: usize,
    backlog: u64,
    seconds: u64,
    encoding: &'static str,
}

impl Load {
    fn time(self) -> Duration {
        Duration::from_secs(self.seconds)
    }
}

/// What was measured.
#[derive(Clone, Debug, Serialize)]
struct Target {
    url: String,
    started_here: bool,
    /// Not known of a server that was running already.
    durability: Option<&'static str>,
}

/// All that was measured.
#[derive(Debug, Serialize)]
struct Document {
    target: Target,
    #[serde(flatten)]
    load: Load,
    #[serde(flatten)]
    measured: Measured,
    pickup: Pickup,
    lateness: Lateness,
    #[serde(skip_serializing_if = "Option::is_none")]
    burst: Option<Burst>,
    #[serde(skip_serializing_if = "Option::is_none")]
    watched: Option<Watched>,
}

impl Bench {
    pub(crate) async fn run(self, global: &Global, out: Output) -> Result<Exit, Failure> {
        if global.url().is_some() && (self.durability.is_some() || self.data_dir.is_some() || self.engine) {
            let message = "--durability, --data-dir and --engine are for a server that is started here: leave out \
                           --url (and WINDLASS_URL)";
            return Err(Failure::usage(message));
        }
        let mut signals = Signals::hear()?;
        let http = HttpBed::new(&self, global, out).await?;
        let measured = tokio::select! {
            measured = self.measure(&http, global, out) => measured,
            _ = signals.asked() => Err(Failure::interrupted("interrupted")),
        };
        http.close().await;
        measured.map(|()| Exit::Done)
    }

    async fn measure(&self, http: &HttpBed, global: &Global, out: Output) -> Result<(), Failure> {
        let engine = if self.engine { Some(EngineBed::new(self).await?) } else { None };
        let measured = if self.matrix {
            matrix::run(self, http, engine.as_ref(), global.encoding, out).await
        } else {
            self.measure_once(http, engine.as_ref(), global.encoding(), out).await
        };
        if let Some(engine) = engine {
            engine.close().await;
        }
        measured
    }

    async fn measure_once(
        &self,
        http: &HttpBed,
        engine: Option<&EngineBed>,
        encoding: Encoding,
        out: Output,
    ) -> Result<(), Failure> {
        let load = self.load(self.clients.into(), self.batch.into(), encoding);
        let server = Stage::new(Bed::Http(http, encoding), load, out).await?;
        out.talk("produce, lease, complete, full cycles …");
        let measured = match engine {
            Some(engine) => {
                let engine = Stage::new(Bed::Engine(engine), load, out).await?;
                rounds::in_turns(&server, &engine, load, out).await?
            }
            None => rounds::alone(&server, load).await?,
        };
        server.close().await?;
        out.talk("pickup …");
        let pickup = pickup::measure(http, encoding, load).await?;
        out.talk("lateness …");
        let lateness = due::lateness(http, encoding, load).await?;
        let burst = match self.due {
            Some(items) => {
                out.talk(&format!("{} that fall due in one moment …", counted(items, "item")));
                Some(due::burst(http, encoding, load, items).await?)
            }
            None => None,
        };
        let watched = match self.subscribers {
            Some(subscribers) => {
                out.talk(&format!("emits with {} …", counted(subscribers.into(), "subscriber")));
                Some(watched::measure(http, encoding, load, subscribers).await?)
            }
            None => None,
        };
        let target = http.target(self);
        let document = Document { target, load, measured, pickup, lateness, burst, watched };
        out.reply(&document, |_| shown::document(&document))
    }

    fn durability(&self) -> Durability {
        self.durability.unwrap_or(Durability::Always)
    }

    fn load(&self, clients: usize, batch: usize, encoding: Encoding) -> Load {
        let seconds = self.seconds.unwrap_or(if self.matrix { MATRIX_SECONDS } else { SECONDS });
        let encoding = match encoding {
            Encoding::Json => "json",
            Encoding::Protobuf => "protobuf",
        };
        Load { clients, batch, payload: self.payload, backlog: self.backlog, seconds, encoding }
    }
}
