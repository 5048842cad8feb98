//! [`Amqp`]: one connection with one open channel.

use std::net::SocketAddr;

use anyhow::{Result, bail, ensure};
use bytes::{Buf, Bytes};

use super::frames::{
    self, ACK, BODY, CHANNEL_CLOSE, CONNECTION_CLOSE, DELIVER, FRAME_END, FRAME_EXTRA, HEADER, METHOD,
    Method, NACK, START, TUNE,
};
use crate::wire::Wire;

#[derive(Debug)]
pub(super) struct Amqp {
    wire: Wire,
}

/// A frame from the server: an answer, or something told unasked.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A publish is durable, and with `multiple` all before it.
    Confirmed {
        tag: u64,
        multiple: bool,
    },
    Delivered {
        tag: u64,
        body: Bytes,
    },
    Answer(Method),
}

#[derive(Debug)]
struct Frame {
    kind: u8,
    payload: Bytes,
}

impl Amqp {
    pub(super) async fn connect(address: SocketAddr) -> Result<Self> {
        let mut amqp = Self { wire: Wire::connect(address).await? };
        amqp.wire.send(b"AMQP\x00\x00\x09\x01").await?;
        amqp.method(START).await?;
        amqp.wire.send(&frames::start_ok()).await?;
        let mut tune = amqp.method(TUNE).await?;
        let (channels_max, frame_max) = (tune.get_u16(), tune.get_u32());
        amqp.wire.send(&frames::tune_ok(channels_max, frame_max)).await?;
        amqp.call(&frames::open_connection()).await?;
        amqp.call(&frames::open_channel()).await?;
        Ok(amqp)
    }

    pub(super) async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.wire.send(bytes).await
    }

    /// Sends a method, and waits for the one that answers it, which has the next number.
    pub(super) async fn call(&mut self, frame: &[u8]) -> Result<()> {
        let (class, method) = method_of(&frame[7..]);
        self.wire.send(frame).await?;
        let answer = self.event().await?;
        ensure!(
            answer == Event::Answer((class, method + 1)),
            "rabbitmq answered {class}.{method} with {answer:?}"
        );
        Ok(())
    }

    /// The arguments of a method that must come next.
    async fn method(&mut self, expected: Method) -> Result<Bytes> {
        let mut payload = self.frame().await?.payload;
        let method = method_of(&payload);
        ensure!(method == expected, "rabbitmq sent {method:?} instead of {expected:?}");
        payload.advance(4);
        Ok(payload)
    }

    pub(super) async fn event(&mut self) -> Result<Event> {
        let frame = self.frame().await?;
        ensure!(frame.kind == METHOD, "rabbitmq sent a frame of kind {}", frame.kind);
        let method = method_of(&frame.payload);
        let mut args = frame.payload.slice(4..);
        match method {
            ACK => Ok(Event::Confirmed { tag: args.get_u64(), multiple: args.get_u8() & 1 == 1 }),
            NACK => bail!("rabbitmq refused a message"),
            CONNECTION_CLOSE | CHANNEL_CLOSE => bail!("rabbitmq closed the connection: {}", reason(args)),
            DELIVER => {
                let consumer_tag_bytes = args.get_u8();
                args.advance(consumer_tag_bytes.into());
                let tag = args.get_u64();
                Ok(Event::Delivered { tag, body: self.content().await? })
            }
            answer => Ok(Event::Answer(answer)),
        }
    }

    /// The header and the body of a delivery.
    async fn content(&mut self) -> Result<Bytes> {
        let header = self.frame().await?;
        ensure!(header.kind == HEADER, "rabbitmq sent a delivery without a header");
        let body_bytes = (&header.payload[4..]).get_u64();
        let body = self.frame().await?;
        let whole = body.kind == BODY && body.payload.len() as u64 == body_bytes;
        ensure!(whole, "rabbitmq sent a body in several frames");
        Ok(body.payload)
    }

    async fn frame(&mut self) -> Result<Frame> {
        while self.wire.buffered().len() < FRAME_EXTRA {
            self.wire.read_more().await?;
        }
        let size = (&self.wire.buffered()[3..7]).get_u32() as usize;
        let mut frame = self.wire.take(size + FRAME_EXTRA).await?;
        ensure!(frame.last() == Some(&FRAME_END), "rabbitmq sent a frame without its end");
        let kind = frame[0];
        frame.advance(7);
        frame.truncate(size);
        Ok(Frame { kind, payload: frame })
    }
}

fn method_of(mut payload: &[u8]) -> Method {
    (payload.get_u16(), payload.get_u16())
}

/// Code and text of a close.
fn reason(mut args: Bytes) -> String {
    let code = args.get_u16();
    let length = args.get_u8() as usize;
    format!("{code} {}", String::from_utf8_lossy(&args[..length.min(args.len())]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_close_is_told_with_its_reason() {
        let args = Bytes::from_static(b"\x01\x96\x09NOT_FOUND\x00\x32\x00\x0a");
        assert_eq!(reason(args), "406 NOT_FOUND");
        assert_eq!(method_of(&frames::declare("q")[7..]), (50, 10));
    }
}
