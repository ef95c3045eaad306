//! Exports memory as a network block device, for trials with a client: `memory ADDRESS BYTES [BLOCK]`.

use seiner_nbd::{Limits, Memory, Offer, Server};
use std::error::Error;
use std::io::Read;
use std::sync::Arc;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, bytes, rest @ ..] = arguments.as_slice() else {
        return Err("memory ADDRESS BYTES [BLOCK]".into());
    };
    let block = rest.first().map_or(Ok(1), |block| block.parse())?;
    let memory = Arc::new(Memory::new(bytes.parse()?, block));
    let offer = Offer::new("memory", "memory, lost at the end", memory);
    let server = Server::start(vec![offer], &[address.parse()?], Limits::default())?;
    for address in server.addresses() {
        println!("{}", address.uri("memory"));
    }
    // Runs until the end of the standard input.
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
