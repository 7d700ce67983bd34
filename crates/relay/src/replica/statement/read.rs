//! Tokens to statements.

use super::token::{Token, Tokens};

/// Assignments of a SET, columns of a SELECT: replicas have fewer than ten.
const MOST_ITEMS: usize = 64;

/// What is known here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Statement {
    /// Only comments.
    Nothing,
    /// SET.
    Set(Vec<(Target, Expression)>),
    /// SELECT without a table: expressions and the names of their columns.
    Select(Vec<(Expression, String)>),
    /// SHOW VARIABLES LIKE.
    ShowVariables(String),
    /// SHOW BINARY LOGS.
    ShowFiles,
    /// SHOW BINARY LOG STATUS, SHOW MASTER STATUS.
    ShowEnd,
    /// SHOW WARNINGS.
    ShowWarnings,
}

/// What SET sets; names of system variables in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    User(String),
    Session(String),
    Global(String),
}

/// A value, or where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Expression {
    Number(u64),
    Text(String),
    Word(String),
    User(String),
    /// Name in lower case, without its scope.
    System(String),
    /// A function, name in lower case; its arguments do not matter.
    Call(String),
}

/// Reads one statement; the error names what is not understood.
pub(super) fn statement(text: &str) -> Result<Statement, String> {
    let mut tokens = Tokens::new(text);
    let statement = match tokens.next() {
        Token::End => return Ok(Statement::Nothing),
        Token::Word(word) => match word.to_ascii_lowercase().as_str() {
            "set" => set(&mut tokens)?,
            "select" => select(&mut tokens)?,
            "show" => show(&mut tokens)?,
            _ => return Err(shortened(text)),
        },
        _ => return Err(shortened(text)),
    };
    if tokens.peek() == Token::Mark(';') {
        tokens.next();
    }
    if tokens.next() == Token::End { Ok(statement) } else { Err(shortened(text)) }
}

/// The front of a text, for an error.
fn shortened(text: &str) -> String {
    const MOST: usize = 120;
    let text = text.trim();
    if text.chars().count() <= MOST {
        text.to_owned()
    } else {
        text.chars().take(MOST).chain(['.', '.']).collect()
    }
}

fn set(tokens: &mut Tokens<'_>) -> Result<Statement, String> {
    let mut list = Vec::new();
    loop {
        list.push(assignment(tokens)?);
        if list.len() > MOST_ITEMS {
            return Err(format!("SET of more than {MOST_ITEMS} values"));
        }
        if tokens.peek() != Token::Mark(',') {
            return Ok(Statement::Set(list));
        }
        tokens.next();
    }
}

fn assignment(tokens: &mut Tokens<'_>) -> Result<(Target, Expression), String> {
    let target = match tokens.next() {
        Token::User(name) => Target::User(name.to_ascii_lowercase()),
        Token::System(name) => of_scope(name),
        Token::Word(word) => match word.to_ascii_lowercase().as_str() {
            // SET NAMES utf8mb4 [COLLATE ..]; SET CHARACTER SET ..
            "names" => return Ok((Target::Session("names".to_owned()), characters(tokens)?)),
            "character" => {
                tokens.next();
                return Ok((Target::Session("names".to_owned()), characters(tokens)?));
            }
            "global" | "persist" => Target::Global(name(tokens)?),
            "session" | "local" => Target::Session(name(tokens)?),
            other => Target::Session(other.to_owned()),
        },
        other => return Err(format!("SET {other:?}")),
    };
    if tokens.peek() == Token::Mark(':') {
        tokens.next();
    }
    match tokens.next() {
        Token::Mark('=') => Ok((target, expression(tokens)?)),
        other => Err(format!("SET without '=' ({other:?})")),
    }
}

fn characters(tokens: &mut Tokens<'_>) -> Result<Expression, String> {
    let value = expression(tokens)?;
    if matches!(tokens.peek(), Token::Word(word) if word.eq_ignore_ascii_case("collate")) {
        tokens.next();
        expression(tokens)?;
    }
    Ok(value)
}

fn name(tokens: &mut Tokens<'_>) -> Result<String, String> {
    match tokens.next() {
        Token::Word(word) => Ok(word.to_ascii_lowercase()),
        other => Err(format!("SET {other:?}")),
    }
}

fn of_scope(name: &str) -> Target {
    let lower = name.to_ascii_lowercase();
    match lower.split_once('.') {
        Some(("global" | "persist", rest)) => Target::Global(rest.to_owned()),
        Some((_, rest)) => Target::Session(rest.to_owned()),
        None => Target::Session(lower),
    }
}

fn expression(tokens: &mut Tokens<'_>) -> Result<Expression, String> {
    Ok(match tokens.next() {
        Token::Number(digits) => {
            Expression::Number(digits.parse().map_err(|_| format!("number {digits} is too large"))?)
        }
        Token::Text(text) => Expression::Text(text),
        Token::User(name) => Expression::User(name.to_owned()),
        Token::System(name) => {
            let name = name.to_ascii_lowercase();
            Expression::System(name.split_once('.').map_or(name.as_str(), |(_, rest)| rest).to_owned())
        }
        Token::Word(word) if tokens.peek() == Token::Mark('(') => {
            arguments(tokens)?;
            Expression::Call(word.to_ascii_lowercase())
        }
        Token::Word(word) => Expression::Word(word.to_owned()),
        other => return Err(format!("{other:?} where a value belongs")),
    })
}

/// Passes over `( .. )` with literals in it.
fn arguments(tokens: &mut Tokens<'_>) -> Result<(), String> {
    tokens.next();
    loop {
        match tokens.next() {
            Token::Mark(')') => return Ok(()),
            Token::Text(_) | Token::Number(_) | Token::Mark(',') => {}
            other => return Err(format!("{other:?} among the arguments of a function")),
        }
    }
}

fn select(tokens: &mut Tokens<'_>) -> Result<Statement, String> {
    let mut items = Vec::new();
    loop {
        let from = tokens.position();
        let value = expression(tokens)?;
        let mut title = tokens.since(from).to_owned();
        if matches!(tokens.peek(), Token::Word(word) if word.eq_ignore_ascii_case("as")) {
            tokens.next();
            title = match tokens.next() {
                Token::Word(word) => word.to_owned(),
                Token::Text(text) => text,
                other => return Err(format!("AS {other:?}")),
            };
        }
        items.push((value, title));
        if items.len() > MOST_ITEMS {
            return Err(format!("SELECT of more than {MOST_ITEMS} values"));
        }
        match tokens.peek() {
            Token::Mark(',') => drop(tokens.next()),
            Token::Word(word) if word.eq_ignore_ascii_case("limit") => {
                tokens.next();
                tokens.next();
                return Ok(Statement::Select(items));
            }
            _ => return Ok(Statement::Select(items)),
        }
    }
}

fn show(tokens: &mut Tokens<'_>) -> Result<Statement, String> {
    let mut words = Vec::new();
    while let Token::Word(word) = tokens.peek() {
        tokens.next();
        words.push(word.to_ascii_lowercase());
    }
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["binary" | "master", "logs"] => Ok(Statement::ShowFiles),
        ["binary", "log", "status"] | ["master" | "binlog", "status"] => Ok(Statement::ShowEnd),
        ["warnings"] => Ok(Statement::ShowWarnings),
        ["variables", "like"] | ["global" | "session", "variables", "like"] => match tokens.next() {
            Token::Text(pattern) => Ok(Statement::ShowVariables(pattern)),
            other => Err(format!("SHOW VARIABLES LIKE {other:?}")),
        },
        _ => Err(format!("SHOW {}", shortened(&words.join(" ").to_ascii_uppercase()))),
    }
}
