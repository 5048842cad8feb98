//! Many loads, one table.

use serde::Serialize;

use super::bed::{Bed, EngineBed, HttpBed};
use super::phases::Stage;
use super::rounds::{self, Measured};
use super::{Bench, Load, Target, shown};
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
    #[serde(flatten)]
    pub(super) measured: Measured,
}

#[derive(Debug, Serialize)]
struct Matrix {
    target: Target,
    matrix: Vec<Line>,
}

pub(super) async fn run(
    bench: &Bench,
    http: &HttpBed,
    engine: Option<&EngineBed>,
    encoding: Option<Encoding>,
    out: Output,
) -> Result<(), Failure> {
    let mut matrix = Vec::new();
    let encodings = encoding.map_or(vec![Encoding::Json, Encoding::Protobuf], |only| vec![only]);
    for encoding in encodings {
        for clients in CLIENTS {
            for batch in BATCHES {
                let load = bench.load(clients, batch, encoding);
                out.talk(&format!("{}, {clients} clients, batches of {batch}:", load.encoding));
                matrix.push(line(http, engine, encoding, load, out).await?);
            }
        }
    }
    let matrix = Matrix { target: http.target(bench), matrix };
    out.reply(&matrix, |_| shown::matrix(&matrix.target, &matrix.matrix))
}

async fn line(
    http: &HttpBed,
    engine: Option<&EngineBed>,
    encoding: Encoding,
    load: Load,
    out: Output,
) -> Result<Line, Failure> {
    let server = Stage::only_cycles(Bed::Http(http, encoding), load, out).await?;
    let measured = match engine {
        Some(engine) => {
            let engine = Stage::only_cycles(Bed::Engine(engine), load, out).await?;
            let measured = rounds::in_turns(&server, &engine, load, out).await?;
            engine.close().await?;
            measured
        }
        None => rounds::alone(&server, load).await?,
    };
    server.close().await?;
    Ok(Line { load, measured })
}
