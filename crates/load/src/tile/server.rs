//! Both of a tile's servers at one port.

use std::io::ErrorKind;
use std::net::TcpStream;

use crate::http::HttpService;
use crate::pair::{FIRST_BYTE, PairService};
use crate::serve::Service;
use crate::window::Stop;

/// Looks, while nothing has come, so many times at the stop: ten seconds in all.
const LOOKS: u32 = 50;

/// Serves endpoint pairs and HTTP: the first byte of a connection tells which, since no HTTP method begins with it.
pub struct TileService {
    object: HttpService,
}

impl TileService {
    /// With an object of so many bytes.
    pub fn new(bytes: usize) -> Self {
        Self { object: HttpService::new(bytes) }
    }
}

impl Service for TileService {
    fn serve(&self, connection: TcpStream, stop: &Stop) {
        match first_byte(&connection, stop) {
            Some(FIRST_BYTE) => PairService.serve(connection, stop),
            Some(_) => self.object.serve(connection, stop),
            None => {}
        }
    }
}

/// None where the client says nothing.
fn first_byte(connection: &TcpStream, stop: &Stop) -> Option<u8> {
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
