//! Real processes killed under load, and real disks whose power is cut: nothing acknowledged is lost, nothing that ended
//! comes back, nothing is moved twice, and open leases are still held by the same permits.
//!
//! `just kills` and `just power-cuts` run the same with more deaths (`WINDLASS_KILLS`, `WINDLASS_POWER_CUTS`).

mod check;
mod loop_disk;
mod machine;
mod word;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use machine::Machine;
use word::Word;

const CALLS_MIN: usize = 100;
const LEASES_MIN: usize = 10;
/// Calls that a full disk refuses, before a life on it ends.
const REFUSED_MIN: usize = 5;
/// Where nothing is refused although the disk is full, life ends all the same.
const CALLS_MAX: usize = 5_000;
/// Room for the work of thousands of lives.
const DISK_BYTES: u64 = 256 << 20;
/// With segments of 256 KiB a few lives fill what is left of this one.
const SMALL_DISK_BYTES: u64 = 24 << 20;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Death {
    Kill,
    PowerCut,
}

/// What one victim after the other is put through.
struct Ordeal {
    machine: Machine,
    deaths: usize,
    death: Death,
    /// Whether disks fill up while victims work, or before they start.
    fills_up: bool,
}

#[test]
fn killed_processes_lose_nothing_and_nothing_comes_back() {
    let deaths = deaths("WINDLASS_KILLS", 60);
    let machine = Machine::with_directories(1);
    Ordeal { machine, deaths, death: Death::Kill, fills_up: false }.run();
}

#[test]
fn killed_processes_with_several_stores_lose_nothing_that_moves_between_them() {
    let deaths = deaths("WINDLASS_KILLS", 40);
    let machine = Machine::with_directories(3);
    Ordeal { machine, deaths, death: Death::Kill, fills_up: false }.run();
}

#[test]
fn killed_processes_lose_nothing_on_a_full_disk() {
    let deaths = deaths("WINDLASS_KILLS", 20);
    let Some(machine) = Machine::with_disks(1, SMALL_DISK_BYTES) else { return };
    Ordeal { machine, deaths, death: Death::Kill, fills_up: true }.run();
}

#[test]
fn a_power_cut_loses_nothing_acknowledged() {
    let deaths = deaths("WINDLASS_POWER_CUTS", 20);
    let Some(machine) = Machine::with_disks(1, DISK_BYTES) else { return };
    Ordeal { machine, deaths, death: Death::PowerCut, fills_up: false }.run();
}

#[test]
fn a_power_cut_of_several_disks_loses_nothing_that_moves_between_them() {
    let deaths = deaths("WINDLASS_POWER_CUTS", 20);
    let Some(machine) = Machine::with_disks(2, DISK_BYTES) else { return };
    Ordeal { machine, deaths, death: Death::PowerCut, fills_up: false }.run();
}

#[test]
fn a_power_cut_loses_nothing_acknowledged_on_a_full_disk() {
    let deaths = deaths("WINDLASS_POWER_CUTS", 20);
    let Some(machine) = Machine::with_disks(2, SMALL_DISK_BYTES) else { return };
    Ordeal { machine, deaths, death: Death::PowerCut, fills_up: true }.run();
}

fn deaths(variable: &str, usually: usize) -> usize {
    std::env::var(variable).map_or(usually, |count| count.parse().expect("a number of deaths"))
}

impl Ordeal {
    fn run(&self) {
        let mut word = Word::default();
        for life in 0..self.deaths {
            self.live_and_die(life, &mut word);
            self.machine.start_again();
            check::check(&self.machine.data(), &mut word);
        }
        println!("{}", self.figures(&word));
        assert!(word.ended.len() > self.deaths, "the victims did some work");
        assert!(word.buried.len() > self.deaths / 2, "some items were moved");
        assert!(!self.fills_up || word.refused > self.deaths / 4, "the disk was full now and then");
    }

    fn figures(&self, word: &Word) -> String {
        let Word { ended, buried, acknowledged, refused, .. } = word;
        let (stores, deaths) = (self.machine.data().len(), self.deaths);
        let (ended, buried) = (ended.len(), buried.len());
        let death = if self.death == Death::Kill { "kills" } else { "power cuts" };
        format!(
            "figures: {deaths} {death}, stores: {stores}, calls acknowledged: {acknowledged}, refused: {refused}, \
             items ended: {ended}, moved: {buried}"
        )
    }

    /// Every third life of a machine that fills up begins on a full disk; in the others the disk fills up half way.
    fn live_and_die(&self, life: usize, word: &mut Word) {
        let fills_first = self.fills_up && life % 3 == 2;
        // Little enough that no segment fits, and now and then none at all.
        let bytes_left = (life as u64 % 5) * (100 << 10);
        if fills_first {
            self.machine.fill(bytes_left);
        }
        let mut victim = start(&self.machine);
        let mut said = BufReader::new(victim.0.stdout.take().expect("piped"));
        word.calls = 0;
        let refused_before = word.refused;
        let (mut dead, mut filled) = (false, fills_first || !self.fills_up);
        while let Some(line) = next_line(&mut said) {
            word.hear(&line);
            if !filled && word.calls >= CALLS_MIN / 2 {
                self.machine.fill(bytes_left);
                filled = true;
            }
            if !dead && self.has_lived(word, refused_before) {
                if self.death == Death::PowerCut {
                    self.machine.cut_power();
                }
                victim.0.kill().expect("it can be killed");
                dead = true;
            }
        }
        assert!(dead, "the victim ended by itself in life {life}: {:?}", victim.0.wait());
    }

    fn has_lived(&self, word: &Word, refused_before: usize) -> bool {
        let enough = if self.fills_up {
            word.refused >= refused_before + REFUSED_MIN || word.calls >= CALLS_MAX
        } else {
            word.open_leases() >= LEASES_MIN
        };
        word.calls >= CALLS_MIN && enough
    }
}

/// A line that was cut off in the middle was not said.
fn next_line(said: &mut impl BufRead) -> Option<String> {
    let mut line = String::new();
    said.read_line(&mut line).ok()?;
    line.strip_suffix('\n').map(str::to_owned)
}

fn start(machine: &Machine) -> Victim {
    let child = Command::new(env!("CARGO_BIN_EXE_windlass-victim"))
        .args(machine.data())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the victim starts");
    Victim(child)
}

/// Ends the process also when the test fails.
struct Victim(Child);

impl Drop for Victim {
    fn drop(&mut self) {
        let _already_dead = self.0.kill();
        let _reaped = self.0.wait();
    }
}
