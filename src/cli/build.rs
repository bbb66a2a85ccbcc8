//! Packs the pages of `mcp/pages.rs`: half a megabyte of text in the program that few calls ask for.

use std::error::Error;
use std::fs;
use std::path::PathBuf;

#[allow(dead_code, reason = "the build script reads the names of files only")]
#[path = "mcp/pages.rs"]
mod pages;

fn main() -> Result<(), Box<dyn Error>> {
    // Asked as it runs: checkouts that share a target folder share the compiled script too.
    let docs = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?).join("../../docs");
    println!("cargo::rerun-if-changed=mcp/pages.rs");
    let mut texts = Vec::new();
    for page in pages::PAGES {
        println!("cargo::rerun-if-changed=../../docs/{}", page.file);
        texts.push(fs::read_to_string(docs.join(page.file)).map_err(|error| format!("docs/{}: {error}", page.file))?);
    }
    let packed = zstd::bulk::compress(&serde_json::to_vec(&texts)?, 19)?;
    Ok(fs::write(PathBuf::from(std::env::var("OUT_DIR")?).join("pages.bin"), packed)?)
}
