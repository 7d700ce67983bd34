//! Error numbers stand in one file, with the servers' names for them: elsewhere they are names. And what several readers ask of a
//! number is asked of its owner.

use super::rust_file::RustFile;
use super::scan::words;
use super::{Project, Violation};

const OWNER: &str = "crates/wire/src/error_code.rs";

/// Whether a server takes no writes is not told by the number alone, so that nobody compares these; who makes such an error names one.
const NOT_COMPARED: [&str; 2] = ["ER_OPTION_PREVENTS_STATEMENT", "ER_READ_ONLY_MODE"];
const MAKERS: [&str; 2] = ["crates/wire/", "crates/session/src/client_error"];

/// Words beside which a number of this size is one of an error.
const ABOUT_ERRORS: [&str; 4] = ["code", "error", "errno", "u16"];

/// Names every such number elsewhere. Tests may have them.
pub(crate) fn check(project: &Project) -> Vec<Violation> {
    let files = || project.tree.rust_below("crates").filter(|file| file.path != OWNER);
    let owned: Vec<u16> =
        project.tree.rust_below("crates").filter(|file| file.path == OWNER).flat_map(owned).collect();
    let compared = files().filter(|file| !MAKERS.iter().any(|maker| file.path.starts_with(maker)));
    files().flat_map(|file| numbers(file, &owned)).chain(compared.flat_map(comparisons)).collect()
}

/// The numbers that have a name.
fn owned(file: &RustFile) -> Vec<u16> {
    let constants = file.product_lines().filter_map(|(_, line)| line.split_once(": u16 = "));
    constants.filter_map(|(_, value)| value.trim_end_matches(';').parse().ok()).collect()
}

fn numbers(file: &RustFile, owned: &[u16]) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut is_list = false;
    for ((number, line), text) in file.lines().zip(file.text.lines()) {
        is_list |= line.contains("[u16") && line.contains('=');
        let is_about_errors =
            is_list || has_sql_state(text) || words(line).any(|word| ABOUT_ERRORS.contains(&word));
        if !file.is_test_line(number) {
            let wrong = words(line).filter_map(error_number).filter(|n| owned.contains(n) || is_about_errors);
            found.extend(wrong.map(|n| {
                let what = format!(
                    "{n} is a number of {OWNER}, or belongs there (another number of this size: write 1_234)"
                );
                Violation::new(&file.path, number, what)
            }));
        }
        is_list &= !line.contains(';');
    }
    found
}

/// A number in the ranges of servers, client libraries and the proxy, without `_`.
fn error_number(word: &str) -> Option<u16> {
    let number = word.parse().ok().filter(|_| word.len() == 4)?;
    matches!(number, 1000..=4999 | 9000..=9999).then_some(number)
}

/// True with a literal as `b"HY000"`.
fn has_sql_state(text: &str) -> bool {
    text.match_indices("b\"").any(|(at, _)| {
        let rest = &text.as_bytes()[at + 2..];
        let is_state = |byte: &u8| byte.is_ascii_digit() || byte.is_ascii_uppercase();
        rest.get(5) == Some(&b'"') && rest[..5].iter().all(is_state)
    })
}

fn comparisons(file: &RustFile) -> Vec<Violation> {
    let lines = file.product_lines().filter(|(_, line)| words(line).any(|word| NOT_COMPARED.contains(&word)));
    lines
        .map(|(line, _)| {
            Violation::new(
                &file.path,
                line,
                "whether a server takes no writes is asked of `Response` or `ErrPacket`",
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{files, places};
    use super::*;

    const NAMES: (&str, &str) =
        (OWNER, "//! A.\npub const ER_A: u16 = 1045;\npub const ER_READ_ONLY_MODE: u16 = 1836;\n");

    fn found_in(text: &str) -> Vec<String> {
        places(&check(&files(&[NAMES, ("crates/session/src/a.rs", text)])))
    }

    #[test]
    fn numbers_of_errors_are_found_in_all_their_forms() {
        for line in [
            "const DENIED: u16 = 1999;",
            "const NET: std::ops::RangeInclusive<u16> = 1158..=1161;",
            "matches!(error.code, 1290 | 1836)",
            "response.error == Some(9104)",
            "Self::new(3159, *b\"HY000\", text)",
            // No word about errors, but a number that has a name.
            "f(1045)",
        ] {
            assert!(found_in(line).iter().all(|place| place.ends_with(".rs:1")), "{line}");
            assert!(!found_in(line).is_empty(), "{line}");
        }
        let list = "const A: &[u16] = &[\n    1205,\n];\nlet b = 1206;\n";
        assert_eq!(found_in(list), ["crates/session/src/a.rs:2"]);
    }

    #[test]
    fn other_numbers_are_not() {
        for line in [
            "const QUEUE: usize = 1024;",
            "error_code::ER_A; const SIZE: usize = 1_045;",
            "let ms = 3000; let bytes = 64 * 1024;",
            "// 1045 is said where the password is wrong.",
            "warn(\"error 1045\");",
            "let code = 0x1045 + 12345 + 5000;",
            "#[cfg(test)]\nmod tests { fn a() { assert_eq!(error.code, 1045); } }",
        ] {
            assert_eq!(found_in(line), [""; 0], "{line}");
        }
    }

    #[test]
    fn a_refusal_for_read_only_is_not_told_by_its_number() {
        let text = "//! A.\nconst READ_ONLY: [u16; 1] = [error_code::ER_READ_ONLY_MODE];\n";
        assert_eq!(found_in(text), ["crates/session/src/a.rs:2"]);
        let maker = ("crates/session/src/client_error/steered.rs", text);
        assert_eq!(check(&files(&[NAMES, maker])), []);
    }
}
