//! Prepared statement. All of it is in the handle that the client keeps.

use crate::client::error;
use crate::plain::plain_type;
use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, Field, Schema};
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamDecoder;
use arrow::ipc::writer::StreamWriter;
use bytes::Bytes;
use datafusion::common::{ParamValues, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;
use prost::Message;
use std::panic::catch_unwind;

/// Maximum length of the parameters of a statement, bytes.
const MAX_PARAMETER_BYTES: usize = 1 << 20;

/// Prepared statement.
#[derive(Clone, PartialEq, Message)]
pub struct Statement {
    /// Text of the query.
    #[prost(string, tag = "1")]
    pub query: String,
    /// Arrow stream of one row, which has a column per parameter. Empty if no parameters are bound.
    #[prost(bytes = "vec", tag = "2")]
    pub parameters: Vec<u8>,
}

impl Statement {
    /// Reads a handle.
    ///
    /// # Errors
    /// If the handle is not one of this program.
    pub fn of_handle(handle: Bytes) -> Result<Statement> {
        Statement::decode(handle)
            .map_err(|_| error("the handle of the statement is damaged; prepare the query again"))
    }

    /// Returns the handle.
    pub fn handle(&self) -> Bytes {
        self.encode_to_vec().into()
    }

    /// Sets the parameters to the row of a batch.
    ///
    /// # Errors
    /// If the batch has several rows or none, or if the row is too long.
    pub fn bind(&mut self, row: &RecordBatch) -> Result<()> {
        if row.num_rows() != 1 {
            let rows = row.num_rows();
            return Err(error(format!(
                "{rows} rows of parameters; bind one row and run the query once per row"
            )));
        }
        let mut writer = StreamWriter::try_new(Vec::new(), &row.schema())?;
        writer.write(row)?;
        self.parameters = writer.into_inner()?;
        if self.parameters.len() > MAX_PARAMETER_BYTES {
            return Err(error("the parameters are longer than 1 MiB"));
        }
        Ok(())
    }

    /// Returns the values of the parameters; `None` if no parameters are bound.
    ///
    /// # Errors
    /// If the handle is damaged.
    pub fn values(&self) -> Result<Option<ParamValues>> {
        if self.parameters.is_empty() {
            return Ok(None);
        }
        let damaged = || error("the parameters in the handle are damaged; bind them again");
        // The decoder of Arrow panics at types that it does not know.
        let row = catch_unwind(|| {
            let mut bytes = Buffer::from(self.parameters.as_slice());
            let mut decoder = StreamDecoder::new();
            while !bytes.is_empty() {
                if let Some(row) = decoder.decode(&mut bytes)? {
                    return Ok(Some(row));
                }
            }
            Ok::<_, ArrowError>(None)
        });
        let row = row.map_err(|_| damaged())??;
        let row = row.filter(|row| row.num_rows() == 1).ok_or_else(damaged)?;
        let values: Result<Vec<ScalarValue>> = row
            .columns()
            .iter()
            .map(|column| ScalarValue::try_from_array(column, 0))
            .collect();
        Ok(Some(values?.into()))
    }
}

/// Returns one column per parameter of a plan, in the order of their numbers. A parameter whose type is open has the
/// type of NULL.
///
/// # Errors
/// If two uses of a parameter need different types.
pub fn parameters(plan: &LogicalPlan) -> Result<Schema> {
    let mut found: Vec<_> = plan.get_parameter_types()?.into_iter().collect();
    let number = |name: &str| name.trim_start_matches('$').parse::<usize>().ok();
    found.sort_by(|(a, _), (b, _)| number(a).cmp(&number(b)).then_with(|| a.cmp(b)));
    let field = |(name, of): (String, Option<DataType>)| {
        let of = of.as_ref().map_or(DataType::Null, plain_type);
        Field::new(name, of, true)
    };
    Ok(Schema::new(
        found.into_iter().map(field).collect::<Vec<_>>(),
    ))
}
