//! One partition's records as librdkafka queues them: taken in batches, without a call or an allocation per record.
//!
//! The only file with `unsafe`: rdkafka's own queues hand out one record per call, each behind an event of its own,
//! which costs more than decoding the record.
//!
//! Promises: records of a partition come in order, each once. The waker is called when an empty queue gets something.
//! Leaves to the source: what the records mean, and where reading goes on.

use std::{
    ffi::{CStr, CString, c_char, c_void},
    ptr::{NonNull, null_mut},
    slice,
    sync::Arc,
};

use pelton_core::{
    position::Offset,
    records::Records,
    source::RecordParts,
    time::EventTime,
};
use rdkafka::{
    bindings as raw,
    consumer::{BaseConsumer, Consumer},
    error::RDKafkaErrorCode,
    types::{RDKafka, RDKafkaRespErr},
};

use crate::{client::Context, wake::Waker};

/// Records taken from librdkafka at once.
const CHUNK: usize = 512;

/// What stands behind the last record taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Perhaps more.
    Some,
    /// Nothing now.
    Empty,
    /// The partition's end, or the end offset asked for, is reached: no record before it is left.
    End,
    /// An error of this partition that reading cannot go on from by itself.
    Failed(RDKafkaErrorCode),
}

/// See the module.
pub(crate) struct PartitionQueue {
    // Fixed at start.
    queue: NonNull<raw::rd_kafka_queue_t>,
    /// Called by librdkafka's threads; alive until the callback is taken off in `drop`.
    _waker: Arc<Waker>,
    /// The queue belongs to this client, which must outlive it.
    consumer: Arc<BaseConsumer<Context>>,
    // Buffers.
    messages: Vec<*mut raw::rd_kafka_message_t>,
    /// Taken from librdkafka, not yet handed out: `messages[next..]`.
    next: usize,
}

// SAFETY: librdkafka's queues and messages may be used from any thread, by one at a time; nothing here is shared.
unsafe impl Send for PartitionQueue {}

unsafe extern "C" fn on_records(_: *mut RDKafka, waker: *mut c_void) {
    // SAFETY: `waker` is the pointer of the queue's `Arc<Waker>`, which lives until `drop` has taken this callback off;
    // librdkafka calls it under the queue's lock, and takes it off under the same lock.
    unsafe { &*waker.cast::<Waker>() }.wake();
}

impl PartitionQueue {
    /// Splits a partition's records off the consumer's own queue. Called before the partition is assigned, so that none
    /// goes the other way. `None` if the topic's name cannot be one.
    pub(crate) fn new(consumer: &Arc<BaseConsumer<Context>>, topic: &str, partition: i32, waker: &Arc<Waker>) -> Option<Self> {
        let topic = CString::new(topic).ok()?;
        // SAFETY: the client lives as long as `consumer`, the name is a C string for the call; the queue returned is
        // owned here and destroyed in `drop`.
        let queue = NonNull::new(unsafe { raw::rd_kafka_queue_get_partition(consumer.client().native_ptr(), topic.as_ptr(), partition) })?;
        // SAFETY: the queue was just made; a null destination takes a forwarding off. The waker's pointer stays valid,
        // see `on_records`.
        unsafe {
            raw::rd_kafka_queue_forward(queue.as_ptr(), null_mut());
            raw::rd_kafka_queue_cb_event_enable(queue.as_ptr(), Some(on_records), Arc::as_ptr(waker).cast_mut().cast());
        }
        Some(Self { queue, _waker: Arc::clone(waker), consumer: Arc::clone(consumer), messages: Vec::with_capacity(CHUNK), next: 0 })
    }

    /// Appends up to `max_rows` records before `end`, of about `max_bytes`, to `into`. Never blocks.
    pub(crate) fn take(&mut self, max_rows: usize, max_bytes: usize, end: Option<i64>, parts: RecordParts, into: &mut Records) -> Taken {
        while into.len() < max_rows && into.values.byte_len() < max_bytes {
            if self.next == self.messages.len() && !self.refill() {
                return Taken::Empty;
            }
            let message = self.messages[self.next];
            // SAFETY: librdkafka's message, valid until it is destroyed, which only `self` does.
            let head = unsafe { &*message };
            if head.err != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
                let (err, offset) = (head.err, head.offset);
                self.destroy_next();
                if err != RDKafkaRespErr::RD_KAFKA_RESP_ERR__PARTITION_EOF {
                    return Taken::Failed(err.into());
                }
                // The end may have been reached before others wrote behind it: it counts from the end asked for on.
                if end.is_some_and(|end| offset >= end) {
                    return Taken::End;
                }
                continue;
            }
            if end.is_some_and(|end| head.offset >= end) {
                return Taken::End;
            }
            // SAFETY: `message` is valid, as above.
            unsafe { copy(message, head, parts, into) };
            self.destroy_next();
        }
        Taken::Some
    }

    fn refill(&mut self) -> bool {
        self.messages.clear();
        self.next = 0;
        // SAFETY: the buffer has room for `CHUNK` pointers, librdkafka writes as many as it returns (-1 on error), and
        // those messages are ours from then on.
        let count = unsafe { raw::rd_kafka_consume_batch_queue(self.queue.as_ptr(), 0, self.messages.as_mut_ptr(), CHUNK) };
        let count = usize::try_from(count).unwrap_or(0);
        // SAFETY: the first `count` pointers were written.
        unsafe { self.messages.set_len(count) };
        count > 0
    }

    fn destroy_next(&mut self) {
        // SAFETY: each message is destroyed once: `next` moves past it.
        unsafe { raw::rd_kafka_message_destroy(self.messages[self.next]) };
        self.next += 1;
    }

    /// Records between `from` and the partition's end as far as the broker's last answer told, `None` before the first.
    pub(crate) fn behind(&self, topic: &str, partition: i32, from: i64) -> Option<u64> {
        let topic = CString::new(topic).ok()?;
        let (mut low, mut high) = (-1, -1);
        // SAFETY: the name is a C string for the call, the numbers are written or left alone.
        let err = unsafe { raw::rd_kafka_get_watermark_offsets(self.consumer.client().native_ptr(), topic.as_ptr(), partition, &mut low, &mut high) };
        (err == RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR && high >= 0).then(|| u64::try_from(high - from).unwrap_or(0))
    }
}

impl Drop for PartitionQueue {
    fn drop(&mut self) {
        while self.next < self.messages.len() {
            self.destroy_next();
        }
        // SAFETY: the queue is ours and not used after this; the client is dropped after it.
        unsafe {
            raw::rd_kafka_queue_cb_event_enable(self.queue.as_ptr(), None, null_mut());
            raw::rd_kafka_queue_destroy(self.queue.as_ptr());
        }
    }
}

/// A byte string of librdkafka; null is none.
///
/// # Safety
/// `data` is null or valid for `length` bytes as long as the result is used.
unsafe fn bytes<'a>(data: *const c_void, length: usize) -> Option<&'a [u8]> {
    if data.is_null() {
        return None;
    }
    // SAFETY: as the caller promises.
    Some(unsafe { slice::from_raw_parts(data.cast(), length) })
}

/// Appends a message's parts to `into`.
///
/// # Safety
/// `message` is valid, without error, and `head` is what it points to.
unsafe fn copy(message: *const raw::rd_kafka_message_t, head: &raw::rd_kafka_message_t, parts: RecordParts, into: &mut Records) {
    into.offsets.push(Offset(head.offset));
    // SAFETY: payload and key are the message's, valid until it is destroyed.
    unsafe {
        into.values.push(bytes(head.payload, head.len));
        if parts.keys {
            into.keys.push(bytes(head.key, head.key_len));
        }
    }
    if parts.timestamps {
        let mut kind = raw::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        // SAFETY: a valid message, and a place for the kind.
        into.timestamps.push(EventTime::from_millis(unsafe { raw::rd_kafka_message_timestamp(message, &mut kind) }));
    }
    if parts.headers {
        let mut headers = null_mut();
        // SAFETY: a valid message; the headers stay the message's.
        let found = unsafe { raw::rd_kafka_message_headers(message, &mut headers) };
        let has_headers = found == RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR;
        for index in (0..).take_while(|_| has_headers) {
            let (mut name, mut value, mut length): (*const c_char, *const c_void, usize) = (std::ptr::null(), std::ptr::null(), 0);
            // SAFETY: the headers are valid; name and value are written if there is a header of this index.
            let got = unsafe { raw::rd_kafka_header_get_all(headers, index, &mut name, &mut value, &mut length) };
            if got != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
                break;
            }
            // SAFETY: written by the call above: the name is a C string, the value null or `length` bytes.
            let (name, value) = unsafe { (CStr::from_ptr(name), bytes(value, length)) };
            into.headers.push(&name.to_string_lossy(), value);
        }
        into.headers.finish_row();
    }
}
