//! Functions of arrays. Items are compared in arrow's row format: equal nulls are equal, and no row looks at another.

use std::{collections::HashSet, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, ListArray, UInt32Array},
    buffer::{NullBuffer, OffsetBuffer},
    compute::{concat, take},
    datatypes::{DataType, Int32Type, Int64Type},
    row::{OwnedRow, Row, RowConverter, Rows, SortField},
};
use datafusion::common::{Result, internal_err, plan_err};

use super::{Bind, Call, Param, Spec};
use crate::{
    cast::{cast_array, cast_to},
    func::{Columns, Plan, Typed, collect, collect_bool, collect_text},
    types::{common_type, item_field, type_name},
};

use Param::{Any, Array as List, Bool, Int, Text};

pub(super) const SPECS: &[Spec] = &[
    Spec { name: "ARRAY_CONTAINS", params: &[List, Any], optional: 0, rest: None, bind: |call| search(call, DataType::Boolean) },
    Spec { name: "ARRAY_POSITION", params: &[List, Any], optional: 0, rest: None, bind: |call| search(call, DataType::Int32) },
    Spec { name: "ARRAY_REMOVE", params: &[List, Any], optional: 0, rest: None, bind: remove },
    Spec { name: "ARRAY_APPEND", params: &[List, Any], optional: 0, rest: None, bind: |call| add(call, false) },
    Spec { name: "ARRAY_PREPEND", params: &[List, Any], optional: 0, rest: None, bind: |call| add(call, true) },
    Spec { name: "ARRAY_CONCAT", params: &[List], optional: 0, rest: Some(List), bind: |call| sets(call, |_| Vec::new()) },
    Spec { name: "ARRAY_UNION", params: &[List, List], optional: 0, rest: None, bind: |call| sets(call, |parts| distinct(parts.concat())) },
    Spec { name: "ARRAY_EXCEPT", params: &[List, List], optional: 0, rest: None, bind: |call| sets(call, |parts| within(parts, false)) },
    Spec { name: "ARRAY_INTERSECT", params: &[List, List], optional: 0, rest: None, bind: |call| sets(call, |parts| within(parts, true)) },
    Spec { name: "ARRAY_DISTINCT", params: &[List], optional: 0, rest: None, bind: |call| sets(call, |parts| distinct(parts.concat())) },
    Spec { name: "ARRAY_REVERSE", params: &[List], optional: 0, rest: None, bind: |call| picked(call, |items, _, _| items.rev().collect()) },
    Spec { name: "ARRAY_SLICE", params: &[List, Int, Int], optional: 1, rest: None, bind: slice },
    Spec { name: "ARRAY_SORT", params: &[List, Bool, Bool], optional: 2, rest: None, bind: sort },
    Spec { name: "ARRAY_MAX", params: &[List], optional: 0, rest: None, bind: |call| extreme(call, true) },
    Spec { name: "ARRAY_MIN", params: &[List], optional: 0, rest: None, bind: |call| extreme(call, false) },
    Spec { name: "ARRAY_JOIN", params: &[List, Text, Text], optional: 1, rest: None, bind: join },
];

fn item(call: &Call<'_>, index: usize) -> Result<DataType> {
    match call.data_type(index) {
        DataType::List(field) => Ok(field.data_type().clone()),
        other => internal_err!("{} takes an array, got {other}", call.name),
    }
}

/// The array and the value, with items of one type.
fn alike(call: &Call<'_>) -> Result<(DataType, Vec<Typed>)> {
    let (item, value) = (item(call, 0)?, call.data_type(1));
    let Some(common) = common_type(&item, value) else {
        return plan_err!("{}: an array of {} and {} have no common type", call.name, type_name(&item), type_name(value));
    };
    let list = cast_to(call.args[0].clone(), &DataType::List(item_field(common.clone())).into(), call.mode())?;
    let value = cast_to(call.args[1].clone(), &common.clone().into(), call.mode())?;
    Ok((common, vec![list, value]))
}

/// Comparable forms of arrays of one type.
fn rows(arrays: &[&ArrayRef]) -> Result<Vec<Rows>> {
    let Some(first) = arrays.first() else { return Ok(Vec::new()) };
    let converter = RowConverter::new(vec![SortField::new(first.data_type().clone())])?;
    arrays.iter().map(|array| Ok(converter.convert_columns(std::slice::from_ref(*array))?)).collect()
}

fn range(list: &ListArray, row: usize) -> std::ops::Range<usize> {
    list.value_offsets()[row] as usize..list.value_offsets()[row + 1] as usize
}

fn search(call: &Call<'_>, result: DataType) -> Result<Bind> {
    let (_, args) = alike(call)?;
    let positions = result == DataType::Int32;
    let plan = Plan::new(result, move |columns| {
        let array = columns.array(0)?;
        let list = array.as_list::<i32>();
        let (value, step) = columns.column(1)?;
        let both = rows(&[list.values(), &value])?;
        let found = |row: usize| {
            let wanted = both[1].row(row * step);
            let mut items = range(list, row);
            let start = items.start;
            items.find(|&item| both[0].row(item) == wanted).map(|item| (item - start) as i32 + 1)
        };
        if positions {
            let place = |row: usize| Ok((list.is_valid(row) && value.is_valid(row * step)).then(|| found(row).unwrap_or(0)));
            return Ok(Arc::new(collect::<Int32Type>(columns.rows, place)?));
        }
        collect_bool(columns.rows, |row| Ok(list.is_valid(row).then(|| found(row).is_some())))
    });
    Ok(Bind::Expr(plan.call(call.name, String::new(), args)))
}

/// A list with the items at `places`.
fn gathered(values: &ArrayRef, places: Vec<u32>, lengths: Vec<usize>, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    let values = take(values, &UInt32Array::from(places), None)?;
    let field = item_field(values.data_type().clone());
    Ok(Arc::new(ListArray::try_new(field, OffsetBuffer::from_lengths(lengths), values, nulls)?))
}

fn remove(call: &Call<'_>) -> Result<Bind> {
    let (common, args) = alike(call)?;
    let plan = Plan::new(DataType::List(item_field(common)), |columns| {
        let array = columns.array(0)?;
        let list = array.as_list::<i32>();
        let (value, step) = columns.column(1)?;
        let both = rows(&[list.values(), &value])?;
        let (mut places, mut lengths) = (Vec::new(), Vec::with_capacity(columns.rows));
        for row in 0..columns.rows {
            let before = places.len();
            let wanted = both[1].row(row * step);
            if list.is_valid(row) {
                places.extend(range(list, row).filter(|&item| both[0].row(item) != wanted).map(|item| item as u32));
            }
            lengths.push(places.len() - before);
        }
        gathered(list.values(), places, lengths, list.nulls().cloned())
    });
    Ok(Bind::Expr(plan.call(call.name, String::new(), args)))
}

fn add(call: &Call<'_>, front: bool) -> Result<Bind> {
    let (common, args) = alike(call)?;
    let plan = Plan::new(DataType::List(item_field(common)), move |columns| {
        let array = columns.array(0)?;
        let list = array.as_list::<i32>();
        let (value, step) = columns.column(1)?;
        let all = concat(&[list.values().as_ref(), value.as_ref()])?;
        let (mut places, mut lengths) = (Vec::new(), Vec::with_capacity(columns.rows));
        for row in 0..columns.rows {
            let before = places.len();
            if list.is_valid(row) {
                let new = (list.values().len() + row * step) as u32;
                let old = range(list, row).map(|item| item as u32);
                if front {
                    places.extend(std::iter::once(new).chain(old));
                } else {
                    places.extend(old.chain(std::iter::once(new)));
                }
            }
            lengths.push(places.len() - before);
        }
        gathered(&all, places, lengths, list.nulls().cloned())
    });
    Ok(Bind::Expr(plan.call(call.name, String::new(), args)))
}

/// Items in their order, as the place in the joined values and what they compare by.
type Items<'a> = Vec<(u32, Row<'a>)>;

fn distinct(items: Items<'_>) -> Items<'_> {
    let mut seen = HashSet::new();
    items.into_iter().filter(|(_, row)| seen.insert(*row)).collect()
}

fn within<'a>(parts: &[Items<'a>], wanted: bool) -> Items<'a> {
    let [left, right] = parts else { return Vec::new() };
    let right: HashSet<Row<'a>> = right.iter().map(|(_, row)| *row).collect();
    distinct(left.iter().filter(|(_, row)| right.contains(row) == wanted).copied().collect())
}

/// Functions of whole arrays; null if one of them is.
fn sets(call: &Call<'_>, of: for<'a> fn(&[Items<'a>]) -> Items<'a>) -> Result<Bind> {
    let mut common = item(call, 0)?;
    for index in 1..call.args.len() {
        let other = item(call, index)?;
        let Some(wider) = common_type(&common, &other) else {
            return plan_err!("{}: arrays of {} and {} have no common type", call.name, type_name(&common), type_name(&other));
        };
        common = wider;
    }
    let target = DataType::List(item_field(common));
    let args = call.args.iter().map(|arg| cast_to(arg.clone(), &target.clone().into(), call.mode())).collect::<Result<Vec<_>>>()?;
    let joined = call.name == "ARRAY_CONCAT";
    let plan = Plan::new(target, move |columns| {
        let arrays = (0..columns.len()).map(|index| columns.array(index)).collect::<Result<Vec<_>>>()?;
        let lists: Vec<&ListArray> = arrays.iter().map(|array| array.as_list::<i32>()).collect();
        let nulls = lists.iter().fold(None, |nulls, list| NullBuffer::union(nulls.as_ref(), list.nulls()));
        let values: Vec<&dyn Array> = lists.iter().map(|list| list.values().as_ref()).collect();
        let all = concat(&values)?;
        let compared = rows(&[&all])?;
        let mut starts = Vec::new();
        lists.iter().fold(0, |start, list| {
            starts.push(start);
            start + list.values().len()
        });
        let (mut places, mut lengths) = (Vec::new(), Vec::with_capacity(columns.rows));
        for row in 0..columns.rows {
            let before = places.len();
            if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
                let parts: Vec<Items<'_>> = lists
                    .iter()
                    .zip(&starts)
                    .map(|(list, start)| range(list, row).map(|item| ((start + item) as u32, compared[0].row(start + item))).collect())
                    .collect();
                let items = if joined { parts.concat() } else { of(&parts) };
                places.extend(items.into_iter().map(|(place, _)| place));
            }
            lengths.push(places.len() - before);
        }
        gathered(&all, places, lengths, nulls)
    });
    Ok(Bind::Expr(plan.call(call.name, String::new(), args)))
}

/// Functions that pick items by their position: `pick(items, first number, second number)`.
fn picked(call: &Call<'_>, pick: fn(std::ops::Range<usize>, i64, Option<i64>) -> Vec<usize>) -> Result<Bind> {
    Ok(Plan::new(DataType::List(item_field(item(call, 0)?)), move |columns| {
        let array = columns.array(0)?;
        let list = array.as_list::<i32>();
        let numbers = (1..columns.len()).map(|index| columns.numbers::<Int64Type>(index)).collect::<Result<Vec<_>>>()?;
        let (mut places, mut lengths, mut valid) = (Vec::new(), Vec::with_capacity(columns.rows), Vec::with_capacity(columns.rows));
        for row in 0..columns.rows {
            let given: Vec<Option<i64>> = numbers.iter().map(|column| column.get(row)).collect();
            let whole = list.is_valid(row) && given.iter().all(Option::is_some);
            let before = places.len();
            if whole {
                let number = |index: usize| given.get(index).copied().flatten();
                places.extend(pick(range(list, row), number(0).unwrap_or(0), number(1)).into_iter().map(|item| item as u32));
            }
            lengths.push(places.len() - before);
            valid.push(whole);
        }
        gathered(list.values(), places, lengths, Some(NullBuffer::from(valid)))
    })
    .into())
}

/// ARRAY_SLICE(a, first[, last]): positions from 1, negative ones from the end.
fn slice(call: &Call<'_>) -> Result<Bind> {
    picked(call, |items, first, last| {
        let length = items.len() as i64;
        let at = |position: i64| if position < 0 { length + position + 1 } else { position };
        let (first, last) = (at(first).max(1), at(last.unwrap_or(length)).min(length));
        (first..=last).map(|position| items.start + position as usize - 1).collect()
    })
}

fn sort(call: &Call<'_>) -> Result<Bind> {
    Ok(Plan::new(DataType::List(item_field(item(call, 0)?)), |columns| {
        let array = columns.array(0)?;
        let list = array.as_list::<i32>();
        let compared = rows(&[list.values()])?;
        let flag = |index: usize, row: usize| -> Result<Option<Option<bool>>> {
            if columns.len() > index { Ok(Some(columns.booleans(index)?.get(row))) } else { Ok(None) }
        };
        let (mut places, mut lengths, mut valid) = (Vec::new(), Vec::with_capacity(columns.rows), Vec::with_capacity(columns.rows));
        for row in 0..columns.rows {
            let ascending = flag(1, row)?.unwrap_or(Some(true));
            let nulls_first = flag(2, row)?.unwrap_or(ascending);
            let before = places.len();
            if let (true, Some(ascending), Some(nulls_first)) = (list.is_valid(row), ascending, nulls_first) {
                let (nulls, mut items): (Vec<usize>, Vec<usize>) = range(list, row).partition(|&item| list.values().is_null(item));
                items.sort_by(|&a, &b| {
                    let order = compared[0].row(a).cmp(&compared[0].row(b));
                    if ascending { order } else { order.reverse() }
                });
                let sorted = if nulls_first { [nulls, items].concat() } else { [items, nulls].concat() };
                places.extend(sorted.into_iter().map(|item| item as u32));
                valid.push(true);
            } else {
                valid.push(false);
            }
            lengths.push(places.len() - before);
        }
        gathered(list.values(), places, lengths, Some(NullBuffer::from(valid)))
    })
    .into())
}

fn extreme(call: &Call<'_>, largest: bool) -> Result<Bind> {
    Ok(Plan::new(item(call, 0)?, move |columns| {
        let array = columns.array(0)?;
        let list = array.as_list::<i32>();
        let owned: Vec<OwnedRow> = rows(&[list.values()])?.iter().flat_map(|rows| rows.iter().map(|row| row.owned()).collect::<Vec<_>>()).collect();
        let places: UInt32Array = (0..columns.rows)
            .map(|row| {
                let items = if list.is_valid(row) { range(list, row) } else { 0..0 };
                let items = items.filter(|&item| list.values().is_valid(item));
                let found = if largest { items.max_by_key(|&item| &owned[item]) } else { items.min_by_key(|&item| &owned[item]) };
                found.map(|item| item as u32)
            })
            .collect();
        Ok(take(list.values(), &places, None)?)
    })
    .into())
}

/// ARRAY_JOIN(a, between[, for nulls]): nulls are left out without the third.
fn join(call: &Call<'_>) -> Result<Bind> {
    let mode = call.mode();
    Ok(Plan::new(DataType::Utf8, move |columns: &Columns<'_>| {
        let array = columns.array(0)?;
        let list = array.as_list::<i32>();
        let texts = cast_array(list.values(), &DataType::Utf8.into(), mode)?;
        let texts = texts.as_string::<i32>();
        let between = columns.texts(1)?;
        let instead = if columns.len() > 2 { Some(columns.texts(2)?) } else { None };
        collect_text(columns.rows, |row, out| {
            let Some(between) = between.get(row).filter(|_| list.is_valid(row)) else { return Ok(None) };
            let instead = instead.as_ref().and_then(|texts| texts.get(row));
            let items = range(list, row).filter_map(|item| if texts.is_valid(item) { Some(texts.value(item)) } else { instead });
            for (position, item) in items.enumerate() {
                if position > 0 {
                    out.push_str(between);
                }
                out.push_str(item);
            }
            Ok(Some(()))
        })
    })
    .into())
}
