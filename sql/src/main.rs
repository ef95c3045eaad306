//! The program `seiner-sql`: SQL over the data of a Seiner server. It reads the server's Arrow streams, so that a large
//! query or a crash of this program does not touch the server.

mod aggregates;
mod answer;
mod arrow_stream;
mod catalog;
mod client;
mod columns;
mod flight;
mod functions;
mod http;
mod plain;
mod postgres;
mod postgres_end;
mod pushdown;
mod queries;
mod rejection;
mod session;
mod table;
#[cfg(test)]
mod tests;

use answer::{AnswerWriter, Format};
use anyhow::{Context, Result, ensure};
use arrow::util::pretty::pretty_format_batches;
use catalog::Catalog;
use clap::Parser;
use client::Client;
use datafusion::prelude::SessionContext;
use futures::{StreamExt, TryStreamExt};
use queries::{Limits, Queries};
use std::io::Write;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

/// SQL over the data of a Seiner server.
#[derive(Debug, Parser)]
#[command(name = "seiner-sql", version)]
struct Arguments {
    /// Address of the server
    #[arg(long, default_value = "http://127.0.0.1:7670")]
    server: String,
    /// Run this query, print the answer and exit
    #[arg(long, short, conflicts_with_all = ["listen", "postgres", "flight"])]
    query: Option<String>,
    /// Notation of the answer to --query; a table by default
    #[arg(long, requires = "query")]
    format: Option<Format>,
    /// Answer queries of HTTP on this loopback address. The program prints `http ADDRESS`
    #[arg(long)]
    listen: Option<SocketAddr>,
    /// Answer PostgreSQL clients on this loopback address. The program prints `postgres ADDRESS`
    #[arg(long)]
    postgres: Option<SocketAddr>,
    /// Answer clients of Arrow Flight SQL on this loopback address. The program prints `flight ADDRESS`
    #[arg(long)]
    flight: Option<SocketAddr>,
    /// Memory of all queries together, MiB
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(16..))]
    memory: u32,
    /// Number of queries of HTTP and of Flight SQL at one time
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..))]
    queries: u16,
    /// Maximum time of a query, seconds
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..))]
    timeout: u32,
    /// Exit when the standard input ends, so that the program ends with the program that started it
    #[arg(long)]
    end_with_stdin: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match start(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("seiner-sql: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start(arguments: Arguments) -> Result<()> {
    // A query may compute for seconds between two of its waits, and does so on a thread per processor.
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(processors * (usize::from(arguments.queries) + 1) + 1)
        .enable_all()
        .build()
        .context("threads cannot be started")?
        .block_on(run(arguments))
}

async fn run(arguments: Arguments) -> Result<()> {
    let memory_bytes = arguments.memory as usize * (1 << 20);
    let client = Client::new(&arguments.server)?;
    let client = match std::env::var("SEINER_TOKEN") {
        Ok(token) => client.with_token(&token)?,
        Err(_) => client,
    };
    let measurements = Arc::new(Catalog::new(client));
    let context = Arc::new(session::session(measurements.clone(), memory_bytes)?);
    if let Some(text) = &arguments.query {
        let printed = print(&context, text, arguments.format).await;
        return printed.map_err(|reason| anyhow::anyhow!(session::message(&reason, memory_bytes)));
    }
    ensure!(
        [arguments.listen, arguments.postgres, arguments.flight]
            .iter()
            .any(Option::is_some),
        "give --query 'SELECT 1', or --listen, --postgres or --flight with an address such as 127.0.0.1:0"
    );
    let http = listen("http", arguments.listen).await?;
    let postgres = listen("postgres", arguments.postgres).await?;
    let flight = listen("flight", arguments.flight).await?;
    let limits = Limits {
        memory_bytes,
        queries: arguments.queries.into(),
        time: Duration::from_secs(arguments.timeout.into()),
    };
    let queries = Queries::new(context.clone(), measurements, limits);
    let router = http::router(queries.clone());
    let serve_http = async {
        match http {
            Some(listener) => axum::serve(listener, router).await,
            None => std::future::pending().await,
        }
    };
    let serve_postgres = async {
        match postgres {
            Some(listener) => postgres::serve(listener, context, limits.time).await,
            None => std::future::pending().await,
        }
    };
    let serve_flight = async {
        match flight {
            Some(listener) => flight::serve(listener, queries).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        ended = serve_http => ended.context("HTTP"),
        ended = serve_postgres => ended.context("PostgreSQL"),
        ended = serve_flight => ended.context("Flight SQL"),
        () = stdin_end(arguments.end_with_stdin) => Ok(()),
    }
}

/// Opens a listener and prints its address.
async fn listen(name: &str, address: Option<SocketAddr>) -> Result<Option<TcpListener>> {
    let Some(address) = address else {
        return Ok(None);
    };
    // There are no passwords. The server forwards connections from elsewhere, if its settings permit them.
    ensure!(
        address.ip().is_loopback(),
        "{name}: {address} is not a loopback address such as 127.0.0.1:0"
    );
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("{name}: {address}"))?;
    println!("{name} {}", listener.local_addr()?);
    std::io::stdout().flush()?;
    Ok(Some(listener))
}

/// Waits for the end of the standard input; forever if it is not to be watched.
async fn stdin_end(is_watched: bool) {
    if !is_watched {
        return std::future::pending().await;
    }
    let mut stdin = tokio::io::stdin();
    let mut bytes = [0; 64];
    while matches!(stdin.read(&mut bytes).await, Ok(len) if len > 0) {}
}

/// Runs a query and prints its answer.
async fn print(
    context: &SessionContext,
    text: &str,
    format: Option<Format>,
) -> datafusion::error::Result<()> {
    let plan = session::plan(context, text).await?;
    let answer = context.execute_logical_plan(plan).await?;
    let mut rows = answer.execute_stream().await?;
    let mut stdout = std::io::stdout();
    let Some(format) = format else {
        let schema = rows.schema();
        let batches: Vec<_> = rows.try_collect().await?;
        let batches = if batches.is_empty() {
            vec![arrow::array::RecordBatch::new_empty(schema)]
        } else {
            batches
        };
        writeln!(stdout, "{}", pretty_format_batches(&batches)?)?;
        return Ok(());
    };
    let mut writer = AnswerWriter::new(format, &rows.schema())?;
    while let Some(batch) = rows.next().await {
        writer.write(&batch?)?;
        stdout.write_all(&writer.take())?;
    }
    writer.finish()?;
    stdout.write_all(&writer.take())?;
    stdout.flush()?;
    Ok(())
}
