//! Refuses an answer in XML that breaks off: the reader of the SDK takes what is there, and half of a price is a price.

use aws_sdk_ec2::config::interceptors::AfterDeserializationInterceptorContextRef;
use aws_sdk_ec2::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_ec2::error::BoxError;

use gpuplan_clouds_http::Dates;

/// Looks at every answer of EC2 as it came, and hears from it what the time is.
#[derive(Debug)]
pub struct WholeAnswers(pub Dates);

impl Intercept for WholeAnswers {
    fn name(&self) -> &'static str {
        "WholeAnswers"
    }

    fn read_after_deserialization(
        &self,
        context: &AfterDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let response = context.response();
        self.0.hear(response.headers().get("date"));
        let is_broken = response.status().is_success() && response.body().bytes().is_some_and(|body| !is_whole(body));
        if is_broken { Err(BROKEN.into()) } else { Ok(()) }
    }
}

pub const BROKEN: &str = "the answer breaks off";

/// The last thing in a document is the end of the element it began with.
fn is_whole(body: &[u8]) -> bool {
    let text = String::from_utf8_lossy(body);
    let text = text.trim();
    let mut content = text;
    while let Some(declaration) = content.strip_prefix("<?") {
        content = declaration.split_once("?>").map_or("", |(_, rest)| rest).trim_start();
    }
    let Some(root) = content.strip_prefix('<') else { return false };
    let name =
        root.split(|character: char| character.is_whitespace() || "/>".contains(character)).next().unwrap_or_default();
    text.ends_with(&format!("</{name}>")) || (text.ends_with("/>") && !root.contains('<'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WHOLE: &str = "<?xml version=\"1.0\"?>\n<a xmlns=\"x\"><b>0.4200</b><a/></a>\n";

    #[test]
    fn only_a_closed_document_is_whole() {
        for whole in [WHOLE, "<a/>", "<a x=\"1\" />", "<a></a>"] {
            assert!(is_whole(whole.as_bytes()), "{whole}");
        }
        for broken in ["", "<", "<a", "<a>", "<a><b/>", "<a><b>0.42", "text", "<?xml", "<html>sign in</body>"] {
            assert!(!is_whole(broken.as_bytes()), "{broken}");
        }
    }

    proptest! {
        #[test]
        fn no_part_of_a_document_is_whole(length in 0..WHOLE.trim_end().len()) {
            prop_assert!(!is_whole(&WHOLE.as_bytes()[..length]));
        }
    }
}
