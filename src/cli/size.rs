//! Sizes, as people write and read them: in powers of 1,024, which the names say.

const UNITS: [(&str, u64); 4] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
];

/// Reads `256MiB`, `1GiB`, `64KiB` or a number of bytes.
///
/// # Errors
/// Says what is wrong with the text.
pub fn parse(text: &str) -> Result<u64, String> {
    const WRITE: &str = "write a whole number and B, KiB, MiB or GiB, for example 256MiB";
    let text = text.trim();
    let found = UNITS.iter().find_map(|(name, unit)| {
        let number = text.strip_suffix(name)?;
        Some((number, *unit))
    });
    let (number, unit) = found.unwrap_or((text, 1));
    let number: u64 = number.trim().parse().map_err(|_| WRITE.to_owned())?;
    let bytes = number.checked_mul(unit);
    bytes.ok_or_else(|| format!("{text} is more than a file can hold"))
}

/// In the largest unit that says it exactly.
pub fn human(bytes: u64) -> String {
    let exact = UNITS
        .iter()
        .find(|(_, unit)| bytes > 0 && bytes.is_multiple_of(*unit));
    match exact {
        Some((name, unit)) => format!("{}{name}", bytes / unit),
        None => format!("{bytes}B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_read_as_it_is_written() {
        for (text, bytes) in [
            ("256MiB", 256 << 20),
            ("1GiB", 1 << 30),
            ("64KiB", 64 << 10),
            ("17B", 17),
        ] {
            assert_eq!(parse(text), Ok(bytes));
            assert_eq!(human(bytes), text);
        }
        assert_eq!(parse("17"), Ok(17));
        for wrong in ["", "MiB", "1.5GiB", "1TB", "-1", "99999999999GiB"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
