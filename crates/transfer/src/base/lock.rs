//! Locks whose holder may have panicked: what they guard is whole between two statements, so it serves on.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks `mutex`.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
