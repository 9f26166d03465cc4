//! The screen as text.
