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
            d.toml:24:1: sql_log.file = "logs/a.log" is a file of [slow_log], too; write another file than that of [slow_log]
            d.toml:28:1: log.file = "logs/a.log" is a file of [slow_log], too; write another file than that of [slow_log]
        "#]],
    );
    // The first of them is called so after it was moved away.
    check_mistakes(
        &file("a.log", "b.log", "b.log.17"),
        &expect![[r#"
            d.toml:28:1: log.file = "b.log.17" is a file of [sql_log], too; write another file than that of [sql_log]
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
            d.toml:19:1: folder "r" is there twice; write another folder, or remove one of the two
        "#]],
    );
    check_mistakes(
        &file("data/activity", "/etc/delphinus/data/config-history"),
        &expect![[r#"
            d.toml:13:1: folder "data/activity" is one that the proxy keeps its own files in; write a folder for this relay alone
            d.toml:19:1: folder "data/config-history" is one that the proxy keeps its own files in; write a folder for this relay alone
        "#]],
    );
}
