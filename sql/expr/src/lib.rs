//! Flink's expression language with Flink's results, on DataFusion's expressions.
//!
//! The way of an expression: text → sqlparser's tree (`FlinkDialect`) → DataFusion's [`Expr`] with final types
//! ([`Session::translate`]) → [`physical`] → columns. Coercions, precisions, overflow, casts and functions are decided in
//! `translate` and nowhere later: DataFusion's type coercion must not run on what comes out. Some operators stay
//! DataFusion's own (`ts - INTERVAL …`, `a / b` of whole numbers) so that planners can look into them; [`physical`]
//! gives them Flink's meaning.
//!
//! Promises: what a row cannot be evaluated for is a [`RowError`], everything else is found when a script is planned.
//! Invariant: no clock is read but the session's, no zone but the session's, and no result depends on the batch.
//!
//! [`Expr`]: datafusion::logical_expr::Expr

mod dialect;
mod error;
mod session;
mod types;
mod civil;
mod func;
mod literal;
mod translate;
mod operators;
mod calls;
mod decimal;
mod cast;
mod functions;
mod aggregates;
mod fold;
mod physical;

#[cfg(test)]
mod tests;

pub use dialect::FlinkDialect;
pub use error::RowError;
pub use fold::fold;
pub use physical::{column_of, interval_shift, physical};
pub use session::{Session, parse_zone};
pub use types::{common_type, type_name};
