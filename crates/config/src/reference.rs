//! The reference page: every option with kind, unit, default and reload, from the schema's own text.

use std::fmt::Write;

use crate::option_doc::OptionDoc;
use crate::schema::chapters;

/// Every option of the file, in the order of the reference.
pub fn options() -> Vec<OptionDoc> {
    chapters().into_iter().flat_map(|chapter| chapter.options).collect()
}

/// The reference page as Markdown.
pub fn reference() -> String {
    let mut page = HEAD.to_owned();
    for chapter in chapters() {
        let _ = writeln!(page, "\n## `{}`\n\n{}", chapter.head, chapter.about);
        for option in &chapter.options {
            page += &entry(option);
        }
    }
    page
}

const HEAD: &str = "# Options of delphinus.toml

<!-- Made by `delphinus config reference`. Change the text in crates/config/src/schema/. -->

`delphinus check FILE` finds every mistake in a file. A key that is not listed here is a mistake. `hot` options take
effect while the proxy runs, `restart` options with its next start.
";

fn entry(option: &OptionDoc) -> String {
    let mut text = format!("\n### `{}`\n\n{}\n\n- Value: {}\n", option.path, option.text, option.kind);
    if !option.unit.is_empty() {
        let _ = writeln!(text, "- Unit: {}", option.unit);
    }
    let mark = if option.has_literal_default { "`" } else { "" };
    let _ = writeln!(text, "- Default: {mark}{}{mark}", option.default);
    if !option.aliases.is_empty() {
        let _ = writeln!(text, "- Also accepted as: `{}`", option.aliases.join("`, `"));
    }
    let _ = writeln!(text, "- Reload: {}", option.reload.as_str());
    text
}
