//! Damage to a snapshot: what is found elsewhere, and what is told as lost.

use std::collections::BTreeSet;

use windlass_engine::store::log::LogOptions;

use super::{compacted_with, flip, items, number_of, only, salvage, salvaged_items, snapshot_of};
use crate::log_disk::MemDisk;
use crate::log_inspect::Files;
use crate::log_rows::Owner;

#[tokio::test(flavor = "multi_thread")]
async fn bodies_whose_places_are_lost_with_the_snapshot_are_found_where_compaction_put_them() {
    let (files, kept) = compacted().await;
    let name = files.keys().filter(|name| name.ends_with(".snap")).max().unwrap().clone();
    let snapshot = &files[&name];
    // The places of bodies are the last block before the index: its payload begins with the first kept item.
    let places =
        blocks(snapshot).into_iter().find(|at| snapshot[at + 8] == 2).expect("a block of body places");
    let mut files = files.clone();
    flip(&mut files, &name, places + 20);
    let (salvaged, store) = salvage(&MemDisk::of(files)).await;
    assert_eq!(items(&store, 1).await, kept.into_iter().collect::<Vec<_>>());
    assert_eq!((salvaged.lost.len(), salvaged.account.payloads_lost()), (0, 0), "{salvaged:?}");
}

/// A log whose first kept items are told by nothing but the snapshot and a compacted segment, and the items it holds.
async fn compacted() -> (Files, BTreeSet<u64>) {
    compacted_with(crate::log_inspect::tidy(), 20, 0).await
}

/// Where the blocks of a snapshot begin.
fn blocks(snapshot: &[u8]) -> Vec<usize> {
    let mut blocks = Vec::new();
    let mut at = 0;
    while at < snapshot.len() {
        blocks.push(at);
        at += 8 + u32::from_le_bytes(snapshot[at + 4..at + 8].try_into().unwrap()) as usize;
    }
    blocks
}

#[tokio::test(flavor = "multi_thread")]
async fn items_whose_rows_are_lost_with_a_block_of_the_snapshot_are_counted() {
    let (mut files, kept) = compacted().await;
    let name = files.keys().filter(|name| name.ends_with(".snap")).max().unwrap().clone();
    let rows =
        blocks(&files[&name]).into_iter().find(|at| files[&name][at + 8] == 1).expect("a block of rows");
    flip(&mut files, &name, rows + 30);
    let (salvaged, store) = salvage(&MemDisk::of(files)).await;
    let found: BTreeSet<u64> = Owner::acquire(&store, 1).await.unwrap().rows.keys().map(number_of).collect();
    let lost = kept.difference(&found).count() as u64;
    assert!(lost > 0, "older frames replaced every row");
    let account = only(&salvaged);
    assert!(account.items_lost >= lost && account.may_miss_more, "{lost} lost: {account:?}");
    assert_eq!(salvaged.lost.len(), 1, "{salvaged:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_length_costs_no_more_than_its_block() {
    let options = LogOptions { snapshot_block_bytes: 256, ..crate::log_inspect::tidy() };
    let (mut files, kept) = compacted_with(options, 5, 120).await;
    let name = snapshot_of(&files);
    for has_index in [true, false] {
        if !has_index {
            let end = files[&name].len();
            files.get_mut(&name).unwrap()[end - 60..].fill(0);
        }
        let blocks: Vec<usize> =
            if has_index { blocks(&files[&name]) } else { blocks_of_rows(&files[&name]) };
        let rows: Vec<usize> = blocks.into_iter().filter(|at| files[&name][at + 8] == 1).collect();
        assert!(rows.len() > 4, "only {} blocks", rows.len());
        let block = rows[1];
        // A block whose length is right costs what was in it alone.
        let mut rotten = files.clone();
        flip(&mut rotten, &name, block + 30);
        let expected = salvaged_items(&rotten).await;
        assert!(expected.len() + 20 > kept.len() && expected.len() < kept.len(), "{expected:?} of {kept:?}");
        for bit in 0..32 {
            let mut files = files.clone();
            files.get_mut(&name).unwrap()[block + 4 + bit / 8] ^= 1 << (bit % 8);
            assert_eq!(salvaged_items(&files).await, expected, "bit {bit}, index {has_index}");
        }
    }
}

/// Where the blocks of a snapshot begin up to the last block of rows: what is behind it may be damaged.
fn blocks_of_rows(snapshot: &[u8]) -> Vec<usize> {
    let mut blocks = Vec::new();
    let mut at = 0;
    while at + 13 <= snapshot.len() && snapshot[at + 8] <= 1 {
        blocks.push(at);
        at += 8 + u32::from_le_bytes(snapshot[at + 4..at + 8].try_into().unwrap()) as usize;
    }
    blocks
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_was_cut_or_lost_its_first_blocks_is_told_as_loss() {
    let options = LogOptions { snapshot_block_bytes: 256, ..crate::log_inspect::tidy() };
    let (files, kept) = compacted_with(options, 5, 120).await;
    let name = snapshot_of(&files);
    let mut damaged = Vec::new();
    for at in blocks(&files[&name]) {
        let mut cut = files.clone();
        cut.get_mut(&name).unwrap().truncate(at);
        let mut zeros = files.clone();
        zeros.get_mut(&name).unwrap()[..at].fill(0);
        let mut without_end = files.clone();
        without_end.get_mut(&name).unwrap()[at..].fill(0);
        damaged.extend([cut, zeros, without_end].map(|files| (at, files)));
    }
    for (at, files) in damaged {
        let (salvaged, store) = salvage(&MemDisk::of(files)).await;
        let owner = Owner::acquire(&store, 1).await.unwrap();
        let found: BTreeSet<u64> = owner.rows.keys().map(number_of).collect();
        let lost = kept.difference(&found).count() as u64;
        let account = &salvaged.account;
        assert!(lost == 0 || !salvaged.lost.is_empty(), "{at}: {lost} lost; {salvaged:?}");
        assert!(account.items_lost() >= lost || account.may_miss_more(), "{at}: {lost} lost; {salvaged:?}");
    }
}
