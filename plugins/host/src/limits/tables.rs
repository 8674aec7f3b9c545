//! Tables: elements of all tables of an instance together, and how many core instances, tables and memories a component
//! may consist of. Enforced in `memory.rs`, where the engine asks; at the limit `table.grow` says no, or the
//! component is refused when it is loaded.

/// Elements, 8 or 16 bytes each on the host. Large C++ and Python guests have some 20,000.
pub(crate) const ELEMENTS_MAX: usize = 100_000;
/// Core instances in one component: a guest with adapters has 4 to 10.
pub(crate) const INSTANCES_MAX: usize = 64;
/// Tables in one component.
pub(crate) const TABLES_MAX: usize = 32;
/// Memories in one component, each reserving address space.
pub(crate) const MEMORIES_MAX: usize = 16;
