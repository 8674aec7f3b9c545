//! Arrow IPC messages as the contract has them: encapsulated, without dictionaries and compression.
//!
//! Promises: bytes from a guest give an array of the expected type or an error, never a panic.

use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use arrow::{
    array::{ArrayRef, RecordBatch, RecordBatchOptions},
    buffer::Buffer,
    datatypes::{Schema, SchemaRef},
    ipc::{
        MessageHeader, convert,
        reader::read_record_batch,
        root_as_message,
        writer::{DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions, write_message},
    },
};

/// Reads a schema message.
pub(crate) fn read_schema(bytes: &[u8]) -> Result<Schema, String> {
    guarded(|| {
        let (metadata, _) = split(bytes)?;
        let message = root_as_message(metadata).map_err(|e| format!("schema message: {e}"))?;
        let schema = message.header_as_schema().ok_or("the message is no schema")?;
        Ok(convert::fb_to_schema(schema))
    })
}

/// Writes columns of one length as a record batch message.
pub(crate) fn write_columns(schema: &SchemaRef, columns: &[ArrayRef], rows: usize) -> Result<Vec<u8>, String> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let batch = RecordBatch::try_new_with_options(Arc::clone(schema), columns.to_vec(), &options).map_err(|e| e.to_string())?;
    let write = IpcWriteOptions::default();
    let mut dictionaries = DictionaryTracker::new(true);
    let (_, data) = IpcDataGenerator::default()
        .encode(&batch, &mut dictionaries, &write, &mut IpcWriteContext::default())
        .map_err(|e| e.to_string())?;
    let mut bytes = Vec::new();
    write_message(&mut bytes, data, &write).map_err(|e| e.to_string())?;
    Ok(bytes)
}

/// Reads a record batch message of one column and `rows` rows.
pub(crate) fn read_column(bytes: Vec<u8>, schema: &SchemaRef, rows: usize) -> Result<ArrayRef, String> {
    guarded(|| {
        let (metadata, body_at) = split(&bytes)?;
        let message = root_as_message(metadata).map_err(|e| format!("record batch message: {e}"))?;
        if message.header_type() != MessageHeader::RecordBatch {
            return Err(format!("the message is a {:?}, not a record batch", message.header_type()));
        }
        let header = message.header_as_record_batch().ok_or("the message has no record batch")?;
        if header.length() != rows as i64 {
            return Err(format!("the column has {} rows, expected {rows}", header.length()));
        }
        if header.compression().is_some() {
            return Err("the record batch is compressed".to_owned());
        }
        let body = bytes.len() - body_at;
        for buffer in header.buffers().into_iter().flatten() {
            let (offset, length) = (usize::try_from(buffer.offset()), usize::try_from(buffer.length()));
            let inside = matches!((offset, length), (Ok(o), Ok(l)) if o.checked_add(l).is_some_and(|end| end <= body));
            if !inside {
                return Err(format!("a buffer at {} of {} bytes is outside the body of {body}", buffer.offset(), buffer.length()));
            }
        }
        for node in header.nodes().into_iter().flatten() {
            if node.length() < 0 || node.null_count() < 0 || node.null_count() > node.length() {
                return Err(format!("a column has {} rows and {} nulls", node.length(), node.null_count()));
            }
        }
        // Copied so that the body begins at an address Arrow can use as it is.
        let body = Buffer::from_slice_ref(&bytes[body_at..]);
        let batch = read_record_batch(&body, header, Arc::clone(schema), &HashMap::new(), None, &message.version())
            .map_err(|e| e.to_string())?;
        let column = batch.columns().first().ok_or("the record batch has no column")?;
        column.to_data().validate_full().map_err(|e| e.to_string())?;
        if column.len() != rows {
            return Err(format!("the column has {} rows, expected {rows}", column.len()));
        }
        Ok(Arc::clone(column))
    })
}

/// The flatbuffer of an encapsulated message, and where its body begins.
fn split(bytes: &[u8]) -> Result<(&[u8], usize), String> {
    let short = || format!("a message of {} bytes is cut", bytes.len());
    let (marker, rest) = bytes.split_first_chunk::<4>().ok_or_else(short)?;
    if marker != &[0xff; 4] {
        return Err("the message does not begin with the continuation marker".to_owned());
    }
    let (length, rest) = rest.split_first_chunk::<4>().ok_or_else(short)?;
    let length = usize::try_from(i32::from_le_bytes(*length)).map_err(|_| "the metadata's length is negative")?;
    let metadata = rest.get(..length).ok_or_else(short)?;
    Ok((metadata, 8 + length))
}

/// Arrow's reader checks nearly everything; what it asserts instead becomes an error here.
fn guarded<T>(read: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err("the message is damaged".to_owned()))
}
