//! Service of Flight SQL: its requests, and the codes of its errors.

use super::metadata;
use super::statement::{Statement, parameters};
use crate::client::error;
use crate::plain::{plain_batch, plain_schema};
use crate::queries::{Answer, Queries};
use crate::rejection::Rejection;
use crate::session::first_word;
use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::ipc::writer::IpcWriteOptions;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_server::{FlightService, FlightServiceServer};
use arrow_flight::sql::metadata::{SqlInfoData, XdbcTypeInfoData};
use arrow_flight::sql::server::{FlightSqlService, PeekableFlightDataStream};
use arrow_flight::sql::{
    ActionClosePreparedStatementRequest, ActionCreatePreparedStatementRequest,
    ActionCreatePreparedStatementResult, CommandGetCatalogs, CommandGetCrossReference,
    CommandGetDbSchemas, CommandGetExportedKeys, CommandGetImportedKeys, CommandGetPrimaryKeys,
    CommandGetSqlInfo, CommandGetTableTypes, CommandGetTables, CommandGetXdbcTypeInfo,
    CommandPreparedStatementQuery, CommandPreparedStatementUpdate, CommandStatementIngest,
    CommandStatementQuery, CommandStatementUpdate, DoPutPreparedStatementResult, ProstMessageExt,
    SqlInfo, TicketStatementQuery,
};
use arrow_flight::{
    Action, FlightData, FlightDescriptor, FlightEndpoint, FlightInfo, HandshakeRequest,
    HandshakeResponse, IpcMessage, SchemaAsIpc, Ticket,
};
use bytes::Bytes;
use datafusion::error::{DataFusionError, Result};
use futures::{FutureExt, Stream, StreamExt, TryStreamExt};
use prost::Message;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use tokio::net::TcpListener;
use tonic::metadata::MetadataValue;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Code, Request, Response, Status, Streaming};

/// Number of requests of one connection at one time.
const STREAMS: u32 = 32;
/// Maximum length of a message from a client, bytes.
const MAX_MESSAGE_BYTES: usize = 4 << 20;

type Data = Pin<Box<dyn Stream<Item = std::result::Result<FlightData, Status>> + Send>>;
type Answered<T> = std::result::Result<T, Status>;

/// Accepts connections until the listener fails.
///
/// # Errors
/// If the listener fails.
pub async fn serve(listener: TcpListener, queries: Queries) -> anyhow::Result<()> {
    let service = Service {
        queries,
        sql_info: Arc::new(metadata::sql_info()?),
        types: Arc::new(metadata::types()?),
    };
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let service = FlightServiceServer::new(service).max_decoding_message_size(MAX_MESSAGE_BYTES);
    Server::builder()
        .max_concurrent_streams(STREAMS)
        .add_service(service)
        .serve_with_incoming(incoming)
        .await?;
    Ok(())
}

#[derive(Clone)]
struct Service {
    queries: Queries,
    sql_info: Arc<SqlInfoData>,
    types: Arc<XdbcTypeInfoData>,
}

impl Service {
    fn status(&self, error: &DataFusionError) -> Status {
        Status::new(code(error), self.queries.message(error))
    }

    /// Returns the description of an answer whose ticket is a command of Flight SQL.
    fn info(
        &self,
        ticket: &impl ProstMessageExt,
        schema: &Schema,
        descriptor: Request<FlightDescriptor>,
    ) -> Answered<Response<FlightInfo>> {
        let ticket = Ticket::new(ticket.as_any().encode_to_vec());
        let info = FlightInfo::new()
            .try_with_schema(schema)
            .map_err(|reason| self.status(&reason.into()))?;
        Ok(Response::new(
            info.with_endpoint(FlightEndpoint::new().with_ticket(ticket))
                .with_descriptor(descriptor.into_inner()),
        ))
    }

    /// Returns the columns of the answer of a statement.
    async fn columns(&self, statement: &Statement) -> Result<SchemaRef> {
        let plan = self.queries.plan(&statement.query, statement.values()?);
        Ok(plain_schema(plan.await?.schema().as_arrow()))
    }

    async fn run(&self, statement: &Statement) -> Result<Data> {
        let answer = self.queries.run(&statement.query, statement.values()?);
        Ok(self.data(answer.await?))
    }

    /// Returns the answer of a query, encoded as the query computes it.
    fn data(&self, answer: Answer) -> Data {
        let schema = plain_schema(&answer.schema());
        let (service, columns) = (self.clone(), schema.clone());
        let batches = futures::stream::try_unfold(answer, |mut answer| async move {
            let batch = answer.next().await?;
            Ok::<_, DataFusionError>(batch.map(|batch| (batch, answer)))
        });
        let batches = batches.map(move |batch| {
            let batch = batch.and_then(|batch| Ok(plain_batch(&batch, &columns)?));
            batch.map_err(|reason| FlightError::from(service.status(&reason)))
        });
        let encoder = FlightDataEncoderBuilder::new().with_schema(schema);
        Box::pin(encoder.build(batches).map_err(Status::from))
    }

    /// Returns the answer of a command that lists something.
    fn list(&self, batch: Result<RecordBatch>) -> Answered<Response<Data>> {
        let batch = batch.map_err(|reason| self.status(&reason))?;
        let encoder = FlightDataEncoderBuilder::new().with_schema(batch.schema());
        let batch = futures::stream::iter([Ok(batch)]);
        Ok(Response::new(Box::pin(
            encoder.build(batch).map_err(Status::from),
        )))
    }

    async fn prepare(&self, query: String) -> Result<ActionCreatePreparedStatementResult> {
        let plan = self.queries.plan(&query, None).await?;
        let columns = plain_schema(plan.schema().as_arrow());
        let statement = Statement {
            query,
            parameters: Vec::new(),
        };
        Ok(ActionCreatePreparedStatementResult {
            prepared_statement_handle: statement.handle(),
            dataset_schema: message(&columns)?,
            parameter_schema: message(&parameters(&plan)?)?,
        })
    }

    fn rejected<T>(&self, name: &str) -> Answered<T> {
        Err(self.status(&Rejection::Write(name.to_string()).into()))
    }
}

/// Returns the code of gRPC of an error.
fn code(reason: &DataFusionError) -> Code {
    match (Rejection::of(reason), reason.find_root()) {
        (Some(Rejection::Busy), _) => Code::Unavailable,
        (Some(Rejection::Late(_)), _) => Code::DeadlineExceeded,
        (Some(Rejection::Write(_)), _) => Code::Unimplemented,
        (None, DataFusionError::ResourcesExhausted(_)) => Code::ResourceExhausted,
        (None, DataFusionError::NotImplemented(_)) => Code::Unimplemented,
        (None, DataFusionError::Internal(_)) => Code::Internal,
        (None, _) => Code::InvalidArgument,
    }
}

/// Returns columns as a message of Arrow.
fn message(schema: &Schema) -> Result<Bytes> {
    let options = IpcWriteOptions::default();
    let IpcMessage(bytes) = SchemaAsIpc::new(schema, &options).try_into()?;
    Ok(bytes)
}

/// Reads the row of parameters of a statement.
async fn row(stream: PeekableFlightDataStream) -> Result<RecordBatch> {
    let broken = |reason: FlightError| error(format!("the parameters cannot be read: {reason}"));
    let mut batches =
        FlightRecordBatchStream::new_from_flight_data(stream.map_err(FlightError::from));
    let mut found: Option<RecordBatch> = None;
    while let Some(batch) = batches.try_next().await.map_err(broken)? {
        let is_empty = batch.num_rows() == 0;
        if is_empty && found.is_some() {
            continue;
        }
        if found.replace(batch).is_some_and(|of| of.num_rows() > 0) {
            return Err(error(
                "several batches of parameters; bind one row and run the query once per row",
            ));
        }
    }
    found.ok_or_else(|| error("the parameters are missing; bind one row"))
}

#[tonic::async_trait]
impl FlightSqlService for Service {
    type FlightService = Service;

    /// Accepts every user and password. Some clients require a token.
    async fn do_handshake(
        &self,
        _request: Request<Streaming<HandshakeRequest>>,
    ) -> Answered<Response<Pin<Box<dyn Stream<Item = Answered<HandshakeResponse>> + Send>>>> {
        let answer = futures::stream::iter([Ok(HandshakeResponse::default())]);
        let mut response: Response<Pin<Box<dyn Stream<Item = _> + Send>>> =
            Response::new(Box::pin(answer));
        let token = MetadataValue::from_static("Bearer anyone");
        response.metadata_mut().insert("authorization", token);
        Ok(response)
    }

    async fn get_flight_info_statement(
        &self,
        command: CommandStatementQuery,
        descriptor: Request<FlightDescriptor>,
    ) -> Answered<Response<FlightInfo>> {
        let statement = Statement {
            query: command.query,
            parameters: Vec::new(),
        };
        let columns = self.columns(&statement).await;
        let columns = columns.map_err(|reason| self.status(&reason))?;
        let ticket = TicketStatementQuery {
            statement_handle: statement.handle(),
        };
        self.info(&ticket, &columns, descriptor)
    }

    async fn get_flight_info_prepared_statement(
        &self,
        command: CommandPreparedStatementQuery,
        descriptor: Request<FlightDescriptor>,
    ) -> Answered<Response<FlightInfo>> {
        let columns = async {
            let statement = Statement::of_handle(command.prepared_statement_handle.clone())?;
            self.columns(&statement).await
        };
        let columns = columns.await.map_err(|reason| self.status(&reason))?;
        self.info(&command, &columns, descriptor)
    }

    async fn do_get_statement(
        &self,
        ticket: TicketStatementQuery,
        _request: Request<Ticket>,
    ) -> Answered<Response<<Self as FlightService>::DoGetStream>> {
        let run = async {
            self.run(&Statement::of_handle(ticket.statement_handle)?)
                .await
        };
        let data = run.await.map_err(|reason| self.status(&reason))?;
        Ok(Response::new(data))
    }

    async fn do_get_prepared_statement(
        &self,
        command: CommandPreparedStatementQuery,
        request: Request<Ticket>,
    ) -> Answered<Response<<Self as FlightService>::DoGetStream>> {
        let ticket = TicketStatementQuery {
            statement_handle: command.prepared_statement_handle,
        };
        self.do_get_statement(ticket, request).await
    }

    async fn do_action_create_prepared_statement(
        &self,
        command: ActionCreatePreparedStatementRequest,
        _request: Request<Action>,
    ) -> Answered<ActionCreatePreparedStatementResult> {
        let prepared = self.prepare(command.query).await;
        prepared.map_err(|reason| self.status(&reason))
    }

    async fn do_action_close_prepared_statement(
        &self,
        _command: ActionClosePreparedStatementRequest,
        _request: Request<Action>,
    ) -> Answered<()> {
        // There is nothing to close: the client has the only copy of the statement.
        Ok(())
    }

    async fn do_put_prepared_statement_query(
        &self,
        command: CommandPreparedStatementQuery,
        request: Request<PeekableFlightDataStream>,
    ) -> Answered<DoPutPreparedStatementResult> {
        let bound = async {
            let mut statement = Statement::of_handle(command.prepared_statement_handle)?;
            // The decoder of Arrow panics at types that it does not know.
            let row = AssertUnwindSafe(row(request.into_inner())).catch_unwind();
            let broken = |_| error("the parameters cannot be read: they have an unknown type");
            statement.bind(&row.await.map_err(broken)??)?;
            Ok(statement.handle())
        };
        let handle = bound.await.map_err(|reason| self.status(&reason))?;
        Ok(DoPutPreparedStatementResult {
            prepared_statement_handle: Some(handle),
        })
    }

    async fn do_put_statement_update(
        &self,
        command: CommandStatementUpdate,
        _request: Request<PeekableFlightDataStream>,
    ) -> Answered<i64> {
        self.rejected(&first_word(&command.query))
    }

    async fn do_put_prepared_statement_update(
        &self,
        _command: CommandPreparedStatementUpdate,
        _request: Request<PeekableFlightDataStream>,
    ) -> Answered<i64> {
        self.rejected("an update")
    }

    async fn do_put_statement_ingest(
        &self,
        _command: CommandStatementIngest,
        _request: Request<PeekableFlightDataStream>,
    ) -> Answered<i64> {
        self.rejected("bulk ingestion")
    }

    async fn get_flight_info_catalogs(
        &self,
        command: CommandGetCatalogs,
        descriptor: Request<FlightDescriptor>,
    ) -> Answered<Response<FlightInfo>> {
        self.info(&command, &command.into_builder().schema(), descriptor)
    }

    async fn do_get_catalogs(
        &self,
        command: CommandGetCatalogs,
        _request: Request<Ticket>,
    ) -> Answered<Response<<Self as FlightService>::DoGetStream>> {
        self.list(metadata::catalogs(command))
    }

    async fn get_flight_info_schemas(
        &self,
        command: CommandGetDbSchemas,
        descriptor: Request<FlightDescriptor>,
    ) -> Answered<Response<FlightInfo>> {
        let schema = command.clone().into_builder().schema();
        self.info(&command, &schema, descriptor)
    }

    async fn do_get_schemas(
        &self,
        command: CommandGetDbSchemas,
        _request: Request<Ticket>,
    ) -> Answered<Response<<Self as FlightService>::DoGetStream>> {
        self.list(metadata::schemas(command))
    }

    async fn get_flight_info_tables(
        &self,
        command: CommandGetTables,
        descriptor: Request<FlightDescriptor>,
    ) -> Answered<Response<FlightInfo>> {
        let schema = command.clone().into_builder().schema();
        self.info(&command, &schema, descriptor)
    }

    async fn do_get_tables(
        &self,
        command: CommandGetTables,
        _request: Request<Ticket>,
    ) -> Answered<Response<<Self as FlightService>::DoGetStream>> {
        let tables = metadata::tables(command, &self.queries);
        self.list(self.queries.within_limits(tables).await)
    }

    async fn get_flight_info_table_types(
        &self,
        command: CommandGetTableTypes,
        descriptor: Request<FlightDescriptor>,
    ) -> Answered<Response<FlightInfo>> {
        self.info(&command, &command.into_builder().schema(), descriptor)
    }

    async fn do_get_table_types(
        &self,
        command: CommandGetTableTypes,
        _request: Request<Ticket>,
    ) -> Answered<Response<<Self as FlightService>::DoGetStream>> {
        self.list(metadata::table_types(command))
    }

    async fn get_flight_info_sql_info(
        &self,
        command: CommandGetSqlInfo,
        descriptor: Request<FlightDescriptor>,
    ) -> Answered<Response<FlightInfo>> {
        self.info(&command, &self.sql_info.schema(), descriptor)
    }

    async fn do_get_sql_info(
        &self,
        command: CommandGetSqlInfo,
        _request: Request<Ticket>,
    ) -> Answered<Response<<Self as FlightService>::DoGetStream>> {
        let batch = command.into_builder(&self.sql_info).build();
        self.list(batch.map_err(metadata::external))
    }

    async fn get_flight_info_xdbc_type_info(
        &self,
        command: CommandGetXdbcTypeInfo,
        descriptor: Request<FlightDescriptor>,
    ) -> Answered<Response<FlightInfo>> {
        self.info(&command, &self.types.schema(), descriptor)
    }

    async fn do_get_xdbc_type_info(
        &self,
        command: CommandGetXdbcTypeInfo,
        _request: Request<Ticket>,
    ) -> Answered<Response<<Self as FlightService>::DoGetStream>> {
        let batch = command.into_builder(&self.types).build();
        self.list(batch.map_err(metadata::external))
    }

    async fn get_flight_info_primary_keys(
        &self,
        command: CommandGetPrimaryKeys,
        descriptor: Request<FlightDescriptor>,
    ) -> Answered<Response<FlightInfo>> {
        self.info(&command, &metadata::primary_keys(), descriptor)
    }

    async fn do_get_primary_keys(
        &self,
        _command: CommandGetPrimaryKeys,
        _request: Request<Ticket>,
    ) -> Answered<Response<<Self as FlightService>::DoGetStream>> {
        self.list(Ok(RecordBatch::new_empty(metadata::primary_keys().into())))
    }

    async fn get_flight_info_exported_keys(
        &self,
        command: CommandGetExportedKeys,
        descriptor: Request<FlightDescriptor>,
    ) -> Answered<Response<FlightInfo>> {
        self.info(&command, &metadata::foreign_keys(), descriptor)
    }

    async fn do_get_exported_keys(
        &self,
        _command: CommandGetExportedKeys,
        _request: Request<Ticket>,
    ) -> Answered<Response<<Self as FlightService>::DoGetStream>> {
        self.list(Ok(RecordBatch::new_empty(metadata::foreign_keys().into())))
    }

    async fn get_flight_info_imported_keys(
        &self,
        command: CommandGetImportedKeys,
        descriptor: Request<FlightDescriptor>,
    ) -> Answered<Response<FlightInfo>> {
        self.info(&command, &metadata::foreign_keys(), descriptor)
    }

    async fn do_get_imported_keys(
        &self,
        _command: CommandGetImportedKeys,
        _request: Request<Ticket>,
    ) -> Answered<Response<<Self as FlightService>::DoGetStream>> {
        self.list(Ok(RecordBatch::new_empty(metadata::foreign_keys().into())))
    }

    async fn get_flight_info_cross_reference(
        &self,
        command: CommandGetCrossReference,
        descriptor: Request<FlightDescriptor>,
    ) -> Answered<Response<FlightInfo>> {
        self.info(&command, &metadata::foreign_keys(), descriptor)
    }

    async fn do_get_cross_reference(
        &self,
        _command: CommandGetCrossReference,
        _request: Request<Ticket>,
    ) -> Answered<Response<<Self as FlightService>::DoGetStream>> {
        self.list(Ok(RecordBatch::new_empty(metadata::foreign_keys().into())))
    }

    async fn register_sql_info(&self, _id: i32, _result: &SqlInfo) {}
}
