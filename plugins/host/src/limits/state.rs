//! State: bytes an instance may keep (256 MiB), of a key (4 KiB), of a value (1 MiB), of a bucket's name (64), and how
//! many buckets it may open (100). At a limit the call gets an error it can handle; nothing is written.

pub(crate) const QUOTA_BYTES: u64 = 256 << 20;
pub(crate) const KEY_BYTES_MAX: usize = 4 << 10;
pub(crate) const VALUE_BYTES_MAX: usize = 1 << 20;
pub(crate) const NAME_BYTES_MAX: usize = 64;
pub(crate) const BUCKETS_MAX: usize = 100;
/// Entries and bytes of one page of a scan.
pub(crate) const PAGE_ENTRIES_MAX: u32 = 1_000;
pub(crate) const PAGE_BYTES_MAX: usize = 1 << 20;
