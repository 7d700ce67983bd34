//! Every combination of plugin, TLS, transport, credential, secret and password, against what has to come out.

use std::collections::BTreeSet;

use super::pair::*;
use crate::auth::{BackendSecret, Credential, Password, Plugin, caching_sha2, native};
use crate::handshake::client::{ClientFailure, ClientSettings};
use crate::handshake::server::{Decoys, ServerSettings, UserRecord};
use crate::handshake::{TlsMode, Transport};

/// What the sides can meet.
#[derive(Debug, Clone, Copy)]
struct Case {
    default_plugin: Plugin,
    tls: TlsMode,
    client_tls: TlsMode,
    transport: Transport,
    has_key: bool,
}

impl Case {
    fn all() -> Vec<Self> {
        let modes = [TlsMode::Disabled, TlsMode::Optional, TlsMode::Required];
        let mut cases = Vec::new();
        for default_plugin in [Plugin::Native, Plugin::CachingSha2] {
            for (tls, client_tls) in modes.iter().flat_map(|a| modes.map(|b| (*a, b))) {
                for transport in [Transport::Tcp, Transport::Unix] {
                    for has_key in [false, true] {
                        cases.push(Self { default_plugin, tls, client_tls, transport, has_key });
                    }
                }
            }
        }
        cases
    }

    fn server(self) -> ServerSettings {
        ServerSettings {
            default_plugin: self.default_plugin,
            tls: self.tls,
            transport: self.transport,
            rsa_key: self.has_key.then(|| KEY.clone()),
            ..server_settings()
        }
    }

    fn client(self, secret: BackendSecret) -> ClientSettings {
        ClientSettings { tls: self.client_tls, transport: self.transport, ..client_settings(secret) }
    }

    fn is_tls(self) -> bool {
        let can = |mode| mode != TlsMode::Disabled;
        self.transport == Transport::Tcp && can(self.tls) && can(self.client_tls)
    }

    fn is_secure(self) -> bool {
        self.is_tls() || self.transport == Transport::Unix
    }

    /// What a login ends with before anybody looks at a password.
    fn obstacle(self) -> Option<Expected> {
        if self.transport == Transport::Unix || self.is_tls() {
            None
        } else if self.client_tls == TlsMode::Required {
            Some(Expected::TlsUnavailable)
        } else if self.tls == TlsMode::Required {
            Some(Expected::Refused(3159))
        } else {
            None
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Expected {
    LoggedIn(BackendSecret),
    Refused(u16),
    Unfit,
    TlsUnavailable,
}

fn outcome(verdict: &Verdict) -> Expected {
    match (&verdict.server, &verdict.client) {
        (Some(Ok(outcome)), Some(Ok(_))) => Expected::LoggedIn(outcome.secret.clone()),
        (Some(Err(refusal)), None) => Expected::Refused(refusal.code),
        (None, Some(Err(ClientFailure::SecretUnfit { .. }))) => Expected::Unfit,
        (None, Some(Err(ClientFailure::TlsUnavailable))) => Expected::TlsUnavailable,
        _ => panic!("{verdict:?}"),
    }
}

/// An oracle that knows nothing of packets: what logging in with `secret` has to end with.
fn expected(case: Case, kind: &str, secret: &BackendSecret, is_right: bool) -> Expected {
    let right = |found: Expected| if is_right { found } else { Expected::Refused(1045) };
    let in_clear = Expected::LoggedIn(plain(PASSWORD));
    // The server has only a slow hash, and no way to get the password unseen.
    let is_deaf = !case.is_secure() && !case.has_key;
    match (kind, secret) {
        ("plain" | "plain, two", _) | ("plain, ed25519", BackendSecret::Plain(_)) => right(in_clear),
        // Nothing but the password makes a signature.
        ("plain, ed25519", _) | ("native hash", BackendSecret::Sha2Stage1(_)) => Expected::Unfit,
        ("native hash", _) => {
            right(Expected::LoggedIn(BackendSecret::NativeSha1(native::stage1(PASSWORD.as_bytes()))))
        }
        (_, BackendSecret::NativeSha1(_)) => Expected::Unfit,
        ("sha2 hash, cached" | "backend, cached", _) if is_right => in_clear,
        (_, BackendSecret::Sha2Stage1(_)) => Expected::Unfit,
        _ if is_deaf => Expected::Refused(1045),
        _ => right(in_clear),
    }
}

fn secrets(password: &str) -> [BackendSecret; 3] {
    [
        plain(password),
        BackendSecret::NativeSha1(native::stage1(password.as_bytes())),
        BackendSecret::Sha2Stage1(caching_sha2::stage1(password.as_bytes())),
    ]
}

#[test]
fn every_combination_ends_as_it_has_to() {
    let mut count = 0;
    for case in Case::all() {
        for (kind, record) in credentials() {
            for (password, is_right) in [(PASSWORD, true), ("wrong", false)] {
                for secret in secrets(password) {
                    let verdict = log_in(case.server(), case.client(secret.clone()), record.clone());
                    let wanted = case.obstacle().unwrap_or_else(|| expected(case, kind, &secret, is_right));
                    assert_eq!(
                        outcome(&verdict),
                        wanted,
                        "{case:?} {kind} {secret:?} right: {is_right} {:?}",
                        verdict.trace
                    );
                    count += 1;
                }
            }
        }
    }
    assert_eq!(count, 2 * 9 * 2 * 2 * 8 * 2 * 3);
}

#[test]
fn empty_passwords_fit_accounts_without_one_only() {
    for case in Case::all().into_iter().filter(|case| case.obstacle().is_none()) {
        let no_password = UserRecord::new(Credential::Plain(Password::new("")));
        let verdict = log_in(case.server(), case.client(plain("")), no_password.clone());
        assert_eq!(outcome(&verdict), Expected::LoggedIn(plain("")), "{case:?}");
        for (kind, record) in credentials() {
            let verdict = log_in(case.server(), case.client(plain("")), record);
            let Some(Err(refusal)) = verdict.server else { panic!("{case:?} {kind}") };
            assert_eq!(refusal.code, 1045);
            // Clients sign with an empty password as with any other, and servers cannot tell.
            let given = if kind == "plain, ed25519" { "YES" } else { "NO" };
            let text = format!("Access denied for user 'ann'@'10.0.0.7' (using password: {given})");
            assert_eq!(refusal.message, text, "{case:?} {kind}");
        }
        for secret in secrets("wrong").into_iter().chain(secrets("").into_iter().skip(1)) {
            let verdict = log_in(case.server(), case.client(secret.clone()), no_password.clone());
            assert_eq!(outcome(&verdict), Expected::Refused(1045), "{case:?} {secret:?}");
        }
    }
}

#[test]
fn an_unknown_user_is_treated_like_a_wrong_password() {
    for case in Case::all().into_iter().filter(|case| case.obstacle().is_none()) {
        for (kind, record) in credentials() {
            for password in ["wrong", PASSWORD] {
                let known = log_in(case.server(), case.client(plain("wrong")), record.clone());
                let unknown = log_in(case.server(), case.client(plain(password)), record.decoy());
                // What the client sends differs, as its password does.
                let ours = |verdict: &Verdict| -> Vec<String> {
                    verdict.trace.iter().filter(|line| !line.starts_with('>')).cloned().collect()
                };
                assert_eq!(outcome(&unknown), Expected::Refused(1045), "{case:?} {kind}");
                assert_eq!(ours(&known), ours(&unknown), "{case:?} {kind}");
                let text = |verdict: Verdict| verdict.server.and_then(Result::err).unwrap().message;
                assert_eq!(text(known), text(unknown));
            }
        }
    }
}

/// Where users have credentials of all kinds: for each known user there are unknown names that nothing but the name tells apart,
/// in packets, jobs and questions to the primary, by whatever way a client comes.
#[test]
fn where_users_differ_unknown_names_differ_alike() {
    let kinds = credentials();
    let decoys = Decoys::new(kinds.iter().map(|(kind, record)| (*kind, record)));
    let ours = |verdict: Verdict| -> Vec<String> {
        verdict.trace.into_iter().filter(|line| !line.starts_with('>')).collect()
    };
    for case in Case::all().into_iter().filter(|case| case.obstacle().is_none()) {
        let wrong = |record| ours(log_in(case.server(), case.client(plain("wrong")), record));
        let unknown: BTreeSet<_> =
            (0..60).map(|number| wrong(decoys.record(&format!("nobody{number}")))).collect();
        let known: BTreeSet<_> = kinds.iter().map(|(_, record)| wrong(record.clone())).collect();
        assert_eq!(unknown, known, "{case:?}");
        for number in 0..10 {
            let name = format!("nobody{number}");
            assert_eq!(wrong(decoys.record(&name)), wrong(decoys.record(&name)), "the same each time");
        }
    }
}

#[test]
fn what_a_login_leaves_is_enough_for_a_backend() {
    let case = Case {
        default_plugin: Plugin::CachingSha2,
        tls: TlsMode::Disabled,
        client_tls: TlsMode::Disabled,
        transport: Transport::Tcp,
        has_key: true,
    };
    for (kind, record) in credentials() {
        let first = log_in(case.server(), case.client(plain(PASSWORD)), record.clone());
        let secret = first.server.unwrap().unwrap().secret;
        let second = log_in(case.server(), case.client(secret), record);
        assert!(matches!(second.server, Some(Ok(_))), "{kind}: {second:?}");
    }
}

#[test]
fn what_was_negotiated_comes_out_on_both_sides() {
    let case = Case::all()[0];
    let record = credentials()[0].1.clone();
    let verdict = log_in(case.server(), case.client(plain(PASSWORD)), record);
    let (server, client) = (verdict.server.unwrap().unwrap(), verdict.client.unwrap().unwrap());
    assert_eq!(server.connection.capabilities, client.link.capabilities);
    assert_eq!(server.schema.as_deref(), Some(&b"shop"[..]));
    assert_eq!(server.user, "ann");
    assert_eq!(server.connection.collation, 255);
    assert_eq!(server.connection.max_packet_len, 1 << 30);
    assert_eq!(server.attributes.iter().collect::<Vec<_>>(), [(&b"_client_name"[..], &b"delphinus"[..])]);
    let greeting = client.greeting.unwrap();
    assert_eq!((greeting.connection_id, greeting.real_version()), (42, "9.7.4-delphinus"));
}

#[test]
fn users_change_over_every_combination() {
    for case in Case::all().into_iter().filter(|case| case.obstacle().is_none()) {
        let first = credentials()[0].1.clone();
        let before = log_in(case.server(), case.client(plain(PASSWORD)), first);
        for (kind, record) in credentials() {
            for (password, is_right) in [(PASSWORD, true), ("wrong", false)] {
                for secret in secrets(password) {
                    let client = case.client(secret.clone());
                    let verdict = change_user(case.server(), client, record.clone(), &before);
                    let wanted = expected(case, kind, &secret, is_right);
                    let seen = outcome(&verdict);
                    assert_eq!(seen, wanted, "{case:?} {kind} {secret:?} {:?}", verdict.trace);
                }
            }
        }
        let no_password = UserRecord::new(Credential::Plain(Password::new("")));
        let verdict = change_user(case.server(), case.client(plain("")), no_password, &before);
        assert_eq!(outcome(&verdict), Expected::LoggedIn(plain("")), "{case:?}");
    }
}
