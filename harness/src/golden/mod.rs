//! A fixture folder.
