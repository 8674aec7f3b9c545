//! pelton-sql-expr
