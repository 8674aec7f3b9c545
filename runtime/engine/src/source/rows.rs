//! From records to rows: decode value and key, append metadata columns, run the source step.
//!
//! Promises: every record either becomes its rows or is in `bad` with its step and reason, in record order; tombstones
//! become nothing. On an unbounded source a row whose event time is out of the plausible range is bad.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use arrow::{
    array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, TimestampMillisecondArray, UInt32Array},
    compute::{filter_record_batch, take},
    datatypes::{Field, Schema, SchemaRef},
};
use pelton_core::{
    dead_letter::DeadLetter,
    error::{Result, RuntimeError},
    format::Decoder,
    graph::{SourceNode, TableSpec},
    position::Offset,
    records::Records,
    source_step::{RowTimes, SourceRows, SourceStep},
    time::EventTime,
};

use super::{at_table, metadata};
use crate::{
    connectors::Connectors,
    table_options::{connector, key_fields, value_leaves_key_out},
};

/// How the records of a table become rows: shared by its splits.
pub(crate) struct RowMaker {
    node: SourceNode,
    connectors: Arc<dyn Connectors>,
    value: FormatSpec,
    /// Set when some column is read from the key.
    key: Option<FormatSpec>,
}

struct FormatSpec {
    format: String,
    options: BTreeMap<String, String>,
    physical: SchemaRef,
    needed: SchemaRef,
}

impl FormatSpec {
    fn open(&self) -> Result<Box<dyn Decoder>> {
        pelton_formats::decoder(&self.format, &self.options, &self.physical, &self.needed)
    }
}

/// Columns that only the key holds.
fn key_only(spec: &SourceNode) -> Result<Vec<String>, String> {
    if value_leaves_key_out(&spec.table)? { Ok(key_fields(&spec.table)) } else { Ok(Vec::new()) }
}

/// Whether some needed column is read from the key.
pub(super) fn reads_keys(spec: &SourceNode) -> Result<bool, String> {
    Ok(key_only(spec)?.iter().any(|name| spec.decoded.column_with_name(name).is_some()))
}

impl RowMaker {
    pub(crate) fn new(node: &SourceNode, connectors: Arc<dyn Connectors>) -> Result<Self> {
        let table = &node.table;
        let in_key = key_only(node).map_err(|reason| at_table(table, &reason))?;
        let pick = |schema: &SchemaRef, keep: &dyn Fn(&str) -> bool| {
            Arc::new(Schema::new(schema.fields().iter().filter(|field| keep(field.name())).cloned().collect::<Vec<_>>()))
        };
        let is_key = |name: &str| in_key.iter().any(|key| key == name);
        let (format, options) = value_format(table)?;
        let value = FormatSpec {
            format,
            options,
            physical: pick(&table.physical, &|name| !is_key(name)),
            needed: pick(&node.decoded, &|name| !is_key(name)),
        };
        let key = if reads_keys(node).map_err(|reason| at_table(table, &reason))? {
            let format = table.options.get("key.format").ok_or_else(|| at_table(table, "option 'key.format' is missing"))?;
            let prefix = table.options.get("key.fields-prefix").map_or("", String::as_str);
            // The key's columns in the order of 'key.fields', under the names that its format sees.
            let plain = |field: &Field| {
                let name = field.name().strip_prefix(prefix).unwrap_or(field.name()).to_owned();
                field.clone().with_name(name)
            };
            let all: Vec<_> = in_key.iter().filter_map(|name| table.physical.field_with_name(name).ok()).map(plain).collect();
            let needed: Vec<_> = node.decoded.fields().iter().filter(|field| is_key(field.name())).map(|field| plain(field)).collect();
            Some(FormatSpec {
                format: format.clone(),
                options: pelton_formats::unprefixed(&table.options, "key."),
                physical: Arc::new(Schema::new(all)),
                needed: Arc::new(Schema::new(needed)),
            })
        } else {
            None
        };
        Ok(Self { node: node.clone(), connectors, value, key })
    }

    /// The decoders and the step of a new split.
    pub(crate) fn open(self: &Arc<Self>) -> Result<SplitRows> {
        let wrong = |error: RuntimeError| match error {
            RuntimeError::Script(reason) => at_table(&self.node.table, &reason),
            other => other,
        };
        let value = self.value.open().map_err(wrong)?;
        let key = self.key.as_ref().map(FormatSpec::open).transpose().map_err(wrong)?;
        let value_schema = value.schema();
        let key_schema = key.as_ref().map(|key| key.schema());
        let (mut fields, mut places, mut next_key) = (Vec::new(), Vec::new(), 0);
        for field in self.node.decoded.fields() {
            let place = match (value_schema.index_of(field.name()), &key_schema) {
                (Ok(index), _) => Place::Value(index),
                (Err(_), Some(_)) => {
                    next_key += 1;
                    Place::Key(next_key - 1)
                }
                (Err(_), None) => return Err(at_table(&self.node.table, &format!("column '{}' is not decoded", field.name()))),
            };
            let decoded = match (place, &key_schema) {
                (Place::Key(index), Some(schema)) => schema.field(index).clone(),
                (Place::Value(index), _) => value_schema.field(index).clone(),
                (Place::Key(_), None) => field.as_ref().clone(),
            };
            fields.push(decoded.with_name(field.name().clone()).with_nullable(true));
            places.push(place);
        }
        fields.extend(self.node.metadata.iter().map(|column| Field::new(&column.name, column.data_type.clone(), true)));
        Ok(SplitRows { maker: Arc::clone(self), value, key, step: self.node.step.create()?, schema: Arc::new(Schema::new(fields)), places })
    }
}

/// The name of the value's format and the options as it reads them.
pub(crate) fn value_format(table: &TableSpec) -> Result<(String, BTreeMap<String, String>)> {
    if let Some(format) = table.options.get("value.format") {
        return Ok((format.clone(), pelton_formats::unprefixed(&table.options, "value.")));
    }
    let implied = pelton_connect::implied_format(connector(table)).map(str::to_owned);
    let format = table.options.get("format").cloned().or(implied);
    let format = format.ok_or_else(|| at_table(table, "option 'format' is missing"))?;
    Ok((format, table.options.clone()))
}

#[derive(Clone, Copy)]
enum Place {
    Value(usize),
    Key(usize),
}

/// The decoders and the step of one split.
pub(crate) struct SplitRows {
    maker: Arc<RowMaker>,
    value: Box<dyn Decoder>,
    key: Option<Box<dyn Decoder>>,
    step: Box<dyn SourceStep>,
    /// Decoded and metadata columns.
    schema: SchemaRef,
    places: Vec<Place>,
}

/// What a batch of records became.
pub(crate) struct Made {
    pub(crate) batch: RecordBatch,
    pub(crate) times: Option<RowTimes>,
    /// Record, step, reason; in record order.
    pub(crate) bad: Vec<(u32, Cow<'static, str>, String)>,
}

impl SplitRows {
    /// See the module. `plausible` is the range of event times that are believed, ends included.
    pub(crate) fn make(&mut self, records: &mut Records, plausible: Option<(i64, i64)>) -> Result<Made> {
        let decoded = self.value.decode(records)?;
        let mut bad: Vec<_> = decoded.bad.into_iter().map(|(row, reason)| (row, Cow::Borrowed("decode"), reason)).collect();
        let (mut values, mut origin) = (decoded.batch, decoded.origin);
        let keys = match &mut self.key {
            Some(_) => Some(self.decode_keys(records, &mut values, &mut origin, &mut bad)?),
            None => None,
        };
        let rows = values.num_rows();
        if rows == 0 {
            bad.sort_by_key(|(row, _, _)| *row);
            return Ok(Made { batch: RecordBatch::new_empty(self.maker.node.step.schema()), times: None, bad });
        }
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.schema.fields().len());
        for place in &self.places {
            columns.push(match (place, &keys) {
                (Place::Value(index), _) => Arc::clone(values.column(*index)),
                (Place::Key(index), Some(keys)) => Arc::clone(keys.column(*index)),
                (Place::Key(_), None) => return Err(bug("a key column without decoded keys")),
            });
        }
        self.append_metadata(records, origin.as_deref(), &mut columns)?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let input = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options).map_err(|error| bug(&error.to_string()))?;
        let mut made = self.step.apply(input)?;
        if let Some((earliest, latest)) = plausible {
            drop_implausible(&mut made, rows, earliest, latest)?;
        }
        let record = |row: u32| origin.as_ref().map_or(row, |origin| origin[row as usize]);
        bad.extend(made.bad.into_iter().map(|(row, step, reason)| (record(row), Cow::Borrowed(step), reason)));
        bad.sort_by_key(|(row, _, _)| *row);
        Ok(Made { batch: made.batch, times: made.times, bad })
    }

    /// Decodes the keys of the records that became `values`. A record whose key is bad loses its rows.
    fn decode_keys(
        &mut self,
        records: &mut Records,
        values: &mut RecordBatch,
        origin: &mut Option<Vec<u32>>,
        bad: &mut Vec<(u32, Cow<'static, str>, String)>,
    ) -> Result<RecordBatch> {
        let Some(decoder) = &mut self.key else { return Err(bug("no key decoder")) };
        std::mem::swap(&mut records.keys, &mut records.values);
        let decoded = decoder.decode(records);
        std::mem::swap(&mut records.keys, &mut records.values);
        let decoded = decoded?;
        // For each record the row of its key; a null key gives null columns.
        let mut key_rows: Vec<Option<u32>> = vec![None; records.len()];
        for row in 0..decoded.batch.num_rows() as u32 {
            let record = decoded.origin.as_ref().map_or(row, |origin| origin[row as usize]);
            key_rows[record as usize].get_or_insert(row);
        }
        if !decoded.bad.is_empty() {
            let mut is_bad = vec![false; records.len()];
            for (record, reason) in decoded.bad {
                is_bad[record as usize] = true;
                if !bad.iter().any(|(other, _, _)| *other == record) {
                    bad.push((record, Cow::Borrowed("decode key"), reason));
                }
            }
            let of_row = |row: usize| origin.as_ref().map_or(row as u32, |origin| origin[row]);
            let kept: Vec<u32> = (0..values.num_rows()).map(of_row).filter(|record| !is_bad[*record as usize]).collect();
            let mask: BooleanArray = (0..values.num_rows()).map(|row| Some(!is_bad[of_row(row) as usize])).collect();
            *values = filter_record_batch(values, &mask).map_err(|error| bug(&error.to_string()))?;
            *origin = Some(kept);
        }
        let picked: UInt32Array = match origin {
            Some(origin) => origin.iter().map(|record| key_rows[*record as usize]).collect(),
            None => key_rows.into_iter().collect(),
        };
        let columns: Result<Vec<_>, _> = decoded.batch.columns().iter().map(|column| take(column, &picked, None)).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(picked.len()));
        columns
            .and_then(|columns| RecordBatch::try_new_with_options(decoded.batch.schema(), columns, &options))
            .map_err(|error| bug(&error.to_string()))
    }

    fn append_metadata(&self, records: &Records, origin: Option<&[u32]>, columns: &mut Vec<ArrayRef>) -> Result<()> {
        let node = &self.maker.node;
        let picked = origin.filter(|_| !node.metadata.is_empty()).map(|origin| UInt32Array::from(origin.to_vec()));
        for column in &node.metadata {
            let own = match column.key.as_str() {
                // A file's offset is the connector's business, as all its keys are.
                _ if column.key.starts_with("file.") => None,
                _ => metadata::record_column(column, records)?,
            };
            let made = match own {
                Some(made) => made,
                None => metadata::fit(self.maker.connectors.metadata_column(&node.table, &column.key, records, &column.data_type)?, column)?,
            };
            columns.push(match &picked {
                Some(picked) => take(&made, picked, None).map_err(|error| bug(&error.to_string()))?,
                None => made,
            });
        }
        Ok(())
    }
}

fn bug(what: &str) -> RuntimeError {
    RuntimeError::Bug { operator: pelton_core::position::OperatorId(0), what: format!("source: {what}") }
}

/// Takes rows with event times outside `[earliest, latest]` out again.
fn drop_implausible(made: &mut SourceRows, input_rows: usize, earliest: i64, latest: i64) -> Result<()> {
    let Some(times) = &made.times else { return Ok(()) };
    let values = times.event_time.values();
    let is_good = |time: &i64| (earliest..=latest).contains(time);
    if values.iter().all(is_good) {
        return Ok(());
    }
    let mut is_bad_input = vec![false; input_rows];
    made.bad.iter().for_each(|(row, _, _)| is_bad_input[*row as usize] = true);
    let inputs: Vec<u32> = (0..input_rows as u32).filter(|row| !is_bad_input[*row as usize]).collect();
    let mut keep_row = vec![true; made.batch.num_rows()];
    let (mut event_time, mut watermark, mut batch_position) = (Vec::new(), Vec::new(), Vec::new());
    let mut kept_before = 0_u32;
    for (index, time) in values.iter().enumerate() {
        let from = times.batch_position[index] as usize;
        let to = times.batch_position.get(index + 1).map_or(made.batch.num_rows(), |&next| next as usize);
        if is_good(time) {
            event_time.push(*time);
            watermark.push(times.watermark.value(index));
            batch_position.push(kept_before);
            kept_before += (to - from) as u32;
        } else {
            keep_row[from..to].fill(false);
            let reason = format!("event time {time} ms is not between {earliest} and {latest} ms, the range that is believed");
            made.bad.push((inputs.get(index).copied().unwrap_or(0), "event-time", reason));
        }
    }
    if let Some(origin) = &mut made.origin {
        let mut rows = keep_row.iter();
        origin.retain(|_| rows.next().copied().unwrap_or(true));
    }
    made.batch = filter_record_batch(&made.batch, &BooleanArray::from(keep_row)).map_err(|error| bug(&error.to_string()))?;
    made.times = Some(RowTimes {
        event_time: TimestampMillisecondArray::from(event_time),
        watermark: TimestampMillisecondArray::from(watermark),
        batch_position,
    });
    Ok(())
}

/// The dead letter of a record.
pub(super) fn letter(table: &TableSpec, records: &Records, row: usize, step: String, reason: String) -> DeadLetter {
    let headers = if records.headers.is_empty() {
        Vec::new()
    } else {
        records.headers.row(row).map(|(name, value)| (name.to_owned(), value.map(<[u8]>::to_vec))).collect()
    };
    DeadLetter {
        table: table.name.clone(),
        step,
        reason,
        topic: records.topic.to_string(),
        partition: records.partition,
        offset: records.offsets.get(row).copied().unwrap_or(Offset(-1)),
        timestamp_ms: records.timestamp(row).map(EventTime::as_millis),
        key: records.key(row).map(<[u8]>::to_vec),
        value: records.values.get(row).map(<[u8]>::to_vec),
        headers,
        plugin: None,
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;

    use super::*;

    fn rows(values: &[i64], times: &[i64], positions: &[u32]) -> SourceRows {
        let schema = Arc::new(Schema::new(vec![Field::new("v", arrow::datatypes::DataType::Int64, true)]));
        let batch = RecordBatch::try_new(schema, vec![Arc::new(Int64Array::from(values.to_vec()))]).expect("one column");
        let times = RowTimes {
            event_time: TimestampMillisecondArray::from(times.to_vec()),
            watermark: TimestampMillisecondArray::from(times.to_vec()),
            batch_position: positions.to_vec(),
        };
        SourceRows { batch, origin: None, times: Some(times), bad: vec![(1, "event-time", "null".to_owned())] }
    }

    #[test]
    fn a_time_from_the_future_takes_its_row_out_and_no_other() {
        // Input rows 0..5; row 1 was bad before, row 3 (time 30) was filtered out, row 4 is from the future.
        let mut made = rows(&[0, 2, 4], &[10, 20, 30, 9_999], &[0, 1, 2, 2]);
        drop_implausible(&mut made, 5, 0, 1_000).expect("rows are well formed");
        assert_eq!(made.batch.column(0).as_ref(), &Int64Array::from(vec![0, 2]) as &dyn arrow::array::Array);
        let times = made.times.expect("times stay");
        assert_eq!(times.event_time.values().as_ref(), [10, 20, 30]);
        assert_eq!(times.batch_position, [0, 1, 2]);
        let bad: Vec<_> = made.bad.iter().map(|(row, _, _)| *row).collect();
        assert_eq!(bad, [1, 4]);
    }

    #[test]
    fn times_within_the_range_change_nothing() {
        let mut made = rows(&[0, 2], &[10, 20], &[0, 1]);
        drop_implausible(&mut made, 3, 0, 1_000).expect("rows are well formed");
        assert_eq!((made.batch.num_rows(), made.bad.len()), (2, 1));
    }
}
