//! The keeper: takes back segments that nobody needs, and sees to it that there is always one ready and one in
//! reserve. It never waits for the committer, because the committer may be waiting for it.

use std::sync::Arc;
use std::time::Duration;

use super::pool::Lack;
use super::segment::{self, Segment};
use super::shared::Shared;
use crate::store::StoreError;

const RETRY_MIN: Duration = Duration::from_millis(250);
const RETRY_MAX: Duration = Duration::from_secs(8);

#[derive(Debug)]
pub(super) struct Keeper {
    shared: Arc<Shared>,
    /// How long to wait for room, while there is none.
    retry: Option<Duration>,
}

impl Keeper {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, retry: None }
    }

    pub(super) async fn serve(mut self) {
        while !self.shared.is_closing() {
            let free = self.shared.tables().take_free();
            self.shared.pool().put_free(free);
            self.fill().await;
            self.delete_surplus().await;
            self.wait().await;
        }
    }

    async fn wait(&self) {
        let kicked = self.shared.keeper_kick.notified();
        let Some(retry) = self.retry else { return kicked.await };
        let retry_at = self.shared.env.boot() + retry;
        tokio::select! {
            biased;
            () = kicked => {}
            () = self.shared.env.sleep_until(retry_at) => {}
        }
    }

    async fn fill(&mut self) {
        loop {
            let Some(lack) = self.shared.pool().lack() else { break };
            if self.shared.is_closing() {
                return;
            }
            match self.ready_segment().await {
                Ok(segment) => self.put(lack, segment),
                Err(error) => return self.is_full(&error),
            }
        }
        self.retry = None;
    }

    fn put(&self, lack: Lack, segment: Arc<Segment>) {
        self.shared.pool().put(lack, segment);
        self.shared.pool_changed.notify_one();
    }

    fn is_full(&mut self, error: &StoreError) {
        tracing::warn!(%error, "no room for another segment: the log takes only what ends items");
        self.retry = Some(self.retry.map_or(RETRY_MIN, |retry| (2 * retry).min(RETRY_MAX)));
        self.shared.pool().set_full();
        self.shared.pool_changed.notify_one();
        // A snapshot may free what stands before it.
        self.shared.upkeep_kick.notify_one();
    }

    async fn ready_segment(&self) -> Result<Arc<Segment>, StoreError> {
        let (free, number) = {
            let mut pool = self.shared.pool();
            (pool.take_free(), pool.take_number())
        };
        match free {
            Some(free) => Ok(free),
            None => segment::create(&*self.shared.disk, number, self.shared.options.segment_bytes).await,
        }
    }

    async fn delete_surplus(&self) {
        let surplus = self.shared.pool().take_surplus();
        if surplus.is_empty() {
            return;
        }
        for segment in &surplus {
            // What stays is found at the next open.
            let _may_stay = self.shared.disk.remove(&segment::name_of(segment.number)).await;
        }
        let _may_come_back = self.shared.disk.sync().await;
    }
}
