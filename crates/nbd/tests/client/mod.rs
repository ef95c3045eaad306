//! Client for tests.

#![allow(dead_code, reason = "not every test needs all of it")]

use std::io::{Read, Write};

/// A client that checks the replies it receives.
pub struct Client<S> {
    pub socket: S,
    sent: u64,
}

impl<S: Read + Write> Client<S> {
    pub fn new(socket: S) -> Client<S> {
        let mut client = Client { socket, sent: 0 };
        client.take(18);
        let mut hello = 3u32.to_be_bytes().to_vec();
        hello.extend(b"IHAVEOPT\0\0\0\x07\0\0\0\x06\0\0\0\0\0\0");
        client.socket.write_all(&hello).unwrap();
        client.take(20 + 12 + 20 + 14 + 20);
        client
    }

    pub fn take(&mut self, bytes: usize) -> Vec<u8> {
        let mut taken = vec![0; bytes];
        self.socket.read_exact(&mut taken).unwrap();
        taken
    }

    /// Sends a request; returns its cookie.
    pub fn send(&mut self, flags: u16, kind: u16, offset: u64, length: u32, data: &[u8]) -> u64 {
        self.sent += 1;
        let mut bytes = 0x2560_9513u32.to_be_bytes().to_vec();
        bytes.extend(flags.to_be_bytes());
        bytes.extend(kind.to_be_bytes());
        bytes.extend(self.sent.to_be_bytes());
        bytes.extend(offset.to_be_bytes());
        bytes.extend(length.to_be_bytes());
        bytes.extend(data);
        self.socket.write_all(&bytes).unwrap();
        self.sent
    }

    /// Reads the next simple reply: cookie and error.
    pub fn answer(&mut self) -> (u64, u32) {
        let head = self.take(16);
        assert_eq!(head[..4], 0x6744_6698u32.to_be_bytes());
        let errno = u32::from_be_bytes(head[4..8].try_into().unwrap());
        (u64::from_be_bytes(head[8..].try_into().unwrap()), errno)
    }

    pub fn write(&mut self, offset: u64, data: &[u8]) {
        let cookie = self.send(0, 1, offset, data.len() as u32, data);
        assert_eq!(self.answer(), (cookie, 0));
    }

    pub fn read(&mut self, offset: u64, length: u32) -> Vec<u8> {
        let cookie = self.send(0, 0, offset, length, &[]);
        assert_eq!(self.answer(), (cookie, 0));
        self.take(length as usize)
    }
}
