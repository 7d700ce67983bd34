//! `delphinus check`: names every mistake in a file, and shows what backends can be recognised by.

use std::fmt::Write;
use std::process::ExitCode;

use delphinus_app::{ShownByBackend, shown_by_backends};
use delphinus_config::BackendTls;

use crate::args::CheckArgs;
use crate::load::{load_and_look, print_mistakes};
use crate::output::print;

pub(crate) fn check(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let (loaded, warnings) = load_and_look(&args.file)?;
    for warning in warnings {
        eprintln!("warning: {warning}");
    }
    match loaded {
        Ok(config) => {
            print("ok\n")?;
            if args.fingerprints {
                print(&fingerprints(&shown_by_backends(&config)?))?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(mistakes) => {
            print_mistakes(&args.file, &mistakes);
            Ok(ExitCode::FAILURE)
        }
    }
}

const COMPARE: &str = "
# What the backends have shown to this machine. Compare it on the servers before you trust it:
#   openssl x509 -noout -fingerprint -sha256 -in server-cert.pem
#   openssl pkey -pubin -in public_key.pem -outform DER | openssl sha256
";

/// Lines for the configuration; what cannot be used as the file is stays a comment.
fn fingerprints(backends: &[ShownByBackend]) -> String {
    if backends.is_empty() {
        return "# every backend is reached by a Unix socket: nothing has to be proved\n".to_owned();
    }
    let mut out = COMPARE.to_owned();
    for shown in backends {
        let _ = writeln!(out, "\n# [[cluster.backend]] {}", shown.backend.escape_debug());
        let has_tls = put_certificate(&mut out, shown);
        put_key(&mut out, shown, has_tls);
    }
    out
}

/// True if the certificate is what the configuration should have.
fn put_certificate(out: &mut String, shown: &ShownByBackend) -> bool {
    let is_wanted = shown.tls != BackendTls::Disabled;
    let comment = if is_wanted { "" } else { "# " };
    let written = match &shown.certificate {
        Ok(Some(fingerprint)) => {
            let lines =
                format!("{comment}tls = \"required\"\n{comment}tls_fingerprints = [\"{fingerprint}\"]");
            writeln!(out, "{lines}")
        }
        Ok(None) => writeln!(out, "# it offers no TLS"),
        Err(error) => writeln!(out, "# no certificate: {}", error.escape_debug()),
    };
    let _ = written;
    is_wanted && matches!(shown.certificate, Ok(Some(_)))
}

fn put_key(out: &mut String, shown: &ShownByBackend, has_tls: bool) {
    let comment = if has_tls { "# " } else { "" };
    let _ = match &shown.key {
        Ok(fingerprint) => {
            if has_tls {
                let _ = writeln!(out, "# or, without TLS:");
            }
            let lines = format!(
                "{comment}tls = \"disabled\"\n{comment}server_public_key_fingerprints = [\"{fingerprint}\"]"
            );
            writeln!(out, "{lines}")
        }
        Err(error) => writeln!(out, "# no RSA key without TLS: {}", error.escape_debug()),
    };
}
