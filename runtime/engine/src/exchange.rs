//! Queues between workers: one for each exchange edge and pair of workers, with credit in rows and bytes.
//!
//! Promises: rows of one producer arrive in its order. A queue takes a batch while it is below its limits, so it holds
//! at most one batch more than they say. What a full queue does not take waits in the producer's [`Outlet`]; the
//! producer then polls no sources and reads no queue whose rows could end up in this one, so that memory is bounded. No
//! deadlock: edges form no circle, so the last full edge's readers are never waiting for anybody.

use std::{
    collections::VecDeque,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread::Thread,
};

use arrow::array::RecordBatch;
use crossbeam_channel::{Receiver, Sender, unbounded};
use pelton_core::{position::Epoch, time::Watermark};

use crate::plan::Plan;

/// What moves along edges.
#[derive(Debug, Clone)]
pub(crate) enum Parcel {
    Batch(RecordBatch),
    Signal(Signal),
}

/// What moves along edges besides rows.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Signal {
    Watermark(Watermark),
    /// The channel has nothing to say for now and must not hold others back; `false`: it speaks again.
    Idle(bool),
    Barrier(Epoch),
    End,
}

/// Limits of each queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) rows: usize,
    pub(crate) bytes: usize,
}

/// The threads of the workers, for waking.
pub(crate) type Threads = Arc<Vec<OnceLock<Thread>>>;

#[derive(Debug, Default)]
struct Credit {
    rows: AtomicUsize,
    bytes: AtomicUsize,
}

/// The writing end of a queue.
pub(crate) struct Outlet {
    sender: Sender<Parcel>,
    credit: Arc<Credit>,
    limits: Limits,
    reader: usize,
    threads: Threads,
    /// What the full queue did not take, oldest first.
    waiting: VecDeque<Parcel>,
}

impl Outlet {
    pub(crate) fn push(&mut self, parcel: Parcel) {
        if self.waiting.is_empty() && self.has_credit(&parcel) { self.send(parcel) } else { self.waiting.push_back(parcel) }
    }

    /// Sends what waits as far as there is credit. Whether nothing waits any more.
    pub(crate) fn drain(&mut self) -> bool {
        while let Some(parcel) = self.waiting.pop_front() {
            if !self.has_credit(&parcel) {
                self.waiting.push_front(parcel);
                return false;
            }
            self.send(parcel);
        }
        true
    }

    fn has_credit(&self, parcel: &Parcel) -> bool {
        match parcel {
            Parcel::Batch(_) => {
                self.credit.rows.load(Ordering::Acquire) < self.limits.rows && self.credit.bytes.load(Ordering::Acquire) < self.limits.bytes
            }
            Parcel::Signal(_) => true,
        }
    }

    fn send(&self, parcel: Parcel) {
        if let Parcel::Batch(batch) = &parcel {
            self.credit.rows.fetch_add(batch.num_rows(), Ordering::AcqRel);
            self.credit.bytes.fetch_add(batch.get_array_memory_size(), Ordering::AcqRel);
        }
        // The reader is gone only when the whole job is being torn down.
        let _ = self.sender.send(parcel);
        wake(&self.threads, self.reader);
    }
}

/// The reading end of a queue.
pub(crate) struct Inlet {
    receiver: Receiver<Parcel>,
    credit: Arc<Credit>,
    threads: Threads,
    producer: usize,
    pub(crate) node: usize,
    pub(crate) port: usize,
    pub(crate) channel: usize,
}

impl Inlet {
    pub(crate) fn pop(&self) -> Option<Parcel> {
        let parcel = self.receiver.try_recv().ok()?;
        if let Parcel::Batch(batch) = &parcel {
            self.credit.rows.fetch_sub(batch.num_rows(), Ordering::AcqRel);
            self.credit.bytes.fetch_sub(batch.get_array_memory_size(), Ordering::AcqRel);
            wake(&self.threads, self.producer);
        }
        Some(parcel)
    }
}

fn wake(threads: &Threads, worker: usize) {
    if let Some(thread) = threads[worker].get() {
        thread.unpark();
    }
}

/// The queue ends of one worker.
#[derive(Default)]
pub(crate) struct Ends {
    /// By edge, then by worker; none towards itself.
    pub(crate) outlets: Vec<Vec<Option<Outlet>>>,
    pub(crate) inlets: Vec<Inlet>,
}

/// Makes the queues of a job, as each worker's ends.
pub(crate) fn queues(plan: &Plan, limits: Limits, threads: &Threads) -> Vec<Ends> {
    let mut ends: Vec<Ends> = (0..plan.workers).map(|_| Ends::default()).collect();
    for edge in &plan.edges {
        for producer in 0..plan.workers {
            let mut row = Vec::with_capacity(plan.workers);
            for (reader, end) in ends.iter_mut().enumerate() {
                if reader == producer {
                    row.push(None);
                    continue;
                }
                let (sender, receiver) = unbounded();
                let credit = Arc::new(Credit::default());
                end.inlets.push(Inlet {
                    receiver,
                    credit: Arc::clone(&credit),
                    threads: Arc::clone(threads),
                    producer,
                    node: edge.to,
                    port: edge.port,
                    channel: plan.nodes[edge.to].port_channels[edge.port] + producer,
                });
                row.push(Some(Outlet { sender, credit, limits, reader, threads: Arc::clone(threads), waiting: VecDeque::new() }));
            }
            ends[producer].outlets.push(row);
        }
    }
    ends
}
