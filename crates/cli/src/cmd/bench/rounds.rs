//! Server and engine in turns: a disk in a cloud has moods, and both must meet the same ones.

use serde::Serialize;

use super::Load;
use super::figures::{Figures, Tally};
use super::phases::Stage;
use crate::exit::Failure;
use crate::output::Output;

const ROUNDS: u32 = 5;

#[derive(Debug, Serialize)]
pub(super) struct Measured {
    pub(super) server: Vec<Figures>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) engine: Vec<Figures>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) ratios: Vec<Ratio>,
}

/// Items per second of the server to those of the engine: the median of the rounds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Ratio {
    pub(super) phase: &'static str,
    pub(super) ratio: f64,
}

pub(super) async fn alone(server: &Stage<'_>, load: Load) -> Result<Measured, Failure> {
    let server = figures(&server.measure(load.time()).await?);
    Ok(Measured { server, engine: Vec::new(), ratios: Vec::new() })
}

pub(super) async fn in_turns(
    server: &Stage<'_>,
    engine: &Stage<'_>,
    load: Load,
    out: Output,
) -> Result<Measured, Failure> {
    let (mut of_server, mut of_engine) = (Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        out.talk(&format!("round {round} of {ROUNDS} …"));
        of_server.push(server.measure(load.time() / ROUNDS).await?);
        of_engine.push(engine.measure(load.time() / ROUNDS).await?);
    }
    let ratios = ratios(&of_server, &of_engine);
    Ok(Measured { server: figures(&sum(of_server)), engine: figures(&sum(of_engine)), ratios })
}

fn sum(rounds: Vec<Vec<Tally>>) -> Vec<Tally> {
    let added = rounds.into_iter().reduce(|mut all, round| {
        all.iter_mut().zip(&round).for_each(|(tally, more)| tally.add(more));
        all
    });
    added.unwrap_or_default()
}

fn figures(tallies: &[Tally]) -> Vec<Figures> {
    tallies.iter().map(Tally::figures).collect()
}

fn ratios(server: &[Vec<Tally>], engine: &[Vec<Tally>]) -> Vec<Ratio> {
    let phases = server.first().map(Vec::as_slice).unwrap_or_default().iter().enumerate();
    // The calls of a cycle have the same rate as the whole.
    let wholes = phases.filter(|(_, tally)| !tally.phase.contains(':'));
    let ratio = |(index, tally): (usize, &Tally)| {
        let rounds = server.iter().zip(engine);
        let ratios = rounds
            .map(|(server, engine)| server[index].items_per_second() / engine[index].items_per_second());
        Ratio { phase: tally.phase, ratio: median(ratios.collect()) }
    };
    wholes.map(ratio).collect()
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
