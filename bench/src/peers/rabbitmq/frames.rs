//! Frames of AMQP 0-9-1, as far as they are needed here.

/// The end of every frame.
pub(super) const FRAME_END: u8 = 0xce;
pub(super) const METHOD: u8 = 1;
pub(super) const HEADER: u8 = 2;
pub(super) const BODY: u8 = 3;
/// Bytes of a frame around its payload.
pub(super) const FRAME_EXTRA: usize = 8;
/// The channel that everything goes through once it is open.
const CHANNEL: u16 = 1;

/// A class and a method of it, as the specification numbers them.
pub(super) type Method = (u16, u16);
pub(super) const START: Method = (10, 10);
pub(super) const TUNE: Method = (10, 30);
pub(super) const CONNECTION_CLOSE: Method = (10, 50);
pub(super) const CHANNEL_CLOSE: Method = (20, 40);
pub(super) const DELIVER: Method = (60, 60);
pub(super) const ACK: Method = (60, 80);
pub(super) const NACK: Method = (60, 120);

/// Arguments of a method, in the encoding of AMQP.
#[derive(Debug, Default)]
struct Args(Vec<u8>);

impl Args {
    fn octet(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }

    fn short(mut self, value: u16) -> Self {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    fn long(mut self, value: u32) -> Self {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    fn longlong(mut self, value: u64) -> Self {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    fn text(mut self, text: &str) -> Self {
        self.0.push(u8::try_from(text.len()).expect("names are short"));
        self.0.extend_from_slice(text.as_bytes());
        self
    }

    fn bytes(self, bytes: &[u8]) -> Self {
        let mut args = self.long(u32::try_from(bytes.len()).expect("arguments are short"));
        args.0.extend_from_slice(bytes);
        args
    }
}

fn method(channel: u16, (class, method): Method, args: Args) -> Vec<u8> {
    let payload = Args::default().short(class).short(method).0;
    let mut out = Vec::new();
    append_frame(&mut out, METHOD, channel, &[&payload, &args.0]);
    out
}

/// Appends a frame whose payload is made of `parts`.
fn append_frame(out: &mut Vec<u8>, kind: u8, channel: u16, parts: &[&[u8]]) {
    let size: usize = parts.iter().map(|part| part.len()).sum();
    out.push(kind);
    out.extend_from_slice(&channel.to_be_bytes());
    out.extend_from_slice(&u32::try_from(size).expect("frames are small").to_be_bytes());
    parts.iter().for_each(|part| out.extend_from_slice(part));
    out.push(FRAME_END);
}

pub(super) fn start_ok() -> Vec<u8> {
    let args = Args::default().bytes(b"").text("PLAIN").bytes(b"\0guest\0guest").text("en_US");
    method(0, (10, 11), args)
}

/// No heartbeats: nothing here is idle for long.
pub(super) fn tune_ok(channels_max: u16, frame_max: u32) -> Vec<u8> {
    method(0, (10, 31), Args::default().short(channels_max).long(frame_max).short(0))
}

pub(super) fn open_connection() -> Vec<u8> {
    method(0, (10, 40), Args::default().text("/").text("").octet(0))
}

pub(super) fn open_channel() -> Vec<u8> {
    method(CHANNEL, (20, 10), Args::default().text(""))
}

pub(super) fn confirm_select() -> Vec<u8> {
    method(CHANNEL, (85, 10), Args::default().octet(0))
}

/// A durable quorum queue.
pub(super) fn declare(queue: &str) -> Vec<u8> {
    let kind = Args::default().text("x-queue-type").octet(b'S').bytes(b"quorum");
    let durable = 0b10;
    method(CHANNEL, (50, 10), Args::default().short(0).text(queue).octet(durable).bytes(&kind.0))
}

pub(super) fn delete(queue: &str) -> Vec<u8> {
    method(CHANNEL, (50, 40), Args::default().short(0).text(queue).octet(0))
}

/// Sets how many deliveries may be unacknowledged at once.
pub(super) fn qos(prefetch: u16) -> Vec<u8> {
    method(CHANNEL, (60, 10), Args::default().long(0).short(prefetch).octet(0))
}

pub(super) fn consume(queue: &str) -> Vec<u8> {
    method(CHANNEL, (60, 20), Args::default().short(0).text(queue).text("").octet(0).bytes(b""))
}

/// Acknowledges every delivery up to `tag`.
pub(super) fn ack_up_to(tag: u64) -> Vec<u8> {
    method(CHANNEL, ACK, Args::default().longlong(tag).octet(1))
}

/// The method and the header frame, which precede the body of each message that is published to one queue.
pub(super) fn publish(queue: &str, body_bytes: usize) -> Vec<u8> {
    let mut out = method(CHANNEL, (60, 40), Args::default().short(0).text("").text(queue).octet(0));
    let (persistent, delivery_mode_is_set) = (2, 0x1000);
    let header = Args::default().short(60).short(0).longlong(body_bytes as u64);
    let header = header.short(delivery_mode_is_set).octet(persistent);
    append_frame(&mut out, HEADER, CHANNEL, &[&header.0]);
    out
}

/// Appends a body that fits one frame, of `bytes` bytes that `append` appends.
pub(super) fn append_body(out: &mut Vec<u8>, bytes: usize, append: impl FnOnce(&mut Vec<u8>)) {
    out.push(BODY);
    out.extend_from_slice(&CHANNEL.to_be_bytes());
    out.extend_from_slice(&u32::try_from(bytes).expect("payloads are small").to_be_bytes());
    append(out);
    out.push(FRAME_END);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_frame_is_framed_as_the_specification_says() {
        let frame = qos(100);
        assert_eq!(frame[..7], [METHOD, 0, 1, 0, 0, 0, 11]);
        assert_eq!(frame[7..11], [0, 60, 0, 10]);
        assert_eq!(frame[11..], [0, 0, 0, 0, 0, 100, 0, FRAME_END]);
    }

    #[test]
    fn a_message_is_a_method_a_header_and_a_body() {
        let mut out = publish("q", 3);
        let header_at = 7 + 4 + 2 + 1 + 2 + 1 + 1;
        assert_eq!(out[header_at..header_at + 7], [HEADER, 0, 1, 0, 0, 0, 15]);
        append_body(&mut out, 3, |out| out.extend_from_slice(b"abc"));
        assert!(out.ends_with(&[BODY, 0, 1, 0, 0, 0, 3, b'a', b'b', b'c', FRAME_END]));
    }
}
