//! Who asks: the header `Authorization`, and whether it may be taken as the connection is.

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use delphinus_admin::Login;
use delphinus_wire::auth::Password;

use crate::problem::Problem;
use crate::request::Visit;

/// What a request logs in with.
pub(crate) fn login(headers: &HeaderMap, visit: &Visit) -> Result<Login, Problem> {
    let takes_passwords = visit.takes_passwords();
    let mut written = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = written.next() else {
        let message = "log in: Authorization: Bearer TOKEN, with a token of [[http.token]]";
        return Err(Problem::login(message, takes_passwords));
    };
    if written.next().is_some() {
        return Err(Problem::bad("there is more than one header Authorization"));
    }
    let unknown = || Problem::login("the header Authorization is neither Bearer nor Basic", takes_passwords);
    let (scheme, rest) = value.to_str().ok().and_then(|text| text.split_once(' ')).ok_or_else(unknown)?;
    let rest = rest.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        if !visit.takes_tokens() {
            let message = "tokens are accepted only over HTTPS, or from the proxy's own machine; or set tls = \
             \"disabled\" in [http]";
            return Err(Problem::new("insecure", message));
        }
        return Ok(Login::Token(Password::new(rest)));
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return Err(unknown());
    }
    if !visit.settings.basic_auth {
        return Err(Problem::login("passwords are not accepted here (http.basic_auth); use a token", false));
    }
    if !takes_passwords {
        let message = "passwords are accepted only over HTTPS, or from the proxy's own machine";
        return Err(Problem::new("insecure", message));
    }
    let malformed = || Problem::login("the header Authorization is not Basic base64(user:password)", true);
    let pair = base64(rest).and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(malformed)?;
    let pair = Password::new(pair);
    let text = std::str::from_utf8(pair.expose()).unwrap_or_default();
    let (name, password) = text.split_once(':').ok_or_else(malformed)?;
    Ok(Login::Operator { name: name.to_owned(), password: Password::new(password) })
}

/// The bytes of a text in base64, with or without its padding; `None` if it is none.
fn base64(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=').as_bytes();
    let digit = |byte: u8| {
        let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        alphabet.iter().position(|one| *one == byte).map(|at| at as u32)
    };
    let mut out = Vec::with_capacity(text.len() * 3 / 4);
    for group in text.chunks(4) {
        if group.len() == 1 {
            return None;
        }
        let bits = group.iter().try_fold(0, |bits, byte| Some(bits << 6 | digit(*byte)?))?;
        let bytes = (bits << (6 * (4 - group.len()))).to_be_bytes();
        out.extend_from_slice(&bytes[1..group.len()]);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::tests::visit;

    fn headers(values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn both_schemes_are_read() {
        let here = visit("127.0.0.1", false);
        assert!(
            matches!(login(&headers(&["bEaReR  abc"]), &here), Ok(Login::Token(token)) if token.expose() == b"abc")
        );
        let read = login(&headers(&["Basic b3BzOnNlOmNyZXQ="]), &here);
        assert!(
            matches!(read, Ok(Login::Operator { name, password }) if name == "ops" && password.expose() == b"se:cret")
        );
        for wrong in [&[][..], &["Bearer"], &["Digest x"], &["Basic !!"], &["Basic b3Bz"], &["Basic A"]] {
            assert_eq!(login(&headers(wrong), &here).unwrap_err().status(), 401, "{wrong:?}");
        }
        assert_eq!(login(&headers(&["Bearer a", "Bearer b"]), &here).unwrap_err().status(), 400);
    }

    #[test]
    fn secrets_are_not_taken_where_others_could_read_them() {
        let (bearer, basic) = (headers(&["Bearer abc"]), headers(&["Basic b3BzOnNlY3JldA=="]));
        let far = visit("10.1.2.3", false);
        assert_eq!(login(&bearer, &far).unwrap_err().status(), 403);
        assert_eq!(login(&basic, &far).unwrap_err().status(), 403);
        let safe = visit("10.1.2.3", true);
        assert!(login(&bearer, &safe).is_ok() && login(&basic, &safe).is_ok());
        let told_so = Visit { is_plain_wanted: true, ..far };
        assert!(login(&bearer, &told_so).is_ok());
        assert_eq!(login(&basic, &told_so).unwrap_err().status(), 403);
    }

    #[test]
    fn base64_is_read() {
        for (text, bytes) in [("", ""), ("Zg==", "f"), ("Zm8=", "fo"), ("Zm9v", "foo"), ("Zm9vYg", "foob")] {
            assert_eq!(base64(text).as_deref(), Some(bytes.as_bytes()), "{text}");
        }
        assert_eq!((base64("Z"), base64("Zm9v!")), (None, None));
    }
}
