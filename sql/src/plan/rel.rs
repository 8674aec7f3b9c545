//! Relations: the planner's algebra between SQL's syntax and the operator graph.
//!
//! Columns are positional: an expression's column `$3` is the fourth column of its input (for a join: of the left
//! columns followed by the right ones). So equal sub-queries are equal values, whatever their names, and names never
//! decide what is computed. Each column carries its *role* in time: what makes it a time attribute or a window's edge.
//!
//! Promises: a relation is well formed (columns in range, roles true). Leaves to others: what SQL means (`select.rs`
//! and its neighbours), what is needed of it (`prune.rs`), how it runs (`lower.rs`).

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use datafusion::{
    common::{
        Column, DFSchema,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    },
    logical_expr::Expr,
};

use super::table::Table;

/// How windows are laid over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Shape {
    /// Side by side.
    Tumble { size_ms: i64 },
    /// Every slide, each of a size.
    Hop { slide_ms: i64, size_ms: i64 },
    /// Growing by a step up to a size.
    Cumulate { step_ms: i64, size_ms: i64 },
}

/// A window function's windows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Window {
    pub(crate) shape: Shape,
    pub(crate) offset_ms: i64,
    /// Time zone in which days begin, for a TIMESTAMP_LTZ time attribute.
    pub(crate) zone: Option<String>,
}

/// What a column means in time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Role {
    /// Nothing.
    Plain,
    /// A time attribute: watermarks are about it.
    Rowtime,
    /// `window_start` of these windows.
    WindowStart(Arc<Window>),
    /// `window_end` of these windows.
    WindowEnd(Arc<Window>),
    /// `window_time` of these windows, a time attribute too.
    WindowTime(Arc<Window>),
}

impl Role {
    /// Whether windows and interval joins can go by this column.
    pub(crate) fn is_time_attribute(&self) -> bool {
        matches!(self, Self::Rowtime | Self::WindowTime(_))
    }
}

/// One column of a relation. Names are for people: columns that differ in nothing else are equal, so that relations
/// which compute the same are one, whatever a query calls their columns.
#[derive(Debug, Clone)]
pub(crate) struct RelColumn {
    pub(crate) field: FieldRef,
    pub(crate) role: Role,
}

impl PartialEq for RelColumn {
    fn eq(&self, other: &Self) -> bool {
        let same_type = self.field.data_type() == other.field.data_type() && self.field.is_nullable() == other.field.is_nullable();
        same_type && self.role == other.role
    }
}

impl Eq for RelColumn {}

impl std::hash::Hash for RelColumn {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.field.data_type().hash(state);
        self.field.is_nullable().hash(state);
        self.role.hash(state);
    }
}

impl RelColumn {
    pub(crate) fn new(field: FieldRef, role: Role) -> Self {
        Self { field, role }
    }

    pub(crate) fn name(&self) -> &str {
        self.field.name()
    }

    /// The same column under another name.
    pub(crate) fn named(&self, name: &str) -> Self {
        if self.field.name() == name {
            return self.clone();
        }
        Self { field: Arc::new(self.field.as_ref().clone().with_name(name)), role: self.role.clone() }
    }

    /// The same column on the side of an outer join that may be missing: nullable, and no time attribute any more.
    pub(crate) fn outer(&self) -> Self {
        Self { field: Arc::new(self.field.as_ref().clone().with_nullable(true)), role: Role::Plain }
    }
}

/// Which rows of a join survive without a partner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum JoinKind {
    Inner,
    Left,
    Right,
    Full,
    /// Left rows with a partner, left columns only.
    Semi,
    /// Left rows without a partner, left columns only.
    Anti,
}

impl JoinKind {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Inner => "inner",
            Self::Left => "left",
            Self::Right => "right",
            Self::Full => "full",
            Self::Semi => "semi",
            Self::Anti => "anti",
        }
    }

    pub(crate) fn left_only(self) -> bool {
        matches!(self, Self::Semi | Self::Anti)
    }
}

/// An equality between a left and a right column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct JoinKey {
    pub(crate) left: usize,
    pub(crate) right: usize,
    /// IS NOT DISTINCT FROM instead of `=`.
    pub(crate) nulls_equal: bool,
}

/// How an aggregate finds a row's window.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Windowing {
    /// From a time attribute of the input.
    Time { window: Arc<Window>, time: usize },
    /// It stands in these columns of the input.
    Attached { window: Arc<Window>, start: usize, end: usize },
}

impl Windowing {
    pub(crate) fn window(&self) -> &Arc<Window> {
        match self {
            Self::Time { window, .. } | Self::Attached { window, .. } => window,
        }
    }
}

/// A column that a window aggregate emits after its keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum WindowEdge {
    Start,
    End,
    Time,
}

/// What a relation is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Op {
    /// All columns of a table: physical, metadata and computed.
    Scan { table: Arc<Table> },
    /// Constant rows.
    Values { rows: Vec<Vec<Expr>> },
    /// A filter, then a projection.
    Calc { input: Arc<Rel>, predicate: Option<Expr>, exprs: Vec<Expr> },
    /// Each row once per window it falls into, with `window_start`, `window_end`, `window_time` appended.
    Assign { input: Arc<Rel>, window: Arc<Window>, time: usize },
    /// One row per window and key: keys, aggregates, then edges.
    WindowAggregate { input: Arc<Rel>, windowing: Windowing, keys: Vec<usize>, aggregates: Vec<Expr>, edges: Vec<WindowEdge> },
    /// Rows of the same window. `left_window`, `right_window`: start and end columns of each side.
    WindowJoin {
        left: Arc<Rel>,
        right: Arc<Rel>,
        kind: JoinKind,
        keys: Vec<JoinKey>,
        left_window: (usize, usize),
        right_window: (usize, usize),
        window: Arc<Window>,
        residual: Option<Expr>,
    },
    /// Rows whose times are near: `lower_ms <= right time - left time <= upper_ms`.
    IntervalJoin {
        left: Arc<Rel>,
        right: Arc<Rel>,
        kind: JoinKind,
        keys: Vec<JoinKey>,
        left_time: usize,
        right_time: usize,
        lower_ms: i64,
        upper_ms: i64,
        residual: Option<Expr>,
    },
    /// All rows of all inputs.
    Union { inputs: Vec<Arc<Rel>> },
    /// Each row once per element of the array or map `list`, the element's columns appended.
    Unnest { input: Arc<Rel>, list: Expr, outer: bool, ordinality: bool },
}

/// A relation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Rel {
    pub(crate) op: Op,
    pub(crate) columns: Vec<RelColumn>,
}

impl Rel {
    /// Relations it is made of.
    pub(crate) fn inputs(&self) -> Vec<&Arc<Rel>> {
        match &self.op {
            Op::Scan { .. } | Op::Values { .. } => Vec::new(),
            Op::Calc { input, .. } | Op::Assign { input, .. } | Op::WindowAggregate { input, .. } | Op::Unnest { input, .. } => {
                vec![input]
            }
            Op::WindowJoin { left, right, .. } | Op::IntervalJoin { left, right, .. } => vec![left, right],
            Op::Union { inputs } => inputs.iter().collect(),
        }
    }

    /// Its columns as an Arrow schema.
    pub(crate) fn schema(&self) -> SchemaRef {
        Arc::new(Schema::new(self.columns.iter().map(|column| Arc::clone(&column.field)).collect::<Vec<_>>()))
    }

    /// `input` with only the rows that satisfy `predicate`.
    pub(crate) fn filter(input: Arc<Rel>, predicate: Expr) -> Arc<Rel> {
        let exprs = (0..input.columns.len()).map(at).collect();
        let columns = input.columns.clone();
        Arc::new(Rel { op: Op::Calc { input, predicate: Some(predicate), exprs }, columns })
    }

    /// `input` with these columns, in this order; names and roles stay.
    pub(crate) fn pick(input: Arc<Rel>, picked: &[usize]) -> Arc<Rel> {
        if picked.iter().copied().eq(0..input.columns.len()) {
            return input;
        }
        let columns = picked.iter().map(|&index| input.columns[index].clone()).collect();
        Arc::new(Rel { op: Op::Calc { input, predicate: None, exprs: picked.iter().map(|&i| at(i)).collect() }, columns })
    }

    /// `input` projected to `exprs`. A bare column keeps its role; anything computed is plain.
    pub(crate) fn project(input: Arc<Rel>, exprs: Vec<(Expr, FieldRef)>) -> Arc<Rel> {
        let columns = exprs
            .iter()
            .map(|(expr, field)| {
                let role = index_of(expr).map_or(Role::Plain, |index| input.columns[index].role.clone());
                RelColumn::new(Arc::clone(field), role)
            })
            .collect();
        let exprs = exprs.into_iter().map(|(expr, _)| expr).collect();
        Arc::new(Rel { op: Op::Calc { input, predicate: None, exprs }, columns })
    }

    /// The same relation with other column names.
    pub(crate) fn renamed(input: &Arc<Rel>, names: &[String]) -> Arc<Rel> {
        let columns = input.columns.iter().zip(names).map(|(column, name)| column.named(name)).collect();
        Arc::new(Rel { op: input.op.clone(), columns })
    }
}

/// The expression for column `index`.
pub(crate) fn at(index: usize) -> Expr {
    Expr::Column(Column::new_unqualified(format!("${index}")))
}

/// The index of a column expression, `None` for everything else.
pub(crate) fn index_of(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Column(column) => column_index(column),
        _ => None,
    }
}

fn column_index(column: &Column) -> Option<usize> {
    column.name.strip_prefix('$')?.parse().ok()
}

/// The columns that `expr` reads, each once, in ascending order.
pub(crate) fn columns_of(expr: &Expr) -> Vec<usize> {
    let mut found = Vec::new();
    let _ = expr.apply(|node| {
        found.extend(index_of(node));
        Ok(TreeNodeRecursion::Continue)
    });
    found.sort_unstable();
    found.dedup();
    found
}

/// `expr` with every column `$i` replaced by `with(i)`.
pub(crate) fn substitute(expr: &Expr, with: &dyn Fn(usize) -> Expr) -> Expr {
    expr.clone()
        .transform_down(|node| match index_of(&node) {
            // Jump: what was put in is not looked at again.
            Some(index) => Ok(Transformed::new(with(index), true, TreeNodeRecursion::Jump)),
            None => Ok(Transformed::no(node)),
        })
        .map(|transformed| transformed.data)
        .unwrap_or_else(|_| expr.clone())
}

/// `expr` with its columns moved by `map` (old index → new index).
pub(crate) fn remap(expr: &Expr, map: &dyn Fn(usize) -> usize) -> Expr {
    substitute(expr, &|index| at(map(index)))
}

/// The schema against which expressions over `columns` are typed: positional names, no qualifiers.
pub(crate) fn positional(columns: &[RelColumn]) -> DFSchema {
    let fields: Vec<Field> = columns
        .iter()
        .enumerate()
        .map(|(index, column)| column.field.as_ref().clone().with_name(format!("${index}")))
        .collect();
    DFSchema::from_unqualified_fields(fields.into(), Default::default())
        .expect("positional names are unique, and so form a schema")
}

/// Splits a condition at its ANDs.
pub(crate) fn conjuncts(expr: Expr) -> Vec<Expr> {
    datafusion::logical_expr::utils::split_conjunction_owned(expr)
}

/// Joins conditions by AND; `None` for none.
pub(crate) fn conjunction(parts: impl IntoIterator<Item = Expr>) -> Option<Expr> {
    parts.into_iter().reduce(Expr::and)
}

/// `window_start`, `window_end` and `window_time` of `window` over a time attribute of type `time`.
pub(crate) fn window_columns(window: &Arc<Window>, time: &DataType) -> [RelColumn; 3] {
    let local = DataType::Timestamp(TimeUnit::Millisecond, None);
    let attribute = match time {
        DataType::Timestamp(_, Some(zone)) => DataType::Timestamp(TimeUnit::Millisecond, Some(Arc::clone(zone))),
        _ => local.clone(),
    };
    [
        RelColumn::new(Arc::new(Field::new("window_start", local.clone(), false)), Role::WindowStart(Arc::clone(window))),
        RelColumn::new(Arc::new(Field::new("window_end", local, false)), Role::WindowEnd(Arc::clone(window))),
        RelColumn::new(Arc::new(Field::new("window_time", attribute, false)), Role::WindowTime(Arc::clone(window))),
    ]
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::lit;

    use super::*;

    #[test]
    fn substitution_does_not_look_at_what_it_put_in() {
        let swapped = substitute(&(at(0) + at(1)), &|index| at(1 - index));
        assert_eq!(swapped, at(1) + at(0));
        assert_eq!(columns_of(&(at(4) + at(1) + at(4))), [1, 4]);
    }

    #[test]
    fn conditions_split_at_and_only() {
        let parts = conjuncts(at(0).gt(lit(1)).and(at(1).or(at(2))));
        assert_eq!(parts.len(), 2);
        assert_eq!(conjunction(Vec::new()), None);
    }
}
