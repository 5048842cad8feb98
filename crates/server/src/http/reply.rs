//! Replies: bodies, statuses and headers.

use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ALLOW, CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderName, HeaderValue, Response};
use windlass_api::call::Wire;
use windlass_api::{COMMIT, COMMITS_NAMED_MAX, Code};
use windlass_engine::{Commit, Outcome};

use super::context::Answer;
use super::error::Problem;
use super::wire::Encoding;
use crate::gate::Sharing;
use crate::listener::{Reply, Traffic};

static COMMIT_HEADER: HeaderName = HeaderName::from_static(COMMIT);
/// Most calls change one partition.
const COMMIT_BYTES_USUAL: usize = 32;

pub(super) async fn answered<R: Wire>(
    answer: Answer<R>,
    encoding: Encoding,
    traffic: &Arc<Traffic>,
) -> Response<Reply> {
    let Answer { reply, commits, mut grant, without_grant } = answer;
    let mut bytes = match encoding.encode(&reply) {
        Ok(bytes) => bytes,
        Err(error) => return refuse(&Problem::internal(error, Outcome::Unknown), encoding),
    };
    let share = traffic.reserve_reply(bytes.len()).await;
    // What was changed is told all the same; a grant that is not is given back.
    if share.is_none()
        && let Some(Ok(rest)) = without_grant.map(|reply| encoding.encode(&reply))
    {
        (bytes, grant) = (rest, None);
    }
    if share.is_none() && (commits.is_empty() || grant.is_some()) {
        let message =
            "too many bytes of answers wait to be taken: try again a little later, or ask for less at once";
        return refuse(&Problem::new(Code::Overloaded, message), encoding);
    }
    let mut body = Reply::new(bytes);
    if let Some(share) = share {
        body = body.counted(share);
    }
    if let Some(grant) = grant {
        body = body.on_delivery(move || grant.accept());
    }
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(encoding.media_type()));
    if let Some(value) = commit_header(&commits) {
        response.headers_mut().insert(&COMMIT_HEADER, value);
    }
    response
}

/// The first partitions by name, and how many there are beyond them.
fn commit_header(commits: &[Commit]) -> Option<HeaderValue> {
    let (first, others) = commits.split_first()?;
    let mut list = Vec::with_capacity(COMMIT_BYTES_USUAL);
    push_commit(&mut list, first);
    for commit in others.iter().take(COMMITS_NAMED_MAX - 1) {
        list.push(b',');
        push_commit(&mut list, commit);
    }
    if let Some(unnamed) = commits.len().checked_sub(COMMITS_NAMED_MAX).filter(|unnamed| *unnamed > 0) {
        write!(list, ",+{unnamed}").expect("a vector grows");
    }
    // A copy of just the size takes less memory than the list itself, which has room to spare.
    Some(HeaderValue::from_bytes(&list).expect("digits and signs are a header value"))
}

fn push_commit(list: &mut Vec<u8>, Commit { partition, sequence }: &Commit) {
    let mut digits = itoa::Buffer::new();
    list.extend_from_slice(digits.format(partition.0).as_bytes());
    list.push(b':');
    list.extend_from_slice(digits.format(*sequence).as_bytes());
}

/// Why a request failed, for the server's log: an extension of the response.
#[derive(Clone, Debug)]
pub(super) struct Cause {
    pub(super) code: Code,
    pub(super) text: String,
}

pub(super) fn refuse(problem: &Problem, encoding: Encoding) -> Response<Reply> {
    let bytes = encoding.encode(&problem.to_reply()).expect("an error is made of texts");
    let mut response = plain(problem.code.status(), encoding.media_type(), bytes);
    if let Some(cause) = &problem.cause {
        response.extensions_mut().insert(Cause { code: problem.code, text: cause.clone() });
    }
    if let Some(seconds) = problem.retry_after() {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    if problem.close {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

pub(super) fn plain(status: u16, media_type: &'static str, body: impl Into<Bytes>) -> Response<Reply> {
    let mut response = Response::new(Reply::new(body));
    *response.status_mut() = http::StatusCode::from_u16(status).expect("statuses are chosen from a list");
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

/// The answer to a browser that asks whether a page of `allowed_origins` may make a call.
pub(super) fn preflight() -> Response<Reply> {
    let mut response = Response::new(Reply::default());
    Sharing::permit(response.headers_mut());
    response
}

pub(super) fn wrong_method(allowed: &'static str, encoding: Encoding) -> Response<Reply> {
    let problem = Problem::new(Code::MethodNotAllowed, format!("the method here is {allowed}"));
    let mut response = refuse(&problem, encoding);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    response
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use windlass_api::items::{LeasedItem, NextReply};
    use windlass_core::id::PartitionId;
    use windlass_engine::Delivery;

    use super::*;

    const LARGE: usize = 1 << 20;

    /// Status and body of a large reply, while another takes all the room there is.
    async fn told(without_grant: Option<NextReply>) -> (u16, serde_json::Value) {
        let traffic = Arc::new(Traffic::new(LARGE, Duration::from_secs(1)));
        let _other = traffic.reserve_reply(LARGE).await.unwrap();
        let item = LeasedItem { utf8: Some("x".repeat(LARGE)), ..LeasedItem::default() };
        let answer = Answer {
            reply: NextReply { completed: 1, items: vec![item], ..NextReply::default() },
            commits: vec![Commit { partition: PartitionId(1), sequence: 2 }],
            grant: Some(Delivery::default()),
            without_grant,
        };
        let response = answered(answer, Encoding::Json, &traffic).await;
        (response.status().as_u16(), serde_json::from_slice(response.body().bytes()).unwrap())
    }

    #[tokio::test]
    async fn a_turn_whose_reply_has_no_room_is_told_what_it_settled() {
        let settled = NextReply { completed: 1, ..NextReply::default() };
        let (status, body) = told(Some(settled)).await;
        assert_eq!((status, &body["completed"], &body["items"]), (200, &1.into(), &serde_json::json!([])));
        let (status, _) = told(None).await;
        assert_eq!(status, 429, "a lease is refused, and its items are given back");
    }
}
