//! Table function `aggregates('measurement', '1m')`: aggregates of each field of each source in steps, which the server
//! computes from the aggregates of its blocks.

use crate::arrow_stream::batches;
use crate::catalog::{Catalog, wait};
use crate::client::{Client, error};
use crate::columns::{Columns, Kind, time_type};
use crate::functions::duration_ns;
use crate::pushdown::{Condition, Selection, push, text};
use arrow::array::{Array, ArrayRef, DictionaryArray, RecordBatch, StringArray, StringViewBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Int32Type, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use std::sync::Arc;

/// Aggregates, in the order of the columns.
const AGGREGATES: [&str; 7] = ["count", "sum", "min", "max", "first", "last", "mean"];
/// Types of fields that have aggregates.
const NUMBERS: [&str; 4] = ["f64", "f32", "i64", "u64"];

/// Table function `aggregates`.
#[derive(Debug)]
pub struct Aggregates(pub Arc<Catalog>);

impl TableFunctionImpl for Aggregates {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let texts: Vec<Option<String>> = args.exprs().iter().map(text).collect();
        let [Some(measurement), Some(step)] = &texts[..] else {
            return Err(error("aggregates: write aggregates('measurement', '1m')"));
        };
        let step_ns = duration_ns(step)?;
        let Some(columns) = wait(self.0.columns(measurement))? else {
            return Err(error(format!(
                "aggregates: there is no measurement {measurement:?}"
            )));
        };
        Ok(Arc::new(Steps::new(
            self.0.client().clone(),
            measurement,
            step_ns,
            &columns,
        )))
    }
}

/// Aggregates of a measurement in steps.
#[derive(Debug)]
struct Steps {
    client: Client,
    measurement: String,
    step_ns: i64,
    /// Time, tags, and a tag in place of the name of the field.
    keys: Columns,
    /// Names of the fields of numbers.
    fields: Vec<String>,
    schema: SchemaRef,
}

impl Steps {
    fn new(client: Client, measurement: &str, step_ns: i64, columns: &Columns) -> Steps {
        let tags: Vec<String> = names(columns, |kind| *kind == Kind::Tag);
        let is_number =
            |kind: &Kind| matches!(kind, Kind::Field(of) if NUMBERS.contains(&of.as_str()));
        let mut fields = names(columns, is_number);
        fields.dedup();
        let keys = Columns::new(&tags, &[]);
        let mut named: Vec<Field> = keys
            .schema
            .fields()
            .iter()
            .map(|field| field.as_ref().clone())
            .collect();
        for name in ["field"].iter().chain(&AGGREGATES) {
            let is_taken = named.iter().any(|field| field.name() == name);
            let data_type = match *name {
                "field" => DataType::Utf8View,
                "count" => DataType::Int64,
                _ => DataType::Float64,
            };
            let name = if is_taken {
                format!("{name}::aggregate")
            } else {
                name.to_string()
            };
            named.push(Field::new(name, data_type, true));
        }
        let schema = Arc::new(Schema::new(named));
        Steps {
            client,
            measurement: measurement.to_string(),
            step_ns,
            keys,
            fields,
            schema,
        }
    }

    /// Returns the first and last time of the whole steps that begin in an interval; `None` if there is no step.
    fn whole_steps(&self, from: i64, to: i64) -> Option<(i64, i64)> {
        let step = i128::from(self.step_ns);
        let ceiling = |ns: i64| -(-i128::from(ns)).div_euclid(step) * step;
        // The first step of all begins before the first time.
        let first = if from == i64::MIN {
            i128::from(from)
        } else {
            ceiling(from)
        };
        let last = i128::from(to).div_euclid(step) * step + step - 1;
        let clamp = |ns: i128| ns.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        (first <= last && first <= i128::from(to)).then(|| (clamp(first), clamp(last)))
    }
}

fn names(columns: &Columns, is_wanted: impl Fn(&Kind) -> bool) -> Vec<String> {
    let wanted = columns.all.iter().filter(|column| is_wanted(&column.kind));
    wanted.map(|column| column.name.clone()).collect()
}

#[async_trait]
impl TableProvider for Steps {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        let one = |filter: &&Expr| match push(filter, &self.keys) {
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
        let conditions = filters.iter().filter_map(|filter| push(filter, &self.keys));
        let conditions = conditions.map(|pushed| pushed.condition);
        let selection = Selection::new(
            &self.measurement,
            conditions.filter(|of| !matches!(of, Condition::HasField(_))),
        );
        let steps = self.whole_steps(selection.from, selection.to);
        let (Some((from, to)), false) = (steps, self.fields.is_empty()) else {
            let schema = match projection {
                Some(places) => Arc::new(self.schema.project(places)?),
                None => self.schema.clone(),
            };
            return Ok(Arc::new(EmptyExec::new(schema)));
        };
        let mut pairs = vec![
            ("select", selection.selector),
            ("from", format!("{from}ns")),
            ("to", format!("{to}ns")),
            ("step", format!("{}ns", self.step_ns)),
            ("aggregate", AGGREGATES.join(",")),
            ("format", "arrow".to_string()),
        ];
        if !self.fields.iter().any(|name| name.contains(',')) {
            pairs.push(("fields", self.fields.join(",")));
        }
        let tags = names(&self.keys, |kind| *kind == Kind::Tag);
        let rows = Rows {
            client: self.client.clone(),
            pairs,
            tags,
            schema: self.schema.clone(),
        };
        let (schema, rows) = (self.schema.clone(), Arc::new(rows));
        Ok(Arc::new(StreamingTableExec::try_new(
            schema,
            vec![rows],
            projection,
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
    tags: Vec<String>,
    schema: SchemaRef,
}

impl PartitionStream for Rows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (tags, schema) = (self.tags.clone(), self.schema.clone());
        let rows = batches(self.client.clone(), self.pairs.clone(), move |_| {
            move |batch: &RecordBatch| convert(batch, &tags, &schema)
        });
        Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), rows))
    }
}

/// Returns the rows of a batch of the server, with one column per tag.
fn convert(batch: &RecordBatch, tags: &[String], schema: &SchemaRef) -> Result<RecordBatch> {
    let column = |name: &str| {
        let missing = || error(format!("server: the answer has no column {name:?}"));
        batch.column_by_name(name).ok_or_else(missing)
    };
    let mut arrays: Vec<ArrayRef> = vec![cast(column("time")?, &time_type())?];
    arrays.extend(tag_columns(column("tags")?, tags)?);
    for (name, field) in ["field"]
        .iter()
        .chain(&AGGREGATES)
        .zip(&schema.fields()[1 + tags.len()..])
    {
        arrays.push(cast(column(name)?, field.data_type())?);
    }
    Ok(RecordBatch::try_new(schema.clone(), arrays)?)
}

/// Returns one column per tag from a column of texts such as `host=a,core=0`.
fn tag_columns(column: &ArrayRef, tags: &[String]) -> Result<Vec<ArrayRef>> {
    let text_type = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let column = cast(column, &text_type)?;
    let wrong = || error("server: the column of tags is not a column of texts");
    let column: &DictionaryArray<Int32Type> = column.as_any().downcast_ref().ok_or_else(wrong)?;
    let texts: &StringArray = column.values().as_any().downcast_ref().ok_or_else(wrong)?;
    let parsed: Vec<Vec<(String, String)>> = texts
        .iter()
        .map(|text| parse_tags(text.unwrap_or_default()))
        .collect();
    let one = |tag: &String| {
        let mut builder = StringViewBuilder::with_capacity(column.len());
        for key in column.keys_iter() {
            let pairs = key.and_then(|key| parsed.get(key));
            let found = pairs.and_then(|pairs| pairs.iter().find(|(name, _)| name == tag));
            builder.append_option(found.map(|(_, value)| value));
        }
        Arc::new(builder.finish()) as ArrayRef
    };
    Ok(tags.iter().map(one).collect())
}

/// Returns the tags of a text in the notation of line protocol, in which a backslash stands before a comma, an equals
/// sign or a space of a name or a value.
fn parse_tags(text: &str) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    let (mut name, mut value, mut is_value) = (String::new(), String::new(), false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let c = match c {
            '\\' => chars.next_if(|next| ",= ".contains(*next)).unwrap_or('\\'),
            ',' => {
                pairs.push((std::mem::take(&mut name), std::mem::take(&mut value)));
                is_value = false;
                continue;
            }
            '=' if !is_value => {
                is_value = true;
                continue;
            }
            c => c,
        };
        if is_value { &mut value } else { &mut name }.push(c);
    }
    if !text.is_empty() {
        pairs.push((name, value));
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_split() {
        let pair = |a: &str, b: &str| (a.to_string(), b.to_string());
        assert_eq!(
            parse_tags("core=0,host=a"),
            [pair("core", "0"), pair("host", "a")]
        );
        assert_eq!(
            parse_tags(r"a\,b=c\=d,e=f\ g\h"),
            [pair("a,b", "c=d"), pair("e", r"f g\h")]
        );
        assert_eq!(parse_tags(""), []);
    }

    #[test]
    fn only_whole_steps_are_requested() {
        let client = Client::new("http://127.0.0.1:1").unwrap();
        let steps = Steps::new(
            client,
            "m",
            10,
            &Columns::new(&[], &[("a".into(), "f64".into())]),
        );
        assert_eq!(steps.whole_steps(0, 19), Some((0, 19)));
        assert_eq!(steps.whole_steps(1, 20), Some((10, 29)));
        assert_eq!(steps.whole_steps(1, 9), None);
        assert_eq!(steps.whole_steps(-15, -1), Some((-10, -1)));
        assert_eq!(
            steps.whole_steps(i64::MIN, i64::MAX),
            Some((i64::MIN, i64::MAX))
        );
    }
}
