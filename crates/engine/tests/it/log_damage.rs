//! Logs that are cut, flipped or incomplete: opened correctly, or refused with file and offset. Never wrong data.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::id::PartitionId;
use windlass_core::row::{Key, Row};
use windlass_engine::store::log::{LogOptions, LogStore};
use windlass_engine::store::{Store, StoreError};

use crate::log_disk::MemDisk;
use crate::log_rows::{Owner, open, put, remove, small};

pub(crate) const TINY: u32 = 4 << 10;
const HEADER: usize = 88;

pub(crate) type Files = BTreeMap<String, Vec<u8>>;

pub(crate) fn tiny() -> LogOptions {
    LogOptions { segment_bytes: TINY, ..small() }
}

/// A log, and what its partition was after each commit.
pub(crate) struct History {
    pub(crate) files: Files,
    pub(crate) states: Vec<BTreeMap<Key, Row>>,
}

impl History {
    /// Every commit is a run of its own: its frame says that all before it are durable.
    pub(crate) async fn write(options: LogOptions, commits: u64) -> Self {
        Self::write_sized(options, commits, |number| 40 + number as usize % 50, false).await
    }

    async fn write_sized(
        options: LogOptions,
        commits: u64,
        length: impl Fn(u64) -> usize,
        close: bool,
    ) -> Self {
        let disk = Arc::new(MemDisk::default());
        let with_snapshot = options.snapshot_min_bytes < u64::MAX;
        let store = open(&disk, options).await.unwrap();
        let mut owner = Owner::acquire(&store, 1).await.unwrap();
        let mut states = vec![owner.rows.clone()];
        for number in 1..=commits {
            let mut changes = put(number, length(number)).to_vec();
            // Every tenth item stays: a segment in which nothing lives would be worth a snapshot of its own.
            changes.extend((number > 8 && number % 10 != 8).then(|| remove(number - 8)));
            owner.commit(changes).await.unwrap();
            states.push(owner.rows.clone());
        }
        while with_snapshot && store.stats().snapshots == 0 {
            tokio::task::yield_now().await;
        }
        let files = files_of(&disk, &store).await;
        assert_eq!(
            store.stats().snapshots > 0,
            with_snapshot,
            "{commits} commits are few enough for no snapshot"
        );
        if !close {
            return Self { files, states };
        }
        store.close().await;
        Self { files: disk.after_kill().images(), states }
    }

    /// Opens it after something was done to it, and tells how many commits are left, all of them right.
    async fn open_with(&self, change: impl FnOnce(&mut Files)) -> Result<usize, StoreError> {
        let mut files = self.files.clone();
        change(&mut files);
        let disk = MemDisk::of(files);
        let store = open(&disk, tiny()).await?;
        let mut owner = Owner::acquire(&store, 1).await?;
        let sequence = owner.sequence as usize;
        assert_eq!(owner.rows, self.states[sequence], "the rows after commit {sequence}");
        owner.check_bodies().await;
        // It can be gone on with, and what is added is there afterwards.
        owner.commit(put(1_000_000, 30)).await.unwrap();
        let rows = owner.rows.clone();
        let again = open(&disk.after_power_loss(), tiny()).await.unwrap();
        assert_eq!(Owner::acquire(&again, 1).await.unwrap().rows, rows);
        store.close().await;
        again.close().await;
        Ok(sequence)
    }

    /// The last frame that the snapshot says was durable: the last word of the file.
    fn durable_by_snapshot(&self) -> u64 {
        let snapshots = self.files.iter().filter(|(name, _)| name.ends_with(".snap"));
        let durable = snapshots.map(|(_, bytes)| u64::from_le_bytes(*bytes.last_chunk().unwrap()));
        durable.max().unwrap_or_default()
    }

    /// The segment that the log ends in.
    pub(crate) fn last_segment(&self) -> String {
        let generation = |bytes: &Vec<u8>| u64::from_le_bytes(bytes[32..40].try_into().unwrap());
        let segments = self.files.iter().filter(|(name, _)| name.ends_with(".seg"));
        let last =
            segments.filter(|(_, bytes)| is_frame(bytes, 0)).max_by_key(|(_, bytes)| generation(bytes));
        last.expect("a log has segments").0.clone()
    }
}

/// The files of a log in use, when everything that follows from its commits is written.
async fn files_of(disk: &MemDisk, store: &LogStore) -> Files {
    // Hints are left after the answers, and before the next request is served.
    store.acquire(PartitionId(9)).await.unwrap();
    let mut files = disk.after_kill().images();
    files.retain(|name, _| !name.ends_with(".tmp"));
    files
}

fn is_frame(bytes: &[u8], at: usize) -> bool {
    bytes.get(at + 8..at + 12) == Some(b"WndL")
}

pub(crate) fn lsn(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at + 40..at + 48].try_into().unwrap())
}

const END: u8 = 7;

/// Offset and length of a segment's frames, without the hint at its end and old frames after them.
pub(crate) fn frames(bytes: &[u8]) -> Vec<(usize, usize)> {
    let mut frames = Vec::new();
    let mut at = 0;
    while is_frame(bytes, at) && bytes[at + 32..at + 40] == bytes[32..40] && bytes[at + 14] != END {
        let length = u32::from_le_bytes(bytes[at + 4..at + 8].try_into().unwrap()) as usize;
        frames.push((at, length));
        at += length.next_multiple_of(8);
    }
    frames
}

/// The bytes of header and entries of the frame: its bodies stand behind.
pub(crate) fn head(bytes: &[u8], at: usize) -> usize {
    HEADER + u32::from_le_bytes(bytes[at + 80..at + 84].try_into().unwrap()) as usize
}

pub(crate) fn assert_damaged(refused: &StoreError, name: &str, offset: usize) {
    let StoreError::Damaged { file, offset: at, .. } = refused else {
        panic!("damage at {name} {offset} was reported as {refused}");
    };
    assert_eq!((file.as_str(), *at), (format!("mem/{name}").as_str(), offset as u64));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_written_up_to_any_byte_keeps_what_is_before() {
    let history = History::write(tiny(), 40).await;
    let name = history.last_segment();
    let frames = frames(&history.files[&name]);
    let first = lsn(&history.files[&name], frames[1].0) as usize;
    let end = frames.last().map(|(at, length)| at + length).unwrap();
    for torn in HEADER..=end {
        let kept = history.open_with(|files| files.get_mut(&name).unwrap()[torn..].fill(0)).await.unwrap();
        let whole = frames[1..].iter().filter(|(at, length)| at + length <= torn).count();
        // The first frame of the log is not a commit.
        assert_eq!(kept, first + whole - 2, "torn at {torn}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_cut_at_any_byte_is_refused_with_where_it_ends() {
    let history = History::write(tiny(), 40).await;
    let name = history.last_segment();
    for cut in 0..TINY as usize {
        let refused = history.open_with(|files| files.get_mut(&name).unwrap().truncate(cut)).await;
        // Without its first frame nobody knows how long it was.
        assert_damaged(&refused.unwrap_err(), &name, if cut < HEADER { 0 } else { cut });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_whose_last_write_was_torn_at_any_byte_keeps_what_is_before() {
    let history = History::write(tiny(), 40).await;
    let name = history.last_segment();
    let (at, length) = *frames(&history.files[&name]).last().unwrap();
    for torn in at..at + length {
        let kept = history.open_with(|files| files.get_mut(&name).unwrap()[torn..].fill(0)).await.unwrap();
        assert_eq!(kept, history.states.len() - 2, "torn at {torn}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_frame_is_reported_with_file_and_offset_unless_it_is_the_last() {
    let history = History::write(tiny(), 40).await;
    let last = history.last_segment();
    for (name, bytes) in history.files.iter().filter(|(name, _)| name.ends_with(".seg")) {
        let frames = frames(bytes);
        for (index, (at, length)) in frames.iter().enumerate() {
            let head = head(bytes, *at);
            for byte in [0, 4, 9, 14, 30, 33, 41, 50, 81, HEADER - 1, HEADER, (HEADER + head) / 2, head - 1] {
                let flip =
                    |files: &mut Files| files.get_mut(name).unwrap()[at + byte.min(length - 1)] ^= 0x10;
                let opened = history.open_with(flip).await;
                let is_last = *name == last && index == frames.len() - 1;
                match opened {
                    Ok(kept) => {
                        assert!(is_last, "{name}: the flip at {at} + {byte} was overlooked");
                        assert_eq!(kept, history.states.len() - 2);
                    }
                    Err(refused) => assert_damaged(&refused, name, *at),
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn old_frames_of_a_reused_segment_never_count() {
    let options = LogOptions { snapshot_min_bytes: u64::from(TINY), ..tiny() };
    let mut reused = 0;
    for commits in 300..340 {
        let history = History::write(options.clone(), commits).await;
        let name = history.last_segment();
        let bytes = &history.files[&name];
        let (at, length) = *frames(bytes).last().unwrap();
        let after = at + length.next_multiple_of(8);
        if history.durable_by_snapshot() >= lsn(bytes, at) {
            continue;
        }
        reused += usize::from(bytes[after..].iter().any(|byte| *byte != 0));
        match history.open_with(|files| files.get_mut(&name).unwrap()[at] ^= 1).await {
            Ok(kept) => assert_eq!(kept, history.states.len() - 2),
            // It removed the last body of a segment that is in use again.
            Err(refused) => assert_damaged(&refused, &name, at),
        }
        assert_eq!(history.open_with(|_| {}).await.unwrap(), history.states.len() - 1);
    }
    assert!(reused > 0, "no segment was used again: the test shows nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_snapshot_is_refused() {
    let options = LogOptions { snapshot_min_bytes: u64::from(TINY), ..tiny() };
    let history = History::write(options, 300).await;
    let snapshots: Vec<&String> = history.files.keys().filter(|name| name.ends_with(".snap")).collect();
    let name = *snapshots.last().expect("a snapshot was taken");
    for byte in 0..history.files[name].len() {
        let flip = |files: &mut Files| files.get_mut(name).unwrap()[byte] ^= 0x04;
        let refused = history.open_with(flip).await.unwrap_err();
        assert!(
            matches!(&refused, StoreError::Damaged { file, .. } if file.contains(name.as_str())),
            "{refused}"
        );
    }
    let cut = |files: &mut Files| files.get_mut(name).unwrap().truncate(100);
    assert!(matches!(history.open_with(cut).await, Err(StoreError::Damaged { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_file_is_noticed_unless_nothing_was_in_it() {
    let options = LogOptions { snapshot_min_bytes: u64::from(TINY), ..tiny() };
    let history = History::write(options, 300).await;
    let mut refused = 0;
    for name in history.files.keys() {
        match history.open_with(|files| drop(files.remove(name))).await {
            Ok(kept) => assert_eq!(kept, history.states.len() - 1, "without {name}"),
            Err(error) if error.is_damage() || name == "format" => refused += 1,
            Err(other) => panic!("without {name}: {other}"),
        }
    }
    // All of the log may be in the snapshot by now.
    assert!(refused >= 2, "format and snapshot are needed, but only {refused} were missed");
}

type Blow = fn(&mut Files, &str);

/// What can happen to the file of a segment.
const BLOWS: [(&str, Blow); 5] = [
    ("flipped", |files, name| files.get_mut(name).unwrap()[33] ^= 0x10),
    ("zeroed", |files, name| files.get_mut(name).unwrap()[..HEADER].fill(0)),
    ("emptied", |files, name| files.get_mut(name).unwrap().clear()),
    ("cut", |files, name| files.get_mut(name).unwrap().truncate(HEADER / 2)),
    ("removed", |files, name| drop(files.remove(name))),
];

impl History {
    /// Every blow to the start of any segment is noticed, or does not matter. Tells how many were noticed.
    async fn survives_blows_to_starts(&self) -> usize {
        let mut noticed = 0;
        for name in self.files.keys().filter(|name| name.ends_with(".seg")) {
            for (what, blow) in BLOWS {
                match self.open_with(|files| blow(files, name)).await {
                    Ok(kept) => assert_eq!(kept, self.states.len() - 1, "{name} was {what}"),
                    Err(error) if error.is_damage() => noticed += 1,
                    Err(other) => panic!("{name} was {what}: {other}"),
                }
            }
        }
        noticed
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_segment_loses_its_start_unnoticed_however_little_is_in_it() {
    // The second segment begins on the way, and holds one commit, two, three …
    for commits in 16..=30 {
        for close in [false, true] {
            let length = |number| 40 + number as usize % 50;
            let history = History::write_sized(tiny(), commits, length, close).await;
            let noticed = history.survives_blows_to_starts().await;
            assert!(noticed >= BLOWS.len(), "{commits} commits: only {noticed} noticed");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_segment_of_one_frame_is_missed_when_it_is_gone() {
    let history = History::write_sized(tiny(), 6, |_| 3000, false).await;
    let used = history.files.values().filter(|bytes| is_frame(bytes, 0)).count();
    assert!(used >= 6, "only {used} segments: the test shows nothing");
    assert_eq!(history.survives_blows_to_starts().await, used * BLOWS.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_with_a_snapshot_survives_or_refuses_every_blow() {
    let options = LogOptions { snapshot_min_bytes: u64::from(TINY), ..tiny() };
    for commits in [100, 101, 102, 103, 200, 300] {
        let history = History::write(options.clone(), commits).await;
        assert!(history.survives_blows_to_starts().await > 0);
        for name in history.files.keys().filter(|name| name.ends_with(".snap")) {
            match history.open_with(|files| drop(files.remove(name))).await {
                Ok(kept) => assert_eq!(kept, history.states.len() - 1, "without {name}"),
                Err(error) if error.is_damage() => {}
                Err(other) => panic!("without {name}: {other}"),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_segment_begun_by_an_open_is_missed_when_it_is_gone() {
    let mut noticed = 0;
    for length in (3600..3760).step_by(16) {
        let mut history = History::write_sized(tiny(), 1, |_| length, false).await;
        let before = history.last_segment();
        let disk = MemDisk::of(history.files.clone());
        let store = open(&disk, tiny()).await.unwrap();
        let mut owner = Owner::acquire(&store, 1).await.unwrap();
        owner.commit(put(999, 40)).await.unwrap();
        history.states.push(owner.rows.clone());
        history.files = files_of(&disk, &store).await;
        if history.last_segment() != before {
            noticed += history.survives_blows_to_starts().await;
        }
    }
    assert!(noticed > 0, "no open began a segment: the test shows nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_segment_begun_by_a_repair_is_missed_when_it_is_gone() {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, tiny()).await.unwrap();
    while store.stats().bytes_stored < 3 * u64::from(TINY) {
        tokio::task::yield_now().await;
    }
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    let mut states = vec![owner.rows.clone()];
    owner.commit(put(1, 40)).await.unwrap();
    states.push(owner.rows.clone());
    disk.faults().syncs.store(1, std::sync::atomic::Ordering::SeqCst);
    owner.commit(put(2, 40)).await.unwrap_err();
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    owner.commit(put(3, 40)).await.unwrap();
    states.push(owner.rows.clone());
    let history = History { files: files_of(&disk, &store).await, states };
    assert_eq!(history.survives_blows_to_starts().await, 2 * BLOWS.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_with_almost_the_name_of_one_of_ours_is_let_be() {
    let options = LogOptions { snapshot_min_bytes: u64::from(TINY), ..tiny() };
    let history = History::write(options, 300).await;
    let last = history.last_segment();
    for name in ["000000001.seg", "snapshot-99999.snap", "+0000001.seg", "snapshot-+0000000000000099999.snap"]
    {
        let add = |files: &mut Files| drop(files.insert(name.to_owned(), history.files[&last].clone()));
        assert_eq!(history.open_with(add).await.unwrap(), history.states.len() - 1, "with {name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_close_nothing_can_be_lost_unnoticed() {
    let disk = Arc::new(MemDisk::default());
    let store = open(&disk, tiny()).await.unwrap();
    let mut owner = Owner::acquire(&store, 1).await.unwrap();
    for number in 1..=5 {
        owner.commit(put(number, 40)).await.unwrap();
    }
    let states = vec![owner.rows.clone(); 6];
    store.close().await;
    let history = History { files: disk.after_power_loss().images(), states };
    let name = history.last_segment();
    let frames = frames(&history.files[&name]);
    for (at, _) in &frames[..frames.len() - 1] {
        let refused = history.open_with(|files| files.get_mut(&name).unwrap()[*at] ^= 1).await.unwrap_err();
        assert_damaged(&refused, &name, *at);
    }
}
