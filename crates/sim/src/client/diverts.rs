//! Items that end badly while the queue they go to is deleted, and then another one is named in its place.

use std::sync::Arc;

use windlass_core::settings::Settings;
use windlass_core::time::Span;
use windlass_core::verbs::Filter;

use super::Client;
use crate::caller::Wish;
use crate::history::{Given, Made, QueueIndex, RetryOp};
use crate::plan::queue_name;

/// The queue whose items end badly, the one that they go to at first, and the one that is named instead.
const SOURCE: QueueIndex = 0;
const GONE: QueueIndex = 1;
const INSTEAD: QueueIndex = 2;

impl Client {
    /// Only one client does this: so the queue that is gone stays so after the last time.
    pub(super) async fn divert(&mut self) {
        let settings = self.plan.queues[GONE].settings.clone();
        self.caller.create(GONE, settings, 1).await;
        self.send_dead_to(GONE).await;
        self.let_some_die().await;
        let micros = self.rng.skewed(1, 300_000);
        self.caller.handle.sleep_micros(micros).await;
        self.caller.delete(GONE, true).await;
        self.send_dead_to(INSTEAD).await;
    }

    async fn send_dead_to(&self, queue: QueueIndex) {
        let dead_queue = Some(queue_name(queue).name);
        let settings = Settings { dead_queue, ..self.plan.queues[SOURCE].settings.clone() };
        self.caller.update(SOURCE, settings).await;
    }

    async fn let_some_die(&mut self) {
        let items: Vec<Made> = (0..5).map(|_| Made { enqueue_at: None, ..self.made() }).collect();
        let kinds = items.iter().map(|made| Arc::clone(&made.kind)).collect();
        let ids = self.caller.produce(SOURCE, items).await.unwrap_or_default();
        self.memory.learn(&ids);
        let filter = Filter::new(Some(kinds), u8::MAX);
        let wish = Wish { queue: SOURCE, batch_size: 5, timeout: None, filter, wait: Span::ZERO };
        let granted = self.caller.lease(wish, true).await.unwrap_or_default();
        self.memory.learn(&granted.iter().map(|item| item.id).collect::<Vec<_>>());
        let dead = |item: &Given| RetryOp { id: item.id, permit: item.permit, retry_at: None, dead: true };
        if !granted.is_empty() {
            self.caller.retry(SOURCE, granted.iter().map(dead).collect()).await;
        }
    }
}
