//! `cp`: a file or folder between this computer and the folder of a job, as a tar stream by the way that `exec` takes.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::running::access::{MachineArguments, cannot_run, checked, find, in_the_job};
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use gpuplan_launch::job::command_line;

#[derive(Debug, Args)]
pub struct CopyArguments {
    #[command(flatten)]
    pub machine: MachineArguments,
    /// Copy this file or folder; `:PATH` is on the machine, from the folder of the job
    pub from: String,
    /// To this place; `:PATH` is on the machine, from the folder of the job
    pub to: String,
}

/// Into a folder that is there under its own name, else as what the second path says, like `cp -r`.
///
/// # Errors
/// For paths that say no direction, for a machine that is gone, and where either side cannot read or write.
pub fn copy(arguments: &CopyArguments, session: &Session) -> Result<Exit, Diagnostic> {
    match (arguments.from.strip_prefix(':'), arguments.to.strip_prefix(':')) {
        (Some(from), None) if !from.is_empty() => fetch(from, Path::new(&arguments.to), &arguments.machine, session),
        (None, Some(to)) if !to.is_empty() => send(Path::new(&arguments.from), to, &arguments.machine, session),
        _ => Err(Diagnostic::usage("one of the two paths has to be on the machine, and the other here")
            .hint(format!("gpuplan cp {} :checkpoints/log.txt .", arguments.machine.run))),
    }
}

fn fetch(from: &str, to: &Path, machine: &MachineArguments, session: &Session) -> Result<Exit, Diagnostic> {
    let script = format!(
        "path=$(realpath -- {}) && exec tar -C \"$(dirname -- \"$path\")\" -cf - -- \"$(basename -- \"$path\")\"",
        quoted(from)
    );
    let mut command = in_the_job(&find(machine, session)?, &script, machine, session)?;
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| cannot_run(&command, &error))?;
    let bar = bar(session);
    let stream = bar.wrap_read(child.stdout.take().expect("it is piped"));
    let unpacked = unpack(stream, to);
    bar.finish_and_clear();
    let ended = child.wait().map_err(|error| cannot_run(&command, &error))?;
    both_sides(unpacked, checked(&command, ended), to)
}

fn send(from: &Path, to: &str, machine: &MachineArguments, session: &Session) -> Result<Exit, Diagnostic> {
    let whole = fs::canonicalize(from).map_err(|error| cannot_copy(from, &error))?;
    let name = whole.file_name().ok_or_else(|| Diagnostic::usage("the root of the file system has no name"))?;
    let script = format!(
        "to={0}; if [ -d \"$to\" ]; then exec tar --no-same-owner -C \"$to\" -xf -; fi; \
         new=$(mktemp -d \"$(dirname -- \"$to\")/.cp-XXXXXX\") || exit 1; \
         tar --no-same-owner -C \"$new\" -xf - && mv -f -- \"$new\"/{1} \"$to\" && rmdir -- \"$new\" || {{ rm -rf -- \"$new\"; exit 1; }}",
        quoted(to),
        quoted(&name.to_string_lossy())
    );
    let mut command = in_the_job(&find(machine, session)?, &script, machine, session)?;
    let mut child = command.stdin(Stdio::piped()).spawn().map_err(|error| cannot_run(&command, &error))?;
    let bar = bar(session);
    let stream = bar.wrap_write(child.stdin.take().expect("it is piped"));
    let packed = pack(stream, &whole, Path::new(name));
    bar.finish_and_clear();
    let ended = child.wait().map_err(|error| cannot_run(&command, &error))?;
    both_sides(packed, checked(&command, ended), from)
}

/// The side that failed first is the reason: a stream that breaks off here is the machine's, which has said why, and a disk that is
/// full or a file that cannot be read is this computer's, after which the machine's tar fails too.
fn both_sides(here: io::Result<()>, there: Result<(), Diagnostic>, path: &Path) -> Result<Exit, Diagnostic> {
    use io::ErrorKind::{BrokenPipe, Other, UnexpectedEof};
    match here {
        Err(error) if there.is_ok() || !matches!(error.kind(), BrokenPipe | Other | UnexpectedEof) => {
            Err(cannot_copy(path, &error))
        }
        _ => there.map(|()| Exit::Done),
    }
}

/// A path as a word of a shell that is no option.
fn quoted(path: &str) -> String {
    let path = if path.starts_with('-') { format!("./{path}") } else { path.to_owned() };
    command_line(&[path])
}

/// Links below `whole` stay links.
fn pack(stream: impl Write, whole: &Path, name: &Path) -> io::Result<()> {
    let mut archive = tar::Builder::new(stream);
    archive.follow_symlinks(false);
    if whole.is_dir() {
        archive.append_dir_all(name, whole)?;
    } else {
        archive.append_path_with_name(whole, name)?;
    }
    archive.into_inner()?.flush()
}

/// The machine is not trusted: it is unpacked in a new folder beside its place, which nothing in the stream can leave.
fn unpack(stream: impl Read, to: &Path) -> io::Result<()> {
    let is_folder = to.is_dir();
    let parent =
        if is_folder { to } else { to.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new(".")) };
    let beside = tempfile::Builder::new().prefix(".gpuplan-cp-").tempdir_in(parent)?;
    tar::Archive::new(stream).unpack(beside.path())?;
    let all: Vec<PathBuf> = fs::read_dir(beside.path())?.map(|one| Ok(one?.path())).collect::<io::Result<_>>()?;
    let [one] = all.as_slice() else {
        return Err(io::Error::other(format!("{} files or folders came for one", all.len())));
    };
    let place = if is_folder { to.join(one.file_name().expect("it was listed")) } else { to.to_owned() };
    settle(one, &place)
}

/// Moves a file over the one that is there, and a folder's files into the folder that is there.
fn settle(from: &Path, to: &Path) -> io::Result<()> {
    if fs::symlink_metadata(from)?.is_dir() && to.is_dir() {
        return fs::read_dir(from)?
            .try_for_each(|one| one.and_then(|one| settle(&one.path(), &to.join(one.file_name()))));
    }
    fs::rename(from, to)
}

/// Bytes so far, on a terminal only.
fn bar(session: &Session) -> ProgressBar {
    let is_terminal = session.printer.stderr_is_terminal();
    let target = if is_terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(None, target);
    if let Ok(style) = ProgressStyle::with_template("{binary_bytes} copied, {binary_bytes_per_sec}") {
        bar.set_style(style);
    }
    bar
}

fn cannot_copy(path: &Path, error: &io::Error) -> Diagnostic {
    Diagnostic::usage(format!("cannot copy {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(whole: &Path, name: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        pack(&mut bytes, whole, Path::new(name)).unwrap();
        bytes
    }

    #[test]
    fn a_folder_goes_into_a_folder_that_is_there_and_else_takes_the_name_that_it_is_given() {
        let folder = tempfile::tempdir().unwrap();
        let (out, here) = (folder.path().join("out"), folder.path().join("here"));
        fs::create_dir_all(out.join("deep")).unwrap();
        fs::create_dir(&here).unwrap();
        fs::write(out.join("deep/a.txt"), "new").unwrap();
        std::os::unix::fs::symlink("a.txt", out.join("deep/link")).unwrap();
        let stream = packed(&out, "out");
        unpack(stream.as_slice(), &here).unwrap();
        fs::write(here.join("out/kept.txt"), "kept").unwrap();
        fs::write(here.join("out/deep/a.txt"), "old").unwrap();
        unpack(stream.as_slice(), &here).unwrap();
        assert_eq!(fs::read_to_string(here.join("out/deep/a.txt")).unwrap(), "new");
        assert_eq!(fs::read_link(here.join("out/deep/link")).unwrap(), Path::new("a.txt"));
        assert_eq!(fs::read_to_string(here.join("out/kept.txt")).unwrap(), "kept");
        unpack(stream.as_slice(), &folder.path().join("renamed")).unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("renamed/deep/a.txt")).unwrap(), "new");
        unpack(packed(&out.join("deep/a.txt"), "a.txt").as_slice(), &folder.path().join("b.txt")).unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("b.txt")).unwrap(), "new");
        assert!(fs::read_dir(&here).unwrap().count() == 1, "nothing else stays");
    }

    #[test]
    fn the_side_that_failed_first_is_the_reason() {
        let said = |here: io::Result<()>, there: bool| {
            let there = if there { Ok(()) } else { Err(Diagnostic::unexpected("`ssh` ended with 2")) };
            both_sides(here, there, Path::new("a.txt")).map_or_else(|error| error.message, |_| "done".to_owned())
        };
        let error = |kind: io::ErrorKind| Err(io::Error::from(kind));
        assert_eq!(said(Ok(()), true), "done");
        assert_eq!(said(Ok(()), false), "`ssh` ended with 2");
        assert_eq!(said(error(io::ErrorKind::BrokenPipe), false), "`ssh` ended with 2");
        for here in [said(error(io::ErrorKind::StorageFull), false), said(error(io::ErrorKind::Other), true)] {
            assert!(here.starts_with("cannot copy a.txt"), "{here}");
        }
    }

    /// A machine that sends more than was asked for, or somewhere else, changes nothing here.
    #[test]
    fn what_a_machine_sends_stays_in_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path().join("here");
        fs::create_dir(&here).unwrap();
        let mut archive = tar::Builder::new(Vec::new());
        for name in ["a", "b"] {
            let mut header = tar::Header::new_gnu();
            header.set_size(0);
            archive.append_data(&mut header, name, io::empty()).unwrap();
        }
        let two = archive.into_inner().unwrap();
        assert!(unpack(two.as_slice(), &here).is_err());
        // A path upwards, which no builder writes.
        let mut header = tar::Header::new_gnu();
        header.as_old_mut().name[..9].copy_from_slice(b"../up.txt");
        header.set_size(0);
        header.set_cksum();
        let mut archive = tar::Builder::new(Vec::new());
        archive.append(&header, io::empty()).unwrap();
        let up = archive.into_inner().unwrap();
        assert!(unpack(up.as_slice(), &here).is_err());
        // A link that leads out, and a file behind it.
        let mut archive = tar::Builder::new(Vec::new());
        let mut link = tar::Header::new_gnu();
        link.set_entry_type(tar::EntryType::Symlink);
        link.set_size(0);
        archive.append_link(&mut link, "x", folder.path()).unwrap();
        let mut header = tar::Header::new_gnu();
        header.set_size(0);
        archive.append_data(&mut header, "x/up.txt", io::empty()).unwrap();
        let behind = archive.into_inner().unwrap();
        assert!(unpack(behind.as_slice(), &here).is_err());
        assert!(unpack(io::empty(), &here).is_err());
        assert!(fs::read_dir(&here).unwrap().next().is_none());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
