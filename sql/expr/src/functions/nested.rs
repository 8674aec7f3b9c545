//! Rows, arrays and maps: making them, and reaching into them.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, ListArray, MapArray, StructArray, UInt32Array, make_comparator, new_null_array},
    buffer::{NullBuffer, OffsetBuffer},
    compute::{SortOptions, interleave, take},
    datatypes::{DataType, Field, Fields, Int32Type, Int64Type},
};
use datafusion::common::{Result, ScalarValue, plan_err};

use super::{Bind, Call, Param, Spec};
use crate::{
    cast::cast_to,
    error::bad_row,
    func::{Columns, Plan, Typed, collect},
    operators,
    types::{item_field, map_type, map_types, type_name},
};

use Param::{Any, Array as AnArray, Map as AMap};

pub(super) const SPECS: &[Spec] = &[
    Spec { name: "ROW", params: &[Any], optional: 0, rest: Some(Any), bind: row },
    Spec { name: "ARRAY", params: &[], optional: 0, rest: Some(Any), bind: array },
    Spec { name: "MAP", params: &[], optional: 0, rest: Some(Any), bind: map },
    Spec { name: "ITEM", params: &[Any, Any], optional: 0, rest: None, bind: item },
    Spec { name: "CARDINALITY", params: &[Any], optional: 0, rest: None, bind: cardinality },
    Spec { name: "ELEMENT", params: &[AnArray], optional: 0, rest: None, bind: element },
    Spec { name: "MAP_KEYS", params: &[AMap], optional: 0, rest: None, bind: |call| side(call, false) },
    Spec { name: "MAP_VALUES", params: &[AMap], optional: 0, rest: None, bind: |call| side(call, true) },
    Spec { name: "MAP_ENTRIES", params: &[AMap], optional: 0, rest: None, bind: map_entries },
    Spec { name: "MAP_UNION", params: &[AMap], optional: 0, rest: Some(AMap), bind: map_union },
    Spec { name: "MAP_FROM_ARRAYS", params: &[AnArray, AnArray], optional: 0, rest: None, bind: map_from_arrays },
];

/// The field of a row. Null where the row is.
pub(crate) fn field(value: Typed, name: &str) -> Result<Typed> {
    let DataType::Struct(fields) = &value.data_type else {
        return plan_err!("{} is no ROW and has no field `{name}`", type_name(&value.data_type));
    };
    let Some((index, found)) = fields.iter().enumerate().find(|(_, field)| field.name() == name) else {
        let known: Vec<_> = fields.iter().map(|field| format!("`{}`", field.name())).collect();
        return plan_err!("there is no field `{name}`; known are {}", known.join(", "));
    };
    let _ = index;
    let wanted = name.to_owned();
    let result = found.data_type().clone();
    let missing = result.clone();
    let plan = Plan::new(result, move |columns| {
        let array = columns.array(0)?;
        let row = array.as_struct();
        // By name: a reader may have left out fields that nobody reads.
        let Some(column) = row.column_by_name(&wanted) else { return Ok(new_null_array(&missing, row.len())) };
        match row.nulls() {
            None => Ok(Arc::clone(column)),
            Some(nulls) => {
                let nulls = NullBuffer::union(Some(nulls), column.nulls());
                Ok(arrow::array::make_array(column.to_data().into_builder().nulls(nulls).build()?))
            }
        }
    });
    let name = Typed::literal(ScalarValue::Utf8(Some(name.to_owned())));
    Ok(plan.call("get_field", String::new(), vec![value, name]))
}

fn row(call: &Call<'_>) -> Result<Bind> {
    let fields: Fields = call.args.iter().enumerate().map(|(index, value)| Field::new(format!("f{index}"), value.data_type.clone(), true)).collect();
    let made = fields.clone();
    Ok(Plan::new(DataType::Struct(fields), move |columns| {
        let values = (0..columns.len()).map(|index| columns.array(index)).collect::<Result<Vec<_>>>()?;
        Ok(Arc::new(StructArray::try_new(made.clone(), values, None)?))
    })
    .into())
}

/// `width` columns side by side, row after row.
fn interleaved(values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let refs: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
    let places: Vec<(usize, usize)> = (0..rows).flat_map(|row| (0..refs.len()).map(move |column| (column, row))).collect();
    Ok(interleave(&refs, &places)?)
}

fn array(call: &Call<'_>) -> Result<Bind> {
    if call.args.is_empty() {
        return plan_err!("ARRAY[] has no type: CAST(… AS ARRAY<INT>) of another array, or give it an element");
    }
    let values = operators::unified("ARRAY", call.args.to_vec(), call.mode())?;
    let item = values[0].data_type.clone();
    let made = item.clone();
    let plan = Plan::new(DataType::List(item_field(item)), move |columns| {
        let values = (0..columns.len()).map(|index| columns.array(index)).collect::<Result<Vec<_>>>()?;
        let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(values.len(), columns.rows));
        Ok(Arc::new(ListArray::try_new(item_field(made.clone()), offsets, interleaved(&values, columns.rows)?, None)?))
    });
    Ok(Bind::Expr(plan.call("ARRAY", String::new(), values)))
}

fn map(call: &Call<'_>) -> Result<Bind> {
    if call.args.is_empty() || !call.args.len().is_multiple_of(2) {
        return plan_err!("MAP takes pairs of key and value, got {} values", call.args.len());
    }
    let keys = operators::unified("MAP keys", call.args.iter().step_by(2).cloned().collect(), call.mode())?;
    let values = operators::unified("MAP values", call.args.iter().skip(1).step_by(2).cloned().collect(), call.mode())?;
    let (key, value) = (keys[0].data_type.clone(), values[0].data_type.clone());
    let data_type = map_type(key, value);
    let made = data_type.clone();
    let width = keys.len();
    let plan = Plan::new(data_type, move |columns| {
        let keys = (0..width).map(|index| columns.array(index)).collect::<Result<Vec<_>>>()?;
        let values = (width..2 * width).map(|index| columns.array(index)).collect::<Result<Vec<_>>>()?;
        let offsets: Vec<i32> = (0..=columns.rows).map(|row| (row * width) as i32).collect();
        map_of(&made, &interleaved(&keys, columns.rows)?, &interleaved(&values, columns.rows)?, &offsets, None)
    });
    Ok(Bind::Expr(plan.fallible().call("MAP", String::new(), keys.into_iter().chain(values).collect())))
}

/// A map of keys and values; of equal keys the last value holds, at the place of the first.
fn map_of(data_type: &DataType, keys: &ArrayRef, values: &ArrayRef, offsets: &[i32], nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    let DataType::Map(entries, sorted) = data_type else { return plan_err!("{data_type} is no MAP") };
    let DataType::Struct(fields) = entries.data_type() else { return plan_err!("{data_type} is no MAP") };
    let equal = make_comparator(keys, keys, SortOptions::default())?;
    let (mut key_places, mut value_places, mut ends) = (Vec::new(), Vec::new(), vec![0_i32]);
    for range in offsets.windows(2) {
        let begin = key_places.len();
        for index in range[0] as usize..range[1] as usize {
            if keys.is_null(index) {
                return Err(bad_row("a key of a MAP is null"));
            }
            match key_places[begin..].iter().position(|known: &u32| equal(*known as usize, index).is_eq()) {
                Some(known) => value_places[begin + known] = index as u32,
                None => {
                    key_places.push(index as u32);
                    value_places.push(index as u32);
                }
            }
        }
        ends.push(key_places.len() as i32);
    }
    let pick = |array: &ArrayRef, places: Vec<u32>| take(array, &UInt32Array::from(places), None);
    let pairs = StructArray::try_new(fields.clone(), vec![pick(keys, key_places)?, pick(values, value_places)?], None)?;
    Ok(Arc::new(MapArray::try_new(Arc::clone(entries), OffsetBuffer::new(ends.into()), pairs, nulls, *sorted)?))
}

/// `array[n]`, n from 1, and `map[key]`: null where there is nothing.
fn item(call: &Call<'_>) -> Result<Bind> {
    let (of, index) = (call.args[0].clone(), call.args[1].clone());
    match of.data_type.clone() {
        DataType::List(item) => {
            if !crate::types::is_integer(&index.data_type) {
                return plan_err!("an array's position is a whole number from 1, got {}", type_name(&index.data_type));
            }
            let index = cast_to(index, &DataType::Int64.into(), call.mode())?;
            if let Some(ScalarValue::Int64(Some(position))) = index.value().or(fold_value(&index).as_ref())
                && *position < 1
            {
                return plan_err!("an array's positions begin with 1, got {position}");
            }
            let plan = Plan::new(item.data_type().clone(), list_item);
            Ok(Bind::Expr(plan.call("ITEM", String::new(), vec![of, index])))
        }
        DataType::Map(entries, _) => {
            let Some((key, value)) = map_types(&entries) else { return plan_err!("{} is no MAP", of.data_type) };
            let index = cast_to(index, &key.clone().into(), call.mode())?;
            let plan = Plan::new(value.clone(), map_value);
            Ok(Bind::Expr(plan.call("ITEM", String::new(), vec![of, index])))
        }
        other => plan_err!("[…] takes a part of an ARRAY or a MAP, got {}", type_name(&other)),
    }
}

fn fold_value(value: &Typed) -> Option<ScalarValue> {
    match crate::fold(value.expr.clone()) {
        Ok(datafusion::logical_expr::Expr::Literal(value, _)) => Some(value),
        _ => None,
    }
}

fn list_item(columns: &Columns<'_>) -> Result<ArrayRef> {
    let array = columns.array(0)?;
    let (list, positions) = (array.as_list::<i32>(), columns.numbers::<Int64Type>(1)?);
    let offsets = list.value_offsets();
    let places: UInt32Array = (0..columns.rows)
        .map(|row| {
            let position = positions.get(row).filter(|_| list.is_valid(row))?;
            let place = i64::from(offsets[row]) + position - 1;
            (position >= 1 && place < i64::from(offsets[row + 1])).then_some(place as u32)
        })
        .collect();
    Ok(take(list.values(), &places, None)?)
}

fn map_value(columns: &Columns<'_>) -> Result<ArrayRef> {
    let (array, wanted) = (columns.array(0)?, columns.array(1)?);
    let map = array.as_map();
    let equal = make_comparator(map.keys(), &wanted, SortOptions::default())?;
    let offsets = map.value_offsets();
    let places: UInt32Array = (0..columns.rows)
        .map(|row| {
            let mut range = offsets[row] as usize..offsets[row + 1] as usize;
            if map.is_null(row) || wanted.is_null(row) {
                return None;
            }
            range.find(|place| equal(*place, row).is_eq()).map(|place| place as u32)
        })
        .collect();
    Ok(take(map.values(), &places, None)?)
}

fn cardinality(call: &Call<'_>) -> Result<Bind> {
    if !matches!(call.data_type(0), DataType::List(_) | DataType::Map(..)) {
        return plan_err!("CARDINALITY takes an array or a map, got {}", type_name(call.data_type(0)));
    }
    Ok(Plan::new(DataType::Int32, |columns| {
        let array = columns.array(0)?;
        let offsets = match array.data_type() {
            DataType::List(_) => array.as_list::<i32>().offsets().clone(),
            _ => array.as_map().offsets().clone(),
        };
        Ok(Arc::new(collect::<Int32Type>(columns.rows, |row| Ok(array.is_valid(row).then(|| offsets[row + 1] - offsets[row])))?))
    })
    .into())
}

/// The only element; more than one is a bad row.
fn element(call: &Call<'_>) -> Result<Bind> {
    let DataType::List(item) = call.data_type(0) else { return plan_err!("ELEMENT takes an array") };
    Ok(Plan::new(item.data_type().clone(), |columns| {
        let array = columns.array(0)?;
        let list = array.as_list::<i32>();
        let offsets = list.value_offsets();
        let places = collect::<arrow::datatypes::UInt32Type>(columns.rows, |row| match offsets[row + 1] - offsets[row] {
            _ if list.is_null(row) => Ok(None),
            0 => Ok(None),
            1 => Ok(Some(offsets[row] as u32)),
            more => Err(bad_row(format!("ELEMENT takes an array of one element, got {more}"))),
        })?;
        Ok(take(list.values(), &places, None)?)
    })
    .fallible()
    .into())
}

fn side(call: &Call<'_>, values: bool) -> Result<Bind> {
    let DataType::Map(entries, _) = call.data_type(0) else { return plan_err!("{} takes a map", call.name) };
    let Some((key, value)) = map_types(entries) else { return plan_err!("{} takes a map", call.name) };
    let item = if values { value.clone() } else { key.clone() };
    let made = item.clone();
    Ok(Plan::new(DataType::List(item_field(item)), move |columns| {
        let array = columns.array(0)?;
        let map = array.as_map();
        let side = if values { map.values() } else { map.keys() };
        Ok(Arc::new(ListArray::try_new(item_field(made.clone()), map.offsets().clone(), Arc::clone(side), map.nulls().cloned())?))
    })
    .into())
}

fn map_entries(call: &Call<'_>) -> Result<Bind> {
    let DataType::Map(entries, _) = call.data_type(0) else { return plan_err!("MAP_ENTRIES takes a map") };
    let Some((key, value)) = map_types(entries) else { return plan_err!("MAP_ENTRIES takes a map") };
    let fields = Fields::from(vec![Field::new("key", key.clone(), true), Field::new("value", value.clone(), true)]);
    let item = DataType::Struct(fields.clone());
    Ok(Plan::new(DataType::List(item_field(item.clone())), move |columns| {
        let array = columns.array(0)?;
        let map = array.as_map();
        let pairs = StructArray::try_new(fields.clone(), vec![Arc::clone(map.keys()), Arc::clone(map.values())], None)?;
        Ok(Arc::new(ListArray::try_new(item_field(item.clone()), map.offsets().clone(), Arc::new(pairs), map.nulls().cloned())?))
    })
    .into())
}

/// All entries; of equal keys the last value holds.
fn map_union(call: &Call<'_>) -> Result<Bind> {
    let args = operators::unified(call.name, call.args.to_vec(), call.mode())?;
    let data_type = args[0].data_type.clone();
    let made = data_type.clone();
    let plan = Plan::new(data_type, move |columns| {
        let arrays = (0..columns.len()).map(|index| columns.array(index)).collect::<Result<Vec<_>>>()?;
        let maps: Vec<&MapArray> = arrays.iter().map(|array| array.as_map()).collect();
        let nulls = maps.iter().fold(None, |nulls: Option<NullBuffer>, map| NullBuffer::union(nulls.as_ref(), map.nulls()));
        let (mut places, mut offsets) = (Vec::new(), vec![0_i32]);
        for row in 0..columns.rows {
            if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
                for (index, map) in maps.iter().enumerate() {
                    let range = map.value_offsets()[row] as usize..map.value_offsets()[row + 1] as usize;
                    places.extend(range.map(|place| (index, place)));
                }
            }
            offsets.push(places.len() as i32);
        }
        let keys: Vec<&dyn Array> = maps.iter().map(|map| map.keys().as_ref()).collect();
        let values: Vec<&dyn Array> = maps.iter().map(|map| map.values().as_ref()).collect();
        map_of(&made, &interleave(&keys, &places)?, &interleave(&values, &places)?, &offsets, nulls)
    });
    Ok(Bind::Expr(plan.call(call.name, String::new(), args)))
}

fn map_from_arrays(call: &Call<'_>) -> Result<Bind> {
    let (DataType::List(key), DataType::List(value)) = (call.data_type(0), call.data_type(1)) else { return plan_err!("MAP_FROM_ARRAYS takes two arrays") };
    let data_type = map_type(key.data_type().clone(), value.data_type().clone());
    let made = data_type.clone();
    Ok(Plan::new(data_type, move |columns| {
        let (keys, values) = (columns.array(0)?, columns.array(1)?);
        let (keys, values) = (keys.as_list::<i32>(), values.as_list::<i32>());
        let nulls = NullBuffer::union(keys.nulls(), values.nulls());
        let (mut key_places, mut value_places, mut offsets) = (Vec::new(), Vec::new(), vec![0_i32]);
        for row in 0..columns.rows {
            if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
                let (k, v) = (keys.value_offsets(), values.value_offsets());
                if k[row + 1] - k[row] != v[row + 1] - v[row] {
                    return Err(bad_row("MAP_FROM_ARRAYS takes arrays of the same length"));
                }
                key_places.extend((k[row]..k[row + 1]).map(|place| place as u32));
                value_places.extend((v[row]..v[row + 1]).map(|place| place as u32));
            }
            offsets.push(key_places.len() as i32);
        }
        let keys = take(keys.values(), &UInt32Array::from(key_places), None)?;
        let values = take(values.values(), &UInt32Array::from(value_places), None)?;
        map_of(&made, &keys, &values, &offsets, nulls)
    })
    .fallible()
    .into())
}
