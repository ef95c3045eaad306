//! Handles and types of Flight SQL without a network.

use super::statement::{Statement, parameters};
use crate::catalog::Catalog;
use crate::client::Client;
use crate::plain::{plain_batch, plain_schema};
use crate::session::{plan, session};
use arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray, StringViewArray,
};
use arrow::datatypes::DataType;
use datafusion::prelude::SessionContext;
use std::sync::Arc;

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter(columns).unwrap()
}

fn context() -> SessionContext {
    let client = Client::new("http://127.0.0.1:1").unwrap();
    session(Arc::new(Catalog::new(client)), 32 << 20).unwrap()
}

#[tokio::test]
async fn a_handle_contains_the_query_and_its_parameters() {
    let mut statement = Statement {
        query: "SELECT 1 + $1 WHERE $2 = 'a'".into(),
        parameters: Vec::new(),
    };
    assert!(statement.values().unwrap().is_none());
    let row = batch(vec![
        ("0", Arc::new(Int64Array::from(vec![41]))),
        ("1", Arc::new(StringArray::from(vec!["a"]))),
    ]);
    statement.bind(&row).unwrap();
    let read = Statement::of_handle(statement.handle()).unwrap();
    assert_eq!(read, statement);
    let context = context();
    let plan = plan(&context, &read.query).await.unwrap();
    let types: Vec<_> = parameters(&plan)
        .unwrap()
        .fields()
        .iter()
        .cloned()
        .collect();
    assert_eq!(
        (types[0].name().as_str(), types[1].name().as_str()),
        ("$1", "$2")
    );
    assert_eq!(
        (types[0].data_type(), types[1].data_type()),
        (&DataType::Int64, &DataType::Utf8)
    );
    let plan = plan
        .with_param_values(read.values().unwrap().unwrap())
        .unwrap();
    let rows = context
        .execute_logical_plan(plan)
        .await
        .unwrap()
        .collect()
        .await
        .unwrap();
    assert_eq!(
        rows[0]
            .column(0)
            .as_primitive::<arrow::datatypes::Int64Type>()
            .value(0),
        42
    );
}

#[test]
fn damaged_handles_and_several_rows_are_errors() {
    let statement = Statement {
        query: "SELECT $1".into(),
        parameters: Vec::new(),
    };
    for rows in [vec![], vec![1, 2]] {
        let rows = batch(vec![("0", Arc::new(Int64Array::from(rows)))]);
        let error = statement.clone().bind(&rows).unwrap_err().to_string();
        assert!(error.contains("bind one row"), "{error}");
    }
    let long = StringArray::from(vec!["x".repeat(2 << 20)]);
    let long = batch(vec![("0", Arc::new(long))]);
    let error = statement.clone().bind(&long).unwrap_err().to_string();
    assert!(error.contains("longer than 1 MiB"), "{error}");
    let mut bound = statement.clone();
    bound
        .bind(&batch(vec![("0", Arc::new(Int64Array::from(vec![1])))]))
        .unwrap();
    // Every handle that is cut or changed is read without a panic.
    let handle = bound.handle();
    for at in 0..handle.len() {
        _ = Statement::of_handle(handle.slice(..at)).map(|read| read.values());
        for bits in [1, 2, 4, 8, 16, 32, 64, 128, 255] {
            let mut changed = handle.to_vec();
            changed[at] ^= bits;
            _ = Statement::of_handle(changed.into()).map(|read| read.values());
        }
    }
    assert!(Statement::of_handle(vec![0xff; 9].into()).is_err());
}

#[test]
fn texts_have_their_plain_form() {
    let views = batch(vec![(
        "a",
        Arc::new(StringViewArray::from(vec![Some("b"), None])),
    )]);
    let schema = plain_schema(&views.schema());
    let plain = plain_batch(&views, &schema).unwrap();
    assert_eq!(plain.schema().field(0).data_type(), &DataType::Utf8);
    let texts = plain.column(0).as_string::<i32>();
    assert_eq!((texts.value(0), texts.is_null(1)), ("b", true));
}
