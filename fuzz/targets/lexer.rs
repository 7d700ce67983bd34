//! SQL text of any kind, read in every way: nothing panics, and every range lies inside the text, in order.
#![no_main]

use delphinus_fuzz::Input;
use delphinus_sql::{
    Backslash, Flavor, LexOptions, Quotes, TextCharset, advisory_locks, assignments, builtin_calls,
    calls_locks_once, classify, digest, handlers, kill_target, server_locks, split, sql_prepared,
    temporary_tables, used_schemas, user_variables_assigned,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let options = options(input.byte(), input.byte());
    let sql = input.rest();
    let _ = classify(sql, options);
    let mut normalised = Vec::new();
    let first = digest(sql, options, &mut normalised);
    let mut again = b"before".to_vec();
    assert_eq!(first, digest(sql, options, &mut again), "what is in the buffer before must not matter");
    assert_eq!(again[6..], normalised[..]);
    let mut end = 0;
    for range in split(sql, options) {
        assert!(end <= range.start && range.start <= range.end && range.end <= sql.len(), "{range:?}");
        end = range.end;
        let _ = classify(&sql[range], options);
    }
    let _ = assignments(sql, options);
    let _ = (advisory_locks(sql, options), builtin_calls(sql, options), handlers(sql, options));
    let _ = (kill_target(sql, options), sql_prepared(sql, options), temporary_tables(sql, options));
    let _ = (calls_locks_once(sql, options), server_locks(sql, options));
    let _ = (used_schemas(sql, options), user_variables_assigned(sql, options));
});

fn options(choice: u8, charset: u8) -> LexOptions {
    LexOptions {
        ansi_quotes: if choice & 1 == 0 { Quotes::Standard } else { Quotes::Ansi },
        backslash: if choice & 2 == 0 { Backslash::Escapes } else { Backslash::Literal },
        flavor: if choice & 4 == 0 { Flavor::MySql } else { Flavor::MariaDb },
        charset: match charset % 6 {
            0 => TextCharset::Utf8,
            1 => TextCharset::AsciiSafe,
            2 => TextCharset::Gbk,
            3 => TextCharset::Sjis,
            4 => TextCharset::Big5,
            _ => TextCharset::Gb18030,
        },
        server_version: if choice & 8 == 0 { 80_036 } else { 101_119 },
    }
}
