//! Any file as a program: an ELF file, a script or `ld.so.cache`. No panic, an end, and only paths of the root.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tote_needs::{Contents, Node, Reason, References, Settings, Tree, needs};

/// Bytes that every name has.
struct Same<'a>(&'a [u8]);

impl Contents for Same<'_> {
    fn read(&self, _path: &[u8], offset: u64, length: usize) -> std::io::Result<Vec<u8>> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(self.0.len());
        Ok(self.0[from..self.0.len().min(from.saturating_add(length))].to_vec())
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut tree = Tree::default();
    for dir in ["bin", "etc", "lib"] {
        tree.insert(dir.as_bytes(), Node::Directory);
    }
    for file in ["bin/a", "etc/ld.so.cache", "lib/libc.so.6", "lib/ld-linux-x86-64.so.2"] {
        tree.insert(file.as_bytes(), Node::File(bytes.len() as u64));
    }
    tree.insert(b"bin/sh", Node::Link(b"a".as_slice().into()));
    let settings = Settings {
        path: b"/bin:/lib".to_vec(),
        shell_words: true,
        ..Settings::default()
    };
    let contents = Same(bytes);
    let found = needs(&tree, &contents, [(&b"bin/a"[..], Reason::Command)], &settings);
    assert!(found.kept.keys().all(|path| tree.get(path).is_some()));
    // What a file names is among what it needs.
    let references = References::new(&tree, &contents, &settings);
    let named = references.of(b"bin/a").expect("bytes can be read");
    let words = references.shell_words(b"bin/a").expect("bytes can be read");
    for reference in named.into_iter().chain(words) {
        assert!(found.kept.contains_key(&reference.to));
    }
});
