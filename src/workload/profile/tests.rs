//! Tests of `profile.rs`.

#![cfg(test)]

use super::*;
use proptest::prelude::*;

#[test]
fn median_and_spread_ignore_the_odd_one() {
    let times = StepTimes::from_seconds(&[1.0, 1.1, 0.9, 1.0, 50.0], Some(30.0), "test").unwrap();
    assert_eq!((times.count, times.median_seconds), (5, 1.0));
    assert!((times.spread_seconds - 0.148_26).abs() < 1e-9);
    assert_eq!(StepTimes::from_seconds(&[], None, "test"), None);
    assert_eq!(median(&[f64::NAN, 2.0, 4.0]), Some(3.0));
}

#[test]
fn what_was_written_reads_back() {
    let mut profile = Profile::new("python train.py");
    profile.step = StepTimes::from_seconds(&[0.5, 0.51], None, "test");
    profile.usage = Some(Usage { samples: 3, ..Usage::default() });
    profile.operators = Some(Operators { format: "test".to_owned(), ..Operators::default() });
    assert_eq!(Profile::parse(&profile.to_json().unwrap()), Ok(profile));
}

#[test]
fn other_versions_and_impossible_figures_are_refused() {
    let with = |version: u32, median: f64| {
        let step = StepTimes { median_seconds: median, ..StepTimes::from_seconds(&[1.0], None, "test").unwrap() };
        Profile::parse(&Profile { version, step: Some(step), ..Profile::new("x") }.to_json().unwrap())
    };
    assert!(with(VERSION, 1.0).is_ok());
    assert_eq!(with(2, 1.0), Err(ProfileError::Version { found: 2 }));
    assert!(matches!(with(VERSION, -1.0), Err(ProfileError::Impossible { key: "step.median_seconds", .. })));
    assert!(matches!(Profile::parse("{}"), Err(ProfileError::Malformed(_))));
}

#[test]
fn a_rule_has_the_word_of_its_file() {
    assert_eq!(
        (Rule::Loader.word(), Rule::MemoryFullButIdle.word()),
        ("loader".to_owned(), "memory-full-but-idle".to_owned())
    );
}

proptest! {
    #[test]
    fn any_text_is_no_profile(text in "\\PC*") {
        prop_assert!(matches!(Profile::parse(&text), Err(ProfileError::Malformed(why)) if !why.is_empty()));
    }

    /// Another character somewhere: the same or another whole profile, or an error.
    #[test]
    fn any_damage_is_read_or_refused(at in any::<prop::sample::Index>(), letter in "[-0-9a-z\",.:{}]") {
        let mut profile = Profile::new("python train.py");
        profile.step = StepTimes::from_seconds(&[0.5, 0.5], Some(30.0), "test");
        profile.gpu = Some(ProfiledGpu { name: "H100".to_owned(), count: 8, memory_bytes: Some(85e9) });
        profile.operators = Some(Operators { format: "test".to_owned(), ..Operators::default() });
        let mut text = profile.to_json().unwrap();
        let at = at.index(text.len());
        text.replace_range(at..=at, &letter);
        match Profile::parse(&text) {
            Ok(read) => {
                prop_assert!(read.step.as_ref().is_none_or(|step| step.median_seconds > 0.0 && step.spread_seconds >= 0.0), "{text}");
                prop_assert_eq!(Profile::parse(&read.to_json().unwrap()), Ok(read));
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }
}
