//! Numbers of the protocol, named as in its specification
//! (<https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md>). Everything is big-endian.

/// First eight bytes of a server.
pub const NBDMAGIC: u64 = 0x4e42_444d_4147_4943;
/// Before every option.
pub const IHAVEOPT: u64 = 0x4948_4156_454f_5054;
/// Before every answer to an option.
pub const REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Before every request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Before every simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Before every chunk of a structured reply.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// Bytes of a request without its data.
pub const REQUEST_BYTES: usize = 28;
/// The most bytes that a client may read or write at once: what clients that are not told assume.
pub const LARGEST_PAYLOAD: u32 = 32 << 20;

/// Flags of the handshake, of server and client.
pub mod handshake_flag {
    pub const FIXED_NEWSTYLE: u16 = 1;
    pub const NO_ZEROES: u16 = 1 << 1;
}

/// What clients ask for in the handshake.
pub mod option {
    pub const EXPORT_NAME: u32 = 1;
    pub const ABORT: u32 = 2;
    pub const LIST: u32 = 3;
    pub const INFO: u32 = 6;
    pub const GO: u32 = 7;
    pub const STRUCTURED_REPLY: u32 = 8;
}

/// Answers to options.
pub mod reply {
    pub const ACK: u32 = 1;
    pub const SERVER: u32 = 2;
    pub const INFO: u32 = 3;
    pub const ERR_UNSUP: u32 = (1 << 31) + 1;
    pub const ERR_INVALID: u32 = (1 << 31) + 3;
    pub const ERR_UNKNOWN: u32 = (1 << 31) + 6;
    pub const ERR_TOO_BIG: u32 = (1 << 31) + 9;
}

/// What is told of an export.
pub mod info {
    pub const EXPORT: u16 = 0;
    pub const NAME: u16 = 1;
    pub const DESCRIPTION: u16 = 2;
    pub const BLOCK_SIZE: u16 = 3;
}

/// What an export can do.
pub mod transmission_flag {
    pub const HAS_FLAGS: u16 = 1;
    pub const READ_ONLY: u16 = 1 << 1;
    pub const SEND_FLUSH: u16 = 1 << 2;
    pub const SEND_FUA: u16 = 1 << 3;
    pub const SEND_TRIM: u16 = 1 << 5;
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    pub const SEND_DF: u16 = 1 << 7;
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// Requests.
pub mod command {
    pub const READ: u16 = 0;
    pub const WRITE: u16 = 1;
    pub const DISC: u16 = 2;
    pub const FLUSH: u16 = 3;
    pub const TRIM: u16 = 4;
    pub const WRITE_ZEROES: u16 = 6;
}

/// Flags of requests.
pub mod command_flag {
    pub const FUA: u16 = 1;
    pub const NO_HOLE: u16 = 1 << 1;
    pub const DF: u16 = 1 << 2;
    pub const FAST_ZERO: u16 = 1 << 4;
}

/// Structured replies.
pub mod chunk {
    /// The flag of the last chunk.
    pub const DONE: u16 = 1;
    pub const OFFSET_DATA: u16 = 1;
    pub const ERROR: u16 = (1 << 15) + 1;
}

/// The next `N` bytes, which the input must have.
pub fn take<const N: usize>(input: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, rest) = input.split_first_chunk()?;
    *input = rest;
    Some(*bytes)
}
