//! `[http]` and its tokens.

use expect_test::expect;

use super::{check_mistakes, parse_text};
use crate::TokenSecret;

/// A good file with these sections behind it.
fn with(sections: &str) -> String {
    include_str!("../../../tests/data/good.toml").to_owned() + sections
}

#[test]
fn mistakes_in_the_door_are_told_without_its_tokens() {
    check_mistakes(
        &with(
            "[http]\naddresses = ['0.0.0.0:1', '0.0.0.0:1']\nsocket_mode = '0770'\ntls_cert = 'tls/cert.pem'\nallow = ['10.1']\ndeny = ['x']\n\
             [[http.token]]\nname = 'short'\ntoken = 'TOPSECRET'\n\
             [[http.token]]\nname = 'odd'\ntoken = 'TOPSECRET TOPSECRET'\n\
             [[http.token]]\nname = 'none'\n\
             [[http.token]]\nname = 'two'\ntoken = 'TOPSECRET-TOPSECRET'\ntoken_env = 'HTTP_TOKEN'\n\
             [[http.token]]\nname = 'two'\ntoken_hash = 'TOPSECRET'\n\
             [[http.token]]\nname = ''\ntoken_env = 'NOT_THERE'\n\
             [[http.token]]\nname = 'file'\ntoken_file = 'secrets/nothing'\nrole = 'boss'\n",
        ),
        &expect![[r#"
            d.toml:148:1: addresses has 0.0.0.0:1 twice; remove one of the two
            d.toml:149:1: socket_mode has no effect without a Unix socket among the addresses; remove it, or add "unix:/path" to addresses
            d.toml:150:1: tls_cert without tls_key; write tls_key, too
            d.toml:152:1: deny has an item: "x" is not usable; write networks like "10.0.0.0/8" or "fd00::/8", prefixes like "10.1.*", IP addresses, "unix" or "*"
            d.toml:155:1: token "short" has 9 characters, not 16 to 1024; write one that `openssl rand -hex 32` makes
            d.toml:158:1: token "odd" has characters that no header takes; write one that `openssl rand -hex 32` makes
            d.toml:159:1: token "none" has no token; write token_file, token_env, token_hash or token
            d.toml:164:1: token "two" has both token and token_env; keep one of them
            d.toml:166:1: name "two" is there twice; write another name, or remove one of the two
            d.toml:167:1: token_hash is not 64 hexadecimal digits; write what `printf %s TOKEN | sha256sum` prints
            d.toml:169:1: the name of a token is empty, or has control characters; write another name
            d.toml:170:1: environment variable NOT_THERE is not set; set it to the token
            d.toml:173:1: token_file secrets/nothing cannot be read: no such file; write the path of a file that holds the token and nothing else
            d.toml:174:1: role = "boss" is not known; write "viewer", "operator" or "admin"
        "#]],
    );
    check_mistakes(
        &with("[http]\naddresses = []\n"),
        &expect![[r#"
            d.toml:148:1: addresses is empty, so no program could connect; write ["127.0.0.1:6480"], or remove [http]
        "#]],
    );
}

#[test]
fn tokens_are_read_from_where_they_are() {
    let hash = "ab".repeat(32);
    let config = parse_text(&with(&format!(
        "[http]\naddresses = ['127.0.0.1:6480', 'unix:/run/http.sock']\n\
         [[http.token]]\nname = 'a'\ntoken = 'TOPSECRET-TOPSECRET'\nrole = 'admin'\n\
         [[http.token]]\nname = 'b'\ntoken_env = 'HTTP_TOKEN'\n\
         [[http.token]]\nname = 'c'\ntoken_hash = '{hash}'\n"
    )))
    .unwrap();
    let http = config.http.as_ref().unwrap();
    let secrets: Vec<_> = http
        .tokens
        .iter()
        .map(|token| match &token.secret {
            TokenSecret::Token(secret) => secret.expose().to_owned(),
            TokenSecret::Sha256(hash) => format!("{:02x}", hash[0]),
        })
        .collect();
    assert_eq!(secrets, ["TOPSECRET-TOPSECRET", "token-of-the-variable", "ab"]);
    let shown = format!("{config:?} {:?}", config.effective.0);
    assert!(
        !shown.contains("TOPSECRET") && !shown.contains("of-the-variable") && !shown.contains(&hash),
        "{shown}"
    );
    assert_eq!(parse_text(&with("")).unwrap().http, None);
}
