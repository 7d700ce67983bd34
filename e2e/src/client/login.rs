//! The login, from the greeting to OK.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::auth;
use super::packet::{IO_LIMIT, Packets, Reader, Target};
use crate::stage::Address;

const LONG_PASSWORD: u32 = 1;
const CONNECT_WITH_DB: u32 = 1 << 3;
const PROTOCOL_41: u32 = 1 << 9;
const TRANSACTIONS: u32 = 1 << 13;
const SECURE_CONNECTION: u32 = 1 << 15;
const MULTI_STATEMENTS: u32 = 1 << 16;
const MULTI_RESULTS: u32 = 1 << 17;
const PLUGIN_AUTH: u32 = 1 << 19;
const QUERY_ATTRIBUTES: u32 = 1 << 27;
/// utf8mb4_general_ci.
const COLLATION: u8 = 45;

/// Where and as whom to log in.
#[derive(Debug, Clone)]
pub struct Login {
    pub(crate) target: Target,
    /// The user.
    pub user: String,
    /// The password.
    pub password: String,
    /// The schema; none if empty.
    pub database: String,
    /// Whether several statements may stand in one text.
    pub allows_multi_statements: bool,
    /// Whether texts come with query attributes, where the other side has them.
    pub has_query_attributes: bool,
    /// Capabilities that are asked for beside the usual ones; what they change is for who takes the bytes below
    /// ([`Client::into_wire`](super::Client::into_wire)).
    pub more_capabilities: u32,
    pub(crate) start: Vec<u8>,
    /// How long a read or a write may take.
    pub(crate) limit: Duration,
}

/// What the greeting told.
#[derive(Debug)]
pub(crate) struct Greeting {
    pub(crate) version: String,
    pub(crate) connection_id: u32,
    nonce: Vec<u8>,
    plugin: String,
}

impl Login {
    /// Over the Unix socket.
    pub fn new(address: &Address) -> Self {
        Self {
            target: Target::Unix(address.socket.clone()),
            user: address.user.clone(),
            password: address.password.clone(),
            database: address.database.clone(),
            allows_multi_statements: false,
            has_query_attributes: false,
            more_capabilities: 0,
            start: Vec::new(),
            limit: IO_LIMIT,
        }
    }

    /// The same over TCP.
    #[must_use]
    pub fn over_tcp(mut self, address: &Address) -> Self {
        self.target = Target::Tcp(address.host.clone(), address.port);
        self
    }

    /// The same with a limit for the connection, and for each read and write.
    #[must_use]
    pub(crate) fn within(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// The same after these bytes, which are no packet.
    #[must_use]
    pub fn after(mut self, start: &[u8]) -> Self {
        self.start = start.to_vec();
        self
    }

    pub(crate) fn run(&self, packets: &mut Packets) -> Result<Greeting> {
        packets.wire.write_all(&self.start).context("cannot write")?;
        let greeting = read_greeting(packets)?;
        packets.write(&self.response(&greeting)?)?;
        self.answer(packets, greeting.plugin.clone())?;
        Ok(greeting)
    }

    /// COM_CHANGE_USER on a connection that is logged in. The plugin that is named makes the other side ask.
    pub(crate) fn change(&self, packets: &mut Packets) -> Result<()> {
        let mut payload = vec![0x11];
        payload.extend(self.user.as_bytes());
        payload.extend([0, 0]);
        payload.extend(self.database.as_bytes());
        payload.extend([0, COLLATION, 0]);
        payload.extend(b"auth_test_plugin\0");
        packets.restart();
        packets.write(&payload)?;
        self.answer(packets, String::new())
    }

    fn answer(&self, packets: &mut Packets, mut plugin: String) -> Result<()> {
        loop {
            let packet = packets.read_checked()?;
            match packet[0] {
                0 => return Ok(()),
                0xfe => {
                    let mut reader = Reader::new(&packet[1..]);
                    plugin = String::from_utf8_lossy(reader.until_nul()?).into_owned();
                    let nonce = reader.rest();
                    packets.write(&self.scramble(&plugin, &nonce[..nonce.len().min(20)])?)?;
                }
                1 => self.more(packets, &plugin, &packet[1..])?,
                other => bail!("packet {other:#x} in the login"),
            }
        }
    }

    /// caching_sha2_password: 3 is "fast path, OK follows", 4 is "I want the password", which a Unix socket keeps safe.
    fn more(&self, packets: &mut Packets, plugin: &str, data: &[u8]) -> Result<()> {
        ensure!(plugin == "caching_sha2_password", "more data for {plugin}");
        match (data, &self.target) {
            ([3], _) => Ok(()),
            ([4], Target::Unix(_)) => packets.write(&[self.password.as_bytes(), b"\0"].concat()),
            _ => bail!("{data:?} asked for; this client has no RSA"),
        }
    }

    fn response(&self, greeting: &Greeting) -> Result<Vec<u8>> {
        let mut flags =
            LONG_PASSWORD | PROTOCOL_41 | TRANSACTIONS | SECURE_CONNECTION | MULTI_RESULTS | PLUGIN_AUTH;
        if !self.database.is_empty() {
            flags |= CONNECT_WITH_DB;
        }
        if self.allows_multi_statements {
            flags |= MULTI_STATEMENTS;
        }
        if self.has_query_attributes {
            flags |= QUERY_ATTRIBUTES;
        }
        flags |= self.more_capabilities;
        let mut payload = flags.to_le_bytes().to_vec();
        payload.extend(0x0100_0000_u32.to_le_bytes());
        payload.push(COLLATION);
        payload.extend([0; 23]);
        payload.extend(self.user.as_bytes());
        payload.push(0);
        let scrambled = self.scramble(&greeting.plugin, &greeting.nonce)?;
        payload.push(u8::try_from(scrambled.len())?);
        payload.extend(scrambled);
        if !self.database.is_empty() {
            payload.extend(self.database.as_bytes());
            payload.push(0);
        }
        payload.extend(greeting.plugin.as_bytes());
        payload.push(0);
        Ok(payload)
    }

    fn scramble(&self, plugin: &str, nonce: &[u8]) -> Result<Vec<u8>> {
        match plugin {
            "mysql_native_password" => Ok(auth::native(&self.password, nonce)),
            "caching_sha2_password" => Ok(auth::caching_sha2(&self.password, nonce)),
            other => bail!("this client does not know {other}"),
        }
    }
}

fn read_greeting(packets: &mut Packets) -> Result<Greeting> {
    let payload = packets.read_checked()?;
    let mut reader = Reader::new(&payload);
    ensure!(reader.u8()? == 10, "not handshake v10");
    let version = String::from_utf8_lossy(reader.until_nul()?).into_owned();
    let connection_id = reader.u32()?;
    let mut nonce = reader.take(8)?.to_vec();
    reader.take(1 + 2 + 1 + 2 + 2)?;
    let nonce_length = reader.u8()?;
    reader.take(10)?;
    let second = usize::from(nonce_length.max(21)) - 8;
    nonce.extend_from_slice(reader.take(second)?);
    nonce.truncate(20);
    let plugin =
        String::from_utf8_lossy(reader.until_nul().context("no plugin in the greeting")?).into_owned();
    Ok(Greeting { version, connection_id, nonce, plugin })
}
