//! From the login packet to the verdict: which plugin, which answer, right or wrong.

use crate::auth::{BackendSecret, Credential, Password, Plugin, caching_sha2, verify_fast};
use crate::capability::Capabilities;
use crate::handshake::exchange::{FAST_AUTH_OK, FULL_AUTH_NEEDED, PUBLIC_KEY_REQUEST};
use crate::handshake::{AuthMoreData, AuthSwitchRequest, ComChangeUser, ConnectAttributes, Login, Packet};

use super::{
    AwaitResult, ComputeJob, Connection, Established, LoginOutcome, PasswordQuery, Refusal, ServerLogin,
    State, Step, UserRecord,
};

/// A login that is not decided yet.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) established: Established,
    pub(super) user: String,
    pub(super) schema: Option<Vec<u8>>,
    attributes: ConnectAttributes,
    /// The plugin that made `answer`; `None` if it is not spoken here.
    plugin: Option<Plugin>,
    /// The latest answer; may be the password itself.
    answer: Password,
    record: Option<UserRecord>,
}

/// Passwords of a user that a fast answer is compared with: one, and another while it is changed.
const MOST_KNOWN: usize = 2;

/// What the client is to send next.
#[derive(Debug, Clone, Copy)]
pub(super) enum Waiting {
    /// An answer made with the plugin it was switched to.
    Answer,
    /// The password, or a request for the public key.
    PasswordOrKeyRequest,
    /// The password, encrypted with the public key.
    EncryptedPassword,
}

impl Pending {
    pub(super) fn from_login(login: Login, capabilities: Capabilities, is_tls: bool) -> Self {
        let has_zstd = capabilities.contains(Capabilities::ZSTD_COMPRESSION);
        let established = Established {
            capabilities,
            max_packet_len: login.max_packet_len,
            collation: login.collation,
            zstd_level: if has_zstd { login.zstd_level } else { 0 },
            is_tls,
        };
        Self {
            plugin: starting_plugin(capabilities, login.plugin.as_deref()),
            established,
            user: String::from_utf8_lossy(&login.user).into_owned(),
            schema: login.schema.filter(|schema| !schema.is_empty()),
            attributes: login.attributes,
            answer: Password::new(login.answer),
            record: None,
        }
    }

    pub(super) fn from_command(command: ComChangeUser, established: Established) -> Self {
        let collation = command.collation.unwrap_or(established.collation);
        Self {
            plugin: starting_plugin(established.capabilities, command.plugin.as_deref()),
            established: Established { collation, ..established },
            user: String::from_utf8_lossy(&command.user).into_owned(),
            schema: Some(command.schema).filter(|schema| !schema.is_empty()),
            attributes: command.attributes,
            answer: Password::new(command.answer),
            record: None,
        }
    }

    /// Starts when the user is looked up: checks the answer of the login packet, or asks for another one.
    pub(super) fn begin(mut self: Box<Self>, mut connection: Connection, record: UserRecord) -> Step {
        let wanted = self.wanted_plugin(&connection, &record);
        self.record = Some(record);
        if self.is_answered(&connection, wanted) {
            return self.check_answer(connection);
        }
        if !self.established.capabilities.contains(Capabilities::PLUGIN_AUTH) {
            return if wanted == Plugin::Native {
                self.check_answer(connection)
            } else {
                connection.refuse(Refusal::unsupported_client())
            };
        }
        self.plugin = Some(wanted);
        let data = match wanted {
            // Without a NUL: clients count.
            Plugin::Ed25519 => connection.settings.long_nonce.to_vec(),
            _ => [&connection.settings.nonce[..], &[0]].concat(),
        };
        let request = AuthSwitchRequest { plugin: wanted.name().into(), data };
        let packet = connection.packet(request.encode());
        self.send(connection, packet, Waiting::Answer)
    }

    /// Goes on with a packet of the client.
    pub(super) fn receive(
        mut self: Box<Self>,
        connection: Connection,
        waiting: Waiting,
        payload: &[u8],
    ) -> Step {
        match waiting {
            Waiting::Answer => {
                self.answer = Password::new(payload);
                self.check_answer(connection)
            }
            Waiting::PasswordOrKeyRequest if payload == [PUBLIC_KEY_REQUEST] => {
                self.send_public_key(connection)
            }
            Waiting::PasswordOrKeyRequest if connection.is_secure() => match payload.split_last() {
                Some((0, password)) => self.check_clear(connection, Password::new(password)),
                _ => self.deny(&connection, "password without its NUL"),
            },
            Waiting::PasswordOrKeyRequest | Waiting::EncryptedPassword => self.decrypt(connection, payload),
        }
    }

    /// Decides. `before_ok` goes to the client before OK.
    pub(super) fn settle(
        self: Box<Self>,
        mut connection: Connection,
        secret: Option<BackendSecret>,
        before_ok: Option<Vec<u8>>,
    ) -> Step {
        let is_listed = self.is_listed();
        let (Some(secret), Some(plugin), true) = (secret, self.plugin, is_listed) else {
            return self.deny(&connection, if is_listed { "wrong password" } else { "unknown user" });
        };
        let before_ok = before_ok.map(|payload| connection.packet(payload));
        let record = self.record.expect("invariant: set by begin, before any check");
        Step::Done(Box::new(LoginOutcome {
            connection: self.established,
            user: self.user,
            schema: self.schema,
            attributes: self.attributes,
            plugin,
            secret,
            record: Box::new(record.without_verified()),
            before_ok,
            next_seq: connection.seq,
        }))
    }

    /// The plugin that the user is to be authenticated with: the one that the client starts with, if it can be.
    fn wanted_plugin(&self, connection: &Connection, record: &UserRecord) -> Plugin {
        if self.plugin == Some(Plugin::Clear) && connection.is_secure() {
            return Plugin::Clear;
        }
        match (record.credential.required_plugin().or(record.plugin), self.plugin) {
            (Some(plugin), _)
            | (None, Some(plugin @ (Plugin::Native | Plugin::CachingSha2 | Plugin::Ed25519))) => plugin,
            (None, _) => connection.settings.default_plugin,
        }
    }

    /// True if the login packet's answer decides. If it does not, the client is asked for another:
    /// - when it was made with another plugin;
    /// - when it is empty and the greeting named another plugin: a client library then had no nonce for its plugin
    ///   and waits for one, which does not mean that there is no password;
    /// - when a COM_CHANGE_USER came with an answer that is not right at once. Servers always ask then, and some
    ///   clients count on it and make their answer with something else than the connection's nonce.
    fn is_answered(&self, connection: &Connection, wanted: Plugin) -> bool {
        // A signature is of a nonce that the client has not had yet.
        if self.plugin != Some(wanted) || wanted == Plugin::Ed25519 {
            return false;
        }
        if connection.is_change && wanted != Plugin::Clear {
            return self.verify_at_once(connection, wanted).is_some();
        }
        !self.answer.is_empty() || wanted == connection.settings.default_plugin
    }

    fn is_listed(&self) -> bool {
        self.record.as_ref().is_some_and(UserRecord::is_listed)
    }

    fn record(&self) -> &UserRecord {
        self.record.as_ref().expect("invariant: set by begin, before any check")
    }

    fn credential(&self) -> &Credential {
        &self.record().credential
    }

    /// What the answer may fit: one, or two while the password is changed.
    fn credentials(&self) -> impl Iterator<Item = &Credential> {
        std::iter::once(self.credential()).chain(&self.record().secondary)
    }

    /// The passwords that a fast answer is compared with.
    fn known_passwords(&self) -> impl Iterator<Item = &Password> {
        let listed = self.credentials().filter_map(|credential| match credential {
            Credential::Plain(password) => Some(password),
            _ => None,
        });
        listed.chain(&self.record().verified)
    }

    fn verify_at_once(&self, connection: &Connection, plugin: Plugin) -> Option<BackendSecret> {
        let (answer, settings) = (self.answer.expose(), &connection.settings);
        // All that may fit are tried, so that the time does not tell which one does.
        let last = |right: Option<BackendSecret>, one: Option<BackendSecret>| one.or(right);
        match plugin {
            Plugin::Native => {
                self.credentials().map(|one| one.verify_native(answer, &settings.nonce)).fold(None, last)
            }
            Plugin::CachingSha2 => {
                // As many as there can be, so that the time does not tell whether one is remembered.
                let nothing = Password::new(".");
                let padding = MOST_KNOWN.saturating_sub(self.known_passwords().count());
                for _ in 0..padding {
                    let _ = verify_fast(&nothing, answer, &settings.nonce);
                }
                self.known_passwords().map(|one| verify_fast(one, answer, &settings.nonce)).fold(None, last)
            }
            Plugin::Ed25519 => self
                .credentials()
                .map(|one| one.verify_ed25519(answer, &settings.long_nonce))
                .fold(None, last),
            Plugin::Sha256 | Plugin::Clear => None,
        }
    }

    pub(super) fn is_for_backend(&self) -> bool {
        matches!(self.credential(), Credential::Backend)
    }

    /// A password that was verified a while ago is right; a backend has to be asked about every other.
    pub(super) fn check_by_backend(
        self: Box<Self>,
        connection: Connection,
        password: Option<Password>,
    ) -> Step {
        let Some(password) = password else { return self.deny(&connection, "password cannot be decrypted") };
        let known = self.record().verified.iter().filter(|known| **known == password).count();
        if known > 0 {
            return self.settle(connection, Some(BackendSecret::Plain(password)), None);
        }
        Step::Verify(PasswordQuery { connection, pending: self, password })
    }

    /// Checks `answer`, made with `plugin`.
    fn check_answer(self: Box<Self>, connection: Connection) -> Step {
        let Some(plugin) = self.plugin else { return self.deny(&connection, "unknown plugin") };
        if !self.has_password() {
            if self.is_for_backend() {
                return self.check_by_backend(connection, Some(Password::new("")));
            }
            let is_right = self.credentials().any(Credential::is_passwordless);
            let secret = is_right.then(|| BackendSecret::Plain(Password::new("")));
            return self.settle(connection, secret, None);
        }
        if self.credentials().all(Credential::is_passwordless) && plugin != Plugin::Ed25519 {
            // The work of a wrong password, for nothing.
            let _ = self.verify_at_once(&connection, plugin);
            return self.settle(connection, None, None);
        }
        match plugin {
            Plugin::Native | Plugin::Sha256 | Plugin::Ed25519 => {
                let secret = self.verify_at_once(&connection, plugin);
                self.settle(connection, secret, None)
            }
            Plugin::CachingSha2 => self.check_fast_answer(connection),
            Plugin::Clear => {
                let given = self.answer.expose();
                let password = Password::new(given.strip_suffix(&[0]).unwrap_or(given));
                self.check_clear(connection, password)
            }
        }
    }

    fn check_fast_answer(self: Box<Self>, mut connection: Connection) -> Step {
        if self.answer.expose().len() != caching_sha2::HASH_LEN {
            return self.deny(&connection, "answer of a wrong length");
        }
        let secret = self.verify_at_once(&connection, Plugin::CachingSha2);
        // A decoy that somebody guesses takes the course of a wrong password.
        if let Some(secret) = secret.filter(|_| self.is_listed()) {
            return self.settle(connection, Some(secret), Some(AuthMoreData(&[FAST_AUTH_OK]).encode()));
        }
        if matches!(self.credential(), Credential::Plain(_)) {
            return self.settle(connection, None, None);
        }
        let packet = connection.packet(AuthMoreData(&[FULL_AUTH_NEEDED]).encode());
        self.send(connection, packet, Waiting::PasswordOrKeyRequest)
    }

    fn send_public_key(self: Box<Self>, mut connection: Connection) -> Step {
        let Some(key) = connection.settings.rsa_key.clone() else {
            return self.deny(&connection, "the client needs an RSA key or TLS");
        };
        let packet = connection.packet(AuthMoreData(key.public_pem().as_bytes()).encode());
        self.send(connection, packet, Waiting::EncryptedPassword)
    }

    fn decrypt(self: Box<Self>, connection: Connection, ciphertext: &[u8]) -> Step {
        let Some(key) = connection.settings.rsa_key.clone() else {
            return self.deny(&connection, "the client needs an RSA key or TLS");
        };
        let nonce = connection.settings.nonce;
        let job = ComputeJob::encrypted(self.credentials().cloned().collect(), ciphertext, key, nonce);
        Step::Compute(job, AwaitResult { connection, pending: self })
    }

    fn check_clear(self: Box<Self>, connection: Connection, password: Password) -> Step {
        if self.is_for_backend() {
            return self.check_by_backend(connection, Some(password));
        }
        let job = ComputeJob::clear(self.credentials().cloned().collect(), password);
        if self.credential().is_slow() {
            return Step::Compute(job, AwaitResult { connection, pending: self });
        }
        let secret = job.run().into_secret();
        self.settle(connection, secret, None)
    }

    fn send(self: Box<Self>, connection: Connection, packet: Packet, waiting: Waiting) -> Step {
        Step::Send(packet, ServerLogin { connection, state: State::Authenticating(self, waiting) })
    }

    /// False if the client answered as one does without a password: with nothing, or with a single NUL.
    fn has_password(&self) -> bool {
        match self.answer.expose() {
            [] => false,
            [0] => matches!(self.plugin, Some(Plugin::Native | Plugin::Ed25519)),
            _ => true,
        }
    }

    fn deny(&self, connection: &Connection, reason: &'static str) -> Step {
        let host = &connection.settings.client_host;
        connection.refuse(Refusal::access_denied(&self.user, host, self.has_password(), reason))
    }
}

/// The plugin that a client's first answer is made with. Clients without plugins have the native one.
fn starting_plugin(capabilities: Capabilities, name: Option<&[u8]>) -> Option<Plugin> {
    if capabilities.contains(Capabilities::PLUGIN_AUTH) {
        Plugin::from_name(name.unwrap_or_default())
    } else {
        Some(Plugin::Native)
    }
}
