//! Rows, arrays and maps: how they are made and what is in them.
//!
//! A field of a row is `get_field(row, 'name')`: planners look for that name to decode only what is read. The field is
//! found by its name in the column that comes, because that column may hold fewer fields than the table declares.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, ListArray, MapArray, StructArray, UInt32Array, make_array, new_null_array},
    buffer::{NullBuffer, OffsetBuffer},
    compute::{interleave, take},
    datatypes::{DataType, Field, Fields, Int32Type, Int64Type},
};
use datafusion::common::{Result, ScalarValue, internal_err, plan_err};

use super::{Bind, Call, Param, Spec};
use crate::{
    cast::cast_to,
    error::bad_row,
    func::{Columns, Plan, Typed, collect},
    operators::unified,
    types::{is_integer, item_field, map_type, map_types, type_name},
};

use Param::{Any, Array as List, Map};

pub(super) const SPECS: &[Spec] = &[
    Spec { name: "ARRAY", params: &[], optional: 0, rest: Some(Any), bind: array },
    Spec { name: "MAP", params: &[], optional: 0, rest: Some(Any), bind: map },
    Spec { name: "ROW", params: &[], optional: 0, rest: Some(Any), bind: row },
    Spec { name: "ITEM", params: &[Any, Any], optional: 0, rest: None, bind: item },
    Spec { name: "CARDINALITY", params: &[Any], optional: 0, rest: None, bind: cardinality },
    Spec { name: "ELEMENT", params: &[List], optional: 0, rest: None, bind: element },
    Spec { name: "MAP_KEYS", params: &[Map], optional: 0, rest: None, bind: |call| side(call, true) },
    Spec { name: "MAP_VALUES", params: &[Map], optional: 0, rest: None, bind: |call| side(call, false) },
    Spec { name: "MAP_FROM_ARRAYS", params: &[List, List], optional: 0, rest: None, bind: map_from_arrays },
];

/// `row.name`.
pub(crate) fn field(row: Typed, name: &str) -> Result<Typed> {
    let DataType::Struct(fields) = &row.data_type else {
        return plan_err!("{} has no field `{name}`: only a ROW has fields", type_name(&row.data_type));
    };
    let Some((_, found)) = fields.find(name) else {
        let names: Vec<_> = fields.iter().map(|field| format!("`{}`", field.name())).collect();
        return plan_err!("there is no field `{name}`: the row has {}", names.join(", "));
    };
    let wanted = name.to_owned();
    let plan = Plan::new(found.data_type().clone(), move |columns| {
        let rows = columns.array(0)?;
        let Some(rows) = rows.as_struct_opt() else { return internal_err!("{} has no fields", rows.data_type()) };
        let Some(column) = rows.column_by_name(&wanted) else { return internal_err!("field {wanted} was not decoded") };
        Ok(match rows.nulls() {
            None => Arc::clone(column),
            Some(outer) => {
                let nulls = NullBuffer::union(Some(outer), column.nulls());
                make_array(column.to_data().into_builder().nulls(nulls).build()?)
            }
        })
    });
    let name = Typed::literal(ScalarValue::Utf8(Some(name.to_owned())));
    Ok(plan.call("get_field", String::new(), vec![row, name]))
}

/// All arguments as columns, each with the step to walk it by.
fn parts(columns: &Columns<'_>) -> Result<Vec<(ArrayRef, usize)>> {
    (0..columns.len()).map(|index| columns.column(index)).collect()
}

/// The items of all rows one after the other: argument 0 of row 0, argument 1 of row 0, …
fn woven(parts: &[(ArrayRef, usize)], rows: usize) -> Result<ArrayRef> {
    let arrays: Vec<&dyn Array> = parts.iter().map(|(array, _)| array.as_ref()).collect();
    let places: Vec<(usize, usize)> = (0..rows).flat_map(|row| parts.iter().enumerate().map(move |(part, (_, step))| (part, row * step))).collect();
    Ok(interleave(&arrays, &places)?)
}

fn array(call: &Call<'_>) -> Result<Bind> {
    let items = unified("ARRAY", call.args.to_vec(), call.mode())?;
    let item = items.first().map_or(DataType::Null, |item| item.data_type.clone());
    let (field, width) = (item_field(item.clone()), items.len());
    let plan = Plan::new(DataType::List(Arc::clone(&field)), move |columns| {
        let values = if width == 0 { new_null_array(&item, 0) } else { woven(&parts(columns)?, columns.rows)? };
        let offsets = OffsetBuffer::from_repeated_length(width, columns.rows);
        Ok(Arc::new(ListArray::try_new(Arc::clone(&field), offsets, values, None)?))
    });
    Ok(Bind::Expr(plan.call("ARRAY", String::new(), items)))
}

fn map(call: &Call<'_>) -> Result<Bind> {
    if call.args.len() % 2 == 1 {
        return plan_err!("MAP takes keys and values in turn: MAP['a', 1, 'b', 2]");
    }
    let every_second = |first: usize| call.args.iter().skip(first).step_by(2).cloned().collect::<Vec<_>>();
    let keys = unified("the keys of MAP", every_second(0), call.mode())?;
    let values = unified("the values of MAP", every_second(1), call.mode())?;
    let of = |items: &[Typed]| items.first().map_or(DataType::Null, |item| item.data_type.clone());
    let (result, width) = (map_type(of(&keys), of(&values)), keys.len());
    let target = result.clone();
    let plan = Plan::new(result, move |columns| {
        let all = parts(columns)?;
        let (key_parts, value_parts) = all.split_at(width);
        let (keys, values) = match (key_parts, &target) {
            ([], DataType::Map(entries, _)) => match map_types(entries) {
                Some((key, value)) => (new_null_array(key, 0), new_null_array(value, 0)),
                None => return internal_err!("a map without entries"),
            },
            _ => (woven(key_parts, columns.rows)?, woven(value_parts, columns.rows)?),
        };
        build_map(&target, OffsetBuffer::from_repeated_length(width, columns.rows), keys, values, None)
    });
    Ok(Bind::Expr(plan.fallible().call("MAP", String::new(), keys.into_iter().chain(values).collect())))
}

fn build_map(target: &DataType, offsets: OffsetBuffer<i32>, keys: ArrayRef, values: ArrayRef, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    let DataType::Map(entries, sorted) = target else { return internal_err!("{target} is no map") };
    let DataType::Struct(fields) = entries.data_type() else { return internal_err!("a map without entries") };
    if keys.null_count() > 0 {
        return Err(bad_row("a key of a MAP is null"));
    }
    let pairs = StructArray::try_new(fields.clone(), vec![keys, values], None)?;
    Ok(Arc::new(MapArray::try_new(Arc::clone(entries), offsets, pairs, nulls, *sorted)?))
}

fn row(call: &Call<'_>) -> Result<Bind> {
    let fields: Fields = call.args.iter().enumerate().map(|(index, arg)| Field::new(format!("f{index}"), arg.data_type.clone(), true)).collect();
    let made = fields.clone();
    Ok(Plan::new(DataType::Struct(fields), move |columns| {
        let values = (0..columns.len()).map(|index| columns.array(index)).collect::<Result<Vec<_>>>()?;
        Ok(Arc::new(StructArray::try_new_with_length(made.clone(), values, None, columns.rows)?))
    })
    .into())
}

/// `array[i]`, from 1, and `map[key]`; null where there is none.
fn item(call: &Call<'_>) -> Result<Bind> {
    let [of, at] = call.args else { return internal_err!("ITEM takes two arguments") };
    match &of.data_type {
        DataType::List(field) => {
            if !is_integer(&at.data_type) && at.data_type != DataType::Null {
                return plan_err!("an array's position is a whole number, got {}", type_name(&at.data_type));
            }
            let at = cast_to(at.clone(), &DataType::Int64.into(), call.mode())?;
            if let Some(ScalarValue::Int64(Some(index))) = at.value()
                && *index < 1
            {
                return plan_err!("an array's positions start at 1, got {index}");
            }
            let plan = Plan::new(field.data_type().clone(), |columns| {
                let (array, positions) = (columns.array(0)?, columns.numbers::<Int64Type>(1)?);
                let list = array.as_list::<i32>();
                let offsets = list.value_offsets();
                let places: UInt32Array = (0..columns.rows)
                    .map(|row| {
                        let position = positions.get(row).filter(|_| list.is_valid(row))?;
                        let length = i64::from(offsets[row + 1] - offsets[row]);
                        (1..=length).contains(&position).then(|| offsets[row] as u32 + position as u32 - 1)
                    })
                    .collect();
                Ok(take(list.values(), &places, None)?)
            });
            Ok(Bind::Expr(plan.call("ITEM", String::new(), vec![of.clone(), at])))
        }
        DataType::Map(entries, _) => {
            let Some((key, value)) = map_types(entries) else { return internal_err!("a map without entries") };
            let at = cast_to(at.clone(), &key.clone().into(), call.mode())?;
            let at = Typed::new(crate::fold(at.expr)?, at.data_type);
            let plan = Plan::new(value.clone(), |columns| {
                let array = columns.array(0)?;
                let map = array.as_map();
                let (wanted, step) = columns.column(1)?;
                let same = arrow::array::make_comparator(map.keys(), &wanted, arrow::compute::SortOptions::default())?;
                let offsets = map.value_offsets();
                let places: UInt32Array = (0..columns.rows)
                    .map(|row| {
                        if map.is_null(row) || wanted.is_null(row * step) {
                            return None;
                        }
                        (offsets[row] as usize..offsets[row + 1] as usize).rev().find(|&entry| same(entry, row * step).is_eq()).map(|entry| entry as u32)
                    })
                    .collect();
                Ok(take(map.values(), &places, None)?)
            });
            Ok(Bind::Expr(plan.call("ITEM", String::new(), vec![of.clone(), at])))
        }
        DataType::Struct(fields) => match at.value() {
            Some(ScalarValue::Int32(Some(index))) if (1..=fields.len() as i32).contains(index) => {
                field(of.clone(), fields[*index as usize - 1].name()).map(Bind::Expr)
            }
            _ => plan_err!("a ROW's fields have names: write row.field"),
        },
        other => plan_err!("[…] reads an ARRAY or a MAP, got {}", type_name(other)),
    }
}

fn cardinality(call: &Call<'_>) -> Result<Bind> {
    if !matches!(call.data_type(0), DataType::List(_) | DataType::Map(..) | DataType::Null) {
        return plan_err!("CARDINALITY takes an ARRAY or a MAP, got {}", type_name(call.data_type(0)));
    }
    Ok(Plan::new(DataType::Int32, |columns| {
        let array = columns.array(0)?;
        let offsets = match array.data_type() {
            DataType::List(_) => array.as_list::<i32>().offsets().clone(),
            DataType::Map(..) => array.as_map().offsets().clone(),
            _ => return Ok(new_null_array(&DataType::Int32, columns.rows)),
        };
        Ok(Arc::new(collect::<Int32Type>(columns.rows, |row| Ok(array.is_valid(row).then(|| offsets[row + 1] - offsets[row])))?))
    })
    .into())
}

/// The only item of an array.
fn element(call: &Call<'_>) -> Result<Bind> {
    let DataType::List(field) = call.data_type(0) else { return internal_err!("ELEMENT takes an array") };
    Ok(Plan::new(field.data_type().clone(), |columns| {
        let array = columns.array(0)?;
        let list = array.as_list::<i32>();
        let offsets = list.value_offsets();
        let mut places = Vec::with_capacity(columns.rows);
        for row in 0..columns.rows {
            places.push(match offsets[row + 1] - offsets[row] {
                _ if list.is_null(row) => None,
                0 => None,
                1 => Some(offsets[row] as u32),
                more => return Err(bad_row(format!("ELEMENT: the array has {more} items, expected one"))),
            });
        }
        Ok(take(list.values(), &UInt32Array::from(places), None)?)
    })
    .fallible()
    .into())
}

fn side(call: &Call<'_>, keys: bool) -> Result<Bind> {
    let DataType::Map(entries, _) = call.data_type(0) else { return internal_err!("{} takes a map", call.name) };
    let Some((key, value)) = map_types(entries) else { return internal_err!("a map without entries") };
    let field = item_field(if keys { key.clone() } else { value.clone() });
    Ok(Plan::new(DataType::List(Arc::clone(&field)), move |columns| {
        let array = columns.array(0)?;
        let map = array.as_map();
        let values = Arc::clone(if keys { map.keys() } else { map.values() });
        Ok(Arc::new(ListArray::try_new(Arc::clone(&field), map.offsets().clone(), values, map.nulls().cloned())?))
    })
    .into())
}

fn map_from_arrays(call: &Call<'_>) -> Result<Bind> {
    let (DataType::List(key), DataType::List(value)) = (call.data_type(0), call.data_type(1)) else {
        return internal_err!("MAP_FROM_ARRAYS takes arrays");
    };
    let target = map_type(key.data_type().clone(), value.data_type().clone());
    Ok(Plan::new(target.clone(), move |columns| {
        let (keys, values) = (columns.array(0)?, columns.array(1)?);
        let (keys, values) = (keys.as_list::<i32>(), values.as_list::<i32>());
        let nulls = NullBuffer::union(keys.nulls(), values.nulls());
        let (mut key_places, mut value_places, mut lengths) = (Vec::new(), Vec::new(), Vec::with_capacity(columns.rows));
        for row in 0..columns.rows {
            if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                lengths.push(0);
                continue;
            }
            let (first, last) = (keys.value_offsets()[row] as u32, keys.value_offsets()[row + 1] as u32);
            let (from, to) = (values.value_offsets()[row] as u32, values.value_offsets()[row + 1] as u32);
            if last - first != to - from {
                return Err(bad_row(format!("MAP_FROM_ARRAYS: {} keys and {} values", last - first, to - from)));
            }
            key_places.extend(first..last);
            value_places.extend(from..to);
            lengths.push((last - first) as usize);
        }
        let keys = take(keys.values(), &UInt32Array::from(key_places), None)?;
        let values = take(values.values(), &UInt32Array::from(value_places), None)?;
        build_map(&target, OffsetBuffer::from_lengths(lengths), keys, values, nulls)
    })
    .fallible()
    .into())
}
