//! The command line.

use windlass_core::mutant::Mutant;

pub(crate) const USAGE: &str = "\
usage: windlass-sim --seed N [--runs RUNS] [--mutant NAME]
       windlass-sim --seeds N [--from M] [--jobs J] [--runs RUNS] [--require-coverage C] [--go-on] [--mutant NAME]

RUNS: engine (the engine on its store), log (the log alone) or both (the default)";

#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) runs: Runs,
    /// Which runs a seed stands for.
    pub(crate) kinds: RunKinds,
    /// Everything must be met so often.
    pub(crate) require_coverage: Option<u64>,
    /// Look on after the first failure.
    pub(crate) go_on: bool,
    mutant: Option<Mutant>,
}

/// A seed stands for a run of the engine and for a run of the log alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunKinds {
    pub(crate) engine: bool,
    pub(crate) log: bool,
}

impl RunKinds {
    const BOTH: Self = Self { engine: true, log: true };

    fn named(name: &str) -> Result<Self, String> {
        match name {
            "engine" => Ok(Self { engine: true, log: false }),
            "log" => Ok(Self { engine: false, log: true }),
            "both" => Ok(Self::BOTH),
            _ => Err(format!("--runs takes engine, log or both, not {name}")),
        }
    }
}

#[derive(Debug)]
pub(crate) enum Runs {
    One { seed: u64 },
    Many { from: u64, count: u64, jobs: usize },
}

impl Options {
    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut arguments = arguments;
        let (mut seed, mut count, mut from, mut jobs) = (None, None, 1, cores());
        let (mut require_coverage, mut go_on, mut mutant) = (None, false, None);
        let mut kinds = RunKinds::BOTH;
        while let Some(name) = arguments.next() {
            if name == "--go-on" {
                go_on = true;
                continue;
            }
            let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
            match name.as_str() {
                "--seed" => seed = Some(number(&name, &value)?),
                "--seeds" => count = Some(number(&name, &value)?),
                "--from" => from = number(&name, &value)?,
                "--jobs" => jobs = number(&name, &value)?.max(1),
                "--require-coverage" => require_coverage = Some(number(&name, &value)?),
                "--runs" => kinds = RunKinds::named(&value)?,
                "--mutant" => mutant = Some(mutant_named(&value)?),
                _ => return Err(format!("{name} is not an option")),
            }
        }
        let runs = match (seed, count) {
            (Some(seed), None) => Runs::One { seed },
            (None, Some(count)) => Runs::Many { from, count, jobs: jobs as usize },
            _ => return Err("either --seed or --seeds".to_owned()),
        };
        Ok(Self { runs, kinds, require_coverage, go_on, mutant })
    }

    pub(crate) fn replay_command(&self, seed: u64) -> String {
        match self.mutant {
            None => format!("cargo run -p windlass-sim --bin windlass-sim -- --seed {seed}"),
            Some(mutant) => format!(
                "cargo run -p windlass-sim --features mutants --bin windlass-sim -- --seed {seed} --mutant {mutant:?}"
            ),
        }
    }

    /// For this thread: each run lives on one.
    #[cfg(feature = "mutants")]
    pub(crate) fn activate_mutant(&self) {
        windlass_core::mutant::activate(self.mutant);
    }

    #[cfg(not(feature = "mutants"))]
    pub(crate) fn activate_mutant(&self) {}
}

fn cores() -> u64 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64)
}

fn number(name: &str, value: &str) -> Result<u64, String> {
    value.parse().map_err(|_| format!("{name} takes a number, not {value}"))
}

fn mutant_named(name: &str) -> Result<Mutant, String> {
    if !cfg!(feature = "mutants") {
        return Err("--mutant needs a build with --features mutants".to_owned());
    }
    let mut all = Mutant::ALL.into_iter().chain(Mutant::LOG);
    let named = all.find(|mutant| format!("{mutant:?}") == name);
    named.ok_or_else(|| format!("{name} is not one of {:?} and {:?}", Mutant::ALL, Mutant::LOG))
}
