//! The keeper: takes back segments that nobody needs, and sees to it that there is always one ready and one in
//! reserve. It never waits for the committer, because the committer may be waiting for it.
//!
//! After a failed attempt the keeper waits, longer each time. A kick does not cut that short, unless a segment was freed:
//! a full disk is busy enough.

use std::sync::Arc;
use std::time::Duration;

use super::pool::Lack;
use crate::store::log::segment::{self, Segment};
use crate::store::log::shared::Shared;
use crate::store::{Room, StoreError};

const RETRY_MIN: Duration = Duration::from_millis(250);
const RETRY_MAX: Duration = Duration::from_secs(8);

#[derive(Debug)]
pub(crate) struct Keeper {
    shared: Arc<Shared>,
    /// While something is amiss: the next attempt, and how long the wait for it is.
    retry: Option<Retry>,
    /// The room that was last told in the server's log.
    told: Room,
}

#[derive(Clone, Copy, Debug)]
struct Retry {
    at: Duration,
    wait: Duration,
}

impl Keeper {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, retry: None, told: Room::Enough }
    }

    pub(crate) async fn serve(mut self) {
        while !self.shared.is_closing() {
            self.take_freed();
            if self.may_try() {
                self.look_for_room();
                self.fill().await;
            }
            if self.delete_surplus().await {
                // Their space may be what the next segment needs.
                self.retry_now();
            }
            self.tell();
            self.wait().await;
        }
    }

    fn take_freed(&self) {
        let (free, read) = self.shared.tables().take_free();
        self.shared.count(|events| events.segments_read_when_free += read as u64);
        self.shared.pool().put_free(free);
    }

    fn may_try(&mut self) -> bool {
        if self.retry.is_none() && self.shared.pool().is_unwritable() {
            self.back_off();
        }
        let now = self.shared.env.boot();
        self.retry.is_none_or(|retry| retry.at <= now) || self.shared.pool().has_free()
    }

    /// Writes find room again, also if there is none for a segment that is lacking.
    fn look_for_room(&self) {
        if self.shared.pool().is_unwritable() && self.shared.disk_has_room_for(0) {
            self.shared.pool().set_writable();
        }
    }

    fn retry_now(&mut self) {
        if let Some(retry) = &mut self.retry {
            retry.at = Duration::ZERO;
            self.shared.keeper_kick.notify_one();
        }
    }

    async fn wait(&self) {
        let kicked = self.shared.keeper_kick.notified();
        let Some(Retry { at, .. }) = self.retry else { return kicked.await };
        tokio::select! {
            biased;
            () = kicked => {}
            () = self.shared.env.sleep_until(at) => {}
        }
    }

    async fn fill(&mut self) {
        loop {
            let Some(lack) = self.shared.pool().lack() else { return self.filled() };
            if self.shared.is_closing() {
                return;
            }
            match self.shared.make_segment().await {
                Ok(segment) => self.put(lack, segment),
                Err(error) => return self.not_made(error),
            }
        }
    }

    fn put(&self, lack: Lack, segment: Arc<Segment>) {
        self.shared.pool().put(lack, segment);
        self.shared.pool_changed.notify_one();
    }

    fn filled(&mut self) {
        if self.shared.pool().is_unwritable() {
            return self.back_off();
        }
        self.retry = None;
    }

    fn not_made(&mut self, error: StoreError) {
        self.back_off();
        if !error.is_full() {
            self.tell_failure(error);
        } else {
            self.shared.pool().not_made(error);
            // A snapshot may free what stands before it.
            self.shared.upkeep_kick.notify_one();
        }
        self.shared.pool_changed.notify_one();
    }

    fn tell_failure(&self, error: StoreError) {
        let told = error.to_string();
        if self.shared.pool().not_made(error) {
            tracing::error!(error = told, "no segment can be made: commits fail once the last one is full");
        }
    }

    fn back_off(&mut self) {
        let wait = self.retry.map_or(RETRY_MIN, |retry| (2 * retry.wait).min(RETRY_MAX));
        self.retry = Some(Retry { at: self.shared.env.boot() + wait, wait });
    }

    /// Says once when the disk becomes full, and once when that is over.
    fn tell(&mut self) {
        let room = self.shared.pool().room();
        let (directory, bytes_free) = (self.shared.disk.path(""), self.shared.disk.free_bytes());
        match (self.told, room) {
            (Room::Enough, Room::Full | Room::Last) => tracing::warn!(
                directory,
                bytes_free,
                "the disk is full: new work is refused. Free some space, or let workers complete items"
            ),
            (Room::Full | Room::Last, Room::Enough) => {
                tracing::info!(directory, bytes_free, "the disk has room again");
            }
            (Room::Enough, Room::Enough) | (Room::Full | Room::Last, Room::Full | Room::Last) => {}
        }
        self.told = room;
    }

    /// Tells whether anything was deleted.
    async fn delete_surplus(&self) -> bool {
        let surplus = self.shared.pool().take_surplus();
        if surplus.is_empty() {
            return false;
        }
        for segment in &surplus {
            // A file that stays is found at the next open.
            let _may_stay = self.shared.disk.remove(&segment::name_of(segment.number)).await;
        }
        let _may_come_back = self.shared.disk.sync().await;
        true
    }
}
