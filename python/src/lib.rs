//! `_seiner`: the embedded engine for the Python package `seiner`.
//!
//! This crate is a thin layer. It converts between Arrow and the engine's columns, releases Python's lock while
//! the engine works, and converts errors into the classes of `seiner.errors`. The public API is in
//! `python/seiner`, in Python.

mod answer;
mod append;
mod arrays;
mod bodies;
mod failure;
mod labels;
mod lines;
mod long_form;
mod query;
mod retention;
mod roles;
mod rows;
mod series;
mod status;
mod store;
mod stream;
mod table;
mod texts;

/// The native half of the package `seiner`. Use that package; this module may change without notice.
#[pyo3::pymodule]
mod _seiner {
    #[pymodule_export]
    use crate::answer::Answer;
    #[pymodule_export]
    use crate::arrays::record_batch;
    #[pymodule_export]
    use crate::bodies::Bodies;
    #[pymodule_export]
    use crate::store::Store;
    #[pymodule_export]
    use crate::table::Table;
    #[pymodule_export]
    use crate::texts::texts;
}
