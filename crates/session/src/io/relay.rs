//! Sends a command to a backend and its response to the client, as they come: nothing is held whole.

use delphinus_net::{Buffer, NetError};
use delphinus_pool::{Checkout, Doing};
use delphinus_state::{Progress, Response, ResponseTracker, Shape};
use delphinus_wire::error_code;
use delphinus_wire::response::{ErrPacket, OkPacket};
use delphinus_wire::{Capabilities, HEADER_LEN, begin_packet, end_packet, parse_header};

use super::beside::{Beside, Break};
use super::broken::Cut;
use super::cut_short::Excess;
use super::{Client, Input};

/// A response that has come to its end. Its last bytes are kept back until the connection is settled.
pub(crate) struct Relayed {
    /// What it said.
    pub response: Response,
    /// The last bytes for the client.
    pub rest: Buffer,
    /// How many of them.
    pub len: usize,
    /// They are all of it: nothing has reached the client.
    pub is_untouched: bool,
}

/// The last bytes of a response, which its client has not got yet.
pub(crate) struct LastBytes {
    pub rest: Buffer,
    /// How many of them.
    pub len: usize,
    /// They are all of it.
    pub is_untouched: bool,
}

/// A response as far as it has come.
pub(crate) struct Heard {
    tracker: ResponseTracker,
    /// What has not been passed on yet.
    bytes: Buffer,
    /// What is to be done next, or why nothing more comes.
    progress: Result<Progress, Break>,
}

impl Heard {
    /// Nothing more comes.
    pub(crate) fn breaks(&mut self, broken: Break) {
        self.progress = Err(broken);
    }

    /// One that has come whole, and of which nothing has been passed on.
    #[inline]
    pub(crate) fn into_relayed(self, checkout: &mut Checkout) -> Relayed {
        checkout.note(Doing::Nothing);
        let len = self.bytes.len();
        Relayed { response: self.tracker.into_response(), rest: self.bytes, len, is_untouched: true }
    }
}

/// No server that is what it seems does that: another one would read what it likes from the client's machine.
const NOT_ASKED_FOR: &str =
    "the server asks for a file of the client, but the statement is not LOAD DATA LOCAL";

const BEHIND_THE_END: delphinus_wire::Malformed =
    delphinus_wire::Malformed("bytes after the end of a response");

/// Where a result that is larger than its client may have can be cut: after how many of the bytes that are there, and with which number
/// an error follows. `place` is where one could stand before these bytes were looked at.
#[inline]
fn place_to_cut(
    beside: &mut impl Beside,
    tracker: &ResponseTracker,
    (passed, there): (u64, usize),
    place: Option<(usize, u8)>,
) -> Option<(usize, u8)> {
    let size = passed + (there + tracker.outstanding()) as u64;
    beside
        .is_too_large(tracker.response().rows, size)
        .then_some(place)
        .flatten()
        .filter(|(at, _)| *at <= there)
}

impl Client {
    /// Sends the command in `input` (whose bytes may have been changed in place) and relays the response, but for its last bytes.
    pub(crate) async fn exchange(
        &mut self,
        checkout: &mut Checkout,
        (input, shape): (Input, Shape),
        beside: &mut impl Beside,
    ) -> Result<Relayed, Cut> {
        if !self.post(checkout, input) {
            self.send(checkout, input, beside).await?;
        }
        let heard = self.begin_to_hear(checkout, shape);
        let relayed = self.hear_out(checkout, input, heard, beside).await;
        self.renumbering = None;
        relayed
    }

    /// The command has been sent.
    #[inline]
    pub(crate) fn begin_to_hear(&self, checkout: &mut Checkout, shape: Shape) -> Heard {
        checkout.note(Doing::Running);
        let mut tracker = ResponseTracker::new(shape, checkout.connection().capabilities, self.capabilities);
        // It is numbered behind the last packet of the command.
        tracker.follow(self.error_seq.map_or(0, |seq| seq.wrapping_sub(1)));
        tracker.tell_ages(self.ages);
        Heard { tracker, bytes: Buffer::default(), progress: Ok(Progress::More(0)) }
    }

    /// Takes in what has come of a response, where that is all of it; false if there is more, or something else to do.
    #[inline]
    pub(crate) fn hear_at_once(&self, checkout: &mut Checkout, heard: &mut Heard) -> bool {
        let mut bytes = self.equipment.buffers.take();
        let read = checkout.connection().stream.read_at_once(&mut bytes);
        heard.progress = match read {
            None => Ok(Progress::More(0)),
            Some(Ok(0)) => Err(NetError::Closed.into()),
            Some(Err(error)) => Err(error.into()),
            Some(Ok(n)) => {
                self.equipment.counters.backend_bytes_in.add(n as u64);
                heard.tracker.advance(bytes.data_mut()).map_err(Break::from)
            }
        };
        heard.bytes = bytes;
        match heard.progress {
            Ok(Progress::Done(n)) => n == heard.bytes.len(),
            // As nearly all of MySQL's, which report the number of each statement.
            Ok(Progress::Shortened(n, len)) => {
                heard.bytes.truncate(n + len);
                true
            }
            _ => false,
        }
    }

    /// Relays the rest of a response, but for its last bytes.
    pub(crate) async fn hear_out(
        &mut self,
        checkout: &mut Checkout,
        input: Input,
        heard: Heard,
        beside: &mut impl Beside,
    ) -> Result<Relayed, Cut> {
        let Heard { mut tracker, bytes, progress } = heard;
        let mut sent = false;
        let relayed = match progress {
            Ok(progress) => self.relay(checkout, &mut tracker, (bytes, progress), (&mut sent, beside)).await,
            Err(broken) => Err(broken),
        };
        match relayed {
            Ok((rest, len)) => {
                checkout.note(Doing::Nothing);
                let response = tracker.into_response();
                if response.error == Some(error_code::ER_NET_PACKET_TOO_LARGE) && !input.is_whole() && !sent {
                    // The last byte of the command has just found room in the socket.
                    let refusal = ErrPacket::parse(&rest.data()[HEADER_LEN..len]);
                    return Err(match refusal {
                        Ok(refusal) => Box::pin(self.tell_refusal(&refusal)).await,
                        Err(error) => Cut::Client(error.into()),
                    });
                }
                Ok(Relayed { response, rest, len, is_untouched: !sent })
            }
            Err(Break::Backend(error)) => {
                self.error_seq = self.error_seq.and(tracker.error_seq());
                let takes_error = self.error_seq.is_some() && (!sent || tracker.takes_error());
                let is_whole = input.is_whole();
                Err(Cut::Backend {
                    error,
                    is_repeatable: is_whole && !sent,
                    is_in_step: is_whole && takes_error,
                })
            }
            Err(Break::Client(error)) => Err(Cut::Client(error)),
        }
    }

    /// Relays until the response ends; returns the last bytes, not yet written. `sent`: something was written.
    async fn relay(
        &mut self,
        checkout: &mut Checkout,
        tracker: &mut ResponseTracker,
        (mut bytes, mut progress): (Buffer, Progress),
        (sent, beside): (&mut bool, &mut impl Beside),
    ) -> Result<(Buffer, usize), Break> {
        let (mut passed, mut place) = (0, tracker.next_place_for_error());
        loop {
            if let Some(place) = place_to_cut(beside, tracker, (passed, bytes.len()), place) {
                *sent |= passed > 0 || place.0 > 0;
                let excess = Excess { bytes, progress, place };
                return Box::pin(self.cut_short(checkout, tracker, excess, beside)).await;
            }
            match progress {
                Progress::Done(n) if n == bytes.len() => return Ok((bytes, n)),
                Progress::Shortened(n, len) => {
                    bytes.truncate(n + len);
                    return Ok((bytes, n + len));
                }
                Progress::Done(_) => return Err(BEHIND_THE_END.into()),
                Progress::More(n) => {
                    if n > 0 {
                        passed += n as u64;
                        bytes = self.pass(bytes, n, beside).await?;
                        // Else the next read would have only the room behind what is left.
                        bytes.compact();
                        *sent = true;
                        // What comes without a pause leaves no other place to see it.
                        if beside.activity().is_killed() {
                            checkout.note(Doing::Killed);
                            return Err(Break::Client(NetError::Closed));
                        }
                    }
                    bytes = self.read_backend(checkout, bytes, beside).await?;
                }
                Progress::Rewrite(n, len) => {
                    let out = self.rewritten(
                        &bytes.data()[n..n + len],
                        checkout.connection().capabilities,
                        beside,
                    )?;
                    if tracker.is_done() && n == 0 && len == bytes.len() {
                        bytes.clear();
                        bytes.extend(&out);
                        return Ok((bytes, out.len()));
                    }
                    bytes = Box::pin(self.pass_with(bytes, (n, len), (&out, beside))).await?;
                    *sent = true;
                    if tracker.is_done() {
                        return if bytes.is_empty() { Ok((bytes, 0)) } else { Err(BEHIND_THE_END.into()) };
                    }
                }
                Progress::ResultEnd(n) => {
                    bytes = self.pass(bytes, n, beside).await?;
                    self.stream.end_result();
                    *sent = true;
                }
                Progress::LocalInfile(_) if !self.may_send_file => {
                    return Err(delphinus_wire::Malformed(NOT_ASKED_FOR).into());
                }
                Progress::LocalInfile(n) => {
                    bytes = self.pass(bytes, n, beside).await?;
                    *sent = true;
                    // Until the backend answers, there is no place for an error.
                    self.error_seq = None;
                    tracker.follow(Box::pin(self.relay_file(checkout, beside)).await?);
                    self.error_seq = Some(1);
                }
            }
            place = tracker.next_place_for_error();
            progress = tracker.advance(bytes.data_mut())?;
        }
    }

    /// Passes the first `n` bytes and, in the place of the `len` after them, an OK packet.
    async fn pass_with(
        &mut self,
        mut bytes: Buffer,
        (n, len): (usize, usize),
        (ok, beside): (&[u8], &mut impl Beside),
    ) -> Result<Buffer, Break> {
        beside.changes();
        if self.stream.is_compressed() {
            // In one write and so, as from a server, in one frame, if it is not too long for one.
            let all = [&bytes.data()[..n], ok].concat();
            bytes.consume(n + len);
            self.write_bytes(&all).await.map_err(Break::Client)?;
            self.stream.end_result();
            return Ok(bytes);
        }
        bytes = self.pass(bytes, n, beside).await?;
        bytes.consume(len);
        self.write_bytes(ok).await.map_err(Break::Client)?;
        Ok(bytes)
    }

    /// An OK packet as this client has to see it: without the changes that it did not ask to be told of.
    fn rewritten(
        &self,
        packet: &[u8],
        backend: Capabilities,
        beside: &impl Beside,
    ) -> Result<Vec<u8>, NetError> {
        let frame = parse_header(packet).ok_or(delphinus_wire::Malformed("short packet"))?;
        let payload = &packet[HEADER_LEN..];
        let ok = OkPacket::parse(payload, backend)?;
        let told = beside.told(ok.changes);
        let ok = OkPacket { changes: delphinus_wire::response::SessionChanges::new(&told), ..ok };
        let mut out = Vec::with_capacity(packet.len());
        let at = begin_packet(&mut out);
        ok.put(&mut out, payload[0], self.capabilities);
        end_packet(&mut out, at, frame.seq);
        Ok(out)
    }
}
