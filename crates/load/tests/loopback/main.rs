//! Loads and their servers on loopback, and both against peers that misbehave.

mod hostile;
mod http;
mod nginx;
mod pairs;
mod support;
mod tile;
