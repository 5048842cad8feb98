//! Full cycles: every client produces a batch, leases a batch and completes it, over and over.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;

use super::Scenario;
use super::team::{self, Team};
use super::window::{Window, warm_up};
use crate::fleet::{Running, Seat};
use crate::peers::{Contender, Job, Manner, Peer, bare, next_client};
use crate::report::number::{counted, whole};
use crate::report::sheet::Column;
use crate::server::Server;
use crate::stats::Better;

pub(crate) const COLUMNS: &[Column] = &[
    Column { key: "cycles_per_second", head: "items/s", better: Better::Higher },
    Column { key: "server_cpu_seconds_per_million", head: "server CPU s/million", better: Better::Lower },
    Column { key: "client_cpu_seconds_per_million", head: "client CPU s/million", better: Better::Lower },
];

#[derive(Clone, Debug)]
pub(crate) struct Cycles {
    pub(crate) clients: usize,
    pub(crate) batch: usize,
    pub(crate) payload: usize,
    pub(crate) time: Duration,
}

impl Cycles {
    pub(crate) fn job(&self, queue: String) -> Job {
        Job { queue, batch: self.batch, payload: self.payload, manner: Manner::Ready }
    }

    /// Measures cycles in a queue that is there.
    pub(crate) async fn measure(&self, peer: &dyn Peer, queue: String, server: &Server) -> Result<Vec<f64>> {
        let steps = Arc::new(AtomicU64::new(0));
        let mut team = Team::new();
        for client in team::connect(peer, &self.job(queue), self.clients).await? {
            team.add(team::cycle(client, self.batch, steps.clone()));
        }
        Ok(figures(self.window(&mut team, &steps, Some(server)).await?))
    }

    async fn window(&self, team: &mut Team, steps: &AtomicU64, server: Option<&Server>) -> Result<Window> {
        Window::measure(team, steps, server, self.time, self.clients * self.batch).await
    }
}

#[async_trait]
impl Scenario for Cycles {
    fn name(&self) -> &'static str {
        "cycles"
    }

    fn title(&self) -> String {
        let (clients, batch) = (counted(self.clients, "client"), whole(self.batch));
        format!("Full cycles: {clients}, batches of {batch}, payloads of {} bytes", whole(self.payload))
    }

    fn label(&self) -> String {
        let size = if self.payload >= 1024 {
            format!("{} KiB", self.payload / 1024)
        } else {
            format!("{} B", self.payload)
        };
        format!("{}, batches of {}, {size}", counted(self.clients, "client"), whole(self.batch))
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn planned(&self) -> Duration {
        self.time + warm_up(self.time)
    }

    /// All contenders, the bare loop included.
    fn has(&self, _contender: Contender) -> bool {
        true
    }

    async fn run(&self, running: &Running) -> Result<Vec<f64>> {
        match &running.seat {
            Seat::Bare(file) => {
                let steps = Arc::new(AtomicU64::new(0));
                let loops = bare::start(file, self.clients, self.batch, self.payload, &steps);
                let window = self.window(&mut Team::new(), &steps, None).await?;
                drop(loops);
                // The bare loop has no server: its processor time is all the client's.
                Ok(figures(Window { server_cpu: f64::NAN, ..window }))
            }
            Seat::Served { server, peer } => {
                let queue = format!("cycles{}", next_client());
                peer.create(&queue).await?;
                let measured = self.measure(peer.as_ref(), queue.clone(), server).await?;
                peer.delete(&queue).await?;
                Ok(measured)
            }
        }
    }
}

fn figures(window: Window) -> Vec<f64> {
    vec![window.cycles_per_second(), window.server_cpu_per_million(), window.client_cpu_per_million()]
}
