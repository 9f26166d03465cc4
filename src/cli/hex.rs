//! Bytes as people copy them: permits and hashes.

/// Lower case.
pub fn write(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Both cases; `None` for what is no whole number of bytes.
pub fn read(text: &str) -> Option<Vec<u8>> {
    if text.len() % 2 == 1 {
        return None;
    }
    let digits: Option<Vec<u32>> = text.chars().map(|c| c.to_digit(16)).collect();
    let digits = digits?;
    let bytes = digits
        .chunks(2)
        .map(|pair| pair.iter().fold(0, |sum, digit| sum * 16 + digit));
    bytes.map(|byte| u8::try_from(byte).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        assert_eq!(write(&[0, 255, 161]), "00ffa1");
        assert_eq!(read("00ffA1"), Some(vec![0, 255, 161]));
        assert_eq!(read(""), Some(vec![]));
        for wrong in ["0", "zz", "é0", "0x"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
