//! Protocol session without a socket: bytes in, commands to the export, answers to the link.

use crate::end::End;
use crate::export::{Command, Completion};
use crate::handshake::{ChosenExport, Handshake, greeting};
use crate::link::{Link, Outstanding, Ticket};
use crate::offer::{Limits, Offer};
use crate::protocol::{LARGEST_PAYLOAD, REQUEST_BYTES, command_flag};
use crate::transmission::{Request, RequestType};
use std::sync::Arc;

/// A protocol session with one client.
pub struct Session {
    offers: Arc<[Arc<Offer>]>,
    limits: Limits,
    link: Arc<Link>,
    phase: Phase,
    full: bool,
}

enum Phase {
    Handshake(Handshake),
    Transmission {
        chosen: ChosenExport,
        /// Number of bytes of a rejected write that are still to be skipped.
        to_skip: u32,
    },
}

impl Session {
    /// Starts a session with a new client.
    ///
    /// # Errors
    /// If the system has no file descriptors left.
    pub fn new(offers: Arc<[Arc<Offer>]>, limits: Limits) -> std::io::Result<Session> {
        let link = Link::new()?;
        link.say(greeting);
        Ok(Session {
            offers,
            limits,
            link,
            phase: Phase::Handshake(Handshake::default()),
            full: false,
        })
    }

    pub(crate) fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// Returns whether an export is chosen.
    pub fn chosen(&self) -> bool {
        matches!(self.phase, Phase::Transmission { .. })
    }

    /// Returns the bytes to send now.
    pub fn take_output(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.link.take(&mut out);
        out
    }

    /// Returns whether more input may be taken: the unanswered requests and bytes are below the limits.
    pub(crate) fn has_capacity(&self) -> bool {
        self.has_capacity_beside(self.link.outstanding())
    }

    /// Returns whether more input may be taken while `outstanding` is unanswered.
    pub(crate) fn has_capacity_beside(&self, outstanding: Outstanding) -> bool {
        outstanding.requests < self.limits.requests && outstanding.bytes < self.limits.bytes
    }

    /// Returns whether the last input was left because a limit was reached.
    pub(crate) fn is_full(&self) -> bool {
        self.full
    }

    /// Returns the length of the next message in bytes, as far as known, for the size of the input buffer.
    pub(crate) fn wants(&self, input: &[u8]) -> usize {
        match &self.phase {
            Phase::Transmission { to_skip: 0, .. } => match Request::next(&mut &input[..]) {
                Ok(Some(request)) if request.payload() <= LARGEST_PAYLOAD => {
                    REQUEST_BYTES + request.payload() as usize
                }
                _ => REQUEST_BYTES,
            },
            // Header and data of the longest option that is parsed.
            _ => 17 << 10,
        }
    }

    /// Consumes the complete messages within the limits; returns the number of bytes consumed.
    ///
    /// # Errors
    /// The reason why the session ends. Submitted requests are still answered.
    pub fn receive(&mut self, input: &[u8]) -> Result<usize, End> {
        let mut rest = input;
        while self.step(&mut rest)? {}
        Ok(input.len() - rest.len())
    }

    fn step(&mut self, input: &mut &[u8]) -> Result<bool, End> {
        self.full = !self.has_capacity();
        if self.full {
            return Ok(false);
        }
        match &mut self.phase {
            Phase::Handshake(handshake) => {
                let mut out = Vec::new();
                let stepped = handshake.step(input, &self.offers, &mut out);
                self.link.say(|all| all.append(&mut out));
                let (done, chosen) = stepped?;
                if let Some(chosen) = chosen {
                    let to_skip = 0;
                    self.phase = Phase::Transmission { chosen, to_skip };
                }
                Ok(done)
            }
            Phase::Transmission { chosen, to_skip } => {
                if *to_skip > 0 {
                    let here = input.len().min(*to_skip as usize);
                    *input = &input[here..];
                    *to_skip -= here as u32;
                    return Ok(here > 0);
                }
                let mut rest = *input;
                let Some(request) = Request::next(&mut rest)? else {
                    return Ok(false);
                };
                let payload = request.payload();
                let data = if payload > LARGEST_PAYLOAD {
                    *to_skip = payload;
                    &[]
                } else {
                    let Some((data, after)) = rest.split_at_checked(payload as usize) else {
                        return Ok(false);
                    };
                    rest = after;
                    data
                };
                *input = rest;
                request.submit(chosen, &self.link, data)?;
                Ok(true)
            }
        }
    }
}

impl Request {
    fn submit(&self, chosen: &ChosenExport, link: &Arc<Link>, data: &[u8]) -> Result<(), End> {
        let ChosenExport { offer, structured } = chosen;
        let ticket = |read| {
            let ticket = Ticket::new(link, self.cookie, *structured, read, data.len());
            Completion::client(ticket)
        };
        let request_type = match self.check(offer.shape(), *structured) {
            Ok(request_type) => request_type,
            Err(fault) => {
                ticket(None).fail(fault);
                return Ok(());
            }
        };
        let (offset, length, durable) = (self.offset, u64::from(self.length), self.durable());
        let command = match request_type {
            RequestType::Disconnect => return Err(End::Disconnected),
            RequestType::Read => Command::Read { offset, length },
            RequestType::Write => Command::Write {
                offset,
                data,
                durable,
            },
            RequestType::Flush => Command::Flush,
            RequestType::Trim => Command::Trim {
                offset,
                length,
                durable,
            },
            RequestType::Zero => Command::Zero {
                offset,
                length,
                durable,
                may_trim: self.flags & command_flag::NO_HOLE == 0,
            },
        };
        let read = (request_type == RequestType::Read).then_some((offset, self.length));
        offer.submit(command, ticket(read));
        Ok(())
    }
}
