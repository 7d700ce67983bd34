//! The patterns of LIKE and GLOB, as SQLite reads them. Must not know the clock: who has a pattern matched says when to stop.

use std::str::Chars;

/// So many times a text is tried from another place before the next question whether to go on.
const TRIES: u32 = 4096;

/// A part of a pattern.
enum Part {
    /// Any characters, also none.
    Any,
    /// One character.
    One,
    /// This character.
    Char(char),
    /// One character of these ranges; or, if inverted, one of no range.
    Set { is_inverted: bool, ranges: Vec<(char, char)> },
}

/// A pattern.
pub(crate) struct Pattern {
    parts: Vec<Part>,
    ignores_case: bool,
}

impl Pattern {
    /// A pattern of LIKE; `None`: no text fits it.
    pub(crate) fn like(pattern: &str, escape: Option<char>) -> Option<Self> {
        let (mut parts, mut chars) = (Vec::new(), pattern.chars());
        while let Some(one) = chars.next() {
            parts.push(match one {
                one if Some(one) == escape => Part::Char(chars.next()?),
                '%' => Part::Any,
                '_' => Part::One,
                one => Part::Char(one),
            });
        }
        Some(Self { parts, ignores_case: true })
    }

    /// The same of GLOB.
    pub(crate) fn glob(pattern: &str) -> Option<Self> {
        let (mut parts, mut chars) = (Vec::new(), pattern.chars());
        while let Some(one) = chars.next() {
            parts.push(match one {
                '*' => Part::Any,
                '?' => Part::One,
                '[' => set(&mut chars)?,
                one => Part::Char(one),
            });
        }
        Some(Self { parts, ignores_case: false })
    }

    /// True if the text fits. Now and then it asks `goes_on`, whose error ends it.
    pub(crate) fn fits<E>(&self, text: &str, goes_on: impl Fn() -> Result<(), E>) -> Result<bool, E> {
        let (mut rest, mut at) = (text.chars(), 0);
        // The part behind the last `Any`, and where it was tried last.
        let mut last: Option<(usize, Chars<'_>)> = None;
        let mut tries = 0_u32;
        loop {
            let mut behind = rest.clone();
            match (self.parts.get(at), behind.next()) {
                (Some(Part::Any), _) => {
                    at += 1;
                    if at == self.parts.len() {
                        return Ok(true);
                    }
                    last = Some((at, rest.clone()));
                    continue;
                }
                (None, None) => return Ok(true),
                (Some(part), Some(one)) if self.is(part, one) => {
                    (rest, at) = (behind, at + 1);
                    continue;
                }
                // What is missing is not found later, either.
                (Some(_), None) => return Ok(false),
                (_, Some(_)) => {}
            }
            let Some((part, from)) = &mut last else { return Ok(false) };
            tries = tries.wrapping_add(1);
            if tries.is_multiple_of(TRIES) {
                goes_on()?;
            }
            from.next();
            (rest, at) = (from.clone(), *part);
        }
    }

    fn is(&self, part: &Part, one: char) -> bool {
        match part {
            Part::Any => false,
            Part::One => true,
            Part::Char(wanted) => *wanted == one || (self.ignores_case && wanted.eq_ignore_ascii_case(&one)),
            Part::Set { is_inverted, ranges } => {
                ranges.iter().any(|(first, last)| (*first..=*last).contains(&one)) != *is_inverted
            }
        }
    }
}

/// The set behind a `[`; `None`: it does not end.
fn set(chars: &mut Chars<'_>) -> Option<Part> {
    let mut one = chars.next()?;
    let is_inverted = one == '^';
    if is_inverted {
        one = chars.next()?;
    }
    let mut ranges = Vec::new();
    // Where it comes first it is one of the set.
    if one == ']' {
        ranges.push((one, one));
        one = chars.next()?;
    }
    let mut before = None;
    while one != ']' {
        let last = chars.clone().next().filter(|last| one == '-' && *last != ']');
        if let (Some(first), Some(last)) = (before, last) {
            ranges.push((first, last));
            before = None;
            chars.next();
        } else {
            ranges.push((one, one));
            before = Some(one);
        }
        one = chars.next()?;
    }
    Some(Part::Set { is_inverted, ranges })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn fits(pattern: Option<Pattern>, text: &str) -> bool {
        pattern.is_some_and(|pattern| pattern.fits(text, || Ok::<_, ()>(())).unwrap())
    }

    /// The first texts fit, those behind the bar do not: so SQLite has it.
    #[test]
    fn patterns_fit_as_in_sqlite() {
        let cases = [
            ("", "", "a"),
            ("%", " a ab", ""),
            ("a_c", "abc AbC aüc", "ac abbc"),
            ("%b%", "b ab bc abc aBc", "ac"),
            ("%ab%ab", "abab xabxabab", "ab aba"),
            ("Ä%", "Ä Äa", "ä"),
            ("%a!%b%", "a%b xa%bx", "ab a!%b"),
            ("a!", "", "a a!"),
        ];
        for (pattern, right, wrong) in cases {
            let like = |text| fits(Pattern::like(pattern, Some('!')), text);
            assert!(right.split(' ').all(like) || pattern == "a!", "{pattern} {right}");
            assert!(wrong.is_empty() || !wrong.split(' ').any(like), "{pattern} {wrong}");
        }
        let cases = [
            ("a*c?", "acx abcc", "ac Acx"),
            ("[a-c]x", "ax bx cx", "dx -x x"),
            ("[^a-c]x", "dx -x", "ax x"),
            ("[]x]", "] x", "[ a"),
            ("[^]x]", "a [", "] x"),
            ("[a-]", "a -", "b"),
            ("[-a]", "a -", "b"),
            ("[a-c-e]", "b - e", "d"),
            ("*[0-9]", "a1 1", "a"),
            ("%_", "%_", "ab"),
        ];
        for (pattern, right, wrong) in cases {
            let glob = |text| fits(Pattern::glob(pattern), text);
            assert!(right.split(' ').all(glob), "{pattern} {right}");
            assert!(!wrong.split(' ').any(glob), "{pattern} {wrong}");
        }
        assert!(!fits(Pattern::glob("a[b"), "ab") && !fits(Pattern::glob("[]"), "]"));
    }

    #[test]
    fn it_is_asked_whether_to_go_on() {
        let pattern = Pattern::like(&format!("%{}b", "a".repeat(200)), None).unwrap();
        let asked = Cell::new(0);
        let goes_on = || {
            asked.set(asked.get() + 1);
            if asked.get() == 3 { Err("time is up") } else { Ok(()) }
        };
        assert_eq!(pattern.fits(&"a".repeat(100_000), goes_on), Err("time is up"));
    }
}
