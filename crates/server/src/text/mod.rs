//! Ports for protocols of text lines over TCP and UDP, which send no answers.
//!
//! A sender gets no rejections: these are counted and logged. Over TCP, the server does not read from the socket while
//! the store is busy. UDP has no such back-pressure: the kernel drops datagrams when its buffer is full.

mod opening;
mod rows;
pub mod tcp;
pub mod udp;

pub use opening::{Opening, Verdict, reject_request, secured};
pub use rows::RowLines;

use crate::app_state::AppState;
use crate::ingest::{LineIngest, Outcome, PROTOCOL, RejectedLine};
use crate::traffic::ProtocolCounters;
use seiner_store::Error;
use seiner_wire::line::Precision;

/// Protocol of lines.
pub struct TextProtocol {
    /// Name in logs.
    pub name: &'static str,
    /// Name in metrics.
    pub metric: &'static str,
    /// Creates the ingest of a connection, or of all datagrams of a port.
    pub ingest: for<'a> fn(&'a AppState, &'a ProtocolCounters) -> Box<dyn TextIngest + 'a>,
}

/// Line protocol in ns.
pub static LINE: TextProtocol = TextProtocol {
    name: "line protocol",
    metric: PROTOCOL,
    ingest: |app, counters| {
        let ingest = LineIngest::new(&*app.store, Some(counters), Precision::Ns);
        Box::new(ingest.reject_1970(!app.settings.allow_1970))
    },
};

/// Ingest of texts into the store.
pub trait TextIngest: Send {
    /// Stores the lines of the next piece of a stream. A line may continue in the next piece.
    ///
    /// # Errors
    /// If the store accepts no more.
    fn take(&mut self, piece: &[u8]) -> Result<(), Error>;

    /// Ends a stream that may have been cut off anywhere. A line without its newline is rejected.
    ///
    /// # Errors
    /// If the store accepts no more.
    fn end(&mut self) -> Result<(), Error>;

    /// Stores the lines of a text that is complete. The last line needs no newline.
    ///
    /// # Errors
    /// If the store accepts no more.
    fn whole(&mut self, text: &[u8]) -> Result<(), Error>;

    /// Returns the result of all texts so far.
    fn outcome(&self) -> &Outcome;

    /// Returns the rejected lines that were listed since the last call.
    fn take_listed(&mut self) -> Vec<RejectedLine>;
}

impl TextIngest for LineIngest<'_> {
    fn take(&mut self, piece: &[u8]) -> Result<(), Error> {
        LineIngest::take(self, piece)
    }

    fn end(&mut self) -> Result<(), Error> {
        self.end_lines()
    }

    fn whole(&mut self, text: &[u8]) -> Result<(), Error> {
        LineIngest::whole(self, text)
    }

    fn outcome(&self) -> &Outcome {
        LineIngest::outcome(self)
    }

    fn take_listed(&mut self) -> Vec<RejectedLine> {
        LineIngest::take_listed(self)
    }
}
