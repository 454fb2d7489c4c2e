//! The names of containers in a network, on disk beside its leases.
//!
//! `names/NAME/ADDRESS` is a symbolic link that says as the lease of that address does whose it is. `called/ADDRESS` has all
//! names of the address in one text, the container's own first. A name counts as long as its link says the same as the lease:
//! so a name that a killed command has left behind does not count, even when another container gets the address.
//!
//! `linked/ADDRESS` has the names by which that container alone finds others, behind the text of its lease.

use crate::LeaseError;
use crate::lease::failed;
use rustix::io::Errno;
use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// The longest text of all names of an address: symbolic links hold no more.
const LONGEST: usize = 4000;

/// The names in one network.
#[derive(Clone, Debug)]
pub struct CalledNames {
    names: PathBuf,
    called: PathBuf,
    linked: PathBuf,
    leases: PathBuf,
}

impl CalledNames {
    /// The names in the directory of a network, in which `leases` are the leases.
    #[must_use]
    pub fn new(network: &Path) -> Self {
        Self {
            names: network.join("names"),
            called: network.join("called"),
            linked: network.join("linked"),
            leases: network.join("leases"),
        }
    }

    /// Whether this number of names finds room.
    #[must_use]
    pub fn fit(names: &[String]) -> bool {
        names.iter().map(|name| name.len() + 1).sum::<usize>() <= LONGEST
    }

    /// Gives an address these names, in lower case, in place of those that it had; the first one is its own, which
    /// [`CalledNames::name`] gives. Names that it keeps are there all the time. Nothing else changes names meanwhile.
    ///
    /// # Errors
    /// [`LeaseError::File`].
    pub fn put(&self, address: IpAddr, names: &[String], container: &str) -> Result<(), LeaseError> {
        make(&self.called)?;
        make(&self.names)?;
        let mut old = self.of(address)?;
        old.retain(|name| !names.contains(name));
        // First the list: what it names is removed one day, whether it was made or not.
        let all = self.called.join(address.to_string());
        link(&[names, &old].concat().join(" "), &all)?;
        for name in names {
            let dir = self.names.join(name);
            make(&dir)?;
            link(container, &dir.join(address.to_string()))?;
        }
        if !old.is_empty() {
            old.iter().try_for_each(|name| self.take(name, address))?;
            link(&names.join(" "), &all)?;
        }
        Ok(())
    }

    /// Has the container of an address find others by names of its own: pairs of such a name, in lower case, and one that the other
    /// container has in the network.
    ///
    /// # Errors
    /// [`LeaseError::File`].
    pub fn link(
        &self,
        address: IpAddr,
        pairs: &[(String, String)],
        container: &str,
    ) -> Result<(), LeaseError> {
        make(&self.linked)?;
        let mut text = container.to_owned();
        for (alias, name) in pairs {
            text += &format!(" {alias}:{name}");
        }
        link(&text, &self.linked.join(address.to_string()))
    }

    /// The name in the network that the container of an address means by that name of its own.
    #[must_use]
    pub fn linked(&self, address: IpAddr, alias: &str) -> Option<String> {
        let text = read(&self.linked.join(address.to_string())).ok().flatten()?;
        let mut words = text.split(' ');
        let holder = read(&self.leases.join(address.to_string())).ok().flatten();
        if words.next().map(str::to_owned) != holder {
            return None;
        }
        let mut pairs = words.filter_map(|pair| pair.split_once(':'));
        let (_, name) = pairs.find(|(own, _)| *own == alias)?;
        Some(name.to_owned())
    }

    /// Takes all its names from an address, and those that it has for others.
    ///
    /// # Errors
    /// [`LeaseError::File`].
    pub fn remove(&self, address: IpAddr) -> Result<(), LeaseError> {
        let links = self.linked.join(address.to_string());
        gone(tote_sys::remove_file(&links), &links)?;
        let all = self.called.join(address.to_string());
        for name in self.of(address)? {
            self.take(&name, address)?;
        }
        gone(tote_sys::remove_file(&all), &all)
    }

    fn take(&self, name: &str, address: IpAddr) -> Result<(), LeaseError> {
        let dir = self.names.join(name);
        gone(tote_sys::remove_file(&dir.join(address.to_string())), &dir)?;
        match tote_sys::remove_dir(&dir) {
            // Another container has the name, too.
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => Ok(()),
            removed => gone(removed, &dir),
        }
    }

    /// All names of an address, its own first.
    ///
    /// # Errors
    /// [`LeaseError::File`].
    pub fn of(&self, address: IpAddr) -> Result<Vec<String>, LeaseError> {
        let names = read(&self.called.join(address.to_string()))?.unwrap_or_default();
        Ok(names
            .split(' ')
            .map(str::to_owned)
            .filter(|name| !name.is_empty())
            .collect())
    }

    /// The addresses that have this name now, up to a limit. The name is a file's, without `/`.
    #[must_use]
    pub fn addresses(&self, name: &str, most: usize) -> Vec<IpAddr> {
        let dir = self.names.join(name);
        // absence: the resolver reads them again with the next question
        let entries = std::fs::read_dir(&dir).into_iter().flatten().flatten();
        let addresses = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<IpAddr>().ok());
        addresses
            .filter(|address| self.is_held(address, &dir))
            .take(most)
            .collect()
    }

    /// The own name of an address.
    #[must_use]
    pub fn name(&self, address: IpAddr) -> Option<String> {
        let name = self.of(address).ok()?.into_iter().next()?;
        self.is_held(&address, &self.names.join(&name)).then_some(name)
    }

    /// Whether the link in this directory says the same as the lease.
    fn is_held(&self, address: &IpAddr, dir: &Path) -> bool {
        let file = address.to_string();
        let holder = read(&self.leases.join(&file)).ok().flatten();
        holder.is_some() && read(&dir.join(&file)).ok().flatten() == holder
    }
}

/// Makes a directory that only its owner may open; one that is there already is used.
fn make(path: &Path) -> Result<(), LeaseError> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(failed("make", path)(error)),
        _ => Ok(()),
    }
}

/// Makes a link, at once in place of one that is there.
fn link(text: &str, path: &Path) -> Result<(), LeaseError> {
    let made = match rustix::fs::symlink(text, path) {
        Err(Errno::EXIST) => {
            let mut name = std::ffi::OsString::from(".");
            name.push(path.file_name().unwrap_or_default());
            let new = path.with_file_name(name);
            // One that a killed command has left.
            gone(std::fs::remove_file(&new), &new)?;
            rustix::fs::symlink(text, &new).and_then(|()| rustix::fs::rename(&new, path))
        }
        made => made,
    };
    made.map_err(|errno| failed("make", path)(errno.into()))
}

fn read(path: &Path) -> Result<Option<String>, LeaseError> {
    match std::fs::read_link(path) {
        Ok(text) => Ok(Some(text.to_string_lossy().into_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("read", path)(error)),
    }
}

fn gone(removed: std::io::Result<()>, path: &Path) -> Result<(), LeaseError> {
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(failed("remove", path)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Leases;
    use std::net::{IpAddr, Ipv4Addr};

    fn named(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn names_are_of_those_who_have_the_lease() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("leases")).unwrap();
        let (names, leases) = (
            CalledNames::new(dir.path()),
            Leases::new(dir.path().join("leases")),
        );
        let (one, two) = (Ipv4Addr::new(10, 0, 0, 2), Ipv4Addr::new(10, 0, 0, 3));
        let (first, second) = (IpAddr::V4(one), IpAddr::V4(two));
        let range = ("10.0.0.0/29".parse().unwrap(), Ipv4Addr::new(10, 0, 0, 1));
        leases.take_this(one, range, "a").unwrap();
        leases.take_this(two, range, "b").unwrap();
        names.put(first, &named(&["one", "www"]), "a").unwrap();
        names.put(second, &named(&["two", "www"]), "b").unwrap();
        assert_eq!(names.addresses("one", 9), [first]);
        let mut both = names.addresses("www", 9);
        both.sort();
        assert_eq!(both, [first, second]);
        assert_eq!(names.addresses("www", 1).len(), 1);
        assert_eq!(
            (names.name(second).as_deref(), names.addresses("who", 9)),
            (Some("two"), vec![])
        );

        names.put(first, &named(&["uno", "www"]), "a").unwrap();
        assert_eq!(
            (names.addresses("one", 9), names.addresses("uno", 9)),
            (vec![], vec![first])
        );
        names
            .link(first, &[("db".to_owned(), "two".to_owned())], "a")
            .unwrap();
        assert_eq!(names.linked(first, "db").as_deref(), Some("two"));
        assert_eq!(
            (names.linked(first, "two"), names.linked(second, "db")),
            (None, None)
        );
        // A killed command has left the names, and another container gets the address.
        leases.release("b").unwrap();
        leases.take_this(two, range, "c").unwrap();
        assert_eq!((names.addresses("two", 9), names.name(second)), (vec![], None));
        names.put(second, &named(&["three"]), "c").unwrap();
        assert_eq!(names.addresses("three", 9), [second]);
        leases.release("a").unwrap();
        leases.take_this(one, range, "d").unwrap();
        assert_eq!(names.linked(first, "db"), None);
        for address in [first, second] {
            names.remove(address).unwrap();
        }
        for left in ["names", "called", "linked"] {
            assert_eq!(
                std::fs::read_dir(dir.path().join(left)).unwrap().count(),
                0,
                "{left}"
            );
        }
    }
}
