//! Checks the length of lists while they are decoded. The check is necessary because an element that takes one byte in
//! a message may take a hundred bytes in memory.

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::marker::PhantomData;

/// Decodes a list of at most `MOST_ELEMENTS` elements, for `#[serde(deserialize_with)]`.
///
/// # Errors
/// If an element can't be decoded, or if the list has more than `MOST_ELEMENTS` elements. No memory is allocated for a
/// list that is too long.
pub fn at_most<'de, const MOST_ELEMENTS: usize, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    deserializer.deserialize_seq(Bounded::<MOST_ELEMENTS, T>(PhantomData))
}

struct Bounded<const MOST_ELEMENTS: usize, T>(PhantomData<T>);

impl<'de, const MOST_ELEMENTS: usize, T: Deserialize<'de>> Visitor<'de> for Bounded<MOST_ELEMENTS, T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at most {MOST_ELEMENTS} elements")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Vec<T>, A::Error> {
        let announced = elements.size_hint().unwrap_or(0);
        if announced > MOST_ELEMENTS {
            return Err(A::Error::invalid_length(announced, &self));
        }
        let mut list = Vec::with_capacity(announced);
        while let Some(element) = elements.next_element()? {
            if list.len() == MOST_ELEMENTS {
                return Err(A::Error::invalid_length(MOST_ELEMENTS + 1, &self));
            }
            list.push(element);
        }
        Ok(list)
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Three(#[serde(deserialize_with = "super::at_most::<3, _, _>")] Vec<u32>);

    #[test]
    fn a_longer_list_is_refused() {
        let decoded = |list: Vec<u32>| postcard::from_bytes::<Three>(&postcard::to_stdvec(&list).unwrap());
        assert_eq!(decoded(vec![7; 3]), Ok(Three(vec![7; 3])));
        assert!(decoded(vec![7; 4]).is_err());
        assert!(
            postcard::from_bytes::<Three>(&[0xff, 0xff, 0xff, 0xff, 0x0f]).is_err(),
            "four thousand million"
        );
    }
}
