//! The steps that graphs are made of: calc, windows, joins, unnest, union, and the first step behind a decoder.
//!
//! Each is a factory with public fields, filled in by the planner, that makes one operator per worker. Promises, for
//! all: rows do not depend on how they were batched, spread over workers or interrupted by a crash; a window fires when
//! the watermark reaches its last millisecond; late rows go to the context's `late`, rows whose expressions fail to its
//! `dead_letters`. Read in this order: [`Calc`], [`SourceCalc`], [`WindowSpec`], [`WindowAggregate`], [`WindowJoin`],
//! [`IntervalJoin`].

mod expressions;

mod calc;

mod source_calc;

mod window;

mod window_assign;

mod groups;

mod keys;

mod aggregates;

mod panes;

mod pane_store;

mod window_aggregate;

mod sliding;

mod rows;

mod join_output;

mod window_join;

mod waiting;

mod interval_join;

mod unnest;

mod union;

pub use aggregates::AggregateCall;
pub use calc::Calc;
pub use expressions::{Expression, RowFailure};
pub use interval_join::IntervalJoin;
pub use join_output::{JoinKey, JoinKind};
pub use source_calc::{SourceCalc, TimeAttribute};
pub use union::Union;
pub use unnest::Unnest;
pub use window::{WindowKind, WindowSpec};
pub use window_aggregate::{WindowAggregate, WindowEdge, Windowing};
pub use window_assign::WindowAssign;
pub use window_join::WindowJoin;

#[cfg(test)]
mod tests;
