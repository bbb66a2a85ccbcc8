//! Programs that a test writes and starts at once.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes a program through another process. A file that this one had open for writing could not be started ("text file busy") for as long
/// as a process lives that was forked in that moment by another test.
pub fn executable(path: &Path, text: impl AsRef<str>) {
    let mut shell = Command::new("/bin/sh")
        .args(["-c", "cat >\"$0\" && chmod 755 \"$0\""])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    shell.stdin.take().unwrap().write_all(text.as_ref().as_bytes()).unwrap();
    assert!(shell.wait().unwrap().success(), "{} cannot be written", path.display());
}
