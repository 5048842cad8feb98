//! What the server tells of itself.

use windlass_api::service::{ServerInfo, ServerInfoReply, ServerInfoRequest, ServerLimits, StoreInfo};
use windlass_engine::store::{Room, StoreState};

use super::context::{Answer, Context};
use super::error::Problem;
use crate::config::Limits;

pub(super) async fn show(
    context: Context,
    _request: ServerInfoRequest,
) -> Result<Answer<ServerInfoReply>, Problem> {
    let server = ServerInfo {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: context.app.started_at,
        node: None,
        stores: context.engine().stores().iter().map(store).collect(),
        limits: limits(&context.opened.limits),
    };
    Ok(Answer::read(ServerInfoReply { server }))
}

fn store(store: &StoreState) -> StoreInfo {
    let state = match (store.is_open, store.room) {
        (false, _) => "closed",
        (true, Room::Full | Room::Last) => "full",
        (true, Room::Enough) => "open",
    };
    StoreInfo {
        store: store.name.to_string(),
        kind: store.kind.to_owned(),
        state: state.to_owned(),
        bytes_free: store.stats.bytes_free,
    }
}

fn limits(limits: &Limits) -> ServerLimits {
    // Taken apart, so that a new limit is not forgotten here.
    let Limits {
        connections,
        waiting_requests,
        payload_bytes,
        body_bytes,
        bytes_in_flight,
        queues,
        partitions,
        memory,
    } = *limits;
    ServerLimits {
        connections: connections as u64,
        waiting_requests: waiting_requests as u64,
        payload_bytes: payload_bytes as u64,
        body_bytes: body_bytes as u64,
        bytes_in_flight: bytes_in_flight as u64,
        queues: queues as u64,
        partitions: partitions as u64,
        memory: memory.map(|bytes| bytes as u64),
    }
}
