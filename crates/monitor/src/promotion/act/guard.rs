//! Nobody writes on a server any more, or everybody may.

use delphinus_wire::error_code;

use super::{Around, sessions};
use crate::probe::error::ProbeError;
use crate::probe::query::execute;
use crate::promotion::hand::Open;
use crate::promotion::look::Product;

/// A statement that runs keeps a server from being set read-only. After the transactions' own time it is ended.
pub(super) async fn close(open: &mut Open, around: &Around<'_>) -> Result<String, ProbeError> {
    let sql =
        if open.product.is_mariadb() { "SET GLOBAL read_only = 1" } else { "SET GLOBAL super_read_only = 1" };
    let mut ended = String::new();
    match execute(&mut open.connection, sql).await {
        Err(ProbeError::Answer(error)) if error.code == error_code::ER_LOCK_WAIT_TIMEOUT => {
            ended = format!("; {} that held it up", sessions::end_clients(open, around).await?);
            execute(&mut open.connection, sql).await?;
        }
        outcome => outcome?,
    }
    let kept = persist(open).await?;
    Ok(format!("read-only{kept}{ended}"))
}

/// It takes writes until it is stopped: a server that starts again may be the old primary by then.
pub(super) async fn open(open: &mut Open) -> Result<String, ProbeError> {
    let kept = persist(open).await?;
    execute(&mut open.connection, "SET GLOBAL read_only = 0").await?;
    Ok(format!("takes writes{kept}"))
}

/// MySQL keeps it for its next start. `MariaDB` has its option file for that, which SQL cannot change.
async fn persist(open: &mut Open) -> Result<&'static str, ProbeError> {
    let Product { version, .. } = open.product;
    if open.product.is_mariadb() || version < 80_000 {
        return Ok("");
    }
    // Members of a group see to it themselves.
    for sql in ["SET PERSIST_ONLY read_only = 1", "SET PERSIST_ONLY super_read_only = 1"] {
        match execute(&mut open.connection, sql).await {
            Ok(()) => {}
            Err(ProbeError::Answer(_)) => {
                return Ok("; its next start is not: PERSIST_RO_VARIABLES_ADMIN is missing");
            }
            Err(error) => return Err(error),
        }
    }
    Ok("")
}
