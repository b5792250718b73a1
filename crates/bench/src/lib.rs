//! Study file -> cases -> runs -> samples -> results store -> statistics.

pub mod record;
