//! Logins, and changes of the user, that a server refuses.

use delphinus_e2e::Stage;
use delphinus_testkit::{Failure, Login};

use crate::{direct, through};

/// What has become of a login.
fn outcome(login: &Login) -> Result<(), Failure> {
    let failure = match login.connect() {
        Ok(_) => return Ok(()),
        Err(error) => error.downcast::<Failure>().expect("a refusal by the server"),
    };
    Err(failure)
}

pub(crate) fn are_refused_as_by_the_server(stage: &Stage) {
    let named = |login: Login, chars: usize| login.schema(&"\u{e9}".repeat(chars));
    for chars in [64, 65, 90] {
        let (found, expected) =
            (outcome(&named(through(stage), chars)), outcome(&named(direct(stage), chars)));
        assert_eq!(found, expected, "a schema's name of {chars} characters");
    }
    // ucs2, utf16, utf16le, utf32; and latin1, which is allowed.
    for collation in [35, 90, 54, 101, 56, 60, 128, 8] {
        let (found, expected) =
            (outcome(&through(stage).collation(collation)), outcome(&direct(stage).collation(collation)));
        assert_eq!(found, expected, "collation {collation}");
        assert_eq!(found.is_ok(), collation == 8, "collation {collation}");
    }
}

/// MariaDB: three tries; the old user goes on with a session like new.
pub(crate) fn a_refused_user_may_try_again(stage: &Stage) {
    let ask = "SELECT DATABASE(), CURRENT_USER(), @a, @@character_set_client, @@collation_connection";
    let refusals = |login: &Login| {
        let mut client = login.connect().unwrap();
        client.run("SET @a = 1, sql_mode = 'ANSI'").unwrap();
        client.run("USE information_schema").unwrap();
        let wrong = login.clone().user("app", "wrong");
        let mut seen = Vec::new();
        for tried in [&wrong, &wrong, login, &wrong, login] {
            // Not the SQLSTATE: no session of the proxy's that goes on gets one of class 08.
            let refused = client.change_user(tried).map_err(|error| {
                let failure = error.downcast::<Failure>().unwrap();
                (failure.code, failure.message)
            });
            seen.push((refused, client.query(ask).unwrap()[0].clone().rows().unwrap()));
        }
        seen
    };
    let expected = refusals(&direct(stage).collation(8));
    assert_eq!(expected[4].0.as_ref().unwrap_err().0, 1047);
    assert_eq!(refusals(&through(stage).collation(8)), expected);
}

/// MySQL.
pub(crate) fn a_refused_user_is_gone(stage: &Stage) {
    let mut client = through(stage).connect().unwrap();
    let refused = client.change_user(&through(stage).user("app", "wrong")).unwrap_err();
    assert_eq!(refused.downcast::<Failure>().unwrap().code, 1045);
    assert!(client.is_at_end());
}
