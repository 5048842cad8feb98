//! The reader: the one thread that reads for callers, so that none of them blocks. It takes what is asked for at the
//! moment together, and reads it in the order of the disk.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use windlass_core::mutant::{Mutant, active};

use super::fetch::{Piece, fetch};
use crate::env::BoxFuture;
use crate::store::log::segment::Pin;
use crate::store::log::shared::Shared;
use crate::store::log::tables::Place;
use crate::store::{Body, StoreError};

const JOBS_TOGETHER_MAX: usize = 64;

pub(crate) enum Job {
    Bodies(ReadBodies),
    Run(BoxFuture<'static, ()>),
}

#[derive(Debug)]
pub(crate) struct ReadBodies {
    pub(crate) wanted: Vec<(Pin, Place)>,
    pub(crate) answer: oneshot::Sender<Vec<Body>>,
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bodies(read) => read.fmt(f),
            Self::Run(_) => f.write_str("Run(..)"),
        }
    }
}

/// Serves until it is stopped and nothing is queued any more.
pub(crate) async fn serve(shared: Arc<Shared>, mut jobs: mpsc::Receiver<Job>) {
    loop {
        let job = tokio::select! {
            biased;
            job = jobs.recv() => job,
            () = shared.reader_stop.notified() => None,
        };
        let Some(job) = job else { return };
        let mut reads = Vec::new();
        sort_in(job, &mut reads).await;
        while reads.len() < JOBS_TOGETHER_MAX {
            let Ok(job) = jobs.try_recv() else { break };
            sort_in(job, &mut reads).await;
        }
        read_bodies(reads).await;
    }
}

async fn sort_in(job: Job, reads: &mut Vec<ReadBodies>) {
    match job {
        Job::Bodies(read) => reads.push(read),
        Job::Run(job) => job.await,
    }
}

async fn read_bodies(reads: Vec<ReadBodies>) {
    let pieces: Vec<Piece> =
        reads.iter().flat_map(|read| &read.wanted).map(|(pin, place)| piece(pin, place)).collect();
    let mut found = fetch(&pieces).await.into_iter();
    // Before the pins: whoever waits for a segment counts who holds it when a pin goes.
    drop(pieces);
    for ReadBodies { wanted, answer } in reads {
        let bodies = found.by_ref().take(wanted.len()).zip(&wanted);
        let checked = bodies.map(|(body, (pin, place))| check(body, pin, place)).collect();
        let _caller_gone = answer.send(checked);
    }
}

fn piece(pin: &Pin, place: &Place) -> Piece {
    Piece { segment: Arc::clone(&pin.segment), offset: place.offset, length: place.length }
}

fn check(body: Result<Bytes, StoreError>, pin: &Pin, place: &Place) -> Body {
    match body {
        Ok(body) if crc32c::crc32c(&body) == place.crc || active(Mutant::NoBodyChecksum) => Body::Found(body),
        Ok(_) => pin.segment.damaged(place.offset, "a body has a wrong checksum").into(),
        Err(error) => error.into(),
    }
}
