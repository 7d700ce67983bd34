//! Forms of the greeting that no server here sends, and what is refused.

use super::*;

fn sample() -> Greeting {
    Greeting {
        server_version: "8.0.1".into(),
        connection_id: 7,
        nonce: *b"abcdefghijklmnopqrst",
        capabilities: Capabilities::LONG_PASSWORD
            | Capabilities::PROTOCOL_41
            | Capabilities::SECURE_CONNECTION
            | Capabilities::PLUGIN_AUTH,
        collation: 45,
        status: 2,
        plugin: "mysql_native_password".into(),
    }
}

#[test]
fn greetings_come_back_with_and_without_plugins() {
    let no_plugin = Greeting {
        capabilities: sample().capabilities.without(Capabilities::PLUGIN_AUTH),
        plugin: String::new(),
        ..sample()
    };
    let mariadb = Greeting {
        capabilities: sample().capabilities.without(Capabilities::LONG_PASSWORD)
            | Capabilities::MARIADB_BULK_UNIT_RESULTS,
        ..sample()
    };
    for greeting in [sample(), no_plugin, mariadb] {
        assert_eq!(Greeting::parse(&greeting.encode()), Ok(greeting));
    }
}

#[test]
fn mariadbs_flags_are_not_sent_by_a_mysql_server() {
    let both = Greeting { capabilities: sample().capabilities | Capabilities::MARIADB_PROGRESS, ..sample() };
    assert_eq!(Greeting::parse(&both.encode()), Ok(sample()));
}

#[test]
fn a_plugin_name_may_end_without_its_nul() {
    let mut bytes = sample().encode();
    bytes.pop();
    assert_eq!(Greeting::parse(&bytes), Ok(sample()));
}

#[test]
fn old_servers_and_other_protocols_are_refused() {
    for flag in [Capabilities::PROTOCOL_41, Capabilities::SECURE_CONNECTION] {
        let old = Greeting { capabilities: sample().capabilities.without(flag), ..sample() };
        assert!(Greeting::parse(&old.encode()).is_err());
    }
    let mut bytes = sample().encode();
    bytes[0] = 9;
    assert!(Greeting::parse(&bytes).is_err());
}

#[test]
fn only_mariadbs_prefix_is_taken_off() {
    let version = |text: &str| Greeting { server_version: text.into(), ..sample() };
    assert_eq!(version("5.5.5-10.6.1-MariaDB").real_version(), "10.6.1-MariaDB");
    assert_eq!(version("5.5.5-m3").real_version(), "5.5.5-m3");
    assert!(version("11.4.2-MariaDB").is_mariadb());
    assert!(!version("5.5.5-m3").is_mariadb());
}

#[test]
fn any_length_of_the_nonce_is_read() {
    let good = sample().encode();
    let at = good.iter().position(|byte| *byte == 21).unwrap();
    for len in [0, 8, 20, 21] {
        let mut bytes = good.clone();
        bytes[at] = len;
        assert_eq!(Greeting::parse(&bytes).map(|greeting| greeting.nonce), Ok(sample().nonce), "{len}");
    }
    let mut bytes = good;
    bytes[at] = 255;
    assert!(Greeting::parse(&bytes).is_err());
}
