//! A conversation with a client, without its socket: bytes go in, commands go to the export, answers to the link.

use crate::export::{Command, Completion};
use crate::handshake::{Chosen, Handshake, greeting};
use crate::link::{Link, Outstanding, Ticket};
use crate::protocol::{LARGEST_PAYLOAD, REQUEST_BYTES, command_flag};
use crate::server::{Limits, Offer};
use crate::transmission::{Request, Wish};
use std::sync::Arc;
use thiserror::Error;

/// Why a conversation ended.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum End {
    /// The client said good-bye.
    #[error("the client disconnected")]
    Disconnected,
    /// The client said good-bye before it chose.
    #[error("the client wanted no export")]
    Aborted,
    /// What came is not NBD.
    #[error("the client does not speak NBD, or lost its place: a magic number is wrong")]
    Magic,
    /// Flags of the handshake that are not known.
    #[error("the client wants flags {0:#x}, which are not known")]
    Flags(u32),
    /// An option too long to be true.
    #[error("an option of {0} bytes")]
    LongOption(u32),
    /// Options without end.
    #[error("a client that does not come to choose an export")]
    ManyOptions,
    /// An export that is not there, asked for in the way that knows no refusal.
    #[error("there is no export \"{0}\"")]
    Unknown(String),
}

/// A conversation.
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
        chosen: Chosen,
        /// Bytes of a refused write that are still to be passed over.
        pass_over: u32,
    },
}

impl Session {
    /// With a client that just came.
    ///
    /// # Errors
    /// When the system has no descriptors left.
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

    /// Whether an export is chosen.
    pub fn chosen(&self) -> bool {
        matches!(self.phase, Phase::Transmission { .. })
    }

    /// What is to be sent now.
    pub fn take_output(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.link.take(&mut out);
        out
    }

    /// Whether more may be taken in: not as long as too much is unanswered.
    pub(crate) fn has_room(&self) -> bool {
        self.has_room_beside(self.link.outstanding())
    }

    /// Whether more may be taken in while so much is unanswered.
    pub(crate) fn has_room_beside(&self, outstanding: Outstanding) -> bool {
        outstanding.requests < self.limits.requests && outstanding.bytes < self.limits.bytes
    }

    /// Whether the last input was left for want of room.
    pub(crate) fn is_full(&self) -> bool {
        self.full
    }

    /// How many bytes the next message has, as far as can be seen: what there must be room for.
    pub(crate) fn wants(&self, input: &[u8]) -> usize {
        match &self.phase {
            Phase::Transmission { pass_over: 0, .. } => match Request::next(&mut &input[..]) {
                Ok(Some(request)) if request.payload() <= LARGEST_PAYLOAD => {
                    REQUEST_BYTES + request.payload() as usize
                }
                _ => REQUEST_BYTES,
            },
            // The longest option that is looked at as a whole, and its head.
            _ => 17 << 10,
        }
    }

    /// Takes in what is complete, as far as there is room for answers; gives the number of bytes that were used.
    ///
    /// # Errors
    /// Why the conversation ends. What was submitted is still answered.
    pub fn receive(&mut self, input: &[u8]) -> Result<usize, End> {
        let mut rest = input;
        while self.step(&mut rest)? {}
        Ok(input.len() - rest.len())
    }

    fn step(&mut self, input: &mut &[u8]) -> Result<bool, End> {
        self.full = !self.has_room();
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
                    let pass_over = 0;
                    self.phase = Phase::Transmission { chosen, pass_over };
                }
                Ok(done)
            }
            Phase::Transmission { chosen, pass_over } => {
                if *pass_over > 0 {
                    let here = input.len().min(*pass_over as usize);
                    *input = &input[here..];
                    *pass_over -= here as u32;
                    return Ok(here > 0);
                }
                let mut rest = *input;
                let Some(request) = Request::next(&mut rest)? else {
                    return Ok(false);
                };
                let payload = request.payload();
                let data = if payload > LARGEST_PAYLOAD {
                    *pass_over = payload;
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
    fn submit(&self, chosen: &Chosen, link: &Arc<Link>, data: &[u8]) -> Result<(), End> {
        let Chosen { offer, structured } = chosen;
        let ticket = |read| {
            let ticket = Ticket::new(link, self.cookie, *structured, read, data.len());
            Completion::client(ticket)
        };
        let wish = match self.wish(offer.shape(), *structured) {
            Ok(wish) => wish,
            Err(fault) => {
                ticket(None).fail(fault);
                return Ok(());
            }
        };
        let (offset, length, durable) = (self.offset, u64::from(self.length), self.durable());
        let command = match wish {
            Wish::Disconnect => return Err(End::Disconnected),
            Wish::Read => Command::Read { offset, length },
            Wish::Write => Command::Write {
                offset,
                data,
                durable,
            },
            Wish::Flush => Command::Flush,
            Wish::Trim => Command::Trim {
                offset,
                length,
                durable,
            },
            Wish::Zero => Command::Zero {
                offset,
                length,
                durable,
                may_trim: self.flags & command_flag::NO_HOLE == 0,
            },
        };
        let read = (wish == Wish::Read).then_some((offset, self.length));
        offer.submit(command, ticket(read));
        Ok(())
    }
}
