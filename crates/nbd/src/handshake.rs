//! Handshake, fixed newstyle: the client chooses an export.

use crate::end::End;
use crate::offer::Offer;
use crate::protocol::{
    IHAVEOPT, LARGEST_PAYLOAD, NBDMAGIC, REPLY_MAGIC, handshake_flag, info, option, reply, take,
    transmission_flag,
};
use std::sync::Arc;

/// Largest option in bytes that is parsed; names have at most 4,096 bytes.
const LONGEST_OPTION: u32 = 16 << 10;
/// Largest option in bytes that is skipped. No client sends a longer one.
const LONGEST_SKIPPED: u32 = 1 << 20;
/// Maximum number of options. A client that sends more never comes to a choice.
const MOST_OPTIONS: u32 = 1000;

/// State of a handshake.
#[derive(Debug, Default)]
pub(crate) struct Handshake {
    /// True if the client leaves out the 124 zeroes after `EXPORT_NAME`; `None` before its flags arrived.
    no_zeroes: Option<bool>,
    structured: bool,
    options: u32,
    /// Bytes of an option that are still to be skipped.
    to_skip: u32,
}

/// Result of a handshake: the chosen export and the kind of replies.
#[derive(Debug)]
pub(crate) struct ChosenExport {
    pub offer: Arc<Offer>,
    pub structured: bool,
}

/// Appends the greeting of the server.
pub(crate) fn greeting(out: &mut Vec<u8>) {
    out.extend_from_slice(&NBDMAGIC.to_be_bytes());
    out.extend_from_slice(&IHAVEOPT.to_be_bytes());
    let flags = handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES;
    out.extend_from_slice(&flags.to_be_bytes());
}

impl Handshake {
    /// Takes one step if enough bytes are there. Consumes the bytes from `input` and appends the answer to `out`.
    ///
    /// Returns whether a step was taken, and the export once it is chosen.
    ///
    /// # Errors
    /// The reason why the connection ends.
    pub fn step(
        &mut self,
        input: &mut &[u8],
        offers: &[Arc<Offer>],
        out: &mut Vec<u8>,
    ) -> Result<(bool, Option<ChosenExport>), End> {
        if self.to_skip > 0 {
            let here = input.len().min(self.to_skip as usize);
            *input = &input[here..];
            self.to_skip -= here as u32;
            return Ok((here > 0, None));
        }
        let mut rest = *input;
        if self.no_zeroes.is_none() {
            let Some(flags) = take(&mut rest).map(u32::from_be_bytes) else {
                return Ok((false, None));
            };
            *input = rest;
            self.flags(flags)?;
            return Ok((true, None));
        }
        let (Some(magic), Some(option), Some(length)) =
            (take(&mut rest), take(&mut rest), take(&mut rest))
        else {
            return Ok((false, None));
        };
        let (option, length) = (u32::from_be_bytes(option), u32::from_be_bytes(length));
        if u64::from_be_bytes(magic) != IHAVEOPT {
            return Err(End::Magic);
        }
        if length > LONGEST_OPTION {
            if length > LONGEST_SKIPPED || option == option::EXPORT_NAME {
                return Err(End::LongOption(length));
            }
            *input = rest;
            self.to_skip = length;
            self.count()?;
            let text = format!("an option has at most {LONGEST_OPTION} bytes");
            answer(out, option, reply::ERR_TOO_BIG, text.as_bytes());
            return Ok((true, None));
        }
        let Some((data, rest)) = rest.split_at_checked(length as usize) else {
            return Ok((false, None));
        };
        *input = rest;
        self.count()?;
        Ok((true, self.option(option, data, offers, out)?))
    }

    fn count(&mut self) -> Result<(), End> {
        self.options += 1;
        match self.options > MOST_OPTIONS {
            true => Err(End::ManyOptions),
            false => Ok(()),
        }
    }

    fn flags(&mut self, flags: u32) -> Result<(), End> {
        let known = u32::from(handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES);
        if flags & !known != 0 {
            return Err(End::Flags(flags));
        }
        self.no_zeroes = Some(flags & u32::from(handshake_flag::NO_ZEROES) != 0);
        Ok(())
    }

    fn option(
        &mut self,
        option: u32,
        data: &[u8],
        offers: &[Arc<Offer>],
        out: &mut Vec<u8>,
    ) -> Result<Option<ChosenExport>, End> {
        match option {
            option::EXPORT_NAME => return self.export_name(data, offers, out).map(Some),
            option::ABORT => {
                answer(out, option, reply::ACK, &[]);
                return Err(End::Aborted);
            }
            option::LIST if data.is_empty() => list(offers, out),
            option::STRUCTURED_REPLY if data.is_empty() => {
                self.structured = true;
                answer(out, option, reply::ACK, &[]);
            }
            option::LIST | option::STRUCTURED_REPLY => {
                answer(out, option, reply::ERR_INVALID, b"this option has no data");
            }
            option::INFO | option::GO => {
                let found = self.info(option, data, offers, out);
                return Ok(found.filter(|_| option == option::GO));
            }
            _ => answer(out, option, reply::ERR_UNSUP, b"this option is not spoken"),
        }
        Ok(None)
    }

    fn chosen(&self, offer: &Arc<Offer>) -> ChosenExport {
        ChosenExport {
            offer: Arc::clone(offer),
            structured: self.structured,
        }
    }

    /// Answers the oldest option, whose reply cannot express an error.
    fn export_name(
        &self,
        name: &[u8],
        offers: &[Arc<Offer>],
        out: &mut Vec<u8>,
    ) -> Result<ChosenExport, End> {
        let offer = find(offers, name).ok_or_else(|| End::Unknown(shown(name)))?;
        let shape = offer.shape();
        out.extend_from_slice(&shape.bytes.to_be_bytes());
        out.extend_from_slice(&flags(offer, self.structured).to_be_bytes());
        if self.no_zeroes != Some(true) {
            out.extend_from_slice(&[0; 124]);
        }
        Ok(self.chosen(offer))
    }

    fn info(
        &self,
        option: u32,
        data: &[u8],
        offers: &[Arc<Offer>],
        out: &mut Vec<u8>,
    ) -> Option<ChosenExport> {
        let Some((name, wanted)) = info_request(data) else {
            answer(out, option, reply::ERR_INVALID, b"lengths do not fit");
            return None;
        };
        let Some(offer) = find(offers, name) else {
            let text = format!("there is no export \"{}\"", shown(name));
            answer(out, option, reply::ERR_UNKNOWN, text.as_bytes());
            return None;
        };
        let shape = offer.shape();
        let mut tell = |kind: u16, parts: &[&[u8]]| {
            let data = [&kind.to_be_bytes(), parts.concat().as_slice()].concat();
            answer(out, option, reply::INFO, &data);
        };
        let flags = flags(offer, self.structured);
        tell(
            info::EXPORT,
            &[&shape.bytes.to_be_bytes(), &flags.to_be_bytes()],
        );
        // Sent even if not requested: clients that do not support it skip it.
        let sizes = [1, shape.preferred, LARGEST_PAYLOAD].map(u32::to_be_bytes);
        tell(info::BLOCK_SIZE, &[sizes.as_flattened()]);
        if wanted.contains(&info::NAME) {
            tell(info::NAME, &[offer.name.as_bytes()]);
        }
        if wanted.contains(&info::DESCRIPTION) {
            tell(info::DESCRIPTION, &[offer.description.as_bytes()]);
        }
        answer(out, option, reply::ACK, &[]);
        Some(self.chosen(offer))
    }
}

/// Parses the name and the requested items of an `INFO` or `GO`; `None` if the lengths do not fit.
fn info_request(mut data: &[u8]) -> Option<(&[u8], Vec<u16>)> {
    let length = u32::from_be_bytes(take(&mut data)?);
    let (name, mut rest) = data.split_at_checked(length as usize)?;
    let count = u16::from_be_bytes(take(&mut rest)?);
    let (wanted, stray) = rest.as_chunks::<2>();
    let fits = wanted.len() == usize::from(count) && stray.is_empty();
    fits.then(|| {
        (
            name,
            wanted.iter().map(|two| u16::from_be_bytes(*two)).collect(),
        )
    })
}

fn list(offers: &[Arc<Offer>], out: &mut Vec<u8>) {
    for offer in offers {
        let length = (offer.name.len() as u32).to_be_bytes();
        let parts = [&length, offer.name.as_bytes(), offer.description.as_bytes()];
        answer(out, option::LIST, reply::SERVER, &parts.concat());
    }
    answer(out, option::LIST, reply::ACK, &[]);
}

/// Returns the export with the name; the first if the name is empty.
fn find<'a>(offers: &'a [Arc<Offer>], name: &[u8]) -> Option<&'a Arc<Offer>> {
    let mut offers = offers.iter();
    match name {
        [] => offers.next(),
        name => offers.find(|offer| offer.name.as_bytes() == name),
    }
}

/// Returns a name from the wire, shortened and escaped for display.
fn shown(name: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(name).chars().take(80).collect();
    text.escape_debug().to_string()
}

fn answer(out: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    out.extend_from_slice(&REPLY_MAGIC.to_be_bytes());
    out.extend_from_slice(&option.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&(data.len() as u32).to_be_bytes());
    out.extend_from_slice(data);
}

/// Returns the transmission flags of an export.
fn flags(offer: &Offer, structured: bool) -> u16 {
    use transmission_flag::*;
    let shape = offer.shape();
    let mut flags = HAS_FLAGS | SEND_FLUSH | SEND_FUA | CAN_MULTI_CONN;
    for (holds, flag) in [
        (shape.read_only, READ_ONLY),
        (
            !shape.read_only,
            SEND_TRIM | SEND_WRITE_ZEROES | SEND_FAST_ZERO,
        ),
        (structured, SEND_DF),
    ] {
        flags |= if holds { flag } else { 0 };
    }
    flags
}
