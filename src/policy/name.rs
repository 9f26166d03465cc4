//! Which names a policy file may use. The same rule holds for names on the wire.

/// A longer name is refused; of what Envoy sends, which may be a stranger's, the rest is cut off.
pub const NAME_MAX_BYTES: usize = 200;

/// What is allowed, for messages.
pub const ALLOWED: &str = "1 to 200 bytes of ASCII letters, digits and . _ / : @ -";

/// A name, or all names that begin alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selector<'a> {
    Exact(&'a str),
    /// What stands before the `*`.
    Prefix(&'a str),
}

/// Whether `name` can be the name of a namespace or dependency.
pub fn is_name(name: &str) -> bool {
    !name.is_empty() && is_prefix(name)
}

fn is_prefix(name: &str) -> bool {
    name.len() <= NAME_MAX_BYTES
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._/:@-".contains(&b))
}

impl<'a> Selector<'a> {
    /// `None` where `text` is neither a name nor such a name's beginning and a `*`.
    pub fn parse(text: &'a str) -> Option<Self> {
        match text.strip_suffix('*') {
            Some(prefix) => is_prefix(prefix).then_some(Self::Prefix(prefix)),
            None => is_name(text).then_some(Self::Exact(text)),
        }
    }
}

/// A key as a step of a field's path: quoted where it would be misread.
pub fn step(key: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    match !key.is_empty() && key.bytes().all(plain) {
        true => key.to_owned(),
        false => format!("\"{}\"", super::tree::shortened(key)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_patterns_are_told_apart_from_nonsense() {
        assert_eq!(
            Selector::parse("openai:gpt:a-7"),
            Some(Selector::Exact("openai:gpt:a-7"))
        );
        assert_eq!(
            Selector::parse("openai:*"),
            Some(Selector::Prefix("openai:"))
        );
        assert_eq!(Selector::parse("*"), Some(Selector::Prefix("")));
        for bad in ["", "a b", "*a", "a**", "ä", "a*b"] {
            assert_eq!(Selector::parse(bad), None, "{bad}");
        }
        assert!(is_name(&"x".repeat(200)));
        assert!(!is_name(&"x".repeat(201)));
    }
}
