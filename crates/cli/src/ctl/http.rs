//! `delphinus ctl --url`: the same over HTTP, with a token.

use anyhow::Context;
use delphinus_http::Inquiry;

use super::line_of;
use crate::args::CtlArgs;

/// What is asked, of whom, and with which token.
pub(super) fn inquiry(args: &CtlArgs, url: &str, command: String) -> anyhow::Result<Inquiry> {
    let from_file = args.token_file.as_deref().map(line_of).transpose()?;
    let missing = "--url needs a token: set DELPHINUS_HTTP_TOKEN, or use --token-file or --token";
    let token = from_file.or_else(|| args.token.clone()).context(missing)?;
    Ok(Inquiry::new(url, &token, command, args.tls_ca.clone())?)
}
