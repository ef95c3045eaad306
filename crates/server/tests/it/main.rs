//! Tests of a real server on a free port, with requests over real sockets.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod access;
mod advice;
mod arrow;
mod cluster;
mod dashboards;
mod gate;
mod graphite;
mod influx3;
mod limits;
mod lines;
mod logs;
mod memory;
mod metrics;
mod mqtt;
mod opentsdb;
mod otlp;
mod otlp_grpc;
mod plans;
mod prometheus;
mod queries;
mod ranges;
mod remote_write;
mod retention;
mod site;
mod stops;
mod writes;
