//! Statements of a request.

use super::clauses;
use super::lexer::Token;
use super::listing;
use super::parser::Parser;
use super::statement::Statement;
use crate::cell::Cell;
use crate::error::Error;
use std::collections::BTreeMap;

/// Statements that InfluxDB has and this server rejects, with the alternative.
const REJECTED: [(&str, &str); 10] = [
    ("DELETE", "use POST /api/v1/delete, or seiner delete"),
    ("DROP", "use POST /api/v1/delete, or seiner delete"),
    ("ALTER", "retention classes are settings of the server"),
    (
        "EXPLAIN",
        "use seiner query --explain for the plan of a read",
    ),
    ("GRANT", "there are no users"),
    ("REVOKE", "there are no users"),
    ("SET", "there are no users"),
    ("KILL", "a query ends when its client disconnects"),
    ("INSERT", "send line protocol to /write"),
    ("USE", "give the database in the parameter db"),
];

/// Parses statements separated by semicolons. `parameters` are the values of names such as `$host`.
///
/// # Errors
/// If one statement is not valid, or is one that this server rejects.
pub fn parse(text: &str, parameters: &BTreeMap<String, Cell>) -> Result<Vec<Statement>, Error> {
    let mut parser = Parser::new(text, parameters);
    let mut statements = Vec::new();
    loop {
        while parser.accept(";")? {}
        if parser.peek()? == Token::End {
            return Ok(statements);
        }
        statements.push(statement(&mut parser)?);
        if parser.peek()? != Token::End {
            parser.expect(";")?;
        }
    }
}

fn statement(parser: &mut Parser) -> Result<Statement, Error> {
    if parser.keyword("SELECT")? {
        let mut select = clauses::select(parser)?;
        select.database = parser.take_database();
        return Ok(Statement::Select(Box::new(select)));
    }
    if parser.keyword("SHOW")? {
        let mut show = listing::show(parser)?;
        show.database = parser.take_database();
        return Ok(Statement::Show(Box::new(show)));
    }
    if parser.keyword("CREATE")? {
        return create(parser);
    }
    for (name, alternative) in REJECTED {
        if parser.keyword(name)? {
            let error = format!("{name} is not supported; {alternative}");
            return Err(Error::invalid(error));
        }
    }
    Err(parser.unexpected("SELECT, SHOW or CREATE DATABASE"))
}

/// Reads the rest of `CREATE DATABASE` and `CREATE RETENTION POLICY`, which have no effect: there is one database.
fn create(parser: &mut Parser) -> Result<Statement, Error> {
    if !parser.keyword("DATABASE")? && !parser.keyword("RETENTION")? {
        return Err(parser.unexpected("DATABASE or RETENTION POLICY"));
    }
    while !matches!(parser.peek()?, Token::End | Token::Sign(";")) {
        parser.next()?;
    }
    Ok(Statement::Create)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::statement::{Dimension, Expression, Fill, Source};

    fn read(text: &str) -> Result<Vec<Statement>, Error> {
        parse(text, &BTreeMap::new())
    }

    #[test]
    fn a_request_of_a_dashboard_is_parsed() {
        let text = r#"SELECT mean("usage") AS "u" FROM "db"."autogen"."cpu" WHERE ("host"::tag =~ /^(a|b)$/)
            AND time >= 1700000000000ms and time <= now() - 5m GROUP BY time(10s, -1s), "host"::tag, * fill(previous)
            ORDER BY time DESC LIMIT 5 OFFSET 2 SLIMIT 3;"#;
        let statements = read(text).unwrap();
        let [Statement::Select(select)] = statements.as_slice() else {
            panic!("{statements:?}");
        };
        assert!(matches!(&select.sources[..], [Source::Measurement(name)] if name == "cpu"));
        assert_eq!(statements[0].database(), Some("db"));
        assert_eq!(select.fields[0].name.as_deref(), Some("u"));
        assert_eq!(select.every, Some((10_000_000_000, -1_000_000_000)));
        assert!(
            matches!(&select.dimensions[..], [Dimension::Tag(host), Dimension::All] if host == "host")
        );
        assert_eq!(select.fill, Fill::Previous);
        assert!(select.descending);
        assert_eq!((select.rows.limit, select.rows.offset), (Some(5), 2));
        assert_eq!(select.tables.limit, Some(3));
    }

    #[test]
    fn parameters_take_the_place_of_values() {
        let parameters = BTreeMap::from([("h".to_string(), Cell::text("a"))]);
        let statements = parse("SELECT v FROM m WHERE host = $h", &parameters).unwrap();
        let Statement::Select(select) = &statements[0] else {
            panic!("a query");
        };
        assert!(matches!(
            select.condition,
            Some(Expression::Binary(_, _, ref right)) if matches!(**right, Expression::Constant(Cell::Text(_)))
        ));
        let error = read("SELECT v FROM m WHERE host = $h").unwrap_err();
        assert!(error.to_string().contains("$h"), "{error}");
    }

    #[test]
    fn a_statement_names_one_database() {
        let statements = read(
            "SELECT v FROM m; SELECT v FROM rp.m; SELECT v FROM a..m, (SELECT v FROM a.rp./x/); SHOW TAG KEYS ON b FROM m",
        )
        .unwrap();
        let names: Vec<_> = statements.iter().map(Statement::database).collect();
        assert_eq!(names, [None, None, Some("a"), Some("b")]);
        let error = read("SELECT v FROM a..m, b..m").unwrap_err();
        assert!(error.to_string().contains("one database"), "{error}");
    }

    #[test]
    fn rejected_statements_are_named() {
        for text in [
            "DROP MEASUREMENT cpu",
            "DELETE FROM cpu",
            "SELECT v INTO w FROM cpu",
            "SHOW USERS",
        ] {
            let error = read(text).unwrap_err();
            assert!(
                error.to_string().contains("not supported"),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn invalid_statements_have_a_place() {
        for (text, at) in [
            ("SELECT", 7),
            ("SELECT v FROM", 14),
            ("SELECT v FROM m WHERE", 22),
            ("SELECT mean(v FROM m", 15),
            ("SELECT v FROM m GROUP BY time(10)", 31),
            ("SELECT v FROM m LIMIT -1", 23),
            ("SELECT v FROM m fill(5x)", 22),
            ("FROM m", 1),
            ("SELECT v FROM m extra", 17),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(
                error.ends_with(&format!("character {at}")),
                "{text}: {error}"
            );
        }
        let deep = format!("SELECT {}v FROM m", "(".repeat(100_000));
        assert!(read(&deep).unwrap_err().to_string().contains("nested"));
        let long = format!("SELECT v{} FROM m", "+1".repeat(30_000));
        assert!(read(&long).is_err());
    }
}
