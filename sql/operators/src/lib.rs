//! pelton-sql-operators
