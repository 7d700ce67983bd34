//! One door for errors to the client: only `client_error.rs` of `session` makes ERR packets.

use super::rust_file::RustFile;
use super::scan::{block_end, is_word};
use super::{Project, Violation};

const PACKET: &str = "ErrPacket";
const DOOR: &str = "crates/session/src/client_error.rs";
/// Where the packet is defined.
const OWNER: &str = "crates/wire/";

/// Names every place that makes one elsewhere. Tests may.
pub(crate) fn check(project: &Project) -> Vec<Violation> {
    let files = project.tree.rust_below("crates");
    let others = files.filter(|file| file.path != DOOR && !file.path.starts_with(OWNER));
    others.flat_map(constructions).collect()
}

fn constructions(file: &RustFile) -> Vec<Violation> {
    let places = file.code.match_indices(PACKET).map(|(at, _)| at);
    let made = places.filter(|&at| is_construction(&file.code, at)).map(|at| file.line_at(at));
    let made = made.filter(|&line| !file.is_test_line(line));
    made.map(|line| Violation::new(&file.path, line, format!("only {DOOR} makes an {PACKET}"))).collect()
}

/// `ErrPacket { .. }` as a value: neither a pattern nor a declaration nor the end of a signature.
fn is_construction(code: &str, at: usize) -> bool {
    let before = code[..at].trim_end();
    let after = &code[at + PACKET.len()..];
    let Some(open) = after.find(|c: char| !c.is_whitespace()).filter(|&open| after[open..].starts_with('{'))
    else {
        return false;
    };
    let is_part_of_word = code[..at].chars().next_back().is_some_and(is_word);
    let is_declared = ["struct", "impl", "for", "->", "let"].iter().any(|word| before.ends_with(word));
    let rest = code[block_end(code, at + PACKET.len() + open)..].trim_start_matches([')', ' ', '\n', '\t']);
    let is_equality = rest.starts_with("==");
    let is_pattern =
        rest.starts_with("=>") || rest.starts_with("if ") || (rest.starts_with('=') && !is_equality);
    !is_part_of_word && !is_declared && !is_pattern
}

#[cfg(test)]
mod tests {
    use super::super::testing::{files, places};
    use super::*;

    #[test]
    fn a_packet_made_behind_the_door_is_found() {
        let text = "//! A.\nfn a() { send(ErrPacket { code: 1 }); }\nfn b() {\n    wire::ErrPacket {\n code }.put()\n}\n";
        let elsewhere = ("crates/session/src/local.rs", text);
        let project = files(&[
            elsewhere,
            (DOOR, text),
            ("crates/wire/src/a.rs", text),
            ("crates/net/tests/a.rs", text),
        ]);
        assert_eq!(
            places(&check(&project)),
            ["crates/session/src/local.rs:2", "crates/session/src/local.rs:4"]
        );
    }

    #[test]
    fn patterns_and_signatures_make_none() {
        let text = "//! A.\nfn a() -> ErrPacket { b }\nlet ErrPacket { code, .. } = c;\nif let Some(ErrPacket { code }) = d {}
            match e { Err(ErrPacket { code, .. }) => f, Ok(ErrPacket { code }) if g => h }\nimpl A for ErrPacket {}\n";
        assert_eq!(check(&files(&[("crates/session/src/local.rs", text)])), []);
    }
}
