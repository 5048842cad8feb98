//! Calls about the events of an item: who says something, who listens, and who closes.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

use bytes::Bytes;
use windlass_core::event::NewEvent;
use windlass_core::id::{ItemId, Permit};
use windlass_core::verbs::Held;
use windlass_engine::{CloseMode, Frame, Subscription};

use super::Caller;
use crate::executor::Sleep;
use crate::history::{Followed, Moment, Op, Outcome, ShownState, reason_of};

impl Caller {
    pub async fn emit(&self, id: ItemId, permit: Permit, events: Vec<u64>) {
        let new = events.iter().map(|serial| new_event(*serial)).collect();
        let call = self.engine.emit(Held { id, permit }, None, new);
        self.call(Op::Emit { id, permit, events }, call, |emitted| Outcome::Emitted(emitted.value.into()))
            .await;
    }

    /// Tells the number of the last event that was shown.
    pub async fn follow(&self, id: ItemId, after: u64, micros: u64) -> Option<u64> {
        let call = async {
            let asked = self.recorder.moment();
            let stream = self.engine.subscribe(id, Some(after)).await?;
            Ok(self.listen(stream, asked, after, micros).await)
        };
        let op = Op::Follow { id, after, is_subscribed: false, micros };
        let followed = self.call(op, call, |followed| Outcome::Followed(followed.clone())).await?;
        followed.events.last().map(|(seq, _)| *seq)
    }

    /// From the item's present state on.
    pub async fn follow_from_now(&self, id: ItemId, micros: u64) {
        let asked = self.recorder.moment();
        let call = async {
            let mut stream = self.engine.subscribe(id, None).await?;
            let Some(Frame::Snapshot { item, last_seq }) = stream.next().await else {
                panic!("a stream without a number to begin at does not begin with a snapshot")
            };
            Ok((stream, item, last_seq))
        };
        let subscribed = self.call(Op::Subscribe(id), call, |(_, item, last_seq)| Outcome::Subscribed {
            view: Box::new((&**item).into()),
            last_seq: *last_seq,
        });
        let Some((stream, _, after)) = subscribed.await else { return };
        let call = async { Ok(self.listen(stream, asked, after, micros).await) };
        let op = Op::Follow { id, after, is_subscribed: true, micros };
        self.call(op, call, |followed| Outcome::Followed(followed.clone())).await;
    }

    async fn listen(&self, mut stream: Subscription, asked: Moment, after: u64, micros: u64) -> Followed {
        let mut sleep = self.handle.sleep_micros(micros);
        let mut followed = Followed { asked, opened: self.recorder.moment(), ..Followed::default() };
        while let Some(frame) = sooner(pin!(stream.next()), &mut sleep).await.flatten() {
            if matches!(frame, Frame::Event { .. }) {
                followed.shown_until = self.recorder.moment();
            }
            show(frame, after, &mut followed);
        }
        followed
    }

    pub async fn close_streams(&self, id: ItemId, mode: CloseMode) {
        let call = self.engine.close_streams(id, mode);
        self.call(Op::Close { id, mode }, call, |closed| Outcome::Closed(*closed)).await;
    }
}

pub(super) fn new_event(serial: u64) -> NewEvent {
    let content = Bytes::from(serial.to_string());
    NewEvent { bytes: content.len() as u64, content }
}

fn show(frame: Frame, after: u64, followed: &mut Followed) {
    match frame {
        Frame::Event { seq, content, .. } => {
            let serial = std::str::from_utf8(&content).ok().and_then(|text| text.parse().ok());
            followed.events.push((seq, serial.unwrap_or_default()));
        }
        Frame::State { phase, reason, .. } => {
            let after_seq = followed.events.last().map_or(after, |(seq, _)| *seq);
            let reason = reason.map(|reason| reason_of(&reason));
            followed.states.push(ShownState { after_seq, phase, reason });
        }
        Frame::Gap { .. } => followed.has_gap = true,
        Frame::End { reason, .. } => followed.end = Some(reason),
        Frame::Snapshot { .. } => panic!("a stream shows a snapshot once it has begun"),
    }
}

/// `None` if the sleep is over first.
async fn sooner<T>(mut next: Pin<&mut impl Future<Output = T>>, sleep: &mut Sleep) -> Option<T> {
    poll_fn(|cx| match next.as_mut().poll(cx) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => Pin::new(&mut *sleep).poll(cx).map(|()| None),
    })
    .await
}
