//! Many loads, one table.

use serde::Serialize;

use super::bed::{Bed, EngineBed, HttpBed};
use super::figures::Figures;
use super::{Bench, Load, phases, shown};
use crate::args::Encoding;
use crate::exit::Failure;
use crate::output::Output;

const CLIENTS: [usize; 3] = [1, 16, 64];
const BATCHES: [usize; 4] = [1, 10, 100, 1000];

/// Full cycles under one load.
#[derive(Debug, Serialize)]
pub(super) struct Line {
    #[serde(flatten)]
    pub(super) load: Load,
    /// The whole first, then each of its calls.
    pub(super) server: Vec<Figures>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) engine_items_per_second: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Matrix {
    matrix: Vec<Line>,
}

pub(super) async fn run(
    bench: &Bench,
    http: &HttpBed,
    engine: Option<&EngineBed>,
    out: Output,
) -> Result<(), Failure> {
    let mut matrix = Vec::new();
    for encoding in [Encoding::Json, Encoding::Protobuf] {
        for clients in CLIENTS {
            for batch in BATCHES {
                let load = bench.load(clients, batch, encoding);
                out.talk(&format!("{}, {clients} clients, batches of {batch}:", load.encoding));
                matrix.push(line(http, engine, encoding, load, out).await?);
            }
        }
    }
    let matrix = Matrix { matrix };
    out.reply(&matrix, |_| shown::matrix(&matrix.matrix))
}

async fn line(
    http: &HttpBed,
    engine: Option<&EngineBed>,
    encoding: Encoding,
    load: Load,
    out: Output,
) -> Result<Line, Failure> {
    let server = phases::cycles(Bed::Http(http, encoding), load, out).await?;
    let engine_items_per_second = match engine {
        Some(engine) => {
            let figures = phases::cycles(Bed::Engine(engine), load, out).await?;
            figures.first().map(|cycle| cycle.items_per_second)
        }
        None => None,
    };
    Ok(Line { load, server, engine_items_per_second })
}
