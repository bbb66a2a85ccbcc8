//! HTTP status codes of Google's interfaces that a question can meet, and how far each reaches.

/// What a refusal means for the rest of the question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// No pool will answer these credentials or this project.
    Everywhere,
    /// This machine type in this region only: it is not sold there, or the service is busy.
    Pool,
    /// A status this table does not know. It stops the question and is shown as it came.
    Unknown,
}

pub fn reach(status: u16) -> Reach {
    match status {
        401 | 403 => Reach::Everywhere,
        400 | 404 | 408 | 412 | 429 | 500..=599 => Reach::Pool,
        _ => Reach::Unknown,
    }
}

/// The cloud's own words, and what to do where they do not say it. `permission` is what the question needs.
pub fn explained(status: u16, words: &str, permission: &str) -> String {
    match status {
        401 => format!("{words} (sign in with `gcloud auth application-default login`)"),
        403 => format!("{words} (the account needs {permission} on the project, and the interface enabled)"),
        429 => format!("{words} (the project asks too often; wait a minute)"),
        _ => words.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_is_not_sold_somewhere_is_no_end_of_the_question() {
        assert_eq!(reach(404), Reach::Pool);
        assert_eq!(reach(403), Reach::Everywhere);
        assert_eq!(reach(302), Reach::Unknown);
    }

    #[test]
    fn a_refusal_names_the_permission() {
        assert!(explained(403, "No.", "compute.regions.get").contains("compute.regions.get"));
        assert_eq!(explained(404, "No.", "compute.regions.get"), "No.");
    }
}
