//! The engine in process, without HTTP, measured against a loop that does nothing but write and sync.
//!
//! `cargo bench -p windlass-engine -- cycles` and so on; without an argument it lists what there is.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark prints its figures")]
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a benchmark measures the real world"
)]

mod backlog;
mod bare;
mod churn;
mod cycles;
mod find;
mod load;
mod memory;
mod queues;

const USAGE: &str = "\
usage: cargo bench -p windlass-engine -- COMMAND

  cycles [MILLISECONDS] [CALLERS BATCH]
                         full cycles/s (produce, lease, complete) against the bare loop, five interleaved runs:
                         batches of 1, 10, 100, 1000, with 1 and 16 callers, or only those given
  backlog [ITEMS]        full cycles/s with a million items waiting against none; five interleaved runs
  instructions BACKLOG CYCLES
                         a fixed amount of work on one thread, to be counted by callgrind (see bench/instructions)
  leases KIND BACKLOG LEASES
                         the same for leases of one item of a kind, each given back at once, in a backlog in which one
                         item is of the kind `rare` and all others are `default`
  memory [ITEMS]         bytes per waiting item, and how long a start with them takes
  find [ITEMS]           ten matches among a million items, by an indexed header and by scans: calls, items looked at and
                         time; the time of a produce with a walk beside it against that without; and a tenth as many
                         failed items run again
  failed [ITEMS]         bytes per item that failed, with and without its payload kept
  queues [QUEUES]        milliseconds to make a queue beside none and beside QUEUES, and how long a start with them takes
  outcomes [OUTCOMES] [ONE_IN]
                         bytes per retained outcome, where one item in ONE_IN leaves one, against the same after a start
  opened DIRECTORY       bytes that opening a data directory takes (for `outcomes`)
  waiting KINDS PRODUCES produces that one waiting lease is served from, beside leases that wait for so many other kinds,
                         to be counted by callgrind
  churn [ITEMS] [KEPT]   the data directory while ITEMS come and go and one in KEPT stays (0: none)

Data goes to a temporary directory; set TMPDIR to choose the disk.";

fn main() {
    // cargo adds `--bench`; it says nothing here.
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let number = |index: usize, default: u64| match args.get(index) {
        Some(text) => text.parse().unwrap_or_else(|_| exit(&format!("not a number: {text}"))),
        None => default,
    };
    match args.first().map(String::as_str) {
        Some("cycles") => cycles::run(number(1, 300), number(2, 0) as usize, number(3, 1) as usize),
        Some("backlog") => backlog::run(number(1, 1_000_000)),
        Some("instructions") => backlog::fixed_work(number(1, 0), number(2, 1000)),
        Some("leases") => {
            let kind = args.get(1).map_or("default", String::as_str);
            backlog::fixed_leases(kind, number(2, 0), number(3, 1000));
        }
        Some("memory") => memory::run(number(1, 1_000_000)),
        Some("find") => find::run(number(1, 1_000_000)),
        Some("failed") => memory::failed(number(1, 1_000_000)),
        Some("queues") => queues::run(number(1, 10_000)),
        Some("outcomes") => memory::outcomes(number(1, 1_000_000), number(2, 100)),
        Some("opened") => memory::opened(args.get(1).map_or(".", String::as_str)),
        Some("waiting") => backlog::fixed_waiting(number(1, 0), number(2, 1000)),
        Some("churn") => churn::run(number(1, 10_000_000), number(2, 0)),
        Some(other) => exit(&format!("unknown command: {other}\n\n{USAGE}")),
        None => println!("{USAGE}"),
    }
}

fn exit(message: &str) -> ! {
    eprintln!("{message}");
    std::process::exit(2);
}
