//! `GET /metrics`: one page for all who ask for it at the same time.
//!
//! A page of many queues has megabytes. Its bytes are shared by its readers, counted once among the bytes of replies, and
//! given back when the last reader has taken them.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use tokio::sync::OnceCell;
use tokio::time::Instant;
use windlass_api::Code;

use super::error::Problem;
use super::reply::{plain, refuse};
use super::wire::Encoding;
use super::{App, aside};
use crate::listener::{Reply, ReplyShare, Traffic};
use crate::metrics::{self, EngineNow, Scrape, TrafficNow};

/// A page that somebody still takes is given to others for so long. A page that nobody takes any more is not kept.
const CURRENT_FOR: Duration = Duration::from_secs(1);

/// The latest page, for as long as somebody waits for it or takes it.
#[derive(Debug, Default)]
pub(super) struct MetricsPage {
    latest: Mutex<Weak<Rendering>>,
}

/// A page that is being made, or was. `None` in the cell: there was no room for it.
#[derive(Debug)]
struct Rendering {
    asked_at: Instant,
    page: OnceCell<Option<Rendered>>,
}

#[derive(Clone, Debug)]
struct Rendered {
    bytes: Bytes,
    share: Arc<ReplyShare>,
}

pub(super) async fn show(app: &Arc<App>, encoding: Encoding) -> Response<Reply> {
    match app.metrics_page.get(&app.traffic, render(Arc::clone(app))).await {
        Some(reply) => {
            let mut response = plain(200, metrics::CONTENT_TYPE, Bytes::new());
            *response.body_mut() = reply;
            response
        }
        None => {
            let message = "too many bytes of answers wait to be taken: try again a little later";
            refuse(&Problem::new(Code::Overloaded, message), encoding)
        }
    }
}

/// The page of many queues takes a while.
async fn render(app: Arc<App>) -> String {
    aside(move || {
        let traffic = TrafficNow::of(&app.traffic);
        let engine = app.opened().map(|opened| EngineNow::of(&opened.engine));
        let scrape = Scrape { engine, requests: &app.requests, traffic, uptime: app.began.elapsed() };
        metrics::render(&scrape)
    })
    .await
}

impl MetricsPage {
    /// The page that others wait for or take, or a new one. `None`: there is no room for it.
    async fn get(&self, traffic: &Traffic, render: impl Future<Output = String>) -> Option<Reply> {
        let rendering = self.current(Instant::now());
        let make = || async {
            let bytes = Bytes::from(render.await);
            let share = traffic.reserve_reply(bytes.len()).await?.shared();
            Some(Rendered { bytes, share })
        };
        let Rendered { bytes, share } = rendering.page.get_or_init(make).await.clone()?;
        // The reply holds the rendering so that others find it. `on_delivery` would hold the page for longer: it waits for a client
        // that has closed its side, while nothing watches the eviction of the page.
        Some(Reply::new(bytes).counted(share).holding(rendering))
    }

    fn current(&self, now: Instant) -> Arc<Rendering> {
        let mut latest = self.latest.lock().expect("nothing panics while this lock is held");
        let is_current = |rendering: &Arc<Rendering>| {
            !rendering.page.initialized() || now.duration_since(rendering.asked_at) < CURRENT_FOR
        };
        if let Some(rendering) = latest.upgrade().filter(is_current) {
            return rendering;
        }
        let rendering = Arc::new(Rendering { asked_at: now, page: OnceCell::new() });
        *latest = Arc::downgrade(&rendering);
        rendering
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const PAGE_BYTES: usize = 1 << 20;

    fn traffic() -> Traffic {
        Traffic::new(4 * PAGE_BYTES, CURRENT_FOR)
    }

    /// A page of its own for each rendering.
    fn next_page(count: &mut u8) -> String {
        *count += 1;
        char::from(*count).to_string().repeat(PAGE_BYTES)
    }

    #[tokio::test(start_paused = true)]
    async fn four_hundred_slow_readers_hold_one_page() {
        let (pages, traffic, mut count) = (MetricsPage::default(), traffic(), 0);
        let mut readers = Vec::new();
        for _ in 0..400 {
            let page = pages.get(&traffic, async { next_page(&mut count) }).await.unwrap();
            assert_eq!(page.bytes()[0], 1);
            readers.push(page);
        }
        assert_eq!(traffic.reply_bytes_in_flight(), PAGE_BYTES);
        readers.pop();
        assert_eq!(traffic.reply_bytes_in_flight(), PAGE_BYTES);
        drop(readers);
        assert_eq!((count, traffic.reply_bytes_in_flight()), (1, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_that_was_taken_is_not_shown_again() {
        let (pages, traffic, mut count) = (MetricsPage::default(), traffic(), 0);
        for number in 1..=3 {
            let page = pages.get(&traffic, async { next_page(&mut count) }).await.unwrap();
            assert_eq!(page.bytes()[0], number);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_does_not_keep_an_old_page_for_others() {
        let (pages, traffic, mut count) = (MetricsPage::default(), traffic(), 0);
        let slow = pages.get(&traffic, async { next_page(&mut count) }).await.unwrap();
        advance(CURRENT_FOR).await;
        let page = pages.get(&traffic, async { next_page(&mut count) }).await.unwrap();
        assert_eq!((slow.bytes()[0], page.bytes()[0]), (1, 2));
        assert_eq!(traffic.reply_bytes_in_flight(), 2 * PAGE_BYTES);
    }

    /// Nobody takes the pages, and no connection lets go of those that were evicted.
    #[tokio::test(start_paused = true)]
    async fn pages_are_within_the_budget_of_replies() {
        let (pages, traffic, mut count) = (MetricsPage::default(), traffic(), 0);
        let mut readers = Vec::new();
        for _ in 0..4 {
            readers.push(pages.get(&traffic, async { next_page(&mut count) }).await.unwrap());
            advance(CURRENT_FOR / 8).await;
            *pages.latest.lock().unwrap() = Weak::new();
        }
        assert!(pages.get(&traffic, async { next_page(&mut count) }).await.is_none());
        drop(readers);
        assert!(pages.get(&traffic, async { next_page(&mut count) }).await.is_some());
    }
}
