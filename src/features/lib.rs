//! No code: the manifest turns on, in every build, the features of foreign crates that a build of the whole workspace has.
