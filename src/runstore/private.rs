//! Files and folders of this computer that only this user reads: journals hold commands, variables and names of secrets.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

const FILE: u32 = 0o600;
const FOLDER: u32 = 0o700;
/// The folder that is this program's own wherever the user named none.
const OWN: &str = "gpuplan";
/// What SQLite keeps beside a database; it makes them with the mode of the database.
const BESIDE: [&str; 2] = ["-wal", "-shm"];

/// Makes the file of a database, unless it is there, and takes it from others if they could read it. A folder above it is made for
/// this user alone; one that is there is changed only if it is this program's own, since others may use it too.
///
/// # Errors
/// Where it cannot be made, or belongs to somebody else.
pub fn database(path: &Path) -> io::Result<()> {
    if let Some(above) = path.parent().filter(|above| !above.as_os_str().is_empty()) {
        let is_own = above.file_name().is_some_and(|name| name == OWN);
        if is_own { folder(above)? } else { make(above)? }
    }
    OpenOptions::new().create(true).append(true).mode(FILE).open(path)?;
    tighten(path, FILE)?;
    for beside in BESIDE {
        let mut name = path.as_os_str().to_owned();
        name.push(beside);
        match tighten(Path::new(&name), FILE) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Makes a folder of this program, unless it is there, and takes it from others if they could look into it.
///
/// # Errors
/// Where it cannot be made, or belongs to somebody else.
pub fn folder(path: &Path) -> io::Result<()> {
    make(path)?;
    tighten(path, FOLDER)
}

fn make(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER).create(path)
}

fn tighten(path: &Path, mode: u32) -> io::Result<()> {
    let is = fs::metadata(path)?.permissions().mode();
    if is & 0o777 & !mode == 0 { Ok(()) } else { fs::set_permissions(path, Permissions::from_mode(is & mode)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn what_is_made_is_of_this_user_alone_and_what_was_open_is_closed() {
        let root = tempfile::tempdir().unwrap();
        let new = root.path().join("state/gpuplan/a.sqlite");
        database(&new).unwrap();
        assert_eq!((mode(&new), mode(new.parent().unwrap()), mode(&root.path().join("state"))), (0o600, 0o700, 0o700));
        let (shared, open) = (root.path().join("shared"), root.path().join("shared/b.sqlite"));
        fs::create_dir(&shared).unwrap();
        fs::set_permissions(&shared, Permissions::from_mode(0o755)).unwrap();
        for file in ["b.sqlite", "b.sqlite-wal"] {
            fs::write(shared.join(file), "kept").unwrap();
            fs::set_permissions(shared.join(file), Permissions::from_mode(0o644)).unwrap();
        }
        database(&open).unwrap();
        assert_eq!((mode(&open), mode(&shared.join("b.sqlite-wal"))), (0o600, 0o600));
        assert_eq!(fs::read_to_string(&open).unwrap(), "kept");
        assert_eq!(mode(&shared), 0o755, "a folder that the user chose stays as it is");
        folder(&shared).unwrap();
        assert_eq!(mode(&shared), 0o700);
    }
}
