//! Addresses of git repositories, as contexts and as sources of `ADD`.

use std::fmt;

/// Schemes of addresses that git fetches; BuildKit's list.
const SCHEMES: [&str; 4] = ["http", "https", "ssh", "git"];

/// A state of a repository, and the part of its files to use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repository {
    /// The address for git, without the parts that select a state or a directory.
    pub remote: String,
    /// A branch, a tag, a full reference or a commit; empty for the default branch.
    pub reference: String,
    /// A directory, without slashes around it; empty for the whole repository.
    pub subdir: String,
    /// The beginning of the expected commit's name, in lower-case hexadecimal digits.
    pub checksum: Option<String>,
    /// True if `.git` is kept; `None` if the address does not say.
    pub keep_git_dir: Option<bool>,
    /// True if submodules are fetched as well.
    pub submodules: bool,
    /// True if files get the time of the commit, instead of that of the checkout.
    pub commit_times: bool,
    /// True if the checksum names the commit, so that the remote need not be asked for the reference's.
    pub by_commit: bool,
}

/// Why an address of a repository is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RepositoryError {
    /// A part of the address could be taken by git for something else.
    #[error("cannot use the repository {address}: the {what} {value:?} is invalid")]
    Part {
        /// The address, without credentials.
        address: String,
        /// Name of the part.
        what: &'static str,
        /// The part.
        value: String,
    },
    /// A parameter after `?` is invalid; the names are BuildKit's.
    #[error(
        "cannot use the repository {address}: {field:?} should be one of ref, tag, branch, subdir, checksum, commit, \
         keep-git-dir, submodules, mtime or fetch-by-commit, once and with a value that it can have"
    )]
    Parameter {
        /// The address, without credentials.
        address: String,
        /// The parameter.
        field: String,
    },
    /// Two parts contradict each other.
    #[error("cannot use the repository {address}: it names two {what}: {one:?} and {other:?}")]
    Conflict {
        /// The address, without credentials.
        address: String,
        /// Name of the kind of part.
        what: &'static str,
        /// The first value.
        one: String,
        /// The second value.
        other: String,
    },
    /// The checksum is not the name of a commit.
    #[error("invalid checksum {0} for a repository: it should be a commit's name in hexadecimal digits")]
    Checksum(String),
}

impl Repository {
    /// Parses an address in docker's syntax: `https://HOST/PATH.git`, `git://…`, `ssh://…` or `USER@HOST:PATH`,
    /// then `?NAME=VALUE&…`, then `#REFERENCE:DIRECTORY`. `None` if the text is not the address of a repository.
    ///
    /// # Errors
    /// [`RepositoryError`] if it is one, but cannot be used.
    pub fn parse(text: &str) -> Result<Option<Self>, RepositoryError> {
        let (rest, fragment) = cut(text, '#');
        let (remote, query) = cut(rest, '?');
        if !is_address(remote) {
            return Ok(None);
        }
        let mut repository = Self {
            remote: remote.to_owned(),
            submodules: true,
            ..Self::default()
        };
        let (reference, subdir) = cut(fragment, ':');
        repository.reference = repository.decoded("reference", reference)?;
        repository.subdir = repository.decoded("directory", subdir)?;
        let (mut tag, mut branch) = (None, None);
        let mut seen = Vec::new();
        for field in query.split('&').filter(|field| !field.is_empty()) {
            let (name, value) = cut(field, '=');
            if seen.contains(&name) {
                return Err(repository.parameter(field));
            }
            seen.push(name);
            match (name, repository.decoded("parameter", value)?) {
                ("tag", value) if !value.is_empty() => tag = Some(value),
                ("branch", value) if !value.is_empty() => branch = Some(value),
                (_, value) => repository.set(field, name, value)?,
            }
        }
        for (given, start) in [(tag, "refs/tags/"), (branch, "refs/heads/")] {
            if let Some(name) = given {
                let name = name.strip_prefix(start).unwrap_or(&name);
                repository.name_reference(format!("{start}{name}"))?;
            }
        }
        repository.subdir = flat(&repository.subdir);
        repository.checked()?;
        Ok(Some(repository))
    }

    /// Parses an address as [`Self::parse`] does; as the context of a build, `github.com/USER/REPOSITORY` is one as
    /// well.
    ///
    /// # Errors
    /// Those of [`Self::parse`].
    pub fn parse_context(text: &str) -> Result<Option<Self>, RepositoryError> {
        if !text.starts_with("github.com/") {
            return Self::parse(text);
        }
        // The ending `.git` may be missing only here.
        let start = text.find(['#', '?']).unwrap_or(text.len());
        let (address, rest) = text.split_at(start);
        let ending = if address.ends_with(".git") { "" } else { ".git" };
        Self::parse(&format!("https://{address}{ending}{rest}"))
    }

    /// Adds the `--checksum` of an `ADD`.
    ///
    /// # Errors
    /// [`RepositoryError::Checksum`], or [`RepositoryError::Conflict`] with the checksum of the address.
    pub fn with_checksum(mut self, checksum: &str) -> Result<Self, RepositoryError> {
        if let Some(own) = self.checksum.as_ref().filter(|own| *own != checksum) {
            return Err(self.conflict("checksums", own, checksum));
        }
        self.checksum = Some(checksum.to_owned());
        self.checked()?;
        Ok(self)
    }

    /// Returns the commit, if it is known without asking the remote.
    #[must_use]
    pub fn commit(&self) -> Option<&str> {
        let known = match (&self.checksum, self.by_commit) {
            (Some(checksum), true) => checksum,
            _ => &self.reference,
        };
        is_commit(known).then_some(&**known)
    }

    /// True if `.git` is kept; it never is for a directory of a repository.
    #[must_use]
    pub fn keeps_git_dir(&self) -> bool {
        self.keep_git_dir == Some(true) && self.subdir.is_empty()
    }

    fn set(&mut self, field: &str, name: &str, value: String) -> Result<(), RepositoryError> {
        let wrong = self.parameter(field);
        let flag = |value: &str| match value {
            "" | "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
            _ => None,
        };
        match (name, &*value) {
            ("keep-git-dir", value) => self.keep_git_dir = Some(flag(value).ok_or(wrong)?),
            ("submodules", value) => self.submodules = flag(value).ok_or(wrong)?,
            ("fetch-by-commit", value) => self.by_commit = flag(value).ok_or(wrong)?,
            (_, "") => return Err(wrong),
            ("ref", _) => self.name_reference(value)?,
            ("subdir", _) if self.subdir.is_empty() || flat(&self.subdir) == flat(&value) => {
                self.subdir = value;
            }
            ("subdir", other) => return Err(self.conflict("directories", &self.subdir, other)),
            ("checksum" | "commit", other) if self.checksum.is_some() => {
                let own = self.checksum.clone().unwrap_or_default();
                return Err(self.conflict("checksums", &own, other));
            }
            ("checksum" | "commit", _) => self.checksum = Some(value),
            ("mtime", "commit") => self.commit_times = true,
            ("mtime", "checkout") => self.commit_times = false,
            _ => return Err(wrong),
        }
        Ok(())
    }

    fn name_reference(&mut self, name: String) -> Result<(), RepositoryError> {
        if !self.reference.is_empty() && self.reference != name {
            return Err(self.conflict("references", &self.reference, &name));
        }
        self.reference = name;
        Ok(())
    }

    fn decoded(&self, what: &'static str, text: &str) -> Result<String, RepositoryError> {
        unescaped(text).ok_or_else(|| self.part(what, text))
    }

    /// Refuses parts that git could take for an option, a pattern or several references.
    fn checked(&mut self) -> Result<(), RepositoryError> {
        let plain = |text: &str| !text.contains(|letter: char| letter.is_control() || letter == ' ');
        if !plain(&self.remote) || self.remote.starts_with('-') {
            return Err(self.part("address", &redacted(&self.remote)));
        }
        let reference = &self.reference;
        if reference.starts_with('-')
            || !plain(reference)
            || reference.contains(|letter: char| "~^:?*[\\".contains(letter))
            || reference.contains("..")
        {
            return Err(self.part("reference", reference));
        }
        if self.subdir.contains('\0') {
            return Err(self.part("directory", &self.subdir));
        }
        if let Some(checksum) = &mut self.checksum {
            checksum.make_ascii_lowercase();
            let is_hex = checksum.bytes().all(|byte| byte.is_ascii_hexdigit());
            if !is_hex || checksum.is_empty() || self.by_commit && !is_commit(checksum) {
                return Err(RepositoryError::Checksum(checksum.clone()));
            }
        } else if self.by_commit && !is_commit(&self.reference) {
            return Err(self.parameter("fetch-by-commit"));
        }
        Ok(())
    }

    fn part(&self, what: &'static str, value: &str) -> RepositoryError {
        RepositoryError::Part {
            address: redacted(&self.remote),
            what,
            value: value.to_owned(),
        }
    }

    fn parameter(&self, field: &str) -> RepositoryError {
        RepositoryError::Parameter {
            address: redacted(&self.remote),
            field: field.to_owned(),
        }
    }

    fn conflict(&self, what: &'static str, one: &str, other: &str) -> RepositoryError {
        RepositoryError::Conflict {
            address: redacted(&self.remote),
            what,
            one: one.to_owned(),
            other: other.to_owned(),
        }
    }
}

/// Shows the address without credentials.
impl fmt::Display for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&redacted(&self.remote))?;
        match (&*self.reference, &*self.subdir) {
            ("", "") => Ok(()),
            (reference, "") => write!(f, "#{reference}"),
            (reference, subdir) => write!(f, "#{reference}:{subdir}"),
        }
    }
}

/// True if the text is the full name of a commit, SHA-1 or SHA-256.
#[must_use]
pub fn is_commit(text: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    [40, 64].contains(&text.len()) && text.bytes().all(is_digit)
}

/// Removes user and password from an address; servers over HTTP use them as credentials.
#[must_use]
pub fn redacted(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else {
        return address.to_owned();
    };
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    match host.rsplit_once('@') {
        Some((user, host)) if scheme.starts_with("http") || user.contains(':') => {
            format!("{scheme}://xxxxx:xxxxx@{host}{path}")
        }
        _ => address.to_owned(),
    }
}

/// True if the address is one for git: by its scheme, by the ending of a path over HTTP, or in the form of scp(1).
fn is_address(remote: &str) -> bool {
    if let Some((scheme, rest)) = remote.split_once("://") {
        let scheme = scheme.to_ascii_lowercase();
        let is_web = scheme == "http" || scheme == "https";
        let path = rest.find('/').map_or("", |slash| &rest[slash..]);
        return SCHEMES.contains(&&*scheme) && (!is_web || path.ends_with(".git"));
    }
    let fits = |text: &str, also: &str| {
        !text.is_empty()
            && text
                .chars()
                .all(|letter| letter.is_ascii_alphanumeric() || also.contains(letter))
    };
    let parts = remote.split_once('@').and_then(|(user, rest)| {
        let (host, _) = rest.split_once(':')?;
        Some((user, host))
    });
    parts.is_some_and(|(user, host)| fits(user, "-_") && fits(host, "-."))
}

/// Splits the text at the first such letter; without the letter, the second part is empty.
fn cut(text: &str, letter: char) -> (&str, &str) {
    text.split_once(letter).unwrap_or((text, ""))
}

/// Removes empty parts and `.` from a path, and resolves `..`, which ends at the path's start.
fn flat(path: &str) -> String {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Decodes percent-encoding: `%41` is `A`.
fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, more @ ..] = rest {
        rest = more;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, behind) = more.split_at_checked(2)?;
        let digits = std::str::from_utf8(digits)
            .ok()
            .filter(|text| !text.starts_with('+'))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = behind;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Repository {
        Repository::parse_context(text).unwrap().unwrap()
    }

    #[test]
    fn addresses() {
        for (text, remote, reference, subdir) in [
            ("https://x.example/a.git", "https://x.example/a.git", "", ""),
            (
                "https://x.example/a.git#main:/d//e/.",
                "https://x.example/a.git",
                "main",
                "d/e",
            ),
            ("http://x.example:1/a.git#:d", "http://x.example:1/a.git", "", "d"),
            ("git://x.example/a", "git://x.example/a", "", ""),
            (
                "ssh://git@x.example:22/a#v1",
                "ssh://git@x.example:22/a",
                "v1",
                "",
            ),
            ("git@x.example:a/b.git#v1", "git@x.example:a/b.git", "v1", ""),
            ("git@x.example:a#m:../../d/../e", "git@x.example:a", "m", "e"),
            ("github.com/a/b", "https://github.com/a/b.git", "", ""),
            ("github.com/a/b.git#m", "https://github.com/a/b.git", "m", ""),
            (
                "https://x.example/a.git?tag=v1&subdir=d",
                "https://x.example/a.git",
                "refs/tags/v1",
                "d",
            ),
            (
                "https://x.example/a.git?branch=m#:d",
                "https://x.example/a.git",
                "refs/heads/m",
                "d",
            ),
            (
                "https://x.example/a.git?ref=m%2fn",
                "https://x.example/a.git",
                "m/n",
                "",
            ),
        ] {
            let found = parsed(text);
            assert_eq!(
                (&*found.remote, &*found.reference, &*found.subdir),
                (remote, reference, subdir),
                "{text}"
            );
            assert!(found.submodules, "{text}");
        }
    }

    #[test]
    fn what_is_no_address_of_a_repository() {
        for text in [
            ".",
            "dir.git",
            "./git@x.example:a",
            "https://x.example/a.tar.gz",
            "https://x.example/a.github",
            "https://x.git",
            "file:///a.git",
            "ext::sh -c id",
            "user@host",
            "a b@host:c",
        ] {
            assert_eq!(Repository::parse(text), Ok(None), "{text}");
        }
    }

    #[test]
    fn parameters() {
        let commit = "0123456789abcdef0123456789abcdef01234567";
        let found = parsed(&format!(
            "https://x.example/a.git?checksum={commit}&keep-git-dir&submodules=false&mtime=commit&fetch-by-commit=1"
        ));
        assert_eq!(found.commit(), Some(commit));
        assert!(found.keeps_git_dir() && !found.submodules && found.commit_times);
        assert_eq!(
            parsed(&format!("https://x.example/a.git#{commit}")).commit(),
            Some(commit)
        );
        assert_eq!(parsed("https://x.example/a.git#0123").commit(), None);
        let given = parsed("git://x/a").with_checksum("ABC").unwrap();
        assert_eq!(given.checksum.as_deref(), Some("abc"));
        assert!(!parsed("git://x/a?keep-git-dir=1#m:d").keeps_git_dir());
    }

    #[test]
    fn what_is_refused() {
        for text in [
            "https://x.example/a.git#-x",
            "https://x.example/a.git#a b",
            "https://x.example/a.git#a%0ab",
            "https://x.example/a.git#a..b",
            "https://x.example/a.git#a:%00",
            "https://x.example/a.git#a%zz",
            "https://x.example/a b.git",
            "https://x.example/a.git?x=y",
            "https://x.example/a.git?ref=",
            "https://x.example/a.git?ref=a&ref=a",
            "https://x.example/a.git?ref=a#b",
            "https://x.example/a.git?tag=a&branch=a",
            "https://x.example/a.git?subdir=a#:b",
            "https://x.example/a.git?keep-git-dir=perhaps",
            "https://x.example/a.git?mtime=now",
            "https://x.example/a.git?checksum=xyz",
            "https://x.example/a.git?fetch-by-commit",
            "https://x.example/a.git?fetch-by-commit&checksum=abc",
            "-oProxyCommand=x@y:z",
            "-x@y:z",
        ] {
            // The first of the last two texts is not an address at all.
            let found = Repository::parse(text);
            assert!(
                found.is_err() || text.starts_with("-o") && found == Ok(None),
                "{text}: {found:?}"
            );
        }
        assert!(parsed("git://x/a?checksum=ab").with_checksum("cd").is_err());
    }

    #[test]
    fn credentials_are_not_shown() {
        for (address, shown) in [
            (
                "https://u:p@x.example/a.git",
                "https://xxxxx:xxxxx@x.example/a.git",
            ),
            (
                "https://token@x.example/a.git",
                "https://xxxxx:xxxxx@x.example/a.git",
            ),
            ("ssh://git@x.example/a", "ssh://git@x.example/a"),
            ("git@x.example:a", "git@x.example:a"),
        ] {
            assert_eq!(parsed(address).to_string(), shown);
        }
        let error = Repository::parse("https://u:p@x.example/a.git#-x").unwrap_err();
        assert!(!error.to_string().contains("u:p"), "{error}");
    }
}
