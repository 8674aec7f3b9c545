//! Functions of arrays.
//!
//! Arrays are rearranged by the positions of their elements, whatever their type: a function says which elements of
//! which argument a row's result has, in order.

use std::{cmp::Ordering, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, DynComparator, ListArray, UInt32Array, make_comparator},
    buffer::{NullBuffer, OffsetBuffer},
    compute::{SortOptions, interleave, take},
    datatypes::{DataType, Int32Type, Int64Type},
};
use datafusion::common::{Result, plan_err};

use super::{Bind, Call, Param, Spec};
use crate::{
    cast::cast_to,
    func::{Columns, Numbers, Plan, Typed, collect, collect_bool, collect_text},
    operators,
    types::{item_field, type_name},
};

use Param::{Any, Array as AnArray, Bool, Int, Text};

pub(super) const SPECS: &[Spec] = &[
    Spec { name: "ARRAY_CONTAINS", params: &[AnArray, Any], optional: 0, rest: None, bind: |call| searched(call, false) },
    Spec { name: "ARRAY_POSITION", params: &[AnArray, Any], optional: 0, rest: None, bind: |call| searched(call, true) },
    Spec { name: "ARRAY_DISTINCT", params: &[AnArray], optional: 0, rest: None, bind: |call| picked(call, |list, equal| list.fold(Vec::new(), |mut kept: Vec<usize>, place| {
        if !kept.iter().any(|known| equal(*known, place).is_eq()) {
            kept.push(place);
        }
        kept
    })) },
    Spec { name: "ARRAY_REVERSE", params: &[AnArray], optional: 0, rest: None, bind: |call| picked(call, |list, _| list.rev().collect()) },
    Spec { name: "ARRAY_MAX", params: &[AnArray], optional: 0, rest: None, bind: |call| extreme(call, Ordering::Greater) },
    Spec { name: "ARRAY_MIN", params: &[AnArray], optional: 0, rest: None, bind: |call| extreme(call, Ordering::Less) },
    Spec { name: "ARRAY_SORT", params: &[AnArray, Bool, Bool], optional: 2, rest: None, bind: sort },
    Spec { name: "ARRAY_SLICE", params: &[AnArray, Int, Int], optional: 1, rest: None, bind: slice },
    Spec { name: "ARRAY_JOIN", params: &[AnArray, Text, Text], optional: 1, rest: None, bind: join },
    Spec { name: "ARRAY_CONCAT", params: &[AnArray], optional: 0, rest: Some(AnArray), bind: |call| combined(call, Combine::Concat) },
    Spec { name: "ARRAY_UNION", params: &[AnArray, AnArray], optional: 0, rest: None, bind: |call| combined(call, Combine::Union) },
    Spec { name: "ARRAY_INTERSECT", params: &[AnArray, AnArray], optional: 0, rest: None, bind: |call| combined(call, Combine::Intersect) },
    Spec { name: "ARRAY_EXCEPT", params: &[AnArray, AnArray], optional: 0, rest: None, bind: |call| combined(call, Combine::Except) },
    Spec { name: "ARRAY_APPEND", params: &[AnArray, Any], optional: 0, rest: None, bind: |call| grown(call, false) },
    Spec { name: "ARRAY_PREPEND", params: &[AnArray, Any], optional: 0, rest: None, bind: |call| grown(call, true) },
    Spec { name: "ARRAY_REMOVE", params: &[AnArray, Any], optional: 0, rest: None, bind: remove },
];

fn item_of(call: &Call<'_>) -> Result<DataType> {
    match call.data_type(0) {
        DataType::List(item) => Ok(item.data_type().clone()),
        other => plan_err!("{} takes an array, got {}", call.name, type_name(other)),
    }
}

fn range(list: &ListArray, row: usize) -> std::ops::Range<usize> {
    list.value_offsets()[row] as usize..list.value_offsets()[row + 1] as usize
}

/// A list of the same element type, each row's elements picked by place.
fn picked_rows(list: &ListArray, rows: usize, nulls: Option<NullBuffer>, pick: impl Fn(usize) -> Vec<usize>) -> Result<ArrayRef> {
    let (mut places, mut offsets) = (Vec::new(), vec![0_i32]);
    for row in 0..rows {
        if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
            places.extend(pick(row).into_iter().map(|place| place as u32));
        }
        offsets.push(places.len() as i32);
    }
    let values = take(list.values(), &UInt32Array::from(places), None)?;
    Ok(Arc::new(ListArray::try_new(item_field(list.value_type()), OffsetBuffer::new(offsets.into()), values, nulls)?))
}

fn picked(call: &Call<'_>, pick: fn(std::ops::Range<usize>, &DynComparator) -> Vec<usize>) -> Result<Bind> {
    let item = item_of(call)?;
    Ok(Plan::new(DataType::List(item_field(item)), move |columns| {
        let array = columns.array(0)?;
        let list = array.as_list::<i32>();
        let equal = make_comparator(list.values(), list.values(), SortOptions::default())?;
        picked_rows(list, columns.rows, list.nulls().cloned(), |row| pick(range(list, row), &equal))
    })
    .into())
}

/// The array and a value of its element type.
fn with_value(call: &Call<'_>) -> Result<Vec<Typed>> {
    let item = item_of(call)?;
    let value = call.args[1].clone();
    let Some(common) = crate::common_type(&item, &value.data_type) else {
        return plan_err!("{}: the array has {} elements, the value is {}", call.name, type_name(&item), type_name(&value.data_type));
    };
    let array = cast_to(call.args[0].clone(), &DataType::List(item_field(common.clone())).into(), call.mode())?;
    Ok(vec![array, cast_to(value, &common.into(), call.mode())?])
}

/// Whether a value is in an array, or where; nulls are found too.
fn searched(call: &Call<'_>, position: bool) -> Result<Bind> {
    let args = with_value(call)?;
    let find = |columns: &Columns<'_>, row: usize, list: &ListArray, value: &ArrayRef, equal: &DynComparator| {
        let _ = columns;
        range(list, row).position(|place| match (list.values().is_null(place), value.is_null(row)) {
            (true, true) => true,
            (false, false) => equal(place, row).is_eq(),
            _ => false,
        })
    };
    let plan = if position {
        Plan::new(DataType::Int32, move |columns| {
            let (array, value) = (columns.array(0)?, columns.array(1)?);
            let list = array.as_list::<i32>();
            let equal = make_comparator(list.values(), &value, SortOptions::default())?;
            Ok(Arc::new(collect::<Int32Type>(columns.rows, |row| {
                if list.is_null(row) || value.is_null(row) {
                    return Ok(None);
                }
                Ok(Some(find(columns, row, list, &value, &equal).map_or(0, |at| at as i32 + 1)))
            })?))
        })
    } else {
        Plan::new(DataType::Boolean, move |columns| {
            let (array, value) = (columns.array(0)?, columns.array(1)?);
            let list = array.as_list::<i32>();
            let equal = make_comparator(list.values(), &value, SortOptions::default())?;
            collect_bool(columns.rows, |row| Ok(list.is_valid(row).then(|| find(columns, row, list, &value, &equal).is_some())))
        })
    };
    Ok(Bind::Expr(plan.call(call.name, String::new(), args)))
}

fn extreme(call: &Call<'_>, wanted: Ordering) -> Result<Bind> {
    let item = item_of(call)?;
    Ok(Plan::new(item, move |columns| {
        let array = columns.array(0)?;
        let list = array.as_list::<i32>();
        let compare = make_comparator(list.values(), list.values(), SortOptions::default())?;
        let places: UInt32Array = (0..columns.rows)
            .map(|row| {
                let present = range(list, row).filter(|place| list.is_valid(row) && list.values().is_valid(*place));
                present.reduce(|best, place| if compare(place, best) == wanted { place } else { best }).map(|place| place as u32)
            })
            .collect();
        Ok(take(list.values(), &places, None)?)
    })
    .into())
}

/// ARRAY_SORT(array, ascending, nulls first); nulls stand where the smallest values stand.
fn sort(call: &Call<'_>) -> Result<Bind> {
    let item = item_of(call)?;
    Ok(Plan::new(DataType::List(item_field(item)), move |columns| {
        let array = columns.array(0)?;
        let list = array.as_list::<i32>();
        let flag = |index: usize| if columns.len() > index { columns.booleans(index).map(Some) } else { Ok(None) };
        let (ascending, nulls_first) = (flag(1)?, flag(2)?);
        let compare = make_comparator(list.values(), list.values(), SortOptions::default())?;
        picked_rows(list, columns.rows, list.nulls().cloned(), |row| {
            let up = ascending.as_ref().and_then(|flags| flags.get(row)).unwrap_or(true);
            let first = nulls_first.as_ref().and_then(|flags| flags.get(row)).unwrap_or(up);
            let (nulls, mut present): (Vec<usize>, Vec<usize>) = range(list, row).partition(|place| list.values().is_null(*place));
            present.sort_by(|a, b| if up { compare(*a, *b) } else { compare(*b, *a) });
            if first { nulls.into_iter().chain(present).collect() } else { present.into_iter().chain(nulls).collect() }
        })
    })
    .into())
}

/// ARRAY_SLICE(array, from, to): both inclusive, from 1; negative positions count from the end, 0 is 1.
fn slice(call: &Call<'_>) -> Result<Bind> {
    let item = item_of(call)?;
    Ok(Plan::new(DataType::List(item_field(item)), |columns| {
        let array = columns.array(0)?;
        let list = array.as_list::<i32>();
        let starts = columns.numbers::<Int64Type>(1)?;
        let ends: Option<Numbers<Int64Type>> = if columns.len() > 2 { Some(columns.numbers(2)?) } else { None };
        let missing = |row: usize| list.is_null(row) || starts.get(row).is_none() || ends.as_ref().is_some_and(|ends| ends.get(row).is_none());
        let nulls: NullBuffer = (0..columns.rows).map(|row| !missing(row)).collect();
        picked_rows(list, columns.rows, Some(nulls), |row| {
            let all = range(list, row);
            let length = all.len() as i64;
            let from_end = |position: i64| if position < 0 { length + position + 1 } else { position };
            let start = from_end(starts.get(row).unwrap_or(1)).max(1);
            let end = from_end(ends.as_ref().map_or(Some(length), |ends| ends.get(row)).unwrap_or(length)).min(length);
            if end < start { Vec::new() } else { (all.start + start as usize - 1..all.start + end as usize).collect() }
        })
    })
    .into())
}

/// Elements joined by a text; nulls are left out, or replaced.
fn join(call: &Call<'_>) -> Result<Bind> {
    let texts = cast_to(call.args[0].clone(), &DataType::List(item_field(DataType::Utf8)).into(), call.mode())?;
    let mut args = call.args.to_vec();
    args[0] = texts;
    let plan = Plan::new(DataType::Utf8, |columns| {
        let array = columns.array(0)?;
        let list = array.as_list::<i32>();
        let items = list.values().as_string::<i32>();
        let separators = columns.texts(1)?;
        let fillers = if columns.len() > 2 { Some(columns.texts(2)?) } else { None };
        collect_text(columns.rows, |row, out| {
            let Some(separator) = separators.get(row).filter(|_| list.is_valid(row)) else { return Ok(None) };
            let filler = fillers.as_ref().and_then(|fillers| fillers.get(row));
            let mut first = true;
            for place in range(list, row) {
                let Some(text) = (if items.is_valid(place) { Some(items.value(place)) } else { filler }) else { continue };
                if !first {
                    out.push_str(separator);
                }
                first = false;
                out.push_str(text);
            }
            Ok(Some(()))
        })
    });
    Ok(Bind::Expr(plan.call(call.name, String::new(), args)))
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Combine {
    Concat,
    Union,
    Intersect,
    Except,
}

/// Elements of several arrays: (argument, place) of each, in order.
fn combined(call: &Call<'_>, how: Combine) -> Result<Bind> {
    let args = operators::unified(call.name, call.args.to_vec(), call.mode())?;
    let data_type = args[0].data_type.clone();
    let DataType::List(item) = data_type.clone() else { return plan_err!("{} takes arrays", call.name) };
    let plan = Plan::new(DataType::List(item_field(item.data_type().clone())), move |columns| {
        let arrays = (0..columns.len()).map(|index| columns.array(index)).collect::<Result<Vec<_>>>()?;
        let lists: Vec<&ListArray> = arrays.iter().map(|array| array.as_list::<i32>()).collect();
        let values: Vec<&dyn Array> = lists.iter().map(|list| list.values().as_ref()).collect();
        let nulls = lists.iter().fold(None, |nulls: Option<NullBuffer>, list| NullBuffer::union(nulls.as_ref(), list.nulls()));
        let mut compare = Vec::new();
        for left in &values {
            for right in &values {
                compare.push(make_comparator(*left, *right, SortOptions::default())?);
            }
        }
        let equal = |a: (usize, usize), b: (usize, usize)| compare[a.0 * values.len() + b.0](a.1, b.1).is_eq();
        let (mut places, mut offsets) = (Vec::new(), vec![0_i32]);
        for row in 0..columns.rows {
            if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
                let begin = places.len();
                let elements = |index: usize| range(lists[index], row).map(move |place| (index, place));
                match how {
                    Combine::Concat => (0..lists.len()).for_each(|index| places.extend(elements(index))),
                    Combine::Union => {
                        for element in (0..lists.len()).flat_map(elements) {
                            if !places[begin..].iter().any(|known| equal(*known, element)) {
                                places.push(element);
                            }
                        }
                    }
                    Combine::Intersect => {
                        for element in elements(0) {
                            if elements(1).any(|other| equal(element, other)) && !places[begin..].iter().any(|known| equal(*known, element)) {
                                places.push(element);
                            }
                        }
                    }
                    Combine::Except => {
                        for element in elements(0) {
                            if !elements(1).any(|other| equal(element, other)) && !places[begin..].iter().any(|known| equal(*known, element)) {
                                places.push(element);
                            }
                        }
                    }
                }
            }
            offsets.push(places.len() as i32);
        }
        let joined = interleave(&values, &places)?;
        Ok(Arc::new(ListArray::try_new(item_field(item.data_type().clone()), OffsetBuffer::new(offsets.into()), joined, nulls)?))
    });
    Ok(Bind::Expr(plan.call(call.name, String::new(), args)))
}

fn grown(call: &Call<'_>, front: bool) -> Result<Bind> {
    let args = with_value(call)?;
    let data_type = args[0].data_type.clone();
    let made = data_type.clone();
    let plan = Plan::new(data_type, move |columns| {
        let (array, value) = (columns.array(0)?, columns.array(1)?);
        let list = array.as_list::<i32>();
        let (mut places, mut offsets) = (Vec::new(), vec![0_i32]);
        for row in 0..columns.rows {
            if list.is_valid(row) {
                places.extend(front.then_some((1, row)));
                places.extend(range(list, row).map(|place| (0, place)));
                places.extend((!front).then_some((1, row)));
            }
            offsets.push(places.len() as i32);
        }
        let DataType::List(item) = &made else { return plan_err!("no array") };
        let values = interleave(&[list.values().as_ref(), value.as_ref()], &places)?;
        Ok(Arc::new(ListArray::try_new(Arc::clone(item), OffsetBuffer::new(offsets.into()), values, list.nulls().cloned())?))
    });
    Ok(Bind::Expr(plan.call(call.name, String::new(), args)))
}

fn remove(call: &Call<'_>) -> Result<Bind> {
    let args = with_value(call)?;
    let plan = Plan::new(args[0].data_type.clone(), |columns| {
        let (array, value) = (columns.array(0)?, columns.array(1)?);
        let list = array.as_list::<i32>();
        let equal = make_comparator(list.values(), &value, SortOptions::default())?;
        picked_rows(list, columns.rows, list.nulls().cloned(), |row| {
            let same = |place: &usize| match (list.values().is_null(*place), value.is_null(row)) {
                (true, true) => true,
                (false, false) => equal(*place, row).is_eq(),
                _ => false,
            };
            range(list, row).filter(|place| !same(place)).collect()
        })
    });
    Ok(Bind::Expr(plan.call(call.name, String::new(), args)))
}
