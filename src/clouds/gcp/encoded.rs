//! Text in the address of a question.

/// A token of a page may have characters that mean something in a question.
pub fn percent_encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                (byte as char).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_cannot_add_to_the_question() {
        assert_eq!(percent_encoded("aZ9-_.~/+=&ü"), "aZ9-_.~%2F%2B%3D%26%C3%BC");
    }
}
