//! Packs the reviewed text of `catalogs/` and `benchmarks/published/` into one archive a stage, and the measured kernels of a GPU
//! into a file each. Knows no schema: see `archive.rs` and `grid.rs`.

use std::error::Error;
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

#[allow(dead_code, reason = "the build script uses the writing half only")]
mod archive;
#[allow(dead_code, reason = "the build script uses the writing half only")]
mod grid;

use archive::{ARCHIVES, Archive, compressed, unpacked};
use grid::KernelText;

fn main() -> Result<(), Box<dyn Error>> {
    // Asked as it runs: checkouts that share a target folder share the compiled script too.
    let project = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?).join("../..");
    println!("cargo::rerun-if-changed=archive.rs");
    println!("cargo::rerun-if-changed=grid.rs");
    println!("cargo::rerun-if-changed=../../catalogs");
    println!("cargo::rerun-if-changed=../../benchmarks/published");
    println!("cargo::rerun-if-changed=../../benchmarks/kernels");
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    for contents in ARCHIVES {
        let root = project.join(contents.root);
        let mut archive = Archive::default();
        for document in contents.documents {
            let path = root.join(document).with_extension("toml");
            archive.add_document(document, &read(&path)?).map_err(|error| at(&path, &error))?;
        }
        for folder in contents.folders {
            for path in files(&root.join(folder), "csv")? {
                let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                archive.add_table(&format!("{folder}/{stem}"), &read(&path)?).map_err(|error| at(&path, &error))?;
            }
        }
        fs::write(out.join(format!("{}.bin", contents.archive)), archive.pack()?)?;
    }
    for path in files(&project.join("benchmarks/kernels"), "zst")? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let id = name.strip_suffix(".txt.zst").ok_or_else(|| at(&path, &"it is not called GPU.txt.zst"))?;
        let text = String::from_utf8(unpacked(&fs::read(&path)?)?)?;
        let packed = KernelText::new(&text).packed().ok_or_else(|| at(&path, &"it is not as pack.py writes it"))?;
        fs::write(out.join(format!("{id}.bin")), compressed(&postcard::to_stdvec(&packed)?)?)?;
    }
    Ok(())
}

fn files(folder: &Path, extension: &str) -> Result<Vec<PathBuf>, std::io::Error> {
    let mut paths = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, std::io::Error>>()?;
    paths.retain(|path| path.extension().is_some_and(|ending| ending == extension));
    paths.sort();
    Ok(paths)
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| at(path, &error))
}

fn at(path: &Path, error: &dyn Display) -> String {
    format!("{}: {error}", path.display())
}
