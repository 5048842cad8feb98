//! The pages, which are not calls.

use http::Response;
use windlass_api::JSON;
use windlass_core::row::Stored;
use windlass_engine::PartitionState;
use windlass_engine::store::Room;

use super::App;
use super::reply::plain;
use crate::listener::Reply;

/// Unclaimed partitions that `/ready` shows.
const UNCLAIMED_SHOWN_MAX: usize = 1000;

pub(super) fn page() -> Response<Reply> {
    let version = env!("CARGO_PKG_VERSION");
    let page = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Windlass</title>\n\
         <h1>Windlass {version}</h1>\n<p>A durable work queue. It is running.\n\
         <ul>\n<li><a href=\"/openapi.json\">openapi.json</a>: every call it answers\n\
         <li><a href=\"/metrics\">metrics</a>, <a href=\"/ready\">ready</a>, <a href=\"/health\">health</a>\n\
         <li><code>windlass --help</code>: the command line, a client of the same calls\n</ul>\n</html>\n"
    );
    plain(200, "text/html; charset=utf-8", page)
}

pub(super) fn ready(app: &App) -> Response<Reply> {
    let reasons = reasons(app);
    let status = if reasons.is_empty() { 200 } else { 503 };
    let ready = reasons.is_empty();
    let body = serde_json::json!({
        "ready": ready, "reasons": reasons, "faulty": faulty(app), "disks_full": disks_full(app),
        "unclaimed": unclaimed(app),
    });
    plain(status, JSON, body.to_string())
}

fn reasons(app: &App) -> Vec<&'static str> {
    match (app.is_stopping(), app.opened()) {
        (true, _) => vec!["shutting down"],
        (false, None) => vec!["loading"],
        (false, Some(_)) => Vec::new(),
    }
}

/// Partitions that cannot serve: the server is ready all the same, for the others can.
fn faulty(app: &App) -> Vec<u32> {
    let overview = app.opened().map(|opened| opened.engine.overview()).unwrap_or_default();
    let partitions = overview.into_iter().flat_map(|seen| seen.partitions);
    let faulty = partitions.filter(|(_, state)| matches!(state, PartitionState::Faulty { .. }));
    faulty.map(|(partition, _)| partition.0).collect()
}

/// Stores whose disk is full: workers can finish what they have, so the server is ready.
fn disks_full(app: &App) -> Vec<String> {
    let stores = app.opened().map(|opened| opened.engine.stores()).unwrap_or_default();
    let full = stores.into_iter().filter(|store| store.room != Room::Enough);
    full.map(|store| store.name.to_string()).collect()
}

/// Partitions that no queue names: kept, and of no concern to those that serve. The metric counts all of them.
fn unclaimed(app: &App) -> Vec<serde_json::Value> {
    let found = app.opened().map(|opened| opened.engine.unclaimed()).unwrap_or_default();
    let shown =
        |stored: &Stored| serde_json::json!({"store": stored.store_name(), "partition": stored.partition.0});
    found.iter().take(UNCLAIMED_SHOWN_MAX).map(shown).collect()
}
