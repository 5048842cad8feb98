//! Calls on the server itself, and the pages that are not calls.

use std::path::Path;

use http::Response;
use tracing::info;
use windlass_api::service::{BackupReply, BackupRequest};
use windlass_api::{Code, JSON};
use windlass_core::limits;
use windlass_engine::{Outcome, PartitionState};

use super::error::Problem;
use super::{Answer, App, Context, plain};
use crate::listener::Reply;
use crate::metrics::{self, EngineNow, Scrape, TrafficNow};
use crate::stores::CopyError;

pub(super) async fn backup(context: Context, request: BackupRequest) -> Result<Answer<BackupReply>, Problem> {
    let now = || jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string();
    let name = request.backup.unwrap_or_else(now);
    limits::check_name("backup", &name)?;
    let path = context.opened.backup_dir.join(&name);
    make_directory(&path)?;
    let bytes = copy(&context, &path).await.inspect_err(|_| {
        // What is left is not a log: its format file would have come last.
        let _not_worse_than_before = std::fs::remove_dir_all(&path);
    })?;
    info!(backup = name, bytes, "backup made");
    let path = std::path::absolute(&path).unwrap_or(path).display().to_string();
    Ok(Answer::read(BackupReply { backup: name, path, bytes }))
}

fn make_directory(path: &Path) -> Result<(), Problem> {
    let parent = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    parent.and_then(|()| std::fs::create_dir(path)).map_err(|error| {
        if error.kind() == std::io::ErrorKind::AlreadyExists {
            return Problem::new(Code::AlreadyExists, "there is a backup of that name: choose another");
        }
        backup_failed(&error)
    })
}

fn backup_failed(error: &dyn std::error::Error) -> Problem {
    Problem::internal(format!("backup: {error}"), Outcome::NotApplied)
}

async fn copy(context: &Context, to: &Path) -> Result<u64, Problem> {
    let logs = context.opened.logs.as_ref();
    let logs = logs.ok_or_else(|| Problem::not_now("what this server keeps cannot be copied"))?;
    logs.copy(to).await.map_err(|error| match error {
        CopyError::NotOpen(name) => {
            Problem::not_now(format!("the store `{name}` is not open, so not all of the data can be copied"))
        }
        CopyError::Store(_) | CopyError::Io(_) => backup_failed(&error),
    })
}

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
    let body = serde_json::json!({"ready": reasons.is_empty(), "reasons": reasons, "faulty": faulty(app)});
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

pub(super) fn metrics(app: &App) -> Response<Reply> {
    let traffic = TrafficNow {
        connections: app.traffic.open() as u64,
        connections_refused: app.traffic.refused(),
        bytes_in_flight: app.traffic.bytes_in_flight() as u64,
    };
    let engine = app.opened().map(|opened| EngineNow::of(&opened.engine));
    let scrape = Scrape { engine, requests: &app.requests, traffic, uptime: app.began.elapsed() };
    plain(200, metrics::CONTENT_TYPE, metrics::render(&scrape))
}
