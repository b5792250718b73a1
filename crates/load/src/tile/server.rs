//! A server that serves both protocols of a tile on one port.

use std::io::ErrorKind;
use std::net::TcpStream;

use crate::http::HttpService;
use crate::pair::{FIRST_BYTE, PairService};
use crate::serve::Service;
use crate::window::StopFlag;

/// The number of times that the stop flag is checked while no byte arrives. Together the checks take ten seconds.
const LOOKS: u32 = 50;

/// Serves endpoint pairs and HTTP. The first byte of a connection selects the protocol: no HTTP method begins
/// with the first byte of a pair's hello.
pub struct TileService {
    object: HttpService,
}

impl TileService {
    /// A server with an object of this number of bytes.
    pub fn new(bytes: usize) -> Self {
        Self { object: HttpService::new(bytes) }
    }
}

impl Service for TileService {
    fn serve(&self, connection: TcpStream, stop: &StopFlag) {
        match first_byte(&connection, stop) {
            Some(FIRST_BYTE) => PairService.serve(connection, stop),
            Some(_) => self.object.serve(connection, stop),
            None => {}
        }
    }
}

/// The first byte of a connection; `None` if the client sends nothing.
fn first_byte(connection: &TcpStream, stop: &StopFlag) -> Option<u8> {
    let mut byte = [0];
    for _ in 0..LOOKS {
        match connection.peek(&mut byte) {
            Ok(1) => return Some(byte[0]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            _ => return None,
        }
        if stop.is_set() {
            return None;
        }
    }
    None
}
