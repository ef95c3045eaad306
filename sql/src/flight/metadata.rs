//! Lists of Flight SQL: catalogs, schemas, tables, types, and properties of the program.

use crate::plain::plain_schema;
use crate::queries::Queries;
use crate::session::{DATABASE, SCHEMA};
use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use arrow_flight::error::FlightError;
use arrow_flight::sql::metadata::{
    GetTablesBuilder, SqlInfoData, SqlInfoDataBuilder, XdbcTypeInfo, XdbcTypeInfoData,
    XdbcTypeInfoDataBuilder,
};
use arrow_flight::sql::{
    CommandGetCatalogs, CommandGetDbSchemas, CommandGetTableTypes, CommandGetTables, Nullable,
    Searchable, SqlInfo, XdbcDataType,
};
use datafusion::error::{DataFusionError, Result};

/// Type of a measurement among the types of tables.
const TABLE: &str = "TABLE";

/// Returns the one catalog.
pub fn catalogs(command: CommandGetCatalogs) -> Result<RecordBatch> {
    let mut builder = command.into_builder();
    builder.append(DATABASE);
    builder.build().map_err(external)
}

/// Returns the one schema with measurements.
pub fn schemas(command: CommandGetDbSchemas) -> Result<RecordBatch> {
    let mut builder = command.into_builder();
    builder.append(DATABASE, SCHEMA);
    builder.build().map_err(external)
}

/// Returns the one type of tables.
pub fn table_types(command: CommandGetTableTypes) -> Result<RecordBatch> {
    let mut builder = command.into_builder();
    builder.append(TABLE);
    builder.build().map_err(external)
}

/// Returns the measurements that a command selects. Their columns are requested only if the command includes them.
///
/// # Errors
/// If the server does not answer.
pub async fn tables(command: CommandGetTables, queries: &Queries) -> Result<RecordBatch> {
    let mut selected = GetTablesBuilder::from(CommandGetTables {
        include_schema: false,
        ..command.clone()
    });
    let empty = Schema::empty();
    for name in queries.measurements().measurements().await? {
        selected
            .append(DATABASE, SCHEMA, name, TABLE, &empty)
            .map_err(external)?;
    }
    let selected = selected.build().map_err(external)?;
    if !command.include_schema {
        return Ok(selected);
    }
    let mut with_columns = command.into_builder();
    for name in selected.column(2).as_string::<i32>().iter().flatten() {
        // A measurement may have been deleted since the list was read.
        if let Some(columns) = queries.measurements().columns(name).await? {
            let schema = plain_schema(&columns.schema);
            with_columns
                .append(DATABASE, SCHEMA, name, TABLE, &schema)
                .map_err(external)?;
        }
    }
    with_columns.build().map_err(external)
}

/// Returns the columns of a list of primary keys. Measurements have none.
pub fn primary_keys() -> Schema {
    Schema::new(vec![
        Field::new("catalog_name", DataType::Utf8, true),
        Field::new("db_schema_name", DataType::Utf8, true),
        Field::new("table_name", DataType::Utf8, false),
        Field::new("column_name", DataType::Utf8, false),
        Field::new("key_name", DataType::Utf8, true),
        Field::new("key_sequence", DataType::Int32, false),
    ])
}

/// Returns the columns of a list of foreign keys. Measurements have none.
pub fn foreign_keys() -> Schema {
    Schema::new(vec![
        Field::new("pk_catalog_name", DataType::Utf8, true),
        Field::new("pk_db_schema_name", DataType::Utf8, true),
        Field::new("pk_table_name", DataType::Utf8, false),
        Field::new("pk_column_name", DataType::Utf8, false),
        Field::new("fk_catalog_name", DataType::Utf8, true),
        Field::new("fk_db_schema_name", DataType::Utf8, true),
        Field::new("fk_table_name", DataType::Utf8, false),
        Field::new("fk_column_name", DataType::Utf8, false),
        Field::new("key_sequence", DataType::Int32, false),
        Field::new("fk_key_name", DataType::Utf8, true),
        Field::new("pk_key_name", DataType::Utf8, true),
        Field::new("update_rule", DataType::UInt8, false),
        Field::new("delete_rule", DataType::UInt8, false),
    ])
}

/// Returns an error of the library.
pub fn external(reason: FlightError) -> DataFusionError {
    DataFusionError::External(Box::new(reason))
}

/// Returns the properties of the program.
pub fn sql_info() -> Result<SqlInfoData> {
    let mut builder = SqlInfoDataBuilder::new();
    builder.append(SqlInfo::FlightSqlServerName, "Seiner");
    builder.append(SqlInfo::FlightSqlServerVersion, env!("CARGO_PKG_VERSION"));
    builder.append(SqlInfo::FlightSqlServerArrowVersion, arrow::ARROW_VERSION);
    builder.append(SqlInfo::FlightSqlServerReadOnly, true);
    builder.append(SqlInfo::FlightSqlServerSql, true);
    builder.append(SqlInfo::FlightSqlServerSubstrait, false);
    builder.append(SqlInfo::FlightSqlServerCancel, false);
    builder.append(SqlInfo::FlightSqlServerBulkIngestion, false);
    builder.append(SqlInfo::SqlDdlCatalog, false);
    builder.append(SqlInfo::SqlDdlSchema, false);
    builder.append(SqlInfo::SqlDdlTable, false);
    builder.append(SqlInfo::SqlIdentifierQuoteChar, "\"");
    builder.append(SqlInfo::SqlAllTablesAreSelectable, true);
    builder.build().map_err(external)
}

/// Returns the types of columns.
pub fn types() -> Result<XdbcTypeInfoData> {
    let mut builder = XdbcTypeInfoDataBuilder::new();
    for (name, of, size, quote, is_unsigned, radix) in [
        (
            "TIMESTAMP",
            XdbcDataType::XdbcTimestamp,
            35,
            Some("'"),
            None,
            None,
        ),
        (
            "VARCHAR",
            XdbcDataType::XdbcVarchar,
            i32::MAX,
            Some("'"),
            None,
            None,
        ),
        (
            "DOUBLE",
            XdbcDataType::XdbcDouble,
            53,
            None,
            Some(false),
            Some(2),
        ),
        (
            "REAL",
            XdbcDataType::XdbcReal,
            24,
            None,
            Some(false),
            Some(2),
        ),
        (
            "BIGINT",
            XdbcDataType::XdbcBigint,
            64,
            None,
            Some(false),
            Some(2),
        ),
        (
            "BIGINT UNSIGNED",
            XdbcDataType::XdbcBigint,
            64,
            None,
            Some(true),
            Some(2),
        ),
        ("BOOLEAN", XdbcDataType::XdbcBit, 1, None, None, None),
    ] {
        builder.append(XdbcTypeInfo {
            type_name: name.into(),
            data_type: of,
            column_size: Some(size),
            literal_prefix: quote.map(str::to_string),
            literal_suffix: quote.map(str::to_string),
            create_params: None,
            nullable: Nullable::NullabilityNullable,
            case_sensitive: name == "VARCHAR",
            searchable: Searchable::Full,
            unsigned_attribute: is_unsigned,
            fixed_prec_scale: false,
            auto_increment: Some(false),
            local_type_name: Some(name.into()),
            minimum_scale: None,
            maximum_scale: None,
            sql_data_type: of,
            datetime_subcode: None,
            num_prec_radix: radix,
            interval_precision: None,
        });
    }
    builder.build().map_err(external)
}
