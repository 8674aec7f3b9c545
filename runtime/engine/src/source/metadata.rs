//! Metadata columns that come from the record itself: topic, partition, offset, timestamp, key, headers.
//!
//! What only the connector knows (`file.path`, …) is asked of it.

use std::sync::Arc;

use arrow::{
    array::{
        Array, ArrayRef, BinaryBuilder, Int32Array, Int64Array, MapBuilder, MapFieldNames, StringArray, StringBuilder, TimestampMillisecondArray,
    },
    compute::cast,
    datatypes::DataType,
};
use pelton_core::{
    error::{Result, RuntimeError},
    graph::MetadataColumn,
    records::Records,
};

/// The column for all records, `None` if the record does not know the key.
pub(super) fn record_column(column: &MetadataColumn, records: &Records) -> Result<Option<ArrayRef>> {
    let rows = records.len();
    let made: ArrayRef = match column.key.as_str() {
        "topic" => Arc::new(StringArray::from_iter_values(std::iter::repeat_n(records.topic.as_ref(), rows))),
        "partition" => Arc::new(Int32Array::from(vec![records.partition.0; rows])),
        "offset" => Arc::new(Int64Array::from_iter_values(records.offsets.iter().map(|offset| offset.0))),
        "timestamp" => {
            let times = (0..rows).map(|row| records.timestamp(row).map(|time| time.as_millis()));
            Arc::new(TimestampMillisecondArray::from_iter(times).with_timezone("UTC"))
        }
        "key" => bytes_column((0..rows).map(|row| records.key(row)), &column.data_type),
        "headers" => headers_map(records),
        key => match key.strip_prefix("headers.") {
            Some(name) => bytes_column((0..rows).map(|row| header(records, row, name)), &column.data_type),
            None => return Ok(None),
        },
    };
    fit(made, column).map(Some)
}

/// The column cast to its declared type.
pub(super) fn fit(made: ArrayRef, column: &MetadataColumn) -> Result<ArrayRef> {
    if made.data_type() == &column.data_type {
        return Ok(made);
    }
    let fitted = match (made.data_type(), &column.data_type) {
        // The fields' names and nullability are the declared ones, the values stay.
        (DataType::Map(..), DataType::Map(..)) => cast(&made, &column.data_type),
        _ => cast(&made, &column.data_type),
    };
    fitted.map_err(|error| RuntimeError::Script(format!("metadata column '{}' from '{}': {error}", column.name, column.key)))
}

fn header<'a>(records: &'a Records, row: usize, name: &str) -> Option<&'a [u8]> {
    if records.headers.is_empty() { None } else { records.headers.last(row, name) }
}

/// Bytes as BYTES if that was declared, else as text; what is no UTF-8 is null then.
fn bytes_column<'a>(values: impl Iterator<Item = Option<&'a [u8]>>, declared: &DataType) -> ArrayRef {
    if matches!(declared, DataType::Binary) {
        let mut column = BinaryBuilder::new();
        values.for_each(|value| column.append_option(value));
        return Arc::new(column.finish());
    }
    let mut column = StringBuilder::new();
    values.for_each(|value| column.append_option(value.and_then(|bytes| std::str::from_utf8(bytes).ok())));
    Arc::new(column.finish())
}

/// Headers as MAP<STRING, BYTES>; of several with one name the last counts, as in Flink.
fn headers_map(records: &Records) -> ArrayRef {
    let names = MapFieldNames { entry: "entries".to_owned(), key: "key".to_owned(), value: "value".to_owned() };
    let mut map = MapBuilder::new(Some(names), StringBuilder::new(), BinaryBuilder::new());
    for row in 0..records.len() {
        if !records.headers.is_empty() {
            let all: Vec<_> = records.headers.row(row).collect();
            for (index, (name, value)) in all.iter().enumerate() {
                if all[index + 1..].iter().any(|(later, _)| later == name) {
                    continue;
                }
                map.keys().append_value(name);
                map.values().append_option(*value);
            }
        }
        // Keys and values were appended in pairs, so this cannot fail.
        let _ = map.append(true);
    }
    Arc::new(map.finish())
}

#[cfg(test)]
mod tests {
    use arrow::{array::AsArray, datatypes::TimeUnit};
    use pelton_core::{
        position::{Offset, Partition},
        time::EventTime,
    };

    use super::*;

    fn records() -> Records {
        let mut records = Records { topic: "ai".into(), partition: Partition(3), ..Records::default() };
        for (offset, header) in [(7, Some(&b"x"[..])), (9, None)] {
            records.values.push(Some(b"v"));
            records.offsets.push(Offset(offset));
            records.timestamps.push(EventTime::from_millis(offset * 1_000));
            records.headers.push("route", Some(b"first"));
            records.headers.push("route", header);
            records.headers.finish_row();
        }
        records
    }

    fn column(key: &str, data_type: DataType) -> ArrayRef {
        let column = MetadataColumn { name: "m".to_owned(), key: key.to_owned(), data_type };
        record_column(&column, &records()).expect("fits").expect("known")
    }

    #[test]
    fn a_records_own_facts_become_columns_of_the_declared_type() {
        assert_eq!(column("offset", DataType::Int64).as_primitive::<arrow::datatypes::Int64Type>().values().as_ref(), [7, 9]);
        assert_eq!(column("partition", DataType::Int64).as_primitive::<arrow::datatypes::Int64Type>().value(1), 3);
        let times = column("timestamp", DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())));
        assert_eq!(times.as_primitive::<arrow::datatypes::TimestampMillisecondType>().value(1), 9_000);
    }

    #[test]
    fn the_last_header_of_a_name_counts_null_included() {
        let single = column("headers.route", DataType::Utf8);
        assert_eq!(single.as_string::<i32>().iter().collect::<Vec<_>>(), [Some("x"), None]);
        let made = record_column(
            &MetadataColumn { name: "h".to_owned(), key: "headers".to_owned(), data_type: headers_map(&records()).data_type().clone() },
            &records(),
        );
        let made = made.expect("fits").expect("known");
        let map = made.as_map();
        assert_eq!(map.value_length(0), 1);
        assert_eq!(map.values().as_binary::<i32>().iter().collect::<Vec<_>>(), [Some(&b"x"[..]), None]);
    }
}
