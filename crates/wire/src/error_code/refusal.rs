//! What the number of an error proves of its statement: the server has refused it, and how much of it was done before that.
//!
//! Owns: the facts that more than one reader relies on. A reader that knows more of its statement, a SET or a login, adds its own
//! numbers where it asks. A number that is in no list proves nothing.
//!
//! Sources: the servers' references of errors, and for the order of the checks what they were seen to do: docs/protocol-notes.md.

use super::{
    ER_BAD_DB_ERROR, ER_BAD_FIELD_ERROR, ER_COLUMNACCESS_DENIED_ERROR, ER_DBACCESS_DENIED_ERROR,
    ER_FUNC_INEXISTENT_NAME_COLLISION, ER_GLOBAL_VARIABLE, ER_INCORRECT_GLOBAL_LOCAL_VAR, ER_LOCAL_VARIABLE,
    ER_NO_DB_ERROR, ER_NO_SUCH_TABLE, ER_PARSE_ERROR, ER_PROCACCESS_DENIED_ERROR, ER_SP_DOES_NOT_EXIST,
    ER_SP_WRONG_NO_OF_ARGS, ER_SPECIFIC_ACCESS_DENIED_ERROR, ER_TABLEACCESS_DENIED_ERROR,
    ER_UNKNOWN_STMT_HANDLER, ER_WRONG_ARGUMENTS, ER_WRONG_TYPE_FOR_VAR, ER_WRONG_VALUE_FOR_VAR,
};

/// True for a statement that did not begin, with a function in it, or an EXECUTE of one: syntax, no such routine, statement or schema,
/// a wrong number of arguments, no rights to it.
pub fn is_not_begun(code: u16) -> bool {
    matches!(
        code,
        ER_DBACCESS_DENIED_ERROR
            | ER_NO_DB_ERROR
            | ER_BAD_DB_ERROR
            | ER_PARSE_ERROR
            | ER_WRONG_ARGUMENTS
            | ER_UNKNOWN_STMT_HANDLER
            | ER_SP_DOES_NOT_EXIST
            | ER_SP_WRONG_NO_OF_ARGS
            | ER_PROCACCESS_DENIED_ERROR
            | ER_FUNC_INEXISTENT_NAME_COLLISION
    )
}

/// True for a name in a statement that is resolved before anything of it runs: no such column or table, no rights to one.
pub fn is_not_resolved(code: u16) -> bool {
    matches!(
        code,
        ER_BAD_FIELD_ERROR | ER_TABLEACCESS_DENIED_ERROR | ER_COLUMNACCESS_DENIED_ERROR | ER_NO_SUCH_TABLE
    )
}

/// True where the user has no right to a schema, a table, the statement or a routine: that is checked before anything is done.
pub fn is_denied(code: u16) -> bool {
    matches!(
        code,
        ER_DBACCESS_DENIED_ERROR
            | ER_TABLEACCESS_DENIED_ERROR
            | ER_SPECIFIC_ACCESS_DENIED_ERROR
            | ER_PROCACCESS_DENIED_ERROR
    )
}

/// True for a variable that SET cannot set so, which is said before any is set: of the other scope, with a value that it does not take.
pub fn is_not_settable(code: u16) -> bool {
    matches!(
        code,
        ER_LOCAL_VARIABLE
            | ER_GLOBAL_VARIABLE
            | ER_WRONG_VALUE_FOR_VAR
            | ER_WRONG_TYPE_FOR_VAR
            | ER_INCORRECT_GLOBAL_LOCAL_VAR
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All numbers that prove this.
    fn numbers(proves: fn(u16) -> bool) -> Vec<u16> {
        (0..u16::MAX).filter(|code| proves(*code)).collect()
    }

    /// Whoever relies on one of these lists is asked before a number joins it.
    #[test]
    fn each_fact_has_these_numbers() {
        assert_eq!(numbers(is_not_begun), [1044, 1046, 1049, 1064, 1210, 1243, 1305, 1318, 1370, 1630]);
        assert_eq!(numbers(is_not_resolved), [1054, 1142, 1143, 1146]);
        assert_eq!(numbers(is_denied), [1044, 1142, 1227, 1370]);
        assert_eq!(numbers(is_not_settable), [1228, 1229, 1231, 1232, 1238]);
    }
}
