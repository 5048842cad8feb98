//! The example does what it says.

use std::sync::{Arc, Mutex};

use crate::library::{PAGES, READERS, run};
use crate::real_server::RealServer;
use crate::world::within;

#[tokio::test]
async fn documents_are_rendered_once_for_all_readers_and_a_book_is_bound_when_its_pages_are_done() {
    let server = RealServer::start().await;
    // A second edition is like the first.
    for _ in 0..2 {
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let hears = Arc::clone(&said);
        let say = Arc::new(move |words| hears.lock().unwrap().push(words));
        within(run(server.client(), say)).await.unwrap();
        let said = std::mem::take(&mut *said.lock().unwrap());
        let times = |words: &str| said.iter().filter(|said| *said == words).count();
        assert_eq!((times("rendering leaflet"), times("a reader has: <leaflet>")), (1, READERS));
        let pages = (1..=PAGES).map(|number| format!("\n<atlas, page {number}>"));
        assert_eq!(said.last().unwrap(), &format!("on the shelf:\natlas{}", pages.collect::<String>()));
        assert_eq!(said.len(), 1 + READERS + PAGES + 1, "{said:?}");
    }
}
