//! `[http]`: addresses, and tokens that nobody guesses.

use super::Check;
use crate::address::ListenAddress;
use crate::config::{Http, HttpToken, TokenSecret};
use crate::parse::Rows;
use crate::schema::{HttpSection, HttpTokenSection, Written};
use crate::secret::Secret;
use crate::value::{Fingerprint, SocketMode};

/// The user that the proxy runs as.
const SOCKET_MODE_DEFAULT: SocketMode = SocketMode(0o700);
/// The shortest token, in characters.
const SHORTEST: usize = 16;
/// The longest: it has to fit into a request's headers.
const LONGEST: usize = 1024;
/// The options of which one has the token.
const OPTIONS: [&str; 4] = ["token", "token_env", "token_file", "token_hash"];

impl Check<'_, '_> {
    pub(super) fn http(&mut self, row: &Written<HttpSection>, tokens: &Rows<HttpTokenSection>) -> Http {
        let written = &row.value;
        self.http_addresses(row);
        self.refuse_twins(&tokens.rows, "name", |one, other| one.name == other.name, |t| t.name.clone());
        Http {
            addresses: written.addresses.clone(),
            socket_mode: written.socket_mode.unwrap_or(SOCKET_MODE_DEFAULT),
            tls: written.tls,
            tls_identity: self.identity(row, (&written.tls_cert, &written.tls_key)),
            allow: written.allow.clone(),
            deny: written.deny.clone(),
            basic_auth: written.basic_auth,
            metrics_without_login: written.metrics_without_login,
            max_connections: written.max_connections,
            max_body_bytes: written.max_body_bytes,
            timeout_ms: written.timeout_ms,
            tokens: tokens.rows.iter().filter_map(|row| self.http_token(row)).collect(),
        }
    }

    fn http_addresses(&mut self, row: &Written<HttpSection>) {
        let written = &row.value;
        if written.addresses.is_empty() {
            let instead = "write [\"127.0.0.1:6480\"], or remove [http]";
            let what = "addresses is empty, so no program could connect";
            self.mistakes.push(row.at("addresses"), what, instead);
        }
        for (index, address) in written.addresses.iter().enumerate() {
            let is_free = matches!(address, ListenAddress::Tcp(tcp) if tcp.port() == 0);
            if written.addresses[..index].contains(address) && !is_free {
                let what = format!("addresses has {address} twice");
                self.mistakes.push(row.at("addresses"), what, "remove one of the two");
            }
        }
        let has_socket = written.addresses.iter().any(|one| matches!(one, ListenAddress::Unix(_)));
        if written.socket_mode.is_some() && !has_socket {
            let what = "socket_mode has no effect without a Unix socket among the addresses";
            self.mistakes.push(row.at("socket_mode"), what, "remove it, or add \"unix:/path\" to addresses");
        }
    }

    fn http_token(&mut self, row: &Written<HttpTokenSection>) -> Option<HttpToken> {
        let written = &row.value;
        if written.name.is_empty() || written.name.chars().any(char::is_control) {
            self.mistakes.push(
                row.at("name"),
                "the name of a token is empty, or has control characters",
                "write another name",
            );
        }
        let is_there = [
            written.token.is_some(),
            written.token_env.is_some(),
            written.token_file.is_some(),
            written.token_hash.is_some(),
        ];
        let mut there = OPTIONS.into_iter().zip(is_there).filter(|(_, is)| *is).map(|(option, _)| option);
        let Some(option) = there.next() else {
            // A wrong value has left its place; the complaint about that is enough.
            if !OPTIONS.iter().any(|option| row.has(option)) {
                let what = format!("token {:?} has no token", written.name);
                self.mistakes.push(row.at(""), what, "write token_file, token_env, token_hash or token");
            }
            return None;
        };
        if let Some(second) = there.next() {
            let what = format!("token {:?} has both {option} and {second}", written.name);
            self.mistakes.push(row.at(second), what, "keep one of them");
        }
        let secret = match self.token_secret(written) {
            Ok(secret) => secret,
            Err((what, instead)) => {
                self.mistakes.push(row.at(option), what, instead);
                return None;
            }
        };
        Some(HttpToken { name: written.name.clone(), secret, role: written.role })
    }

    /// An error is what is wrong, and what to write instead, without the secret.
    fn token_secret(&self, written: &HttpTokenSection) -> Result<TokenSecret, (String, &'static str)> {
        const ANOTHER: &str = "write one that `openssl rand -hex 32` makes";
        if let Some(hash) = &written.token_hash {
            let read = hash.expose().parse::<Fingerprint>();
            return read.map(|hash| TokenSecret::Sha256(hash.0)).map_err(|_| {
                let what = "token_hash is not 64 hexadecimal digits".to_owned();
                (what, "write what `printf %s TOKEN | sha256sum` prints")
            });
        }
        let token = match (&written.token, &written.token_env, &written.token_file) {
            (Some(token), ..) => token.clone(),
            (_, Some(name), _) => {
                self.variable(name).map_err(|problem| (problem.what, "set it to the token"))?
            }
            (_, _, Some(path)) => self.line_of_file(path).map_err(|problem| {
                let instead = "write the path of a file that holds the token and nothing else";
                (format!("token_file {problem}"), instead)
            })?,
            (None, None, None) => Secret::new(""),
        };
        let text = token.expose();
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            let what = format!("token {:?} has characters that no header takes", written.name);
            return Err((what, ANOTHER));
        }
        if !(SHORTEST..=LONGEST).contains(&text.len()) {
            let what = format!(
                "token {:?} has {} characters, not {SHORTEST} to {LONGEST}",
                written.name,
                text.len()
            );
            return Err((what, ANOTHER));
        }
        Ok(TokenSecret::Token(token))
    }
}
