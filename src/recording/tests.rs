//! The laws of a recording: what is written is read, and damage stays where it is.
