//! Which parts of a table's columns expressions read, so that only those are decoded.
//!
//! `bid.auction` of `bid ROW<auction BIGINT, url STRING>` needs `bid ROW<auction BIGINT>`. A column that is read as a
//! whole anywhere is decoded as a whole.

use std::{collections::BTreeMap, sync::Arc};

use arrow::datatypes::{DataType, FieldRef};
use datafusion::{
    common::{
        ScalarValue,
        tree_node::{TreeNode, TreeNodeRecursion},
    },
    logical_expr::Expr,
};

use super::rel::index_of;

/// What is read of a value: all of it, or some fields.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Part {
    whole: bool,
    fields: BTreeMap<String, Part>,
}

impl Part {
    /// All of it.
    pub(crate) fn whole() -> Self {
        Self { whole: true, fields: BTreeMap::new() }
    }

    fn add(&mut self, path: &[String]) {
        match path {
            [] => self.whole = true,
            [first, rest @ ..] => self.fields.entry(first.clone()).or_default().add(rest),
        }
    }

    fn merge(&mut self, other: &Self) {
        self.whole |= other.whole;
        for (name, part) in &other.fields {
            self.fields.entry(name.clone()).or_default().merge(part);
        }
    }

    /// `field` with only what is read of it, fields in their declared order.
    pub(crate) fn of(&self, field: &FieldRef) -> FieldRef {
        let DataType::Struct(fields) = field.data_type() else { return Arc::clone(field) };
        if self.whole {
            return Arc::clone(field);
        }
        let kept: Vec<FieldRef> = fields.iter().filter_map(|child| Some(self.fields.get(child.name())?.of(child))).collect();
        Arc::new(field.as_ref().clone().with_data_type(DataType::Struct(kept.into())))
    }
}

/// What is read of each column.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reads(pub(crate) BTreeMap<usize, Part>);

impl Reads {
    /// Adds what `expr` reads.
    pub(crate) fn add(&mut self, expr: &Expr) {
        let _ = expr.apply(|node| {
            if let Some((column, path)) = access(node) {
                self.0.entry(column).or_default().add(&path);
                return Ok(TreeNodeRecursion::Jump);
            }
            Ok(TreeNodeRecursion::Continue)
        });
    }

    /// Adds all of a column.
    pub(crate) fn add_whole(&mut self, column: usize) {
        self.0.entry(column).or_default().merge(&Part::whole());
    }

    /// What is read of a column, if anything is.
    pub(crate) fn get(&self, column: usize) -> Option<&Part> {
        self.0.get(&column)
    }
}

/// The column and path of `$3`, `$3.a`, `$3.a.b`.
fn access(expr: &Expr) -> Option<(usize, Vec<String>)> {
    if let Some(index) = index_of(expr) {
        return Some((index, Vec::new()));
    }
    let Expr::ScalarFunction(call) = expr else { return None };
    if call.func.name() != "get_field" || call.args.len() < 2 {
        return None;
    }
    let (column, mut path) = access(&call.args[0])?;
    for name in &call.args[1..] {
        let Expr::Literal(ScalarValue::Utf8(Some(name)), _) = name else { return None };
        path.push(name.clone());
    }
    Some((column, path))
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Field;

    use super::*;

    #[test]
    fn keeps_only_fields_that_are_read_in_their_declared_order() {
        let inner = DataType::Struct(vec![Field::new("x", DataType::Int32, true), Field::new("y", DataType::Int32, true)].into());
        let outer = vec![Field::new("a", DataType::Utf8, true), Field::new("b", inner, true), Field::new("c", DataType::Utf8, true)];
        let field: FieldRef = Arc::new(Field::new("row", DataType::Struct(outer.into()), true));
        let mut part = Part::default();
        part.add(&["c".to_owned()]);
        part.add(&["b".to_owned(), "y".to_owned()]);
        let DataType::Struct(fields) = part.of(&field).data_type().clone() else { panic!("a row stays a row") };
        let names: Vec<_> = fields.iter().map(|f| f.name().as_str()).collect();
        assert_eq!(names, ["b", "c"]);
        assert!(fields[0].data_type().to_string().contains('y') && !fields[0].data_type().to_string().contains("\"x\""));
        part.add(&[]);
        assert_eq!(part.of(&field), field);
    }
}
