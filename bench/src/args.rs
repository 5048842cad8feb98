//! The flags.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

use crate::payload;
use crate::peers::Contender;

const CLIENTS: [usize; 3] = [1, 16, 64];
const BATCHES: [usize; 4] = [1, 10, 100, 1000];
const PAYLOADS: [usize; 2] = [200, 4096];
const BACKLOGS: [usize; 2] = [0, 1_000_000];
const SCHEDULED: usize = 100_000;
const WAITING: usize = 10_000;
const RUNS: usize = 5;
const SECONDS: f64 = 2.0;

/// The same work through Windlass and other queues, on one disk, in turns.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "bench/compare",
    bin_name = "bench/compare",
    max_term_width = 110,
    after_help = "\
Examples:
  bench/compare --quick
  bench/compare --install --json figures.json --svg figures.svg
  bench/compare --only windlass,redis --work cycles,pickup --clients 16 --batch 10

Tables go to standard output, progress to standard error. docs/operate/benchmarks.md tells what is compared, and how."
)]
pub(crate) struct Args {
    /// A short run that shows that everything works: few loads, one run of half a second
    #[arg(long)]
    quick: bool,
    /// Only these contenders, with commas between them [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<Contender>,
    /// Only this work, with commas between [default: all]
    #[arg(long, value_name = "WORK", value_delimiter = ',')]
    work: Vec<Work>,
    /// Clients at a time in full cycles [default: 1,16,64]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = at_least_one)]
    clients: Vec<usize>,
    /// Items in each call in full cycles: 1 to 1000 [default: 1,10,100,1000]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = batch)]
    batch: Vec<usize>,
    /// Bytes of each payload in full cycles: 16 to 60000 [default: 200,4096]
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = payload_bytes)]
    payload: Vec<usize>,
    /// Runs of each contender at each load, in turns with the others [default: 5]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    runs: Option<usize>,
    /// Seconds measured in each run, after a warm-up [default: 2]
    #[arg(long, value_name = "N", value_parser = seconds)]
    seconds: Option<f64>,
    /// Items that wait beforehand, with --work backlog [default: 0,1000000]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = count)]
    backlog: Vec<usize>,
    /// Items that fall due at one moment, with --work scheduled [default: 100000]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    scheduled: Option<usize>,
    /// Leases that wait, with --work waiting [default: 10000]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    waiting: Option<usize>,
    /// Measure without looking first whether each contender syncs what it acknowledges
    #[arg(long)]
    pub(crate) skip_sync_check: bool,
    /// Install missing peers and strace with apt-get, which needs root
    #[arg(long)]
    pub(crate) install: bool,
    /// Where each server has its data, in a fresh directory: on the disk that is to be measured
    #[arg(long, value_name = "PARENT", default_value = "bench/target/data", overrides_with = "data_dir")]
    pub(crate) data_dir: PathBuf,
    /// The windlass that is measured
    #[arg(long, value_name = "FILE", default_value = "target/release/windlass", overrides_with = "windlass")]
    pub(crate) windlass: PathBuf,
    /// Write all figures of all runs to a file
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Draw the medians of the full cycles to a file
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Work {
    /// Every client produces, leases and completes batches, over and over
    Cycles,
    /// Context switches and processor time of each request, one at a time: Windlass and Redis
    Switches,
    /// Items produced at 1,000/s, one by one, for workers that wait
    Pickup,
    /// Full cycles in front of a backlog
    Backlog,
    /// Many items that fall due at one moment
    Scheduled,
    /// Items produced one by one for very many waiting leases
    Waiting,
}

impl Args {
    /// Makes the paths absolute: servers are started in directories of their own.
    pub(crate) fn absolute(self) -> anyhow::Result<Self> {
        let data_dir = std::path::absolute(&self.data_dir)?;
        let windlass = std::path::absolute(&self.windlass)?;
        Ok(Self { data_dir, windlass, ..self })
    }

    pub(crate) fn contenders(&self) -> Vec<Contender> {
        let wanted = |contender: &Contender| self.only.is_empty() || self.only.contains(contender);
        Contender::ALL.into_iter().filter(wanted).collect()
    }

    pub(crate) fn work(&self) -> Vec<Work> {
        let wanted = |work: &Work| self.work.is_empty() || self.work.contains(work);
        Work::value_variants().iter().copied().filter(wanted).collect()
    }

    pub(crate) fn clients(&self) -> Vec<usize> {
        chosen(&self.clients, if self.quick { &[1, 16] } else { &CLIENTS })
    }

    pub(crate) fn batches(&self) -> Vec<usize> {
        chosen(&self.batch, if self.quick { &[1, 100] } else { &BATCHES })
    }

    pub(crate) fn payloads(&self) -> Vec<usize> {
        chosen(&self.payload, if self.quick { &[200] } else { &PAYLOADS })
    }

    pub(crate) fn backlogs(&self) -> Vec<usize> {
        chosen(&self.backlog, if self.quick { &[0, 20_000] } else { &BACKLOGS })
    }

    pub(crate) fn scheduled(&self) -> usize {
        self.scheduled.unwrap_or(if self.quick { 2000 } else { SCHEDULED })
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.unwrap_or(if self.quick { 200 } else { WAITING })
    }

    pub(crate) fn runs(&self) -> usize {
        self.runs.unwrap_or(if self.quick { 1 } else { RUNS })
    }

    pub(crate) fn time(&self) -> Duration {
        Duration::from_secs_f64(self.seconds.unwrap_or(if self.quick { 0.5 } else { SECONDS }))
    }
}

fn chosen(given: &[usize], default: &[usize]) -> Vec<usize> {
    if given.is_empty() { default.to_vec() } else { given.to_vec() }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    number_in(text, 1, 1_000_000)
}

fn count(text: &str) -> Result<usize, String> {
    number_in(text, 0, 100_000_000)
}

fn batch(text: &str) -> Result<usize, String> {
    number_in(text, 1, 1000)
}

fn payload_bytes(text: &str) -> Result<usize, String> {
    number_in(text, payload::DIGITS, 60_000)
}

fn number_in(text: &str, min: usize, max: usize) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if (min..=max).contains(&number) => Ok(number),
        Ok(_) | Err(_) => Err(format!("give a number from {min} to {max}")),
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(seconds),
        Ok(_) | Err(_) => Err("give seconds from 0.1 to 3600".into()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn parse(flags: &[&str]) -> Result<Args, clap::Error> {
        Args::try_parse_from([&["compare"], flags].concat())
    }

    #[test]
    fn quick_is_less_of_everything_and_flags_win_over_it() {
        let full = parse(&[]).unwrap();
        assert_eq!((full.runs(), full.time(), full.clients().len()), (5, Duration::from_secs(2), 3));
        let quick = parse(&["--quick", "--clients", "64", "--seconds", "1.5"]).unwrap();
        assert_eq!((quick.runs(), quick.time(), quick.clients()), (1, Duration::from_millis(1500), vec![64]));
    }

    #[test]
    fn a_later_path_wins_over_the_one_that_the_script_gives() {
        let args = parse(&["--windlass", "/first", "--data-dir", "/data", "--windlass", "/last"]).unwrap();
        assert_eq!(
            (args.windlass.as_path(), args.data_dir.as_path()),
            (Path::new("/last"), Path::new("/data"))
        );
    }

    #[test]
    fn contenders_keep_their_order_whatever_was_asked_for_first() {
        let args = parse(&["--only", "redis,bare,windlass-next"]).unwrap();
        assert_eq!(args.contenders(), [Contender::Bare, Contender::WindlassNext, Contender::Redis]);
    }

    #[test]
    fn what_no_peer_could_do_is_refused_with_the_range() {
        for (flags, range) in [
            (["--batch", "1001"], "from 1 to 1000"),
            (["--payload", "15"], "from 16 to 60000"),
            (["--runs", "0"], "from 1 to"),
            (["--seconds", "never"], "from 0.1 to 3600"),
        ] {
            let error = parse(&flags).unwrap_err().to_string();
            assert!(error.contains(range), "{error}");
        }
    }
}
