//! Operations that join an image and the container's writes into one tree.

use crate::error::PlanError;
use crate::plan::{Builder, cstring, cstring_path};
use crate::root::{flag, parameter};
use rustix::fd::OwnedFd;
use rustix::mount::MountAttrFlags;
use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use tote_rootfs::{CopiedLinks, LinkedName, OverlayOptions, OwnInodes, OwnTree, Split, Storage, Stub, Upper};
use tote_sys::{
    Attributes, CloneSource, CopyMode, Make, Op, Parameter, Propagation, Source, Target, TreeCopy, Value,
};

/// Directories below the mount that the root covers: the overlay's directories, copies of writable paths, generated
/// files of the container, and mount points that the image lacks.
const UPPER: &str = "upper";
const WORK: &str = "work";
const LOWER: &str = "lower";
const COPIES: &str = "copies";
const FILES: &str = "files";
const STUBS: &str = "stubs";

/// Default share of the machine's memory that a container may write to. The kernel's own default is a half, with
/// which two containers without `--memory` would fill the machine.
const MEMORY_SHARE: &str = "25%";

impl Builder<'_> {
    /// Plans the root's mounts; `set` are the attributes of every mount that the container writes to.
    pub(crate) fn storage(
        &mut self,
        storage: Storage,
        attach_point: &CStr,
        set: MountAttrFlags,
    ) -> Result<(), PlanError> {
        match storage {
            Storage::Overlay {
                mut lowers,
                own_inodes,
                upper,
                volatile,
            } => {
                let own_inodes = self.fitting(own_inodes);
                if let Some(own) = &own_inodes
                    && let Some(fs) = own.fs
                {
                    lowers.pop();
                    let contents = Some(own.contents.clone());
                    let layers = FileLayer {
                        fs,
                        file: &own.tree,
                        above: lowers,
                        contents,
                        volatile,
                    };
                    return self.image(layers, upper, attach_point, set);
                }
                if let (Some(own), Some(lowest)) = (&own_inodes, lowers.last_mut()) {
                    lowest.clone_from(&own.tree);
                }
                let sources = match upper {
                    Upper::Tmpfs { .. } if self.mapped => self.mapped_places(&mut lowers),
                    _ => Vec::new(),
                };
                let options = layers(lowers, own_inodes).volatile(volatile);
                let options = self.upper(options, upper, attach_point)?;
                self.mapped_layers(sources)?;
                self.overlay(options, attach_point, set)
            }
            Storage::Image { fs, file, upper } => {
                let layers = FileLayer {
                    fs,
                    file: &file,
                    above: Vec::new(),
                    contents: None,
                    volatile: false,
                };
                self.image(layers, upper, attach_point, set)
            }
            Storage::Split(split) => self.split(split, attach_point, set),
            Storage::Own(tree) => self.own_tree(tree, attach_point, set),
        }
    }

    /// Replaces layers by the places at which they are shown with other ids, and returns each layer with the name of its place.
    fn mapped_places(&self, lowers: &mut [PathBuf]) -> Vec<(PathBuf, String)> {
        let place = |(number, lower): (usize, &mut PathBuf)| {
            let name = format!("{LOWER}{number}");
            let at = self.request.attach_point.join(&name);
            (std::mem::replace(lower, at), name)
        };
        lowers.iter_mut().enumerate().map(place).collect()
    }

    /// Plans the id-mapped mounts of layers, beside the overlay's writes.
    fn mapped_layers(&mut self, layers: Vec<(PathBuf, String)>) -> Result<(), PlanError> {
        for (layer, name) in layers {
            let source = Source::Clone(CloneSource {
                path: cstring_path("layer", &layer)?,
                subpath: None,
                recursive: false,
                idmap: true,
            });
            let target = Target::Inside {
                path: cstring("path", &name)?,
                make: Make::Dir,
                strict: true,
                over_proc: false,
            };
            self.mount(source, target, Attributes::set(MountAttrFlags::MOUNT_ATTR_RDONLY));
        }
        Ok(())
    }

    /// Returns the tree with inodes of its own, if it has the kind of extended attributes that an overlay here reads.
    fn fitting(&self, own_inodes: Option<OwnInodes>) -> Option<OwnInodes> {
        own_inodes.filter(|own| own.user_namespace == self.has_user_attributes())
    }

    /// True if overlayfs keeps its attributes as `user.*`. In a user namespace `trusted.*` attributes cannot be set,
    /// and without attributes no directory of a layer can be removed. The process of a user's build step makes no
    /// namespace, because the build is in one already.
    fn has_user_attributes(&self) -> bool {
        self.in_user_namespace() || !self.request.facts.privileged
    }

    fn overlay(
        &mut self,
        options: OverlayOptions,
        attach_point: &CStr,
        set: MountAttrFlags,
    ) -> Result<(), PlanError> {
        let options = options.user_namespace(self.has_user_attributes());
        let mut parameters = vec![parameter("source", "tote")?];
        for (key, value) in options.parameters() {
            parameters.push(path_parameter(key, value)?);
        }
        self.new_root("overlay", parameters, attach_point, set)
    }

    fn new_root(
        &mut self,
        fs: &str,
        parameters: Vec<Parameter>,
        attach_point: &CStr,
        set: MountAttrFlags,
    ) -> Result<(), PlanError> {
        let source = Source::New {
            fs: cstring("file system", fs)?,
            parameters,
        };
        let target = Target::Root(attach_point.to_owned());
        self.mount(source, target, Attributes::set(set));
        Ok(())
    }

    /// Plans the place of the overlay's writes.
    fn upper(
        &mut self,
        options: OverlayOptions,
        upper: Upper,
        attach_point: &CStr,
    ) -> Result<OverlayOptions, PlanError> {
        let at = self.request.attach_point;
        let on_scratch = |options: OverlayOptions| options.upper(at.join(UPPER), at.join(WORK));
        Ok(match upper {
            Upper::Tmpfs { size } => {
                self.memory(size, attach_point)?;
                self.scratch()?;
                on_scratch(options)
            }
            Upper::Disk { fs, device } => {
                let parameters = vec![path_parameter("source", Some(device.into_os_string()))?];
                self.new_root(fs, parameters, attach_point, MountAttrFlags::MOUNT_ATTR_NODEV)?;
                self.scratch()?;
                on_scratch(options)
            }
            Upper::Dir { upper, work, owned } => {
                if owned {
                    self.push(Op::OwnEmpty(cstring_path("upper", &upper)?));
                }
                options.upper(upper, work)
            }
            Upper::None => options,
        })
    }

    fn memory(&mut self, size: Option<u64>, attach_point: &CStr) -> Result<(), PlanError> {
        let size = size.map_or_else(|| MEMORY_SHARE.to_owned(), |size| size.to_string());
        let parameters = vec![
            parameter("source", "tote")?,
            parameter("mode", "700")?,
            parameter("size", &size)?,
        ];
        self.new_root(
            "tmpfs",
            parameters,
            attach_point,
            MountAttrFlags::MOUNT_ATTR_NODEV,
        )
    }

    /// Makes the overlay's two directories, with the generated files of the container already in place: written here
    /// they cost no copy-up.
    fn scratch(&mut self) -> Result<(), PlanError> {
        for dir in [UPPER, WORK] {
            self.make_dir(dir, 0o755)?;
        }
        self.files(&format!("{UPPER}/"))?;
        self.own(UPPER)?;
        self.files_written = true;
        Ok(())
    }

    fn make_dir(&mut self, path: &str, mode: u32) -> Result<(), PlanError> {
        let path = cstring("path", path)?;
        self.push(Op::MakeDir { path, mode });
        Ok(())
    }

    /// Plans an overlay whose lowest layer is a file system in a file.
    fn image(
        &mut self,
        layers: FileLayer<'_>,
        upper: Upper,
        attach_point: &CStr,
        set: MountAttrFlags,
    ) -> Result<(), PlanError> {
        let read_only = set | MountAttrFlags::MOUNT_ATTR_RDONLY;
        let at = self.request.attach_point;
        let options = if let Upper::Dir { .. } | Upper::None = upper {
            let parameters = file_parameters(layers.file)?;
            self.new_root(layers.fs, parameters, attach_point, read_only)?;
            self.upper(layers.options(at.to_owned()), upper, attach_point)?
        } else {
            let options = layers.options(at.join(LOWER));
            let options = self.upper(options, upper, attach_point)?;
            self.image_below(layers.fs, layers.file, read_only)?;
            options
        };
        self.overlay(options, attach_point, set)
    }

    /// Plans an overlay in memory on the root of another process.
    pub(crate) fn root_of_process(
        &mut self,
        tree: OwnedFd,
        attach_point: &CStr,
        set: MountAttrFlags,
    ) -> Result<(), PlanError> {
        let options = OverlayOptions::new(vec![self.request.attach_point.join(LOWER)]);
        let options = self.upper(options, Upper::Tmpfs { size: None }, attach_point)?;
        let source = Source::Opened {
            tree,
            origin: cstring("path", "another container's /")?,
        };
        let target = Target::Inside {
            path: cstring("path", LOWER)?,
            make: Make::Dir,
            strict: true,
            over_proc: false,
        };
        let attributes = Attributes {
            propagation: Some((Propagation::Private, true)),
            ..Attributes::set(set | MountAttrFlags::MOUNT_ATTR_RDONLY)
        };
        self.mount(source, target, attributes);
        self.overlay(options, attach_point, set)
    }

    /// Plans the mount of a file system in a file, below the mount that the root covers.
    fn image_below(&mut self, fs: &str, file: &Path, read_only: MountAttrFlags) -> Result<(), PlanError> {
        let source = Source::New {
            fs: cstring("file system", fs)?,
            parameters: file_parameters(file)?,
        };
        let target = Target::Inside {
            path: cstring("path", LOWER)?,
            make: Make::Dir,
            strict: true,
            over_proc: false,
        };
        self.mount(source, target, Attributes::set(read_only));
        Ok(())
    }

    fn own_tree(&mut self, tree: OwnTree, attach_point: &CStr, set: MountAttrFlags) -> Result<(), PlanError> {
        if let Some(copy_of) = tree.copy_of {
            let link = |link: LinkedName| tote_sys::LinkedName {
                directory: link.directory,
                name: link.name,
                file: link.file,
            };
            let links = match copy_of.links {
                CopiedLinks::All => None,
                CopiedLinks::Only(links) => Some(links.into_iter().map(link).collect()),
            };
            self.push(Op::CopyTree(Box::new(TreeCopy {
                from: cstring_path("image", &copy_of.tree)?,
                fresh: cstring_path("copy", &tree.path.with_extension("fresh"))?,
                to: cstring_path("copy", &tree.path)?,
                how: CopyMode {
                    reflink: copy_of.reflink,
                    hard_links: true,
                },
                links,
            })));
        }
        self.bind_root(&tree.path, attach_point, set)
    }

    fn bind_root(&mut self, path: &Path, attach_point: &CStr, set: MountAttrFlags) -> Result<(), PlanError> {
        let source = Source::Clone(CloneSource {
            path: cstring_path("root", path)?,
            subpath: None,
            // A user namespace may not take a directory apart from the mounts below it.
            recursive: self.in_user_namespace(),
            idmap: false,
        });
        let attributes = Attributes {
            set_below: set,
            ..Attributes::NONE
        };
        self.mount(source, Target::Root(attach_point.to_owned()), attributes);
        Ok(())
    }

    fn split(&mut self, split: Split, attach_point: &CStr, set: MountAttrFlags) -> Result<(), PlanError> {
        match &split.copies {
            None => self.memory(split.size, attach_point)?,
            Some(dir) => self.bind_root(dir, attach_point, MountAttrFlags::MOUNT_ATTR_NODEV)?,
        }
        self.files(&format!("{FILES}/"))?;
        self.files_written = true;
        let read_only = set | MountAttrFlags::MOUNT_ATTR_RDONLY;
        let tree = cstring_path("image", &split.tree)?;
        self.read_only_image(
            split.stubs,
            (split.tree, split.own_inodes),
            attach_point,
            read_only,
        )?;
        let whole_is_read_only = self.request.spec.root.as_ref().is_some_and(|root| root.readonly);
        let set = if whole_is_read_only { read_only } else { set };
        if !whole_is_read_only {
            let how = CopyMode {
                reflink: split.reflink,
                // Links of a part of the image often have names outside of it.
                hard_links: false,
            };
            for path in &split.writable {
                self.beneath(
                    &Path::new(COPIES).join(path),
                    path,
                    Some((tree.clone(), how)),
                    set,
                )?;
            }
        }
        for (path, ..) in self.request.files {
            self.beneath(&Path::new(FILES).join(path), Path::new(path), None, set)?;
        }
        Ok(())
    }

    /// Mounts an overlay without a writable layer: the file system itself is read-only and not only the mount, so
    /// that the image stays unchanged whatever the container may mount and remount.
    fn read_only_image(
        &mut self,
        stubs: Vec<Stub>,
        (tree, own_inodes): (PathBuf, Option<OwnInodes>),
        attach_point: &CStr,
        read_only: MountAttrFlags,
    ) -> Result<(), PlanError> {
        let own_inodes = self.fitting(own_inodes);
        let tree = match &own_inodes {
            None => tree,
            Some(OwnInodes { tree, fs: None, .. }) => tree.clone(),
            Some(OwnInodes {
                tree, fs: Some(fs), ..
            }) => {
                self.image_below(fs, tree, read_only)?;
                self.request.attach_point.join(LOWER)
            }
        };
        let below = self.request.attach_point.join(STUBS);
        let lowers = if stubs.is_empty() && own_inodes.is_some() {
            vec![tree]
        } else if stubs.is_empty() {
            // The kernel demands a second layer. An empty one below the image changes nothing, not even its root
            // directory.
            self.make_dir(STUBS, 0o755)?;
            vec![tree, below]
        } else {
            vec![below, tree]
        };
        for stub in stubs {
            let path = cstring_path("mount point", &Path::new(STUBS).join(&stub.path))?;
            let mode = stub.mode;
            self.push(if stub.file {
                let content = Vec::new();
                Op::File { path, mode, content }
            } else {
                Op::MakeDir { path, mode }
            });
        }
        self.overlay(layers(lowers, own_inodes), attach_point, read_only)
    }

    fn beneath(
        &mut self,
        own: &Path,
        inside: &Path,
        copy: Option<(CString, CopyMode)>,
        set: MountAttrFlags,
    ) -> Result<(), PlanError> {
        let source = Source::Beneath {
            path: cstring_path("path", own)?,
            copy,
        };
        let target = Target::Inside {
            path: cstring_path("path", inside)?,
            make: Make::LikeSource,
            strict: false,
            over_proc: false,
        };
        self.mount(source, target, Attributes::set(set));
        Ok(())
    }
}

/// Layers of an overlay, of which the lowest is a file system in a file.
struct FileLayer<'a> {
    fs: &'static str,
    file: &'a Path,
    /// Layers above it, the topmost first.
    above: Vec<PathBuf>,
    /// The directory with the contents of its files, if these are elsewhere.
    contents: Option<PathBuf>,
    volatile: bool,
}

impl FileLayer<'_> {
    /// Returns the overlay with the file mounted at a place.
    fn options(&self, place: PathBuf) -> OverlayOptions {
        let mut lowers = self.above.clone();
        lowers.push(place);
        let options = OverlayOptions::new(lowers).volatile(self.volatile);
        match &self.contents {
            Some(contents) => options.contents(contents.clone()),
            None => options,
        }
    }
}

/// Returns the parameters of a mount of a file system in a file.
fn file_parameters(file: &Path) -> Result<Vec<Parameter>, PlanError> {
    Ok(vec![
        path_parameter("source", Some(file.as_os_str().to_owned()))?,
        flag("ro")?,
    ])
}

/// Returns the layers, the topmost first; the lowest may be the tree with inodes of its own.
fn layers(lowers: Vec<PathBuf>, own_inodes: Option<OwnInodes>) -> OverlayOptions {
    let options = OverlayOptions::new(lowers);
    match own_inodes {
        Some(own) => options.contents(own.contents),
        None => options,
    }
}

fn path_parameter(key: &'static str, value: Option<std::ffi::OsString>) -> Result<Parameter, PlanError> {
    let value = match value {
        None => Value::Flag,
        Some(value) => {
            let value = CString::new(value.into_vec()).map_err(|error| PlanError::Nul {
                what: key,
                text: String::from_utf8_lossy(&error.into_vec()).into_owned(),
            })?;
            if key == "source" || key.ends_with("dir") || key.ends_with("dir+") {
                Value::Path(value)
            } else {
                Value::Text(value)
            }
        }
    };
    Ok(Parameter {
        key: cstring("parameter", key)?,
        value,
    })
}
