//! Reads many small pieces of segments with few reads: sorted by place, neighbours together.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::store::StoreError;
use crate::store::log::segment::{Pin, Segment};
use crate::store::log::tables::Place;

/// Reading this much for nothing is cheaper than another read.
const GAP_MAX: u32 = 4 << 10;
const READ_MAX: u32 = 256 << 10;

#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) segment: Arc<Segment>,
    pub(crate) offset: u32,
    pub(crate) length: u32,
}

impl Piece {
    fn end(&self) -> u32 {
        self.offset.saturating_add(self.length)
    }

    fn place(&self) -> (u32, u32) {
        (self.segment.number, self.offset)
    }
}

pub(crate) fn piece(pins: &BTreeMap<u32, Pin>, place: &Place) -> Piece {
    let segment = Arc::clone(&pins[&place.segment].segment);
    Piece { segment, offset: place.offset, length: place.length }
}

/// The pieces in the order asked for. One that cannot be read fails alone.
pub(crate) async fn fetch(pieces: &[Piece]) -> Vec<Result<Bytes, StoreError>> {
    let mut order: Vec<usize> = (0..pieces.len()).collect();
    order.sort_by_key(|&at| pieces[at].place());
    let mut found: Vec<Option<Result<Bytes, StoreError>>> = vec![None; pieces.len()];
    let mut rest = &order[..];
    while !rest.is_empty() {
        let (group, after) = rest.split_at(neighbours(pieces, rest));
        fetch_group(pieces, group, &mut found).await;
        rest = after;
    }
    found.into_iter().map(|piece| piece.expect("every piece is in a group")).collect()
}

/// How many of the first pieces one read can serve.
fn neighbours(pieces: &[Piece], order: &[usize]) -> usize {
    let first = &pieces[order[0]];
    let mut end = first.end();
    let mut count = 1;
    for &at in &order[1..] {
        let piece = &pieces[at];
        let close = piece.segment.number == first.segment.number
            && piece.offset.saturating_sub(end) <= GAP_MAX
            && piece.end() - first.offset <= READ_MAX;
        if !close {
            break;
        }
        end = end.max(piece.end());
        count += 1;
    }
    count
}

async fn fetch_group(pieces: &[Piece], group: &[usize], found: &mut [Option<Result<Bytes, StoreError>>]) {
    let first = &pieces[group[0]];
    let end = group.iter().map(|&at| pieces[at].end()).max().expect("a group is not empty");
    match first.segment.read(first.offset, (end - first.offset) as usize).await {
        Ok(buffer) => {
            for &at in group {
                let from = (pieces[at].offset - first.offset) as usize;
                let piece = &buffer[from..from + pieces[at].length as usize];
                // A copy, so that a piece kept for long does not keep its neighbours.
                found[at] = Some(Ok(Bytes::copy_from_slice(piece)));
            }
        }
        Err(error) if group.len() == 1 => found[group[0]] = Some(Err(error)),
        Err(_) => {
            for &at in group {
                let piece = &pieces[at];
                let alone = piece.segment.read(piece.offset, piece.length as usize).await;
                found[at] = Some(alone.map(Bytes::from));
            }
        }
    }
}
