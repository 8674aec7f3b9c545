//! Flink's spelling of SQL for sqlparser: backticks, `TABLE t` as an argument, MAP[…], JSON functions, Flink's types in CAST.
//!
//! Promises: what Flink can write and sqlparser's tree cannot hold becomes an ordinary function call with literal
//! options (`TIMESTAMPADD(DAY, …)` → `TIMESTAMPADD('DAY', …)`), so that names in it are names of columns and nothing
//! else. The target of a CAST is kept as text and read by `types`. Leaves to others: what the calls mean.

use datafusion::sql::sqlparser::{
    ast::{
        CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident, ObjectName, Value,
        ValueWithSpan,
    },
    dialect::{Dialect, Precedence},
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::{Span, Token},
};

/// Flink's dialect: identifiers are case-sensitive and quoted by backticks, text stands in single quotes.
#[derive(Debug, Default, Clone)]
pub struct FlinkDialect {
    _private: (),
}

impl Dialect for FlinkDialect {
    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        ch == '`'
    }

    fn identifier_quote_style(&self, _identifier: &str) -> Option<char> {
        Some('`')
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        ch.is_alphabetic() || ch == '_'
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        ch.is_alphanumeric() || ch == '_' || ch == '$'
    }

    fn supports_unicode_string_literal(&self) -> bool {
        true
    }

    fn supports_filter_during_aggregation(&self) -> bool {
        true
    }

    fn supports_group_by_expr(&self) -> bool {
        true
    }

    fn supports_match_recognize(&self) -> bool {
        true
    }

    fn supports_named_fn_args_with_rarrow_operator(&self) -> bool {
        true
    }

    fn supports_string_literal_concatenation_with_newline(&self) -> bool {
        true
    }

    fn supports_table_versioning(&self) -> bool {
        true
    }

    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        let token = parser.peek_token_ref();
        let Token::Word(word) = &token.token else { return None };
        if word.quote_style.is_some() {
            return None;
        }
        let name = Ident { value: word.value.clone(), quote_style: None, span: token.span };
        let next = &parser.peek_nth_token_ref(1).token;
        let upper = word.value.to_ascii_uppercase();
        let read: fn(&mut Parser, Ident) -> Result<Expr, ParserError> = match (upper.as_str(), next) {
            ("TABLE", Token::Word(_)) => table,
            ("MAP", Token::LBracket) => map,
            ("CAST" | "TRY_CAST", Token::LParen) => cast,
            ("TRIM", Token::LParen) if word_at(parser, 3, "FROM") => bare_trim,
            ("TIMESTAMPADD" | "TIMESTAMPDIFF", Token::LParen) => unit_call,
            ("CEILING", Token::LParen) => |parser, _| {
                parser.advance_token();
                parser.parse_ceil_floor_expr(true)
            },
            ("JSON_OBJECT" | "JSON_OBJECTAGG", Token::LParen) => json_object,
            ("JSON_ARRAY" | "JSON_ARRAYAGG", Token::LParen) => json_array,
            ("JSON_VALUE" | "JSON_QUERY" | "JSON_EXISTS", Token::LParen) => json_path_call,
            _ => return None,
        };
        Some(read(parser, name))
    }

    fn parse_infix(&self, parser: &mut Parser, expr: &Expr, precedence: u8) -> Option<Result<Expr, ParserError>> {
        if precedence != self.prec_value(Precedence::Is) || !word_at(parser, 0, "IS") {
            return None;
        }
        let negated = word_at(parser, 1, "NOT");
        if word_at(parser, 1 + usize::from(negated), "DISTINCT") && word_at(parser, 2 + usize::from(negated), "FROM") {
            // sqlparser itself would take everything behind FROM, a following AND too, as the right side.
            (0..3 + usize::from(negated)).for_each(|_| parser.advance_token());
            return Some(parser.parse_subexpr(precedence).map(|right| {
                let (left, right) = (Box::new(expr.clone()), Box::new(right));
                if negated { Expr::IsNotDistinctFrom(left, right) } else { Expr::IsDistinctFrom(left, right) }
            }));
        }
        if !word_at(parser, 1 + usize::from(negated), "JSON") {
            return None;
        }
        (0..2 + usize::from(negated)).for_each(|_| parser.advance_token());
        let span = parser.get_current_token().span;
        let kinds = ["VALUE", "OBJECT", "ARRAY", "SCALAR"];
        let kind = kinds.into_iter().find(|kind| accept(parser, kind)).unwrap_or("VALUE");
        let test = call(Ident { value: "IS_JSON".to_owned(), quote_style: None, span }, vec![expr.clone(), text(kind, span)]);
        Some(Ok(if negated {
            Expr::UnaryOp { op: datafusion::sql::sqlparser::ast::UnaryOperator::Not, expr: Box::new(test) }
        } else {
            test
        }))
    }
}

fn word_at(parser: &Parser, position: usize, wanted: &str) -> bool {
    matches!(&parser.peek_nth_token_ref(position).token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
}

fn accept(parser: &mut Parser, wanted: &str) -> bool {
    let there = word_at(parser, 0, wanted);
    if there {
        parser.advance_token();
    }
    there
}

fn require(parser: &mut Parser, wanted: &str) -> Result<(), ParserError> {
    if accept(parser, wanted) { Ok(()) } else { parser.expected(wanted, parser.peek_token()) }
}

fn text(value: &str, span: Span) -> Expr {
    Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(value.to_owned()), span })
}

fn null(span: Span) -> Expr {
    Expr::Value(ValueWithSpan { value: Value::Null, span })
}

/// `name(arguments)`.
pub(crate) fn call(name: Ident, arguments: Vec<Expr>) -> Expr {
    let args = arguments.into_iter().map(|argument| FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))).collect();
    Expr::Function(Function {
        name: ObjectName::from(vec![name]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList { duplicate_treatment: None, args, clauses: Vec::new() }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// `TABLE t` inside a window function: the table's name.
fn table(parser: &mut Parser, _: Ident) -> Result<Expr, ParserError> {
    parser.advance_token();
    let name = parser.parse_object_name(false)?;
    if parser.peek_keyword(Keyword::PARTITION) {
        return parser.expected("`,` (PARTITION BY belongs to SESSION windows, which are not built yet)", parser.peek_token());
    }
    let mut parts: Vec<Ident> = name.0.iter().filter_map(|part| part.as_ident().cloned()).collect();
    match parts.len() {
        1 => Ok(Expr::Identifier(parts.remove(0))),
        _ => Ok(Expr::CompoundIdentifier(parts)),
    }
}

fn map(parser: &mut Parser, name: Ident) -> Result<Expr, ParserError> {
    parser.advance_token();
    parser.advance_token();
    if parser.consume_token(&Token::RBracket) {
        return Ok(call(name, Vec::new()));
    }
    let arguments = parser.parse_comma_separated(Parser::parse_expr)?;
    parser.expect_token(&Token::RBracket)?;
    Ok(call(name, arguments))
}

/// CAST(x AS type): the type is kept as text.
fn cast(parser: &mut Parser, name: Ident) -> Result<Expr, ParserError> {
    let kind = if name.value.eq_ignore_ascii_case("CAST") { CastKind::Cast } else { CastKind::TryCast };
    parser.advance_token();
    parser.advance_token();
    let expr = parser.parse_expr()?;
    require(parser, "AS")?;
    let data_type = type_text(parser)?;
    parser.expect_token(&Token::RParen)?;
    Ok(Expr::Cast { kind, expr: Box::new(expr), data_type, array: false, format: None })
}

/// A type up to the `)`, `,` or clause behind it.
fn type_text(parser: &mut Parser) -> Result<DataType, ParserError> {
    let span = parser.peek_token_ref().span;
    let mut written = String::new();
    let (mut parentheses, mut angles) = (0_i32, 0_i32);
    loop {
        let token = parser.peek_token_ref();
        match &token.token {
            Token::RParen if parentheses == 0 => break,
            Token::Comma if parentheses == 0 && angles == 0 => break,
            Token::EOF | Token::SemiColon => return parser.expected("a type and `)`", parser.peek_token()),
            Token::LParen => parentheses += 1,
            Token::RParen => parentheses -= 1,
            Token::Lt => angles += 1,
            Token::Gt => angles -= 1,
            Token::ShiftRight => angles -= 2,
            Token::Word(word) if angles == 0 && parentheses == 0 && matches!(word.keyword, Keyword::NULL | Keyword::ERROR | Keyword::DEFAULT) && !written.ends_with("NOT") => break,
            Token::Word(_) if written.ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '`' || c == ')' || c == '>') => written.push(' '),
            _ => {}
        }
        written.push_str(&token.token.to_string());
        parser.advance_token();
    }
    if written.is_empty() {
        return parser.expected("a type", parser.peek_token());
    }
    Ok(DataType::Custom(ObjectName::from(vec![Ident { value: written, quote_style: None, span }]), Vec::new()))
}

/// TRIM(BOTH FROM s), which trims spaces as TRIM(s) does.
fn bare_trim(parser: &mut Parser, name: Ident) -> Result<Expr, ParserError> {
    let side = parser.peek_nth_token_ref(2).token.to_string().to_ascii_uppercase();
    let value = match side.as_str() {
        "BOTH" => "TRIM",
        "LEADING" => "LTRIM",
        "TRAILING" => "RTRIM",
        _ => {
            parser.advance_token();
            return parser.parse_trim_expr();
        }
    };
    (0..4).for_each(|_| parser.advance_token());
    let text = parser.parse_expr()?;
    parser.expect_token(&Token::RParen)?;
    Ok(call(Ident { value: value.to_owned(), ..name }, vec![text]))
}

/// TIMESTAMPADD(unit, n, t): the unit becomes text.
fn unit_call(parser: &mut Parser, name: Ident) -> Result<Expr, ParserError> {
    parser.advance_token();
    parser.advance_token();
    let unit = parser.next_token();
    let Token::Word(word) = &unit.token else { return parser.expected("a unit of time such as DAY", unit) };
    let mut arguments = vec![text(&word.value.to_ascii_uppercase(), unit.span)];
    while parser.consume_token(&Token::Comma) {
        arguments.push(parser.parse_expr()?);
    }
    parser.expect_token(&Token::RParen)?;
    Ok(call(name, arguments))
}

/// `[NULL | ABSENT] ON NULL`, as the option's text.
fn on_null(parser: &mut Parser, default: &str) -> Result<String, ParserError> {
    for kind in ["NULL", "ABSENT"] {
        if word_at(parser, 0, kind) && word_at(parser, 1, "ON") {
            parser.advance_token();
            parser.advance_token();
            require(parser, "NULL")?;
            return Ok(kind.to_owned());
        }
    }
    Ok(default.to_owned())
}

/// JSON_OBJECT([KEY] k VALUE v, … [ABSENT ON NULL]) → JSON_OBJECT('NULL', k, v, …).
fn json_object(parser: &mut Parser, name: Ident) -> Result<Expr, ParserError> {
    parser.advance_token();
    parser.advance_token();
    let mut arguments = Vec::new();
    let bare = word_at(parser, 1, "ON") && (word_at(parser, 0, "NULL") || word_at(parser, 0, "ABSENT"));
    if parser.peek_token_ref().token != Token::RParen && !bare {
        loop {
            if word_at(parser, 0, "KEY") && !matches!(parser.peek_nth_token_ref(1).token, Token::Comma | Token::Colon) && !word_at(parser, 1, "VALUE") {
                parser.advance_token();
            }
            arguments.push(parser.parse_expr()?);
            if !parser.consume_token(&Token::Colon) {
                require(parser, "VALUE")?;
            }
            arguments.push(parser.parse_expr()?);
            if !parser.consume_token(&Token::Comma) {
                break;
            }
        }
    }
    let nulls = on_null(parser, "NULL")?;
    parser.expect_token(&Token::RParen)?;
    let span = name.span;
    arguments.insert(0, text(&nulls, span));
    Ok(call(name, arguments))
}

/// JSON_ARRAY(v, … [NULL ON NULL]) → JSON_ARRAY('ABSENT', v, …).
fn json_array(parser: &mut Parser, name: Ident) -> Result<Expr, ParserError> {
    parser.advance_token();
    parser.advance_token();
    let mut arguments = Vec::new();
    let bare = word_at(parser, 1, "ON") && (word_at(parser, 0, "NULL") || word_at(parser, 0, "ABSENT"));
    if parser.peek_token_ref().token != Token::RParen && !bare {
        arguments = parser.parse_comma_separated(Parser::parse_expr)?;
    }
    let nulls = on_null(parser, "ABSENT")?;
    parser.expect_token(&Token::RParen)?;
    let span = name.span;
    arguments.insert(0, text(&nulls, span));
    Ok(call(name, arguments))
}

/// JSON_VALUE(json, path [RETURNING type] [… ON EMPTY] [… ON ERROR]) and its like
/// → NAME(json, path, returning, wrapper, on empty, its default, on error, its default).
fn json_path_call(parser: &mut Parser, name: Ident) -> Result<Expr, ParserError> {
    parser.advance_token();
    parser.advance_token();
    let span = name.span;
    let mut arguments = vec![parser.parse_expr()?];
    while parser.consume_token(&Token::Comma) {
        arguments.push(parser.parse_expr()?);
    }
    let mut returning = null(span);
    if accept(parser, "RETURNING") {
        returning = text(&type_text(parser)?.to_string(), span);
    }
    let wrapper = wrapper(parser)?;
    let (mut empty, mut error) = ((text("NULL", span), null(span)), (text("NULL", span), null(span)));
    loop {
        let kinds = ["NULL", "ERROR", "TRUE", "FALSE", "UNKNOWN", "EMPTY", "DEFAULT"];
        let Some(kind) = kinds.into_iter().find(|kind| accept(parser, kind)) else { break };
        let (mut kind, mut default) = (kind.to_owned(), null(span));
        if kind == "EMPTY" {
            let what = if accept(parser, "OBJECT") { "OBJECT" } else { require(parser, "ARRAY").map(|()| "ARRAY")? };
            kind = format!("EMPTY {what}");
        } else if kind == "DEFAULT" {
            default = parser.parse_expr()?;
        }
        require(parser, "ON")?;
        if accept(parser, "EMPTY") {
            empty = (text(&kind, span), default);
        } else {
            require(parser, "ERROR")?;
            error = (text(&kind, span), default);
        }
    }
    parser.expect_token(&Token::RParen)?;
    if arguments.len() != 2 {
        return Err(ParserError::ParserError(format!(
            "{} takes a JSON text and a path, got {} arguments at Line: {}, Column: {}",
            name.value,
            arguments.len(),
            span.start.line,
            span.start.column
        )));
    }
    arguments.extend([returning, text(&wrapper, span), empty.0, empty.1, error.0, error.1]);
    Ok(call(name, arguments))
}

fn wrapper(parser: &mut Parser) -> Result<String, ParserError> {
    let mut kind = String::new();
    if accept(parser, "WITHOUT") {
        accept(parser, "ARRAY");
        require(parser, "WRAPPER")?;
        kind.push_str("WITHOUT");
    } else if accept(parser, "WITH") {
        kind.push_str(if accept(parser, "CONDITIONAL") { "CONDITIONAL" } else { "WITH" });
        accept(parser, "UNCONDITIONAL");
        accept(parser, "ARRAY");
        require(parser, "WRAPPER")?;
    }
    Ok(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sql: &str, shown: &str) {
        let dialect = FlinkDialect::default();
        let expr = Parser::new(&dialect).try_with_sql(sql).and_then(|mut parser| parser.parse_expr()).expect("an expression of Flink's");
        assert_eq!(expr.to_string(), shown, "{sql}");
    }

    #[test]
    fn reads_what_only_flink_writes() {
        check("MAP['a', 1]", "MAP('a', 1)");
        check("TIMESTAMPADD(day, 1, ts)", "TIMESTAMPADD('DAY', 1, ts)");
        check("HOP(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '2' SECOND, SIZE => INTERVAL '10' SECOND)", "HOP(bid, DESCRIPTOR(`dateTime`), INTERVAL '2' SECOND, SIZE => INTERVAL '10' SECOND)");
        check("HOP(DATA => TABLE a.b, SLIDE => x)", "HOP(DATA => a.b, SLIDE => x)");
        check("CAST(r AS ROW<a INT, b ARRAY<ARRAY<DECIMAL(10,2)>>>)", "CAST(r AS ROW<a INT,b ARRAY<ARRAY<DECIMAL(10,2)>>>)");
        check("TRY_CAST(a AS TIMESTAMP(3) WITH LOCAL TIME ZONE)", "TRY_CAST(a AS TIMESTAMP(3) WITH LOCAL TIME ZONE)");
        check("JSON_OBJECT('a' VALUE 1, KEY 'b' VALUE c ABSENT ON NULL)", "JSON_OBJECT('ABSENT', 'a', 1, 'b', c)");
        check("JSON_ARRAY(1, NULL NULL ON NULL)", "JSON_ARRAY('NULL', 1, NULL)");
        check("JSON_ARRAY()", "JSON_ARRAY('ABSENT')");
        check("TRIM(BOTH FROM s) || TRIM('x' FROM s)", "TRIM(s) || TRIM('x' FROM s)");
        check(
            "JSON_VALUE(j, '$.a' RETURNING DECIMAL(10,2) DEFAULT 1 ON EMPTY ERROR ON ERROR)",
            "JSON_VALUE(j, '$.a', 'DECIMAL(10,2)', '', 'DEFAULT', 1, 'ERROR', NULL)",
        );
        check("JSON_VALUE(j, '$.a' RETURNING INT NULL ON ERROR)", "JSON_VALUE(j, '$.a', 'INT', '', 'NULL', NULL, 'NULL', NULL)");
        check("JSON_QUERY(j, '$' WITH WRAPPER EMPTY ARRAY ON EMPTY)", "JSON_QUERY(j, '$', NULL, 'WITH', 'EMPTY ARRAY', NULL, 'NULL', NULL)");
        check("j IS NOT JSON OBJECT AND TRUE", "NOT IS_JSON(j, 'OBJECT') AND true");
        check("a IS NOT NULL", "a IS NOT NULL");
    }
}
