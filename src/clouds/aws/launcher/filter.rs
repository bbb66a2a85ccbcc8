//! `filter`: one condition of a question to EC2.

use aws_sdk_ec2::types::Filter;

pub fn filter(name: &str, value: &str) -> Filter {
    Filter::builder().name(name).values(value).build()
}
