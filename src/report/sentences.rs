//! Sentences: what other stages say in figures, in words for people.

pub mod assumption;
