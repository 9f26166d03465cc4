//! Bearer tokens: 32 random bytes that holdoff makes, written `hot_` and 64 hexadecimal digits.
//!
//! Since a token is random and of full length, its SHA-256 is kept instead of a salted, slow
//! hash: there is nothing to guess from it. A word that somebody made up is no token and is
//! refused by its form.

use std::{
    fmt,
    hash::{Hash, Hasher},
};

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq;

const PREFIX: &str = "hot_";
/// Keeps this hash apart from every other use of the bytes.
const DOMAIN: &[u8] = b"holdoff token 1";

/// A secret. Shown on purpose only, by [`Token::reveal`].
pub struct Token([u8; 32]);

/// What is kept of a token. Compared in constant time.
#[derive(Clone, Copy)]
pub struct TokenHash([u8; 32]);

impl Token {
    /// Of random bytes from the operating system.
    pub fn new(random: [u8; 32]) -> Self {
        Self(random)
    }

    /// `None`: no token of ours, whatever it is.
    pub fn parse(text: &str) -> Option<Self> {
        bytes_of(text.strip_prefix(PREFIX)?).map(Self)
    }

    /// The text that its holder sends.
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}", digits(&self.0))
    }

    pub fn hash(&self) -> TokenHash {
        let hash = Sha256::new().chain_update(DOMAIN).chain_update(self.0);
        TokenHash(hash.finalize().into())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl TokenHash {
    /// Of 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        bytes_of(text).map(Self)
    }
}

impl PartialEq for TokenHash {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for TokenHash {}

impl Hash for TokenHash {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&digits(&self.0))
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenHash({self})")
    }
}

/// A text without the tokens that may stand in it.
pub fn redacted(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(PREFIX) {
        let secret = &rest[at + PREFIX.len()..];
        let end = secret.find(|c: char| !c.is_ascii_alphanumeric());
        kept.push_str(&rest[..at + PREFIX.len()]);
        kept.push('…');
        rest = &secret[end.unwrap_or(secret.len())..];
    }
    kept.push_str(rest);
    kept
}

fn digits(bytes: &[u8; 32]) -> String {
    use fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn bytes_of(digits: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if digits.len() != 64 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    for (to, pair) in bytes.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        *to = u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_back_and_only_its_hash_is_shown() {
        let token = Token::new([0xab; 32]);
        let text = token.reveal();
        assert_eq!(text.len(), 68);
        assert_eq!(Token::parse(&text).unwrap().hash(), token.hash());
        assert_eq!(
            TokenHash::parse(&token.hash().to_string()).unwrap(),
            token.hash()
        );
        assert!(!format!("{token:?} {:?}", token.hash()).contains("abab"));
        assert_ne!(Token::new([0xac; 32]).hash(), token.hash());
    }

    #[test]
    fn what_somebody_made_up_is_no_token() {
        let long = format!("hot_{}", "a".repeat(65));
        let wide = format!("hot_{}", "é".repeat(32));
        for text in ["", "hot_", "secret", "hot_abc", &long, &wide, "Bearer hot_"] {
            assert!(Token::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn a_token_in_a_text_is_blotted_out() {
        let text = format!("a {} b hot_", Token::new([7; 32]).reveal());
        assert_eq!(redacted(&text), "a hot_… b hot_…");
    }
}
