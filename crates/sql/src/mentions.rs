//! What follows from the words of a text, wherever they stand: what a text does not mention, it does not mean.
//!
//! Owns: looking for single words without reading the text as SQL. A word in a comment or in a literal counts, so that only its absence
//! is certain.

/// True if one of these words is in the text, be it in a comment.
pub(crate) fn mentions(sql: &[u8], wanted: &[&str]) -> bool {
    words(sql).any(|word| is_one_of(word, wanted))
}

/// Letters and digits that stand together.
pub(crate) fn words(sql: &[u8]) -> impl Iterator<Item = &[u8]> {
    sql.split(|byte| !byte.is_ascii_alphanumeric()).filter(|word| !word.is_empty())
}

pub(crate) fn is_one_of(word: &[u8], list: &[&str]) -> bool {
    list.iter().any(|one| word.eq_ignore_ascii_case(one.as_bytes()))
}

/// True if the text may ask for the schema that it is in.
pub fn may_ask_for_schema(sql: &[u8]) -> bool {
    mentions(sql, &["database", "schema"])
}

/// False for several statements of which certainly none is a `SHOW`.
pub fn may_show(sql: &[u8]) -> bool {
    mentions(sql, &["show"])
}

/// True if rows that several statements have sent are those of a query.
pub fn rows_are_of_queries(sql: &[u8]) -> bool {
    !may_show(sql) && mentions(sql, &["select", "values"])
}

/// False for a query that certainly sends its result to the client.
pub fn may_store_result(sql: &[u8]) -> bool {
    mentions(sql, &["into"])
}

/// False for an `EXPLAIN` that certainly does not run what it explains.
pub fn may_run_explained(sql: &[u8]) -> bool {
    mentions(sql, &["analyze"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_counts_wherever_it_stands_and_only_whole() {
        type Fact = fn(&[u8]) -> bool;
        for (fact, sql, expected) in [
            (may_ask_for_schema as Fact, "SELECT DATABASE()", true),
            (may_ask_for_schema, "SELECT 1 /* schema */", true),
            (may_ask_for_schema, "SELECT a FROM databases", false),
            (may_show, "DO 1;show warnings", true),
            (may_show, "DO 1; SELECT shown FROM t", false),
            (rows_are_of_queries, "SET @a = 1; Select 1", true),
            (rows_are_of_queries, "SET @a = 1; VALUES (1)", true),
            (rows_are_of_queries, "SHOW WARNINGS; SELECT 1", false),
            (rows_are_of_queries, "CALL p(); CALL q()", false),
            (may_store_result, "SELECT a INTO @a FROM t", true),
            (may_store_result, "SELECT a FROM t", false),
            (may_run_explained, "EXPLAIN ANALYZE SELECT 1", true),
            (may_run_explained, "EXPLAIN SELECT 1", false),
        ] {
            assert_eq!(fact(sql.as_bytes()), expected, "{sql}");
        }
    }
}
