//! A value that is read from a host, or the reason why it isn't known.

use serde::{Deserialize, Serialize};

/// A value that is read from a host, or the reason why it isn't known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact<T> {
    /// The value.
    Known(T),
    /// The host doesn't have the thing that the value describes.
    NotApplicable,
    /// The value could not be read, for this reason.
    Unreadable(String),
}

/// By default, a fact is unreadable, because it hasn't been read.
impl<T> Default for Fact<T> {
    fn default() -> Self {
        Fact::Unreadable("not read".into())
    }
}

impl<T> Fact<T> {
    /// The value, if it is known.
    pub fn known(&self) -> Option<&T> {
        match self {
            Fact::Known(value) => Some(value),
            _ => None,
        }
    }

    /// Applies `f` to the value, if it is known.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Fact<U> {
        self.and_then(|value| Fact::Known(f(value)))
    }

    /// Applies `f`, which returns another fact, to the value, if it is known.
    pub fn and_then<U>(self, f: impl FnOnce(T) -> Fact<U>) -> Fact<U> {
        match self {
            Fact::Known(value) => f(value),
            Fact::NotApplicable => Fact::NotApplicable,
            Fact::Unreadable(reason) => Fact::Unreadable(reason),
        }
    }

    /// The fact with a reference to its value instead of the value.
    pub fn as_ref(&self) -> Fact<&T> {
        match self {
            Fact::Known(value) => Fact::Known(value),
            Fact::NotApplicable => Fact::NotApplicable,
            Fact::Unreadable(reason) => Fact::Unreadable(reason.clone()),
        }
    }

    /// Returns this fact or, if it is not applicable, `other`.
    pub fn or_else(self, other: impl FnOnce() -> Fact<T>) -> Fact<T> {
        match self {
            Fact::NotApplicable => other(),
            fact => fact,
        }
    }
}

impl<T: Copy> Fact<T> {
    /// The value, if it is known.
    pub fn get(&self) -> Option<T> {
        self.known().copied()
    }
}
