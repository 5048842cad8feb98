//! Which log the files belong to, if the `format` file does not tell.

use windlass_engine::store::log::inspect;

use super::{ENTRIES, FIRST, as_disk, items, killed, salvage};
use crate::log_disk::MemDisk;
use crate::log_inspect::kept;

#[tokio::test(flavor = "multi_thread")]
async fn the_logs_id_is_found_although_the_format_file_is_wrong_or_gone() {
    let (files, rows) = kept(100).await;
    let text = String::from_utf8(files["format"].clone()).unwrap();
    let digit = text.find("log = ").expect("the file names the log") + 8;
    let mut wrong = text.clone().into_bytes();
    for copy in [0, text.len() / 2] {
        wrong[copy + digit] = if wrong[copy + digit] == b'0' { b'1' } else { b'0' };
    }
    for format in [Some(wrong), Some(b"nonsense".to_vec()), None] {
        let mut files = files.clone();
        match format {
            Some(format) => drop(files.insert("format".to_owned(), format)),
            None => drop(files.remove("format")),
        }
        // A segment of another log is outvoted.
        files.insert("00000900.seg".to_owned(), killed(3).await[FIRST].clone());
        let disk = MemDisk::of(files);
        let (salvaged, store) = salvage(&disk).await;
        assert_eq!(items(&store, 1).await.len(), rows.len(), "{salvaged:?}");
        let report = inspect::check(as_disk(&disk)).await.unwrap();
        assert!(report.refused.is_some() && !report.damage.is_empty(), "{report:?}");
        assert_eq!(report.account.items(), rows.len() as u64);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_logs_id_is_found_in_any_frame_if_no_file_begins_well() {
    let mut files = killed(5).await;
    files.remove("format");
    files.get_mut(FIRST).unwrap()[..ENTRIES].fill(0xff);
    let (salvaged, store) = salvage(&MemDisk::of(files)).await;
    assert_eq!(items(&store, 1).await, [1, 2, 3, 4, 5]);
    assert_eq!((salvaged.lost.len(), salvaged.harmless.len()), (0, 2), "{salvaged:?}");
}
