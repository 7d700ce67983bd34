//! The bytes of a response: read from the backend, passed to the client.

use delphinus_net::rt::{self, Either};
use delphinus_net::{Buffer, NetError};
use delphinus_pool::Checkout;

use super::Client;
use super::beside::{Beside, Break};

/// Reads grow to this, in bytes, while a large result passes.
pub(super) const LARGE_READ: usize = 128 * 1024;

impl Client {
    /// Reads more of a response. What waits for its beginning holds no buffer.
    #[inline]
    pub(super) async fn read_backend(
        &mut self,
        checkout: &mut Checkout,
        mut bytes: Buffer,
        beside: &mut impl Beside,
    ) -> Result<Buffer, Break> {
        let before = bytes.len();
        // Not `read`, here and at the client's end: it waits where neither KILL nor a limit reaches it.
        let n = loop {
            self.await_backend(checkout, beside).await?;
            if bytes.capacity() == 0 {
                bytes = self.equipment.buffers.take();
            }
            if let Some(result) = checkout.connection().stream.read_at_once(&mut bytes) {
                break result?;
            }
        };
        if n == 0 {
            return Err(NetError::Closed.into());
        }
        self.equipment.counters.backend_bytes_in.add(n as u64);
        if let Some(renumbering) = &mut self.renumbering {
            renumbering.pass(&mut bytes.data_mut()[before..]);
        }
        if bytes.spare() == 0
            && bytes.len() - before == n
            && bytes.capacity() < LARGE_READ
            && self.room.grow_to(2 * bytes.capacity())
        {
            // It fills what it gets: a large result, for which fewer and larger reads are cheaper.
            bytes.reserve(bytes.capacity());
        }
        Ok(bytes)
    }

    /// Waits for the backend's next bytes, as long as anybody wants them.
    #[inline]
    pub(crate) async fn await_backend(
        &self,
        checkout: &mut Checkout,
        beside: &mut impl Beside,
    ) -> Result<(), Break> {
        loop {
            let readable = checkout.connection().stream.readable();
            if let Either::First(ready) = rt::either(readable, beside.activity().disturbed()).await {
                return Ok(ready?);
            }
            let backend = checkout.backend();
            beside.disturbed(self, Some(checkout), backend)?;
        }
    }

    #[inline]
    pub(super) async fn pass(
        &mut self,
        bytes: Buffer,
        n: usize,
        beside: &mut impl Beside,
    ) -> Result<Buffer, Break> {
        if n == 0 {
            return Ok(bytes);
        }
        beside.passes(&bytes.data()[..n]);
        let mut bytes = self.write(bytes, n).await.map_err(Break::Client)?;
        bytes.consume(n);
        Ok(bytes)
    }
}
