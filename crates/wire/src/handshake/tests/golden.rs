//! Packets of real servers and clients, captured on loopback: MariaDB 10.11.19, MySQL 9.7.4, their command-line
//! clients, and PyMySQL 1.2.4. The clients were given the nonce `abcdefghijklmnopqrst` and the password `secret`.

use super::pair::NONCE;
use crate::Capabilities;
use crate::auth::hash::from_hex;
use crate::auth::{Password, Plugin, caching_sha2, native, verify_fast};
use crate::handshake::{AuthSwitchRequest, Greeting, Login};

const MARIADB_GREETING: &str = "0a352e352e352d31302e31312e31392d4d6172696144422d302b64656231327531001f000000292475443577\
    7d2f00feff080200ff81150000000000001d0000006c564a50334c663a3126695e006d7973716c5f6e61746976655f70617373776f726400";

const MYSQL_GREETING: &str = "0a392e372e342d32002200000051602e48097a2a3700ffffff0200ffdf150000000000000000000002787529565d\
    19481365503f0063616368696e675f736861325f70617373776f726400";

const MYSQL_SWITCH: &str =
    "fe63616368696e675f736861325f70617373776f72640051602e48097a2a3702787529565d19481365503f00";

const MYSQL_LOGIN: &str = "8da2bf1900000001ff0000000000000000000000000000000000000000000000616e6e0020c76e2898612a4cf042c7\
    7fa8c4702c4c64c0c2c557c53c4d75595aaa6abae8096d7973716c0063616368696e675f736861325f70617373776f72640072045f70696405\
    3230393938095f706c6174666f726d067838365f3634035f6f73054c696e75780c5f636c69656e745f6e616d65086c69626d7973716c076f73\
    5f7573657204726f6f740f5f636c69656e745f76657273696f6e05392e372e340c70726f6772616d5f6e616d65056d7973716c";

const PYMYSQL_LOGIN: &str = "0da23a00ffffff002d0000000000000000000000000000000000000000000000616e6e0020c76e2898612a4cf042\
    c77fa8c4702c4c64c0c2c557c53c4d75595aaa6abae80973686f700063616368696e675f736861325f70617373776f726400360c5f636c6965\
    6e745f6e616d650770796d7973716c0f5f636c69656e745f76657273696f6e05312e322e34045f706964053231303030";

const MARIADB_LOGIN: &str = "8ca2bf0000001000210000000000000000000000000000000000000004000000616e6e00148817c50fa779daef01\
    0ee7577825b0847df9842e73686f70006d7973716c5f6e61746976655f70617373776f7264007f035f6f73054c696e75780c5f636c69656e74\
    5f6e616d650a6c69626d617269616462045f7069640532303939390f5f636c69656e745f76657273696f6e06332e332e3230095f706c617466\
    6f726d067838365f36340c70726f6772616d5f6e616d65056d7973716c0c5f7365727665725f686f7374093132372e302e302e31";

fn bytes(text: &str) -> Vec<u8> {
    from_hex(text.as_bytes()).unwrap()
}

#[test]
fn mariadbs_greeting() {
    let greeting = Greeting::parse(&bytes(MARIADB_GREETING)).unwrap();
    assert_eq!(greeting.server_version, "5.5.5-10.11.19-MariaDB-0+deb12u1");
    assert_eq!(greeting.real_version(), "10.11.19-MariaDB-0+deb12u1");
    assert!(greeting.is_mariadb());
    assert_eq!((greeting.connection_id, greeting.collation, greeting.status), (31, 8, 2));
    assert_eq!(&greeting.nonce, b")$uD5w}/lVJP3Lf:1&i^");
    assert_eq!(greeting.plugin, "mysql_native_password");
    assert_eq!(greeting.capabilities.mariadb_bits(), 0x1d);
    assert!(!greeting.capabilities.contains(Capabilities::LONG_PASSWORD));
    assert!(greeting.capabilities.contains(Capabilities::MARIADB_STMT_BULK));
    assert_eq!(greeting.encode(), bytes(MARIADB_GREETING));
}

#[test]
fn mysqls_greeting() {
    let greeting = Greeting::parse(&bytes(MYSQL_GREETING)).unwrap();
    assert_eq!((greeting.server_version.as_str(), greeting.real_version()), ("9.7.4-2", "9.7.4-2"));
    assert!(!greeting.is_mariadb());
    assert_eq!((greeting.connection_id, greeting.collation, greeting.status), (34, 255, 2));
    assert_eq!(greeting.plugin, "caching_sha2_password");
    assert_eq!(greeting.capabilities, Capabilities(0xdfff_ffff));
    assert_eq!(greeting.encode(), bytes(MYSQL_GREETING));
}

#[test]
fn mysqls_switch_keeps_the_nonce_of_the_greeting() {
    let switch = AuthSwitchRequest::parse(&bytes(MYSQL_SWITCH)).unwrap();
    assert_eq!(Plugin::from_name(&switch.plugin), Some(Plugin::CachingSha2));
    assert_eq!(switch.nonce(), Some(Greeting::parse(&bytes(MYSQL_GREETING)).unwrap().nonce));
    assert_eq!(switch.encode(), bytes(MYSQL_SWITCH));
}

#[test]
fn mysqls_login() {
    let login = Login::parse(&bytes(MYSQL_LOGIN)).unwrap();
    assert_eq!((login.user.as_slice(), login.collation, login.max_packet_len), (&b"ann"[..], 255, 1 << 24));
    assert_eq!(login.schema.as_deref(), Some(&b"mysql"[..]));
    assert_eq!(login.plugin.as_deref(), Some(&b"caching_sha2_password"[..]));
    assert!(verify_fast(&Password::new("secret"), &login.answer, &NONCE).is_some());
    assert_eq!(login.attributes.iter().count(), 7);
    assert!(login.attributes.iter().any(|pair| pair == (b"program_name", b"mysql")));
    assert_eq!(login.encode(), bytes(MYSQL_LOGIN));
}

#[test]
fn pymysqls_login() {
    let login = Login::parse(&bytes(PYMYSQL_LOGIN)).unwrap();
    assert_eq!((login.collation, login.schema.as_deref()), (45, Some(&b"shop"[..])));
    assert!(
        caching_sha2::verify_fast(
            &login.answer,
            &NONCE,
            &caching_sha2::stage2(&caching_sha2::stage1(b"secret"))
        )
        .is_some()
    );
    assert_eq!(login.attributes.iter().count(), 3);
    assert_eq!(login.encode(), bytes(PYMYSQL_LOGIN));
}

#[test]
fn mariadbs_login() {
    let login = Login::parse(&bytes(MARIADB_LOGIN)).unwrap();
    assert_eq!((login.collation, login.schema.as_deref()), (33, Some(&b"shop"[..])));
    assert_eq!(login.plugin.as_deref(), Some(&b"mysql_native_password"[..]));
    assert!(native::verify(&login.answer, &NONCE, &native::stored_hash(b"secret")).is_some());
    assert_eq!(login.capabilities.mariadb_bits(), Capabilities::MARIADB_STMT_BULK.mariadb_bits());
    assert_eq!(login.attributes.iter().count(), 7);
    assert_eq!(login.encode(), bytes(MARIADB_LOGIN));
}
