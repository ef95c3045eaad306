//! Requests of the transmission phase: parsing and checks.

use crate::end::End;
use crate::export::{Errno, ExportShape, Fault};
use crate::protocol::{LARGEST_PAYLOAD, REQUEST_BYTES, REQUEST_MAGIC, command, command_flag, take};

/// A parsed request without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub flags: u16,
    pub kind: u16,
    pub cookie: [u8; 8],
    pub offset: u64,
    pub length: u32,
}

/// Checked type of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestType {
    Read,
    Write,
    Disconnect,
    Flush,
    Trim,
    Zero,
}

impl Request {
    /// Parses the next request and removes it from the input; `None` if the input is too short.
    ///
    /// # Errors
    /// A wrong magic number; message boundaries are then lost.
    pub fn next(input: &mut &[u8]) -> Result<Option<Request>, End> {
        let Some((mut bytes, rest)) = input.split_at_checked(REQUEST_BYTES) else {
            return Ok(None);
        };
        let bytes = &mut bytes;
        let (Some(magic), Some(flags), Some(kind), Some(cookie), Some(offset), Some(length)) = (
            take(bytes),
            take(bytes),
            take(bytes),
            take(bytes),
            take(bytes),
            take(bytes),
        ) else {
            return Ok(None);
        };
        if u32::from_be_bytes(magic) != REQUEST_MAGIC {
            return Err(End::Magic);
        }
        *input = rest;
        Ok(Some(Request {
            flags: u16::from_be_bytes(flags),
            kind: u16::from_be_bytes(kind),
            cookie,
            offset: u64::from_be_bytes(offset),
            length: u32::from_be_bytes(length),
        }))
    }

    /// Returns the bytes of data that follow, whether or not the request is served.
    pub fn payload(&self) -> u32 {
        if self.kind == command::WRITE {
            self.length
        } else {
            0
        }
    }

    pub fn durable(&self) -> bool {
        self.flags & command_flag::FUA != 0
    }

    /// Checks the request against the properties of the export. Returns its type.
    ///
    /// # Errors
    /// The reason to reject the request, with the error number of the protocol.
    pub fn check(&self, shape: &ExportShape, structured: bool) -> Result<RequestType, Fault> {
        use command_flag::{DF, FAST_ZERO, FUA, NO_HOLE};
        // FUA is permitted in every request and has no effect in those that do not write.
        let (request_type, flags) = match self.kind {
            command::READ if structured => (RequestType::Read, FUA | DF),
            command::READ => (RequestType::Read, FUA),
            command::WRITE => (RequestType::Write, FUA),
            command::DISC => return Ok(RequestType::Disconnect),
            command::FLUSH => (RequestType::Flush, FUA),
            command::TRIM => (RequestType::Trim, FUA),
            command::WRITE_ZEROES => (RequestType::Zero, FUA | NO_HOLE | FAST_ZERO),
            kind => return Err(invalid(format!("request {kind} is not known"))),
        };
        let stray = self.flags & !flags;
        if stray != 0 {
            return Err(invalid(format!(
                "flags {stray:#x} are not known in a request {}",
                self.kind
            )));
        }
        if request_type != RequestType::Flush {
            self.range(request_type, shape)?;
        }
        if shape.read_only && !matches!(request_type, RequestType::Read | RequestType::Flush) {
            return Err(Fault::new(Errno::Permission, "this export is read-only"));
        }
        if request_type == RequestType::Zero && self.flags & FAST_ZERO != 0 && !shape.zeroes {
            let text = "zeroes are no faster than other bytes here";
            return Err(Fault::new(Errno::Unsupported, text));
        }
        Ok(request_type)
    }

    fn range(&self, request_type: RequestType, shape: &ExportShape) -> Result<(), Fault> {
        let (offset, length) = (self.offset, self.length);
        if length == 0 {
            return Err(invalid("a request of no bytes"));
        }
        if length > LARGEST_PAYLOAD
            && matches!(request_type, RequestType::Read | RequestType::Write)
        {
            return Err(invalid(format!(
                "{length} bytes at once: ask for {LARGEST_PAYLOAD} at most"
            )));
        }
        let end = offset.checked_add(u64::from(length));
        if end.is_some_and(|end| end <= shape.bytes) {
            return Ok(());
        }
        let text = format!(
            "{length} bytes from {offset} reach beyond the {} bytes that there are",
            shape.bytes
        );
        let errno = match request_type {
            RequestType::Write | RequestType::Zero => Errno::NoSpace,
            _ => Errno::Invalid,
        };
        Err(Fault::new(errno, text))
    }
}

fn invalid(text: impl Into<std::borrow::Cow<'static, str>>) -> Fault {
    Fault::new(Errno::Invalid, text)
}
