//! The kinds of values that an option can have: how each is read from TOML, how it is described.

use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use toml::de::DeValue;

use crate::address::{BackendAddress, ListenAddress, Network};
use crate::clients::Clients;
use crate::secret::Secret;

/// Why a value cannot be taken.
pub(crate) struct Wrong {
    /// What follows the name of the field, for example `is a list`.
    pub(crate) what: String,
    /// What to do; `None`: write a value of the field's kind.
    pub(crate) instead: Option<String>,
}

/// A kind of value.
pub(crate) trait Value: Sized {
    /// What may be written, for the reference and for mistakes, for example `a path`.
    fn kind() -> String;

    /// Reads it.
    fn read(raw: &DeValue<'_>) -> Result<Self, Wrong>;

    /// The value as it would be written in the file; empty for kinds that are never a default.
    fn literal(&self) -> String {
        String::new()
    }

    /// The value for people who ask; empty where nothing is set.
    fn shown(&self) -> String {
        self.literal()
    }

    /// True for values that are never shown.
    fn is_secret() -> bool {
        false
    }

    /// The number that a range is checked against, if it is one.
    fn number(&self) -> Option<u64> {
        None
    }
}

/// The name of a TOML type, never the value: it might be a secret.
pub(crate) fn type_name(raw: &DeValue<'_>) -> &'static str {
    match raw {
        DeValue::String(_) => "text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// The complaint for a value of another TOML type than the field needs.
pub(crate) fn wrong_type(raw: &DeValue<'_>) -> Wrong {
    Wrong { what: format!("is {}", type_name(raw)), instead: None }
}

fn integer(raw: &DeValue<'_>) -> Option<i128> {
    let DeValue::Integer(integer) = raw else { return None };
    i128::from_str_radix(integer.as_str(), integer.radix()).ok()
}

macro_rules! unsigned {
    ($($ty:ty),+) => {$(
        impl Value for $ty {
            fn kind() -> String {
                "a whole number".to_owned()
            }
            fn read(raw: &DeValue<'_>) -> Result<Self, Wrong> {
                let number = integer(raw).ok_or_else(|| wrong_type(raw))?;
                Self::try_from(number)
                    .map_err(|_| Wrong { what: format!("= {number} is out of range"), instead: None })
            }
            fn literal(&self) -> String {
                self.to_string()
            }
            fn number(&self) -> Option<u64> {
                Some(u64::from(*self))
            }
        }
    )+};
}
unsigned!(u8, u32, u64);

impl Value for bool {
    fn kind() -> String {
        "true or false".to_owned()
    }
    fn read(raw: &DeValue<'_>) -> Result<Self, Wrong> {
        match raw {
            DeValue::Boolean(value) => Ok(*value),
            _ => Err(wrong_type(raw)),
        }
    }
    fn literal(&self) -> String {
        self.to_string()
    }
}

impl<T: Value> Value for Option<T> {
    fn kind() -> String {
        T::kind()
    }
    fn read(raw: &DeValue<'_>) -> Result<Self, Wrong> {
        T::read(raw).map(Some)
    }
    fn shown(&self) -> String {
        self.as_ref().map(Value::shown).unwrap_or_default()
    }
    fn is_secret() -> bool {
        T::is_secret()
    }
    fn number(&self) -> Option<u64> {
        self.as_ref().and_then(Value::number)
    }
}

impl<T: Value> Value for Vec<T> {
    fn kind() -> String {
        format!("a list in brackets, each item {}", T::kind())
    }
    fn read(raw: &DeValue<'_>) -> Result<Self, Wrong> {
        let DeValue::Array(items) = raw else { return Err(wrong_type(raw)) };
        items.iter().map(|item| T::read(item.get_ref()).map_err(in_list)).collect()
    }
    fn literal(&self) -> String {
        format!("[{}]", self.iter().map(Value::literal).collect::<Vec<_>>().join(", "))
    }
    fn shown(&self) -> String {
        format!("[{}]", self.iter().map(Value::shown).collect::<Vec<_>>().join(", "))
    }
    fn is_secret() -> bool {
        T::is_secret()
    }
}

fn in_list(wrong: Wrong) -> Wrong {
    let what = match wrong.what.strip_prefix("= ") {
        Some(rest) => format!("has an item: {rest}"),
        None => format!("has an item that {}", wrong.what),
    };
    Wrong { what, ..wrong }
}

impl Value for String {
    fn kind() -> String {
        "text in quotes".to_owned()
    }
    fn read(raw: &DeValue<'_>) -> Result<Self, Wrong> {
        match raw.as_str() {
            Some(text) if text.contains('\0') => Err(Wrong {
                what: "contains a NUL byte".to_owned(),
                instead: Some("write text without it".to_owned()),
            }),
            Some(text) => Ok(text.to_owned()),
            None => Err(wrong_type(raw)),
        }
    }
    fn literal(&self) -> String {
        format!("{self:?}")
    }
}

impl Value for Secret {
    fn kind() -> String {
        "text in quotes".to_owned()
    }
    fn read(raw: &DeValue<'_>) -> Result<Self, Wrong> {
        String::read(raw).map(Secret::new)
    }
    fn shown(&self) -> String {
        self.to_string()
    }
    fn is_secret() -> bool {
        true
    }
}

impl Value for PathBuf {
    fn kind() -> String {
        "a path in quotes".to_owned()
    }
    fn read(raw: &DeValue<'_>) -> Result<Self, Wrong> {
        match raw.as_str() {
            Some("") => Err(Wrong { what: "is empty".to_owned(), instead: None }),
            Some(text) => Ok(Self::from(text)),
            None => Err(wrong_type(raw)),
        }
    }
    fn shown(&self) -> String {
        format!("\"{}\"", self.display())
    }
}

fn read_parsed<T: Value + FromStr<Err = String>>(raw: &DeValue<'_>) -> Result<T, Wrong> {
    let text = raw.as_str().ok_or_else(|| wrong_type(raw))?;
    text.parse()
        .map_err(|instead| Wrong { what: format!("= {text:?} is not usable"), instead: Some(instead) })
}

impl Value for ListenAddress {
    fn kind() -> String {
        "\"ip:port\", \"[ipv6]:port\" or \"unix:/path\"".to_owned()
    }
    fn read(raw: &DeValue<'_>) -> Result<Self, Wrong> {
        read_parsed(raw)
    }
    fn shown(&self) -> String {
        format!("\"{self}\"")
    }
}

impl Value for IpAddr {
    fn kind() -> String {
        "an IP address in quotes".to_owned()
    }
    fn read(raw: &DeValue<'_>) -> Result<Self, Wrong> {
        let text = raw.as_str().ok_or_else(|| wrong_type(raw))?;
        text.parse().map_err(|_| Wrong {
            what: format!("= {text:?} is not an IP address"),
            instead: Some("write it as \"10.0.0.100\" or \"fd00::100\"".to_owned()),
        })
    }
    fn literal(&self) -> String {
        format!("\"{self}\"")
    }
}

impl Value for Network {
    fn kind() -> String {
        "\"ip/bits\" or \"ip\"".to_owned()
    }
    fn read(raw: &DeValue<'_>) -> Result<Self, Wrong> {
        read_parsed(raw)
    }
    fn literal(&self) -> String {
        format!("\"{self}\"")
    }
}

impl Value for Clients {
    fn kind() -> String {
        "\"ip/bits\", \"ip\", \"10.1.*\", \"unix\" or \"*\"".to_owned()
    }
    fn read(raw: &DeValue<'_>) -> Result<Self, Wrong> {
        read_parsed(raw)
    }
    fn literal(&self) -> String {
        format!("\"{self}\"")
    }
}

impl Value for BackendAddress {
    fn kind() -> String {
        "\"host:port\", \"[ipv6]:port\" or \"unix:/path\"".to_owned()
    }
    fn read(raw: &DeValue<'_>) -> Result<Self, Wrong> {
        read_parsed(raw)
    }
    fn shown(&self) -> String {
        format!("\"{self}\"")
    }
}

/// Permission bits of a Unix socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketMode(pub u32);

impl FromStr for SocketMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match u32::from_str_radix(text, 8) {
            Ok(bits) if bits <= 0o777 && !text.starts_with('+') => Ok(Self(bits)),
            _ => Err(format!("write {}", Self::kind())),
        }
    }
}

impl Value for SocketMode {
    fn kind() -> String {
        "octal permission bits in quotes, \"0770\"".to_owned()
    }
    fn read(raw: &DeValue<'_>) -> Result<Self, Wrong> {
        read_parsed(raw)
    }
    fn shown(&self) -> String {
        format!("\"{:04o}\"", self.0)
    }
}

/// The SHA-256 of a certificate or a public key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint(pub [u8; 32]);

impl FromStr for Fingerprint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("write {}", Self::kind());
        let digits = text.replace(':', "");
        let mut bytes = [0; 32];
        if digits.len() != 64 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&digits[2 * index..2 * index + 2], 16).map_err(|_| wrong())?;
        }
        Ok(Self(bytes))
    }
}

impl Value for Fingerprint {
    fn kind() -> String {
        "64 hexadecimal digits (SHA-256) in quotes, with or without colons".to_owned()
    }
    fn read(raw: &DeValue<'_>) -> Result<Self, Wrong> {
        read_parsed(raw)
    }
    fn literal(&self) -> String {
        let digits: Vec<String> = self.0.iter().map(|byte| format!("{byte:02X}")).collect();
        format!("\"{}\"", digits.join(":"))
    }
}
