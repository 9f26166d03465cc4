//! Values that may hold a password: what is wrong with one is said, and the value is not.

use std::ffi::OsStr;

use clap::{Arg, Command, Error, builder::TypedValueParser, error::ErrorKind};

/// Reads such a value by a function whose errors show nothing of a password.
#[derive(Clone, Copy, Debug)]
pub struct Secret<T>(pub fn(&str) -> Result<T, String>);

impl<T: Clone + Send + Sync + 'static> TypedValueParser for Secret<T> {
    type Value = T;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<T, Error> {
        let text = value.to_str().ok_or_else(|| "is no UTF-8".to_owned());
        text.and_then(self.0).map_err(|why| {
            let arg = arg.map_or_else(|| "...".to_owned(), ToString::to_string);
            let sentence = format!("invalid value for '{arg}': {why}\n");
            Error::raw(ErrorKind::ValueValidation, sentence).with_cmd(command)
        })
    }
}

/// An address without the user and password in front of its host.
pub fn shown(address: &str) -> String {
    match address.rsplit_once('@') {
        Some((_, behind)) => format!("…@{behind}"),
        None => address.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_and_a_password_are_not_shown() {
        assert_eq!(shown("http://me:s3@cret@h:1/x"), "…@h:1/x");
        assert_eq!(shown("h:1"), "h:1");
    }
}
