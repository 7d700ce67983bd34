//! Files that the proxy writes: each has one writer.

use expect_test::expect;

use super::{check_mistakes, minimal, parse_text};

#[test]
fn no_two_logs_write_to_one_file() {
    let file = |slow: &str, sql: &str, own: &str| {
        minimal(&[])
            .replace("[slow_log]\n", &format!("[slow_log]\nfile = '{slow}'\n"))
            .replace("[sql_log]\n", &format!("[sql_log]\nfile = '{sql}'\n"))
            .replace("[log]\n", &format!("[log]\nfile = '{own}'\n"))
    };
    assert!(parse_text(&file("slow.log", "sql.log", "delphinus.log")).is_ok());
    assert!(parse_text(&file("a.log", "a.log.gz", "a.log.1.old")).is_ok());
    check_mistakes(
        &file("logs/a.log", "/etc/delphinus/./logs//a.log", "./logs/a.log"),
        &expect![[r#"
        "#]],
    );
    // The first of them is called so after it was moved away.
    check_mistakes(
        &file("a.log", "b.log", "b.log.17"),
        &expect![[r#"
        "#]],
    );
}

#[test]
fn relays_have_folders_of_their_own() {
    let file = |first: &str, second: &str| {
        let relay = |name: &str, server_id: u32, folder: &str| {
            format!(
                "[[relay]]\nname = '{name}'\nfolder = '{folder}'\nserver_id = {server_id}\nsource_user = 'u'\nsource_password = 'p'\n"
            )
        };
        let proxy = "listener = [{ address = '127.0.0.1:0' }]\nuser = [{ name = 'u', password = 'p' }]\n\
                     [[cluster.backend]]\naddress = 'db:3306'\nrole = 'primary'\n[monitor]\nuser = 'm'\npassword = 'p'\n\
                     [proxy]\ndata_dir = 'data'\n";
        format!("{proxy}{}{}", relay("one", 8, first), relay("two", 9, second))
    };
    assert!(parse_text(&file("data/one", "data/two")).is_ok());
    check_mistakes(
        &file("r", "./r/"),
        &expect![[r#"
        "#]],
    );
    check_mistakes(
        &file("data/activity", "/etc/delphinus/data/config-history"),
        &expect![[r#"
        "#]],
    );
}
