//! Forms of the login packet.

use super::*;

fn sample(capabilities: Capabilities) -> Login {
    let has = |flag| capabilities.contains(flag);
    let mut attributes = ConnectAttributes::default();
    if has(Capabilities::CONNECT_ATTRS) {
        attributes.push(b"_os", b"Linux");
    }
    Login {
        capabilities,
        max_packet_len: 1 << 24,
        collation: 255,
        user: b"ann".to_vec(),
        answer: vec![7; 20],
        schema: has(Capabilities::CONNECT_WITH_DB).then(|| b"shop".to_vec()),
        plugin: has(Capabilities::PLUGIN_AUTH).then(|| b"mysql_native_password".to_vec()),
        attributes,
        zstd_level: if has(Capabilities::ZSTD_COMPRESSION) { 3 } else { 0 },
    }
}

/// Every combination of the flags that change the packet's form.
fn forms() -> impl Iterator<Item = Capabilities> {
    let flags = [
        Capabilities::LONG_PASSWORD,
        Capabilities::SECURE_CONNECTION,
        Capabilities::PLUGIN_AUTH_LENENC_DATA,
        Capabilities::CONNECT_WITH_DB,
        Capabilities::PLUGIN_AUTH,
        Capabilities::CONNECT_ATTRS,
        Capabilities::ZSTD_COMPRESSION,
    ];
    (0..1u32 << flags.len()).map(move |set| {
        let chosen = flags.iter().enumerate().filter(|(bit, _)| set & (1 << bit) != 0);
        let all = chosen.fold(Capabilities::PROTOCOL_41, |all, (_, flag)| all | *flag);
        if all.contains(Capabilities::LONG_PASSWORD) { all } else { all | Capabilities::MARIADB_STMT_BULK }
    })
}

#[test]
fn logins_of_every_form_come_back() {
    for capabilities in forms() {
        let login = sample(capabilities);
        let bytes = login.encode();
        assert_eq!(Login::parse(&bytes), Ok(login), "{capabilities:?}");
        for cut in 0..bytes.len() {
            // Must not panic; what has to be there is checked where the machines are tested.
            let _ = Login::parse(&bytes[..cut]);
        }
        for cut in 0..37 {
            assert!(Login::parse(&bytes[..cut]).is_err(), "{capabilities:?} cut at {cut}");
        }
    }
}

#[test]
fn an_ssl_request_is_32_bytes_with_the_flag() {
    let login = sample(Capabilities::PROTOCOL_41 | Capabilities::SSL | Capabilities::MARIADB_STMT_BULK);
    let bytes = login.ssl_request().encode();
    assert_eq!(bytes.len(), 32);
    assert_eq!(SslRequest::parse(&bytes), Some(login.ssl_request()));
    assert_eq!(SslRequest::parse(&bytes[..31]), None);
    assert_eq!(SslRequest::parse(&login.encode()), None);
    let plain = sample(Capabilities::PROTOCOL_41).ssl_request().encode();
    assert_eq!(SslRequest::parse(&plain), None);
}

#[test]
fn long_answers_need_the_lenenc_form() {
    let mut login = sample(Capabilities::SECURE_CONNECTION | Capabilities::PLUGIN_AUTH_LENENC_DATA);
    login.answer = vec![7; 300];
    assert_eq!(Login::parse(&login.encode()), Ok(login));
}

#[test]
fn a_plugin_name_may_lack_its_nul_or_be_missing() {
    let login = sample(Capabilities::SECURE_CONNECTION | Capabilities::PLUGIN_AUTH);
    let mut bytes = login.encode();
    bytes.pop();
    assert_eq!(Login::parse(&bytes), Ok(login.clone()));
    bytes.truncate(bytes.len() - b"mysql_native_password".len());
    assert_eq!(Login::parse(&bytes), Ok(Login { plugin: Some(Vec::new()), ..login }));
}

#[test]
fn the_answer_is_not_printed() {
    let login = Login { answer: b"hunter2".to_vec(), ..sample(Capabilities::SECURE_CONNECTION) };
    let shown = format!("{login:?}");
    assert!(!shown.contains("hunter2") && shown.contains("answer_len: 7"), "{shown}");
}
