//! Whom a server follows.

use super::{Around, quoted};
use crate::probe::error::ProbeError;
use crate::probe::query::{execute, receive_named, send};
use crate::promotion::hand::Open;
use crate::promotion::look::Product;

/// How replicas of a cluster were told to follow, beside whom: one that was the primary is told the same.
#[derive(Debug, Clone, Default)]
pub(in crate::promotion) struct Manner(Vec<(&'static str, String)>);

/// As this server follows, if it does.
pub(in crate::promotion) async fn manner(open: &mut Open) -> Result<Option<Manner>, ProbeError> {
    let is_mariadb = open.product.is_mariadb();
    let sql = if is_mariadb {
        "SHOW SLAVE STATUS"
    } else {
        "SELECT * FROM performance_schema.replication_connection_configuration WHERE CHANNEL_NAME = ''"
    };
    send(&mut open.connection, &[sql]).await?;
    let named = receive_named(&mut open.connection, 1).await?;
    let Some(row) = named.rows().next() else { return Ok(None) };
    let text =
        |wanted: &'static str| row.text(|name| name == wanted.as_bytes()).map(std::borrow::Cow::into_owned);
    let on = |wanted| text(wanted).map(|word| u8::from(word.eq_ignore_ascii_case("yes")).to_string());
    let word = |wanted| text(wanted).filter(|word| !word.is_empty()).map(|word| quoted(&word));
    let list = if is_mariadb {
        vec![
            ("MASTER_CONNECT_RETRY", text("Connect_Retry")),
            ("MASTER_SSL", on("Master_SSL_Allowed")),
            ("MASTER_SSL_CA", word("Master_SSL_CA_File")),
            ("MASTER_SSL_CERT", word("Master_SSL_Cert")),
            ("MASTER_SSL_KEY", word("Master_SSL_Key")),
            ("MASTER_SSL_CAPATH", word("Master_SSL_CA_Path")),
            ("MASTER_SSL_CIPHER", word("Master_SSL_Cipher")),
            ("MASTER_SSL_CRL", word("Master_SSL_Crl")),
            ("MASTER_SSL_CRLPATH", word("Master_SSL_Crlpath")),
            ("MASTER_SSL_VERIFY_SERVER_CERT", on("Master_SSL_Verify_Server_Cert")),
        ]
    } else {
        vec![
            ("SOURCE_CONNECT_RETRY", text("CONNECTION_RETRY_INTERVAL")),
            ("SOURCE_RETRY_COUNT", text("CONNECTION_RETRY_COUNT")),
            ("SOURCE_HEARTBEAT_PERIOD", text("HEARTBEAT_INTERVAL")),
            ("SOURCE_SSL", on("SSL_ALLOWED")),
            ("SOURCE_SSL_CA", word("SSL_CA_FILE")),
            ("SOURCE_SSL_CERT", word("SSL_CERTIFICATE")),
            ("SOURCE_SSL_KEY", word("SSL_KEY")),
            ("SOURCE_SSL_CAPATH", word("SSL_CA_PATH")),
            ("SOURCE_SSL_CIPHER", word("SSL_CIPHER")),
            ("SOURCE_SSL_CRL", word("SSL_CRL_FILE")),
            ("SOURCE_SSL_CRLPATH", word("SSL_CRL_PATH")),
            ("SOURCE_TLS_VERSION", word("TLS_VERSION")),
            ("SOURCE_TLS_CIPHERSUITES", word("TLS_CIPHERSUITES")),
            ("SOURCE_COMPRESSION_ALGORITHMS", word("COMPRESSION_ALGORITHM")),
            ("SOURCE_ZSTD_COMPRESSION_LEVEL", text("ZSTD_COMPRESSION_LEVEL")),
            ("SOURCE_SSL_VERIFY_SERVER_CERT", on("SSL_VERIFY_SERVER_CERTIFICATE")),
            ("GET_SOURCE_PUBLIC_KEY", on("GET_PUBLIC_KEY")),
        ]
    };
    Ok(Some(Manner(list.into_iter().filter_map(|(key, value)| Some((key, value?))).collect())))
}

/// What it has received it keeps, and applies.
pub(super) async fn stop_receiver(open: &mut Open) -> Result<String, ProbeError> {
    let product = open.product;
    execute(&mut open.connection, words(product, "STOP REPLICA IO_THREAD", "STOP SLAVE IO_THREAD")).await?;
    Ok("receives nothing more".to_owned())
}

pub(super) async fn start(open: &mut Open) -> Result<String, ProbeError> {
    let product = open.product;
    execute(&mut open.connection, words(product, "START REPLICA", "START SLAVE")).await?;
    Ok("replicates".to_owned())
}

pub(super) async fn detach(open: &mut Open) -> Result<String, ProbeError> {
    let product = open.product;
    for (new, old) in [("STOP REPLICA", "STOP SLAVE"), ("RESET REPLICA ALL", "RESET SLAVE ALL")] {
        execute(&mut open.connection, words(product, new, old)).await?;
    }
    Ok("follows no server".to_owned())
}

/// One that has followed keeps the account and the rest of what it was told; one that was the primary is told all.
pub(super) async fn attach(open: &mut Open, around: &Around<'_>) -> Result<String, ProbeError> {
    follow(open, around, around.has_account).await
}

/// The same, behind a relay. As whom it logs in there it is always told: it need not be the account that the primary has.
pub(super) async fn drain(open: &mut Open, around: &Around<'_>) -> Result<String, ProbeError> {
    follow(open, around, false).await
}

async fn follow(open: &mut Open, around: &Around<'_>, keeps: bool) -> Result<String, ProbeError> {
    let product = open.product;
    let Some(to) = &around.other else {
        return Err(ProbeError::Nonsense("the move names no server to follow"));
    };
    let follows = around.own.standing().is_some_and(|own| !own.sources.is_empty());
    execute(&mut open.connection, words(product, "STOP REPLICA", "STOP SLAVE")).await?;
    if product.is_mariadb() && !follows {
        // What it has written itself it does not need again.
        execute(&mut open.connection, "SET GLOBAL gtid_slave_pos = @@global.gtid_current_pos").await?;
    }
    let manner = (follows && keeps, follows);
    execute(&mut open.connection, &change(product, around, (&to.host, to.port), manner)).await?;
    execute(&mut open.connection, words(product, "START REPLICA", "START SLAVE")).await?;
    Ok(format!("follows {}", to.name))
}

/// `keeps`: it has an account for that; `follows`: it was told how to follow before.
fn change(
    product: Product,
    around: &Around<'_>,
    (host, port): (&str, u16),
    (keeps, follows): (bool, bool),
) -> String {
    let is_mariadb = product.is_mariadb();
    let side = if is_mariadb || !is_new(product) { "MASTER" } else { "SOURCE" };
    let mut list = vec![format!("{side}_HOST = {}", quoted(host)), format!("{side}_PORT = {port}")];
    list.push(if is_mariadb {
        "MASTER_USE_GTID = slave_pos".to_owned()
    } else {
        format!("{side}_AUTO_POSITION = 1")
    });
    if !keeps {
        let account = &around.settings.replication;
        list.push(format!("{side}_USER = {}", quoted(&account.user)));
        list.push(format!(
            "{side}_PASSWORD = {}",
            quoted(&String::from_utf8_lossy(account.password.expose()))
        ));
    }
    if !follows {
        if around.manner.0.is_empty() && !is_mariadb && is_new(product) {
            list.push("GET_SOURCE_PUBLIC_KEY = 1".to_owned());
        }
        let manner = around.manner.0.iter().filter(|_| is_mariadb || is_new(product));
        list.extend(manner.map(|(key, value)| format!("{key} = {value}")));
    }
    let head =
        if is_mariadb || !is_new(product) { "CHANGE MASTER TO" } else { "CHANGE REPLICATION SOURCE TO" };
    format!("{head} {}", list.join(", "))
}

fn is_new(product: Product) -> bool {
    !product.is_mariadb() && product.version >= 80_023
}

fn words(product: Product, new: &'static str, old: &'static str) -> &'static str {
    if !product.is_mariadb() && product.version >= 80_022 { new } else { old }
}
