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
    // A name that is invalid in the client's character set, or in that of names: as utf8mb3, utf8mb4, binary. Latin1 has every byte.
    for (collation, name) in
        [(33, "t\u{1f601}"), (45, "t\u{1f601}"), (63, "t\u{1f601}"), (45, "t"), (63, "\u{e9}")]
    {
        // MySQL shows such a name in another way, and refuses it for the same reason.
        if stage.cluster.flavor.is_mysql() {
            break;
        }
        let named = |login: Login| outcome(&login.collation(collation).schema(name));
        let (found, expected) = (named(through(stage)), named(direct(stage)));
        assert_eq!(found, expected, "{name} with collation {collation}");
    }
    // ucs2, utf16, utf16le, utf32; and latin1, which is allowed.
    for collation in [35, 90, 54, 101, 56, 60, 128, 8] {
        let (found, expected) =
            (outcome(&through(stage).collation(collation)), outcome(&direct(stage).collation(collation)));
        assert_eq!(found, expected, "collation {collation}");
        assert_eq!(found.is_ok(), collation == 8, "collation {collation}");
    }
}

/// What is refused, and with which error.
type Ways<'a> = [(u16, &'a dyn Fn(&Login) -> Login); 2];

/// MariaDB: three tries; the old user goes on with a session like new.
pub(crate) fn a_refused_user_may_try_again(stage: &Stage) {
    let ask = "SELECT DATABASE(), CURRENT_USER(), @a, @@character_set_client, @@collation_connection";
    let refusals = |login: &Login, refused: &dyn Fn(&Login) -> Login| {
        let mut client = login.connect().unwrap();
        client.run("SET @a = 1, sql_mode = 'ANSI'").unwrap();
        client.run("USE information_schema").unwrap();
        let wrong = refused(login);
        let mut seen = Vec::new();
        for tried in [&wrong, &wrong, login, &wrong, login] {
            let refused = client.change_user(tried).map_err(|error| error.downcast::<Failure>().unwrap());
            seen.push((refused, client.query(ask).unwrap()[0].clone().rows().unwrap()));
        }
        seen
    };
    let ways: Ways<'_> =
        [(1045, &|login| login.clone().user("app", "wrong")), (1044, &|login| login.clone().schema("mysql"))];
    for (code, refused) in ways {
        let expected = refusals(&direct(stage).collation(8), refused);
        let errors = expected.iter().map(|(tried, _)| tried.as_ref().map_or_else(|error| error.code, |()| 0));
        assert_eq!(errors.collect::<Vec<_>>(), [code, code, 0, code, 1047]);
        assert_eq!(refusals(&through(stage).collation(8), refused), expected);
    }
}

/// MySQL.
pub(crate) fn a_refused_user_is_gone(stage: &Stage) {
    let mut client = through(stage).connect().unwrap();
    let refused = client.change_user(&through(stage).user("app", "wrong")).unwrap_err();
    assert_eq!(refused.downcast::<Failure>().unwrap().code, 1045);
    assert!(client.is_at_end());
}
