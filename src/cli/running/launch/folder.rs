//! `Folder`: the user's own folder as the machines get it: without what git ignores, with its submodules, and without files that hold
//! secrets and that nobody committed.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::session::diagnostic::Diagnostic;
use crate::session::printer::Printer;

/// More than this is data, not a program: it belongs into a bucket. Bytes.
const LARGEST: u64 = 1 << 30;
/// How `git ls-files --stage` marks another repository.
const SUBMODULE: &str = "160000 ";
/// Endings of names of programs that an interpreter is given.
const PROGRAMS: [&str; 2] = ["py", "sh"];

/// Files below a folder.
#[derive(Debug)]
pub struct Folder {
    root: PathBuf,
    /// Sorted, below the root.
    files: Vec<PathBuf>,
    /// With no file in them that is sent: programs write into such folders without making them.
    empty_folders: Vec<PathBuf>,
    /// That look like secrets, and that git does not track.
    left_out: Vec<PathBuf>,
}

impl Folder {
    /// Lists a folder; nothing is read yet.
    pub fn list(root: &Path) -> Result<Self, Diagnostic> {
        let mut folder =
            Self { root: root.to_owned(), files: Vec::new(), empty_folders: Vec::new(), left_out: Vec::new() };
        let is_repository =
            root.canonicalize().is_ok_and(|root| root.ancestors().any(|above| above.join(".git").exists()));
        if is_repository {
            folder.add_tracked(Path::new(""))?;
        } else {
            folder.add_all(Path::new("")).map_err(|error| Diagnostic::file(root, &error))?;
        }
        folder.files.sort();
        folder.files.dedup();
        folder.empty_folders.sort();
        if folder.files.is_empty() {
            return Err(Diagnostic::usage(format!("{} has no files to upload", root.display())));
        }
        Ok(folder)
    }

    /// What git tracks or would track, of this repository and of those in it.
    fn add_tracked(&mut self, below: &Path) -> Result<(), Diagnostic> {
        for entry in self.git(below, &["ls-files", "-z", "--cached", "--stage"])? {
            // MODE HASH STAGE, a tab, and the name.
            let Some((about, name)) = entry.split_once('\t') else { continue };
            let path = below.join(name);
            if !about.starts_with(SUBMODULE) {
                self.files.push(path);
            } else if self.root.join(&path).join(".git").exists() {
                self.add_tracked(&path)?;
            } else {
                let why =
                    format!("the submodule {} is not checked out, so the machines would not have it", path.display());
                return Err(Diagnostic::usage(why)
                    .hint(format!("git -C {} submodule update --init --recursive", self.root.display())));
            }
        }
        for name in self.git(below, &["ls-files", "-z", "--others", "--exclude-standard"])? {
            let path = below.join(&name);
            if name.ends_with('/') {
                // Another repository, of which git says no more than that.
                self.add_tracked(&path)?;
            } else {
                self.add_untracked(path);
            }
        }
        // Whole folders that git tracks nothing of, and does not ignore.
        for name in self.git(below, &["ls-files", "-z", "--others", "--exclude-standard", "--directory"])? {
            let path = below.join(&name);
            if name.ends_with('/') && !self.files.iter().any(|file| file.starts_with(&path)) {
                self.empty_folders.push(path);
            }
        }
        Ok(())
    }

    fn git(&self, below: &Path, arguments: &[&str]) -> Result<Vec<String>, Diagnostic> {
        let folder = self.root.join(below);
        let why = match Command::new("git").arg("-C").arg(&folder).args(arguments).output() {
            Ok(output) if output.status.success() => {
                let names = output.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty());
                return Ok(names.map(|name| String::from_utf8_lossy(name).into_owned()).collect());
            }
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(error) => error.to_string(),
        };
        // Where git cannot be asked, what it ignores would be sent too.
        Err(Diagnostic::usage(format!("git does not list the files of {}: {why}", folder.display()))
            .hint("`git status` in that folder says more; `--workdir` accepts any other folder"))
    }

    fn add_all(&mut self, below: &Path) -> io::Result<()> {
        let entries = fs::read_dir(self.root.join(below))?.collect::<io::Result<Vec<_>>>()?;
        if entries.is_empty() && below != Path::new("") {
            self.empty_folders.push(below.to_owned());
        }
        for entry in entries {
            let path = below.join(entry.file_name());
            if entry.file_type()?.is_dir() { self.add_all(&path)? } else { self.add_untracked(path) }
        }
        Ok(())
    }

    fn add_untracked(&mut self, path: PathBuf) {
        if holds_secrets(&path) { self.left_out.push(path) } else { self.files.push(path) }
    }

    /// Names what is not sent although git does not ignore it.
    pub fn say_what_stays(&self, printer: &Printer) {
        if !self.left_out.is_empty() {
            let names: Vec<String> = self.left_out.iter().map(|path| path.display().to_string()).collect();
            printer.warning(&format!(
                "not sent, since it may hold secrets: {}; --secret gives a secret to the command, and what git tracks is sent",
                names.join(", ")
            ));
        }
    }

    /// Refuses a command whose program the machine would not find: the first of its words that names one. What a setup command
    /// brings cannot be known.
    pub fn has_program_of(&self, command: &[String], has_setup: bool) -> Result<(), Diagnostic> {
        let is_path = |(number, word): &(usize, &String)| {
            let path = Path::new(word.as_str());
            let is_program = path.extension().is_some_and(|end| PROGRAMS.iter().any(|known| end == *known));
            let is_first = *number == 0 && word.contains('/');
            path.is_relative()
                && !word.starts_with('-')
                && !word.contains(char::is_whitespace)
                && (is_program || is_first)
        };
        let Some((number, word)) = command.iter().enumerate().find(is_path) else { return Ok(()) };
        let path: PathBuf = Path::new(word).components().filter(|part| part.as_os_str() != ".").collect();
        let there = self.root.join(&path);
        if !self.files.contains(&path) {
            // Something above the folder, or a link in it, is for the machine to find out.
            if has_setup || word.contains("..") || self.is_below_a_link(&path) {
                return Ok(());
            }
            let why = if there.exists() { "is ignored by git, so it is not sent" } else { "is not in it" };
            return Err(Diagnostic::usage(format!(
                "the command runs `{word}`, which {why}: {}; nothing was rented",
                self.root.display()
            ))
            .hint("--setup COMMAND, if that brings it")
            .hint(format!("ls {}", self.root.display())));
        }
        let is_closed = there.metadata().is_ok_and(|about| about.permissions().mode() & 0o111 == 0);
        if number == 0 && is_closed && !has_setup {
            return Err(Diagnostic::usage(format!(
                "the command runs `{word}`, which is not executable; nothing was rented"
            ))
            .hint(format!("chmod +x {}", there.display())));
        }
        Ok(())
    }

    fn is_below_a_link(&self, path: &Path) -> bool {
        path.ancestors().skip(1).any(|above| self.files.iter().any(|file| file == above))
    }

    /// The same files give the same bytes: sorted, without owners and times.
    pub fn archive(&self) -> Result<Vec<u8>, Diagnostic> {
        let unreadable = |error: io::Error| Diagnostic::file(&self.root, &error);
        let mut size = 0;
        let mut archive = archive();
        for folder in &self.empty_folders {
            archive.append_dir(folder, self.root.join(folder)).map_err(unreadable)?;
        }
        for file in &self.files {
            let path = self.root.join(file);
            let about = match path.symlink_metadata() {
                Ok(about) => about,
                // Tracked by git, and deleted since.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(Diagnostic::file(&path, &error)),
            };
            size += about.len();
            if size > LARGEST {
                return Err(Diagnostic::usage(format!("{} holds more than 1 GiB", self.root.display()))
                    .hint("list data and results in .gitignore, and keep data in a bucket"));
            }
            archive.append_path_with_name(&path, file).map_err(unreadable)?;
        }
        packed(archive).map_err(unreadable)
    }
}

type Archive = tar::Builder<GzEncoder<Vec<u8>>>;

fn archive() -> Archive {
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    archive.mode(tar::HeaderMode::Deterministic);
    archive.follow_symlinks(false);
    archive
}

fn packed(archive: Archive) -> io::Result<Vec<u8>> {
    let mut packing = archive.into_inner()?;
    packing.flush()?;
    packing.finish()
}

/// One file by another name, as a folder with nothing else.
pub fn archive_file(path: &Path, name: &str) -> io::Result<Vec<u8>> {
    let mut archive = archive();
    archive.append_path_with_name(path, name)?;
    packed(archive)
}

/// Files in which people keep secrets. An example of one is none.
fn holds_secrets(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    let is_example = ["example", "sample", "template", "dist"].iter().any(|end| name.ends_with(end));
    let end = name.rsplit_once('.').map(|(_, end)| end);
    let is_environment = end == Some("env") || name.starts_with(".env.");
    let is_key = [".netrc", ".pypirc", ".npmrc", "id_rsa", "id_ed25519", "credentials.json"].contains(&name.as_str())
        || end == Some("pem");
    !is_example && (is_environment || is_key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn git(folder: &Path, arguments: &[&str]) {
        let own = [
            "-c",
            "protocol.file.allow=always",
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "-c",
            "init.defaultBranch=main",
        ];
        let ran = Command::new("git").arg("-C").arg(folder).args(own).args(arguments).output().unwrap();
        assert!(ran.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
    }

    fn write(root: &Path, names: &[&str]) {
        for name in names {
            fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            fs::write(root.join(name), *name).unwrap();
        }
    }

    fn names(paths: &[PathBuf]) -> Vec<&str> {
        paths.iter().map(|path| path.to_str().unwrap()).collect()
    }

    fn unpacked(folder: &Folder) -> Vec<String> {
        let archive = folder.archive().unwrap();
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(archive.as_slice()));
        archive.entries().unwrap().map(|entry| entry.unwrap().path().unwrap().display().to_string()).collect()
    }

    #[test]
    fn submodules_are_sent_and_one_that_is_missing_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let (library, own) = (root.path().join("library"), root.path().join("own"));
        write(&library, &["m.py"]);
        git(&library, &["init", "-q"]);
        git(&library, &["add", "."]);
        git(&library, &["commit", "-q", "-m", "a"]);
        write(&own, &["train.py"]);
        git(&own, &["init", "-q"]);
        git(&own, &["submodule", "-q", "add", &library.display().to_string(), "third_party/m"]);
        git(&own, &["add", "."]);
        git(&own, &["commit", "-q", "-m", "a"]);
        write(&own, &["third_party/m/new.py", "clone/x.py"]);
        git(&own.join("clone"), &["init", "-q"]);
        let sent = unpacked(&Folder::list(&own).unwrap());
        assert_eq!(sent, [".gitmodules", "clone/x.py", "third_party/m/m.py", "third_party/m/new.py", "train.py"]);
        git(&own, &["submodule", "-q", "deinit", "-f", "third_party/m"]);
        let refused = Folder::list(&own).unwrap_err();
        assert!(refused.message.contains("third_party/m is not checked out"), "{}", refused.message);
    }

    #[test]
    fn folders_without_files_are_sent_unless_git_ignores_them() {
        let root = tempfile::tempdir().unwrap();
        let plain = root.path().join("plain");
        write(&plain, &["train.py", "logs/a.log"]);
        for empty in ["checkpoints", "out/deep", "wandb"] {
            fs::create_dir_all(plain.join(empty)).unwrap();
        }
        assert_eq!(
            unpacked(&Folder::list(&plain).unwrap()),
            ["checkpoints", "out/deep", "wandb", "logs/a.log", "train.py"]
        );
        git(&plain, &["init", "-q"]);
        fs::write(plain.join(".gitignore"), "wandb/\n*.log\n").unwrap();
        let sent = unpacked(&Folder::list(&plain).unwrap());
        let (folders, files): (Vec<String>, Vec<String>) = sent.into_iter().partition(|name| name.ends_with('/'));
        assert_eq!(files, [".gitignore", "train.py"]);
        assert!(folders.contains(&"checkpoints/".to_owned()) && !folders.contains(&"wandb/".to_owned()), "{folders:?}");
    }

    #[test]
    fn what_may_hold_secrets_and_is_not_tracked_stays() {
        let root = tempfile::tempdir().unwrap();
        let plain = root.path().join("plain");
        write(
            &plain,
            &["a.py", ".env", ".env.local", ".env.example", "deep/server.pem", "deep/prod.env", "environment.yml"],
        );
        let folder = Folder::list(&plain).unwrap();
        assert_eq!(names(&folder.files), [".env.example", "a.py", "environment.yml"]);
        assert_eq!(folder.left_out.len(), 4, "{:?}", folder.left_out);
        git(&plain, &["init", "-q"]);
        git(&plain, &["add", "-f", ".env"]);
        let folder = Folder::list(&plain).unwrap();
        assert!(names(&folder.files).contains(&".env"), "what is tracked was meant to be shared");
        assert_eq!(folder.left_out.len(), 3, "{:?}", folder.left_out);
    }

    #[test]
    fn a_program_that_is_not_in_the_folder_is_refused_before_anything_is_rented() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), &["train.py", "run.sh", "lib/a.py", ".gitignore"]);
        fs::write(root.path().join(".gitignore"), "secret.py\n").unwrap();
        write(root.path(), &["secret.py"]);
        git(root.path(), &["init", "-q"]);
        let folder = Folder::list(root.path()).unwrap();
        let tried = |command: &[&str], has_setup| {
            let command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
            folder.has_program_of(&command, has_setup).map_err(|refused| refused.message)
        };
        for found in [
            &["python", "train.py", "--to", "plot.py"][..],
            &["python", "./lib/a.py"],
            &["sh", "-c", "cd x && python y.py"],
            &["python", "-m", "pkg"],
            &["bash", "run.sh"],
            &["/opt/x.py"],
            &["python", "../x.py"],
        ] {
            assert_eq!(tried(found, false), Ok(()), "{found:?}");
        }
        assert!(tried(&["python", "trian.py"], false).unwrap_err().contains("`trian.py`, which is not in it"));
        assert!(tried(&["python", "secret.py"], false).unwrap_err().contains("ignored by git"));
        assert!(tried(&["./train"], false).unwrap_err().contains("not in it"));
        assert!(tried(&["./train.py"], false).unwrap_err().contains("not executable"));
        assert_eq!(tried(&["python", "trian.py"], true), Ok(()), "the setup may bring it");
    }
}
