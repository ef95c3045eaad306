//! Table of one measurement. A scan is one query of the server, from which the server leaves out what it can.

use crate::arrow_stream::batches;
use crate::client::Client;
use crate::columns::{Columns, Kind};
use crate::pushdown::{Selection, push};
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use std::sync::Arc;

/// Table of a measurement.
#[derive(Debug)]
pub struct Measurement {
    client: Client,
    name: String,
    columns: Columns,
}

impl Measurement {
    /// Returns the table of the measurement `name`.
    pub fn new(client: Client, name: &str, columns: Columns) -> Measurement {
        Measurement {
            client,
            name: name.to_string(),
            columns,
        }
    }

    /// Returns the parameter `fields`; `None` for all fields. The server leaves out rows without a value in any
    /// requested field. Such rows belong to the table, so that fields are left out only if the query requires a value
    /// of a field that it reads.
    fn fields(&self, columns: &Columns, selection: &Selection) -> Option<String> {
        let mut names: Vec<&str> = columns
            .all
            .iter()
            .filter(|column| matches!(column.kind, Kind::Field(_)))
            .map(|column| column.name.as_str())
            .collect();
        names.dedup();
        let is_required = |name: &&str| selection.required_fields.iter().any(|field| field == name);
        let can_narrow = names.iter().any(is_required)
            && !names
                .iter()
                .any(|name| name.contains(',') || name.is_empty());
        can_narrow.then(|| names.join(","))
    }
}

#[async_trait]
impl TableProvider for Measurement {
    fn schema(&self) -> SchemaRef {
        self.columns.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        let one = |filter: &&Expr| match push(filter, &self.columns) {
            Some(pushed) if pushed.is_exact => TableProviderFilterPushDown::Exact,
            Some(_) => TableProviderFilterPushDown::Inexact,
            None => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(one).collect())
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let columns = match projection {
            Some(places) => self.columns.project(places)?,
            None => self.columns.clone(),
        };
        let conditions = filters
            .iter()
            .filter_map(|filter| push(filter, &self.columns));
        let selection = Selection::new(&self.name, conditions.map(|pushed| pushed.condition));
        if selection.from > selection.to {
            return Ok(Arc::new(EmptyExec::new(columns.schema)));
        }
        let mut pairs = vec![
            ("select", selection.selector.clone()),
            ("from", format!("{}ns", selection.from)),
            ("to", format!("{}ns", selection.to)),
            ("format", "arrow".to_string()),
            ("shape", "wide".to_string()),
        ];
        if let Some(fields) = self.fields(&columns, &selection) {
            pairs.push(("fields", fields));
        }
        let schema = columns.schema.clone();
        let partition = Arc::new(Rows {
            client: self.client.clone(),
            pairs,
            columns,
        });
        Ok(Arc::new(StreamingTableExec::try_new(
            schema,
            vec![partition],
            None,
            [],
            false,
            limit,
        )?))
    }
}

/// Rows of a scan: one request of the server.
#[derive(Debug)]
struct Rows {
    client: Client,
    pairs: Vec<(&'static str, String)>,
    columns: Columns,
}

impl PartitionStream for Rows {
    fn schema(&self) -> &SchemaRef {
        &self.columns.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let columns = self.columns.clone();
        let rows = batches(self.client.clone(), self.pairs.clone(), move |schema| {
            let places = columns.places(schema);
            move |batch: &arrow::array::RecordBatch| columns.align(batch, &places)
        });
        Box::pin(RecordBatchStreamAdapter::new(
            self.columns.schema.clone(),
            rows,
        ))
    }
}
