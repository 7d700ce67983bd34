//! What is sent to a backend for each plugin, made of the secret that there is.

use crate::auth::ed25519::{self, LongNonce};
use crate::auth::{BackendSecret, Password, Plugin, caching_sha2, encrypt_password, native};
use crate::handshake::Transport;
use crate::handshake::exchange::{PUBLIC_KEY_REQUEST, SHA256_PUBLIC_KEY_REQUEST};

use super::{ClientFailure, ClientLink, ClientSettings, Waiting};

/// An answer, and what may come after it.
pub(super) struct Answer {
    pub(super) payload: Vec<u8>,
    pub(super) waiting: Waiting,
}

/// The answer to a greeting or a switch.
pub(super) fn first(settings: &ClientSettings, link: &ClientLink) -> Result<Answer, ClientFailure> {
    let reply = |payload| Ok(Answer { payload, waiting: Waiting::Reply });
    match (link.plugin, &settings.secret) {
        (Plugin::Clear, _) if !link.is_tls => Err(needs_tls(settings, link)),
        (Plugin::Ed25519, _) => {
            Err(ClientFailure::Unexpected("a switch to client_ed25519 without its nonce"))
        }
        (Plugin::Native, BackendSecret::Plain(password)) if password.is_empty() => reply(Vec::new()),
        (_, BackendSecret::Plain(password)) if password.is_empty() => reply(vec![0]),
        (Plugin::Native, BackendSecret::Plain(password)) => {
            reply(native::scramble(&native::stage1(password.expose()), &link.nonce).to_vec())
        }
        (Plugin::Native, BackendSecret::NativeSha1(stage1)) => {
            reply(native::scramble(stage1, &link.nonce).to_vec())
        }
        (Plugin::CachingSha2, BackendSecret::Plain(password)) => {
            reply(caching_sha2::scramble(&caching_sha2::stage1(password.expose()), &link.nonce).to_vec())
        }
        (Plugin::CachingSha2, BackendSecret::Sha2Stage1(stage1)) => {
            reply(caching_sha2::scramble(stage1, &link.nonce).to_vec())
        }
        (Plugin::Sha256, BackendSecret::Plain(password)) if link.is_tls => {
            settings.trust.check_clear(&settings.user)?;
            reply(with_nul(password))
        }
        (Plugin::Sha256, BackendSecret::Plain(_)) => {
            Ok(Answer { payload: vec![SHA256_PUBLIC_KEY_REQUEST], waiting: Waiting::PublicKey })
        }
        (Plugin::Clear, BackendSecret::Plain(password)) => {
            settings.trust.check_clear(&settings.user)?;
            reply(with_nul(password))
        }
        _ => Err(unfit(settings, link)),
    }
}

/// The answer to a switch to `client_ed25519`.
pub(super) fn signed(
    settings: &ClientSettings,
    link: &ClientLink,
    nonce: &LongNonce,
) -> Result<Answer, ClientFailure> {
    let BackendSecret::Plain(password) = &settings.secret else { return Err(unfit(settings, link)) };
    // An empty password too: its account has a key like any other.
    let payload = ed25519::sign(password.expose(), nonce).to_vec();
    Ok(Answer { payload, waiting: Waiting::Reply })
}

/// The answer to caching_sha2_password's wish for the password itself.
pub(super) fn full(settings: &ClientSettings, link: &ClientLink) -> Result<Answer, ClientFailure> {
    let BackendSecret::Plain(password) = &settings.secret else { return Err(unfit(settings, link)) };
    if link.is_tls || settings.transport == Transport::Unix {
        settings.trust.check_clear(&settings.user)?;
        return Ok(Answer { payload: with_nul(password), waiting: Waiting::Verdict });
    }
    Ok(Answer { payload: vec![PUBLIC_KEY_REQUEST], waiting: Waiting::PublicKey })
}

/// The answer to a public key.
pub(super) fn encrypted(
    settings: &ClientSettings,
    link: &ClientLink,
    public_pem: &[u8],
) -> Result<Answer, ClientFailure> {
    let BackendSecret::Plain(password) = &settings.secret else { return Err(unfit(settings, link)) };
    settings.trust.check_key(&settings.user, public_pem)?;
    let payload = encrypt_password(password, &link.nonce, public_pem)?;
    Ok(Answer { payload, waiting: Waiting::Verdict })
}

fn with_nul(password: &Password) -> Vec<u8> {
    [password.expose(), &[0]].concat()
}

fn unfit(settings: &ClientSettings, link: &ClientLink) -> ClientFailure {
    ClientFailure::SecretUnfit { user: settings.user.clone(), plugin: link.plugin.name() }
}

fn needs_tls(settings: &ClientSettings, link: &ClientLink) -> ClientFailure {
    ClientFailure::NeedsTls { user: settings.user.clone(), plugin: link.plugin.name() }
}
