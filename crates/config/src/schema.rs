//! The options of the file, declared once: `section!` makes of one declaration the struct with its
//! documentation, the reading of its table, and the rows of the reference page.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::document::Table;
use crate::mistake::{Mistakes, Span};
use crate::option_doc::OptionDoc;
use crate::value::Value;

/// Declares one section under its head and path. Each field reads
/// `/// text` `name: Type = default, "unit", Reload [, in range] [, aka "other name"];`
/// where the default is `is(value)`, `unset("what happens then")` or `required()`.
macro_rules! section {
    (
        $(#[doc = $about:literal])+
        $vis:vis struct $name:ident = $head:literal at $path:literal $(with $($child:literal),+)? {$(
            $(#[doc = $doc:literal])+
            $field:ident : $ty:ty = $preset:expr, $unit:literal, $reload:ident
            $(, in $range:expr)? $(, aka $alias:literal)*;
        )+}
    ) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[non_exhaustive]
        $vis struct $name {$(
            $(#[doc = $doc])+
            #[doc = concat!("\n\nUnit: ", $unit, ". Default: `", stringify!($preset), "`. ", stringify!($reload), ".")]
            pub $field: $ty,
        )+}

        impl $crate::schema::Section for $name {
            const HEAD: &'static str = $head;
            const KEYS: &'static [&'static str] = &[$(stringify!($field), $($alias,)*)+ $($($child),+)?];

            fn about() -> String {
                $crate::schema::paragraph(&[$($about),+])
            }

            fn options() -> Vec<$crate::option_doc::OptionDoc> {
                vec![$({
                    let rule = $crate::schema::Rule { name: stringify!($field), aliases: &[$($alias),*], range: $crate::schema::range(&[$($range)?]) };
                    let preset: $crate::schema::Preset<$ty> = $preset;
                    $crate::option_doc::OptionDoc {
                        path: format!("{}.{}", $path, stringify!($field)),
                        kind: rule.kind::<$ty>(),
                        unit: $unit,
                        has_literal_default: preset.is_literal(),
                        default: preset.words,
                        reload: $crate::option_doc::Reload::$reload,
                        aliases: rule.aliases,
                        is_secret: <$ty as $crate::value::Value>::is_secret(),
                        text: $crate::schema::paragraph(&[$($doc),+]),
                    }
                }),+]
            }

            fn values(&self) -> Vec<(&'static str, String)> {
                vec![$((stringify!($field), $crate::value::Value::shown(&self.$field))),+]
            }

            fn take_hot(&mut self, read: &Self) {
                $(if matches!($crate::option_doc::Reload::$reload, $crate::option_doc::Reload::Hot) {
                    self.$field.clone_from(&read.$field);
                })+
            }

            fn read(reader: &mut $crate::schema::Reader<'_, '_, '_>) -> Option<Self> {
                // Every field is read before the first missing one ends it, so that no mistake is left out.
                $(let $field = {
                    let rule = $crate::schema::Rule { name: stringify!($field), aliases: &[$($alias),*], range: $crate::schema::range(&[$($range)?]) };
                    reader.field::<$ty>(&rule, $preset)
                };)+
                Some(Self { $($field: $field?),+ })
            }
        }
    };
}

mod activity;
mod admin;
mod authentication;
mod cache;
mod cluster;
mod digests;
mod failover;
mod filter;
mod http;
mod lease;
mod limit;
mod listener;
mod log;
mod mirror;
mod monitor;
mod pool;
mod proxy;
mod relay;
mod routing;
mod rule;
mod slow_log;
mod sql_log;
mod user;
mod vip;

pub use activity::Activity;
pub(crate) use admin::{AdminSection, AdminUserSection};
pub use authentication::Authentication;
pub use cache::Cache;
pub(crate) use cluster::{BackendSection, ClusterSection};
pub use digests::Digests;
pub(crate) use failover::{FailoverSection, RemoteRelaySection};
pub(crate) use filter::FilterSection;
pub(crate) use http::{HttpSection, HttpTokenSection};
pub(crate) use lease::LeaseSection;
pub(crate) use limit::LimitSection;
pub(crate) use listener::ListenerSection;
pub use log::Log;
pub(crate) use mirror::MirrorSection;
pub(crate) use monitor::MonitorSection;
pub use pool::Pool;
pub use proxy::Proxy;
pub(crate) use relay::{RelaySection, RelayUserSection};
pub use routing::Routing;
pub(crate) use rule::RuleSection;
pub use slow_log::SlowLog;
pub use sql_log::SqlLog;
pub(crate) use user::UserSection;
pub(crate) use vip::VipSection;

/// A table of the file with fixed keys.
pub(crate) trait Section: Sized {
    /// How its head is written.
    const HEAD: &'static str;
    /// Everything that may stand in it: fields, their aliases, tables below it.
    const KEYS: &'static [&'static str];

    /// What the section is for.
    fn about() -> String;
    /// Its rows in the reference.
    fn options() -> Vec<OptionDoc>;
    /// Its fields as they are now, secrets hidden.
    fn values(&self) -> Vec<(&'static str, String)>;
    /// Takes over those of its fields that take effect while the proxy runs.
    fn take_hot(&mut self, read: &Self);
    /// Reads its fields; `None` if one that has no default is missing or wrong.
    fn read(reader: &mut Reader<'_, '_, '_>) -> Option<Self>;
}

/// A section as read, and where its parts stand.
pub(crate) struct Written<S> {
    pub(crate) value: S,
    place: Span,
    keys: BTreeMap<&'static str, Span>,
    mistyped: Vec<&'static str>,
}

impl<S> Written<S> {
    /// The place of a field, or of the section where the field is not written.
    pub(crate) fn at(&self, field: &str) -> &Span {
        self.keys.get(field).unwrap_or(&self.place)
    }

    /// Whether a field is written, be it right, wrong or mistyped: there is no second complaint then.
    pub(crate) fn has(&self, field: &str) -> bool {
        self.keys.contains_key(field) || self.mistyped.contains(&field)
    }
}

/// Reads one section out of its table and collects what is wrong.
pub(crate) fn read<S: Section>(table: &Table<'_>, mistakes: &mut Mistakes<'_>) -> Option<Written<S>> {
    let mut mistyped = table.refuse_unknown(S::KEYS, mistakes);
    mistyped
        .extend(table.common().map(|common| common.refuse_unknown(S::KEYS, mistakes)).unwrap_or_default());
    let mut reader = Reader { table, mistakes, keys: BTreeMap::new(), mistyped };
    let value = S::read(&mut reader);
    let Reader { keys, mistyped, .. } = reader;
    Some(Written { value: value?, place: table.place.clone(), keys, mistyped })
}

/// What may be written for one field.
pub(crate) struct Rule {
    pub(crate) name: &'static str,
    pub(crate) aliases: &'static [&'static str],
    pub(crate) range: Option<RangeInclusive<u64>>,
}

impl Rule {
    pub(crate) fn kind<T: Value>(&self) -> String {
        match &self.range {
            Some(range) => format!("{} from {} to {}", T::kind(), range.start(), range.end()),
            None => T::kind(),
        }
    }

    /// The number, if it is out of range.
    fn excludes<T: Value>(&self, value: &T) -> Option<u64> {
        let number = value.number()?;
        let range = self.range.as_ref()?;
        (!range.contains(&number)).then_some(number)
    }
}

/// The default of a field.
pub(crate) struct Preset<T> {
    value: Option<T>,
    literal: bool,
    pub(crate) words: String,
}

impl<T> Preset<T> {
    pub(crate) fn is_literal(&self) -> bool {
        self.literal
    }
}

/// The field has this value where nothing is written.
fn is<T: Value>(value: T) -> Preset<T> {
    Preset { words: value.literal(), value: Some(value), literal: true }
}

/// The field has no value where nothing is written; the words say what happens then.
fn unset<T>(words: &str) -> Preset<Option<T>> {
    Preset { value: Some(None), literal: false, words: words.to_owned() }
}

/// The field has to be written.
fn required<T>() -> Preset<T> {
    Preset { value: None, literal: false, words: "has to be written".to_owned() }
}

/// Reads the fields of one table.
pub(crate) struct Reader<'r, 'a, 'm> {
    table: &'r Table<'a>,
    mistakes: &'r mut Mistakes<'m>,
    keys: BTreeMap<&'static str, Span>,
    mistyped: Vec<&'static str>,
}

impl Reader<'_, '_, '_> {
    /// The value of one field; a wrong one is complained about and replaced by its default, so that
    /// the other checks can go on.
    pub(crate) fn field<T: Value>(&mut self, rule: &Rule, preset: Preset<T>) -> Option<T> {
        let names = || std::iter::once(rule.name).chain(rule.aliases.iter().copied());
        let has_it = |table: &&Table<'_>| names().any(|name| table.entry(name).is_some());
        let Some(table) = [Some(self.table), self.table.common()].into_iter().flatten().find(has_it) else {
            return self.absent(rule, preset);
        };
        let mut names = names();
        let Some((name, (raw, span))) = names.find_map(|name| Some((name, table.entry(name)?))) else {
            return self.absent(rule, preset);
        };
        for second in names {
            if let Some((_, span)) = table.entry(second) {
                let what = format!("\"{second}\" is another name of \"{name}\", which is written, too");
                self.mistakes.push(span, what, "remove one of them");
            }
        }
        self.keys.insert(rule.name, span.clone());
        match T::read(raw) {
            Ok(value) => match rule.excludes(&value) {
                Some(number) => {
                    let what = format!("{name} = {number} is out of range");
                    self.mistakes.push(span, what, format!("write {}", rule.kind::<T>()));
                    preset.value
                }
                None => Some(value),
            },
            Err(wrong) => {
                let instead = wrong.instead.unwrap_or_else(|| format!("write {}", rule.kind::<T>()));
                self.mistakes.push(span, format!("{name} {}", wrong.what), instead);
                preset.value
            }
        }
    }

    fn absent<T: Value>(&mut self, rule: &Rule, preset: Preset<T>) -> Option<T> {
        if preset.value.is_none() && !self.mistyped.contains(&rule.name) {
            let what = format!("{} is missing in {}", rule.name, self.table.head);
            let instead = format!("write {} = and {}", rule.name, rule.kind::<T>());
            self.mistakes.push(&self.table.place, what, instead);
        }
        preset.value
    }
}

/// The one range of a declaration, if it has one.
fn range(ranges: &[RangeInclusive<u64>]) -> Option<RangeInclusive<u64>> {
    ranges.first().cloned()
}

/// Joins the lines of a doc comment.
fn paragraph(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}

/// One section of the reference: its head, what it is for, its options.
pub(crate) struct Chapter {
    pub(crate) head: &'static str,
    pub(crate) about: String,
    pub(crate) keys: &'static [&'static str],
    pub(crate) options: Vec<OptionDoc>,
}

fn chapter<S: Section>() -> Chapter {
    Chapter { head: S::HEAD, about: S::about(), keys: S::KEYS, options: S::options() }
}

/// All sections, in the order of the reference.
pub(crate) fn chapters() -> Vec<Chapter> {
    vec![
        chapter::<Proxy>(),
        chapter::<ListenerSection>(),
        chapter::<UserSection>(),
        chapter::<Authentication>(),
        chapter::<ClusterSection>(),
        chapter::<BackendSection>(),
        chapter::<FailoverSection>(),
        chapter::<RemoteRelaySection>(),
        chapter::<Routing>(),
        chapter::<RuleSection>(),
        chapter::<FilterSection>(),
        chapter::<LimitSection>(),
        chapter::<MirrorSection>(),
        chapter::<MonitorSection>(),
        chapter::<Pool>(),
        chapter::<Cache>(),
        chapter::<Digests>(),
        chapter::<SlowLog>(),
        chapter::<LeaseSection>(),
        chapter::<VipSection>(),
        chapter::<RelaySection>(),
        chapter::<RelayUserSection>(),
        chapter::<SqlLog>(),
        chapter::<Activity>(),
        chapter::<AdminSection>(),
        chapter::<AdminUserSection>(),
        chapter::<HttpSection>(),
        chapter::<HttpTokenSection>(),
        chapter::<Log>(),
    ]
}

/// The section that a key belongs to, if it belongs to exactly one.
pub(crate) fn section_with(key: &str) -> Option<&'static str> {
    let chapters = chapters();
    let mut heads = chapters.iter().filter(|c| c.keys.contains(&key)).map(|c| c.head);
    heads.next().filter(|_| heads.next().is_none())
}
