//! Trees of files, as an image of EROFS has them.

use crate::EngineError;
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, openat, readlinkat, statat};
use std::cell::RefCell;
use std::collections::VecDeque;
use tote_erofs::{Inode, Layout, Node, Tree, Xattr};
use tote_sys::{Errno, visible};

/// Most files of an image.
const MOST: usize = 4_000_000;

/// Deepest directory whose entries an image has.
const DEEPEST: usize = 100;

/// Files that stay open, because they are read in many pieces.
const OPEN: usize = 32;

/// A tree, and where it is shown.
pub(crate) struct Part {
    /// The directory.
    pub(crate) root: OwnedFd,
    /// Name in the root of the image; `None` for the root itself, which is the first part.
    pub(crate) at: Option<String>,
    /// True if the image has only those files that every user of this machine may read, and no rights of their owners.
    pub(crate) public: bool,
}

/// Kind of a file.
enum Kind {
    /// Numbers of the entries, in the order of their names.
    Directory(Vec<usize>),
    File(u64),
    Link(Vec<u8>),
}

struct File {
    name: Vec<u8>,
    parent: usize,
    /// Number of its part.
    part: usize,
    mode: u16,
    owner: (u32, u32),
    time: (i64, u32),
    kind: Kind,
}

/// All files of an image.
pub(crate) struct Files {
    parts: Vec<Part>,
    all: Vec<File>,
    /// User and group of this machine that are root's in the image.
    root: Option<(u32, u32)>,
}

/// An image without the data of its files.
pub(crate) struct Image {
    /// Bytes before them.
    pub(crate) head: Vec<u8>,
    /// Bytes of all.
    pub(crate) size: u64,
    /// First byte, size and number of each file.
    places: Vec<(u64, u64, usize)>,
    files: Files,
    /// Files that were read last.
    open: RefCell<VecDeque<(usize, OwnedFd)>>,
}

impl Files {
    /// Looks at all files. `root` are the user and the group of this machine that are root's in the image.
    ///
    /// # Errors
    /// [`EngineError`] if a part cannot be read, or has too many files.
    pub(crate) fn of(parts: Vec<Part>, root: Option<(u32, u32)>) -> Result<Self, EngineError> {
        let failed = EngineError::file("read", "the tools");
        let mut files = Self {
            parts: Vec::new(),
            all: Vec::new(),
            root,
        };
        let walk = || {
            for part in parts {
                files.add(part)?;
            }
            Ok::<_, Errno>(())
        };
        walk().map_err(failed)?;
        Ok(files)
    }

    fn add(&mut self, part: Part) -> Result<(), Errno> {
        let found = rustix::fs::fstat(&part.root)?;
        let (number, public) = (self.parts.len(), part.public);
        let index = match &part.at {
            None => 0,
            Some(name) => {
                // It takes the place of what the parts before have there.
                let name = name.as_bytes().to_vec();
                let children = self.children(0);
                let children = children.iter().copied();
                let others: Vec<usize> = children.filter(|child| self.all[*child].name != name).collect();
                self.all[0].kind = Kind::Directory(others);
                let index = self.push((&found, public), (name, 0, number), Kind::Directory(Vec::new()));
                self.insert(0, vec![index]);
                index
            }
        };
        if self.all.is_empty() {
            self.push(
                (&found, public),
                (Vec::new(), 0, number),
                Kind::Directory(Vec::new()),
            );
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut open = vec![(openat(&part.root, c".", flags, Mode::empty())?, index, 0)];
        self.parts.push(part);
        while let Some((dir, index, depth)) = open.pop() {
            let mut children = Vec::new();
            for (name, stat) in entries(&dir)? {
                let is_mounted = stat.st_dev != found.st_dev;
                let Some(kind) = kind(&dir, (&name, &stat), public, is_mounted)? else {
                    continue;
                };
                if self.all.len() >= MOST {
                    return Err(Errno::TOOBIG);
                }
                let is_directory = matches!(kind, Kind::Directory(_));
                let opened = match is_directory && !is_mounted && depth < DEEPEST {
                    true => visible(openat(&dir, &*name, flags | OFlags::NOFOLLOW, Mode::empty()))?,
                    false => None,
                };
                let child = self.push((&stat, public), (name, index, number), kind);
                children.push(child);
                open.extend(opened.map(|opened| (opened, child, depth + 1)));
            }
            self.insert(index, children);
        }
        Ok(())
    }

    fn push(
        &mut self,
        (stat, public): (&Stat, bool),
        (name, parent, part): (Vec<u8>, usize, usize),
        kind: Kind,
    ) -> usize {
        let own = |id: u32, own: Option<u32>| if Some(id) == own { 0 } else { id };
        let bits = if public { 0o1777 } else { 0o7777 };
        self.all.push(File {
            name,
            parent,
            part,
            mode: (stat.st_mode & bits) as u16,
            owner: (
                own(stat.st_uid, self.root.map(|(user, _)| user)),
                own(stat.st_gid, self.root.map(|(_, group)| group)),
            ),
            time: (stat.st_mtime, stat.st_mtime_nsec as u32),
            kind,
        });
        self.all.len() - 1
    }

    fn children(&self, index: usize) -> &[usize] {
        match self.all.get(index).map(|file| &file.kind) {
            Some(Kind::Directory(children)) => children,
            _ => &[],
        }
    }

    /// Adds entries to a directory.
    fn insert(&mut self, index: usize, more: Vec<usize>) {
        let mut children = [self.children(index), &more].concat();
        children.sort_by(|a, b| self.all[*a].name.cmp(&self.all[*b].name));
        self.all[index].kind = Kind::Directory(children);
    }

    /// Places everything in an image.
    ///
    /// # Errors
    /// [`EngineError`] if the format cannot hold it.
    pub(crate) fn image(self) -> Result<Image, EngineError> {
        fn failed<E: Into<std::io::Error>>(error: E) -> EngineError {
            EngineError::file("make a disk of", "the tools")(error)
        }
        let mut uuid = [0; 16];
        // The name is another one each time: a disk of the same name could be another one.
        rustix::rand::getrandom(&mut uuid, rustix::rand::GetRandomFlags::empty()).map_err(failed)?;
        let layout = Layout::with_data(&self, 0, uuid);
        let layout = layout.map_err(|error| failed(std::io::Error::other(error)))?;
        let head = layout.head().map_err(failed)?;
        let (size, places) = (layout.size(), layout.files().collect());
        drop(layout);
        Ok(Image {
            head,
            size,
            places,
            files: self,
            open: RefCell::new(VecDeque::new()),
        })
    }

    /// Opens a file for reading, if it is the one that was seen.
    fn open(&self, number: usize) -> Result<OwnedFd, Errno> {
        let mut names: Vec<&[u8]> = Vec::new();
        let file = &self.all[number];
        let mut at = number;
        // The root of a part has none of its names.
        while self.all[at].part == file.part && !self.is_root(at) {
            names.push(&self.all[at].name);
            at = self.all[at].parent;
        }
        names.reverse();
        let path = names.join(&b'/');
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let root = self.parts[file.part].root.as_fd();
        let opened = tote_sys::openat2(root, &*path, flags, Mode::empty(), resolve)?;
        let found = rustix::fs::fstat(&opened)?;
        let is_file = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
        let may = !self.parts[file.part].public || found.st_mode & 0o004 != 0;
        if is_file && may {
            Ok(opened)
        } else {
            Err(Errno::IO)
        }
    }

    /// True for the first directory of a part.
    fn is_root(&self, at: usize) -> bool {
        at == 0 || self.all[at].part != self.all[self.all[at].parent].part
    }
}

/// Returns the kind of a file; `None` if the image does not have it: of what is mounted in the tree there are the directories, and other
/// kinds are not shown.
///
/// # Errors
/// Those of readlinkat(2), but for a link that has gone meanwhile.
fn kind(
    dir: &OwnedFd,
    (name, stat): (&[u8], &Stat),
    public: bool,
    is_mounted: bool,
) -> Result<Option<Kind>, Errno> {
    let may = |bits| !public || stat.st_mode & bits == bits;
    Ok(match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory if may(0o005) => Some(Kind::Directory(Vec::new())),
        FileType::RegularFile if may(0o004) && !is_mounted => {
            u64::try_from(stat.st_size).ok().map(Kind::File)
        }
        FileType::Symlink => {
            // What has the name by now may be another kind of file (`EINVAL`).
            let target = match readlinkat(dir, name, Vec::new()) {
                Err(Errno::INVAL) => None,
                target => visible(target)?,
            };
            target.map(|target| Kind::Link(target.to_bytes().to_vec()))
        }
        _ => None,
    })
}

/// Lists a directory with what is known of its entries; those that have gone meanwhile are left out.
fn entries(dir: &OwnedFd) -> Result<Vec<(Vec<u8>, Stat)>, Errno> {
    let mut entries = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        if let Some(stat) = visible(statat(dir, name, AtFlags::SYMLINK_NOFOLLOW))? {
            entries.push((name.to_bytes().to_vec(), stat));
        }
    }
    Ok(entries)
}

impl Tree for Files {
    fn inode(&self, number: usize) -> Inode<'_> {
        let file = &self.all[number];
        Inode {
            mode: file.mode,
            uid: file.owner.0,
            gid: file.owner.1,
            secs: file.time.0,
            nanos: file.time.1,
            node: match &file.kind {
                Kind::Directory(_) => Node::Directory,
                Kind::File(size) => Node::File(*size),
                Kind::Link(target) => Node::Symlink(target),
            },
        }
    }

    fn names<'a>(&'a self, number: usize, each: &mut dyn FnMut(&'a [u8], usize)) {
        for child in self.children(number) {
            each(&self.all[*child].name, *child);
        }
    }

    fn xattrs(&self, _: usize, _: &mut dyn FnMut(Xattr<'_>)) {}
}

impl Image {
    /// Fills the buffer with the bytes of the image from there on. A file that has become shorter ends with zeros.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn read(&self, mut at: u64, mut buffer: &mut [u8]) -> Result<(), Errno> {
        buffer.fill(0);
        let head = usize::try_from(at).ok().and_then(|at| self.head.get(at..));
        if let Some(head) = head {
            let length = head.len().min(buffer.len());
            buffer[..length].copy_from_slice(&head[..length]);
            (at, buffer) = (at + length as u64, &mut buffer[length..]);
        }
        let end = at + buffer.len() as u64;
        let first = self.places.partition_point(|(begin, size, _)| begin + size <= at);
        for (begin, size, number) in self.places[first..].iter().take_while(|(begin, ..)| *begin < end) {
            let from = at.max(*begin);
            let to = end.min(begin + size);
            let piece = (from - at) as usize..(to - at) as usize;
            self.read_file(*number, from - begin, &mut buffer[piece])?;
        }
        Ok(())
    }

    fn read_file(&self, number: usize, mut at: u64, mut buffer: &mut [u8]) -> Result<(), Errno> {
        let mut open = self.open.borrow_mut();
        let place = match open.iter().position(|(other, _)| *other == number) {
            Some(place) => place,
            None => {
                let file = self.files.open(number)?;
                if open.len() >= OPEN {
                    open.pop_front();
                }
                open.push_back((number, file));
                open.len() - 1
            }
        };
        let file: BorrowedFd<'_> = open[place].1.as_fd();
        while !buffer.is_empty() {
            match rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut *buffer, at))? {
                0 => break,
                length => (at, buffer) = (at + length as u64, &mut buffer[length..]),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::path::Path;

    fn open(path: &Path) -> OwnedFd {
        fs::File::open(path).unwrap().into()
    }

    fn set_mode(path: &Path, mode: u32) {
        let file = fs::File::open(path).unwrap();
        file.set_permissions(fs::Permissions::from_mode(mode)).unwrap();
    }

    fn part(path: &Path, at: Option<&str>, public: bool) -> Part {
        Part {
            root: open(path),
            at: at.map(str::to_owned),
            public,
        }
    }

    fn bytes(image: &Image, piece: usize) -> Vec<u8> {
        let mut all = vec![1; image.size as usize];
        for (number, part) in all.chunks_mut(piece).enumerate() {
            image.read((number * piece) as u64, part).unwrap();
        }
        all
    }

    #[test]
    fn an_image_is_that_of_the_files() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        fs::create_dir_all(at("below/etc")).unwrap();
        fs::create_dir_all(at("below/usr/gone")).unwrap();
        fs::create_dir_all(at("usr/bin")).unwrap();
        let long: Vec<u8> = (0..10_000_u32).map(|at| at as u8).collect();
        for (path, content) in [
            ("below/etc/x", &b"of x"[..]),
            ("usr/bin/long", &long),
            ("usr/bin/a", b""),
        ] {
            fs::write(at(path), content).unwrap();
        }
        symlink("bin/long", at("usr/link")).unwrap();
        fs::write(at("usr/closed"), "secret").unwrap();
        set_mode(&at("usr/closed"), 0o640);
        set_mode(&at("usr/bin/a"), 0o4755);
        let parts = vec![
            part(&at("below"), None, false),
            part(&at("usr"), Some("usr"), true),
        ];
        let image = Files::of(parts, None).unwrap().image().unwrap();
        let all = bytes(&image, 4096);
        assert!(
            bytes(&image, 1000) == all && bytes(&image, 100_000) == all,
            "whatever is read at once"
        );
        fs::write(at("image"), &all).unwrap();
        let read = tote_erofs::Image::open(fs::File::open(at("image")).unwrap()).unwrap();
        for (path, is_there) in [
            ("etc/x", true),
            ("usr/bin/long", true),
            ("usr/bin/a", true),
            ("usr/link", true),
            ("usr/gone", false),
            ("usr/closed", false),
        ] {
            assert_eq!(read.find(path.as_bytes()).unwrap().is_some(), is_there, "{path}");
        }
        let holds = |content: &[u8]| all.windows(content.len()).any(|window| window == content);
        assert!(holds(&long) && holds(b"of x") && !holds(b"secret"));
    }

    #[test]
    fn a_file_that_changes_is_read_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, [7; 5000]).unwrap();
        let files = Files::of(vec![part(dir.path(), None, true)], None).unwrap();
        let image = files.image().unwrap();
        let begin = image.places[0].0;
        let mut buffer = [1; 4096];
        fs::write(&path, [8; 10]).unwrap();
        image.read(begin, &mut buffer).unwrap();
        assert_eq!((buffer[9], buffer[10]), (8, 0));
        image.open.borrow_mut().clear();
        fs::remove_file(&path).unwrap();
        symlink("/etc/passwd", &path).unwrap();
        assert_eq!(
            image.read(begin, &mut buffer),
            Err(Errno::LOOP),
            "a link is not followed"
        );
        fs::remove_file(&path).unwrap();
        fs::write(&path, "closed").unwrap();
        set_mode(&path, 0o600);
        assert_eq!(
            image.read(begin, &mut buffer),
            Err(Errno::IO),
            "it was made secret"
        );
    }
}
