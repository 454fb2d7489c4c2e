//! Installed packages of a root file system, from the records of package managers: parsers, which read no file.

use std::collections::{BTreeMap, HashMap};

/// Installed package. Texts are in the package's own words; those that it lacks are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Package {
    /// Package manager.
    pub kind: PackageKind,
    /// Name.
    pub name: String,
    /// Version.
    pub version: String,
    /// Architecture; empty for package managers without architectures.
    pub architecture: String,
    /// License in the package's own words, which may not be an expression of SPDX.
    pub license: String,
    /// Maintainer or author of the package.
    pub supplier: String,
    /// Address of the project.
    pub homepage: String,
    /// Name of the source package, if it differs.
    pub origin: String,
    /// Dependencies: of each list one name is enough. Versions are left out.
    pub depends: Vec<Vec<String>>,
    /// Other names that it has for those that depend on it.
    pub provides: Vec<String>,
    /// True if all packages may use it without depending on it.
    pub is_essential: bool,
}

/// Package manager of a package.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum PackageKind {
    /// dpkg.
    #[default]
    Debian,
    /// apk.
    Alpine,
    /// pip and its like.
    Python,
    /// npm and its like.
    Node,
}

/// Parses paragraphs of lines `Name: value`; a line that begins with a blank continues the value before it.
fn paragraphs(text: &str) -> impl Iterator<Item = BTreeMap<&str, &str>> {
    let mut lines = text.lines().peekable();
    std::iter::from_fn(move || {
        while lines.next_if(|line| line.trim().is_empty()).is_some() {}
        lines.peek()?;
        let mut fields = BTreeMap::new();
        while let Some(line) = lines.next_if(|line| !line.trim().is_empty()) {
            if line.starts_with([' ', '\t']) {
                continue;
            }
            if let Some((name, value)) = line.split_once(':') {
                fields.entry(name).or_insert(value.trim());
            }
        }
        Some(fields)
    })
}

/// Parses `var/lib/dpkg/status`, or a file of `status.d`, which has no line with the state of the package.
#[must_use]
pub fn dpkg(text: &str) -> Vec<Package> {
    let package = |fields: BTreeMap<&str, &str>| {
        let field = |name: &str| fields.get(name).copied().unwrap_or_default().to_owned();
        let is_installed = fields
            .get("Status")
            .is_none_or(|status| status.ends_with(" installed"));
        let source = field("Source");
        let found = Package {
            kind: PackageKind::Debian,
            name: field("Package"),
            version: field("Version"),
            architecture: field("Architecture"),
            license: String::new(),
            supplier: field("Maintainer"),
            homepage: field("Homepage"),
            // The source may have a version of its own, in parentheses.
            origin: source.split(' ').next().unwrap_or_default().to_owned(),
            depends: [field("Pre-Depends"), field("Depends")]
                .iter()
                .flat_map(|list| list.split(','))
                .map(|group| group.split('|').filter_map(debian_name).collect::<Vec<_>>())
                .filter(|group| !group.is_empty())
                .collect(),
            provides: field("Provides").split(',').filter_map(debian_name).collect(),
            is_essential: field("Essential") == "yes",
        };
        Some(found).filter(|found| is_installed && !found.name.is_empty() && !found.version.is_empty())
    };
    paragraphs(text).filter_map(package).collect()
}

/// Parses `lib/apk/db/installed`.
#[must_use]
pub fn apk(text: &str) -> Vec<Package> {
    let package = |fields: BTreeMap<&str, &str>| {
        let field = |name: &str| fields.get(name).copied().unwrap_or_default().to_owned();
        let found = Package {
            kind: PackageKind::Alpine,
            name: field("P"),
            version: field("V"),
            architecture: field("A"),
            license: field("L"),
            supplier: field("m"),
            homepage: field("U"),
            origin: field("o"),
            depends: field("D")
                .split_whitespace()
                .filter(|name| !name.starts_with('!'))
                .map(|name| vec![alpine_name(name)])
                .collect(),
            provides: field("p").split_whitespace().map(alpine_name).collect(),
            is_essential: false,
        };
        Some(found).filter(|found| !found.name.is_empty() && !found.version.is_empty())
    };
    paragraphs(text).filter_map(package).collect()
}

/// Returns the name of `NAME:ARCHITECTURE (VERSION) [ARCHITECTURES]`.
fn debian_name(text: &str) -> Option<String> {
    let name = text.trim().split([' ', '(', '[', ':']).next().unwrap_or_default();
    (!name.is_empty()).then(|| name.to_owned())
}

/// Returns the name of `NAME>=VERSION`, `NAME~VERSION` or `NAME@REPOSITORY`.
fn alpine_name(text: &str) -> String {
    let end = text.find(['<', '>', '=', '~', '@']).unwrap_or(text.len());
    text[..end].to_owned()
}

/// Packages by their names, and by those that they provide.
struct Named<'a> {
    packages: &'a [Package],
    names: HashMap<&'a str, Vec<usize>>,
    provided: HashMap<&'a str, Vec<usize>>,
}

impl<'a> Named<'a> {
    fn new(packages: &'a [Package]) -> Self {
        let mut names: HashMap<&str, Vec<usize>> = HashMap::new();
        let mut provided: HashMap<&str, Vec<usize>> = HashMap::new();
        for (at, package) in packages.iter().enumerate() {
            names.entry(&package.name).or_default().push(at);
            for name in &package.provides {
                provided.entry(name).or_default().push(at);
            }
        }
        Self {
            packages,
            names,
            provided,
        }
    }

    /// The package that one of these names stands for: the first one that is there, and a package of that name before one
    /// that provides it. Of several architectures, the package's own comes first.
    fn of(&self, own: &Package, group: &[String]) -> Option<usize> {
        group.iter().find_map(|name| {
            let name = name.as_str();
            let found = self.names.get(name).or_else(|| self.provided.get(name))?;
            let same = found
                .iter()
                .find(|&&at| self.packages[at].architecture == own.architecture);
            same.or(found.first()).copied()
        })
    }
}

/// Returns the packages that each one depends on, as far as they are among these.
#[must_use]
pub fn dependencies(packages: &[Package]) -> Vec<Vec<usize>> {
    let named = Named::new(packages);
    let of = |own: &Package| {
        let groups = own.depends.iter();
        groups.filter_map(|group| named.of(own, group)).collect()
    };
    packages.iter().map(of).collect()
}

/// Returns the dependencies that none of these packages meets: the name of the package, and the names of which one is enough.
#[must_use]
pub fn unmet(packages: &[Package]) -> Vec<(String, String)> {
    let named = Named::new(packages);
    let of = |own: &Package| {
        let groups = own.depends.iter().filter(|group| named.of(own, group).is_none());
        let told = groups.map(|group| (own.name.clone(), group.join(" or ")));
        told.collect::<Vec<_>>()
    };
    packages.iter().flat_map(of).collect()
}

/// Parses the paths of a file of sums: lines `SUM  PATH`.
#[must_use]
pub fn md5sums(text: &str) -> Vec<Vec<u8>> {
    let paths = text.lines().filter_map(|line| line.split_once("  "));
    paths
        .map(|(_, path)| path.as_bytes().to_vec())
        .filter(|path| !path.is_empty())
        .collect()
}

/// Parses the paths that each package of `lib/apk/db/installed` has, in the order of [`apk`].
#[must_use]
pub fn apk_files(text: &str) -> Vec<Vec<Vec<u8>>> {
    let mut lists = Vec::new();
    for paragraph in text.split("\n\n") {
        let (mut dir, mut paths, mut fields) = ("", Vec::new(), (false, false));
        for line in paragraph.lines() {
            match line.split_once(':') {
                Some(("P", name)) => fields.0 = !name.trim().is_empty(),
                Some(("V", version)) => fields.1 = !version.trim().is_empty(),
                Some(("F", path)) => {
                    dir = path;
                    paths.push(path.as_bytes().to_vec());
                }
                Some(("R", name)) => paths.push([dir, "/", name].concat().into_bytes()),
                _ => {}
            }
        }
        if fields == (true, true) {
            lists.push(paths);
        }
    }
    lists
}

/// Parses `METADATA` of a `.dist-info`, or `PKG-INFO` of an `.egg-info`.
#[must_use]
pub fn python(text: &str) -> Option<Package> {
    // The first paragraph has the fields; the rest is the description.
    let fields = paragraphs(text).next()?;
    let field = |name: &str| fields.get(name).copied().unwrap_or_default().to_owned();
    let license = match field("License-Expression") {
        none if none.is_empty() => field("License"),
        expression => expression,
    };
    let found = Package {
        kind: PackageKind::Python,
        name: field("Name"),
        version: field("Version"),
        license,
        supplier: field("Author"),
        homepage: field("Home-page"),
        ..Package::default()
    };
    Some(found).filter(|found| !found.name.is_empty() && !found.version.is_empty())
}

/// Parses `package.json` of a directory in `node_modules`.
#[must_use]
pub fn node(text: &str) -> Option<Package> {
    let value: serde_json::Value = serde_json::from_str(text).ok()?;
    let field = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let author = match &value["author"] {
        serde_json::Value::String(author) => author.clone(),
        author => author["name"].as_str().unwrap_or_default().to_owned(),
    };
    let found = Package {
        kind: PackageKind::Node,
        name: field("name"),
        version: field("version"),
        license: field("license"),
        supplier: author,
        homepage: field("homepage"),
        ..Package::default()
    };
    Some(found).filter(|found| !found.name.is_empty() && !found.version.is_empty())
}

/// Parses the distribution's id and version from `etc/os-release`.
#[must_use]
pub fn distribution(text: &str) -> (String, String) {
    let value = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once('='));
        let found = lines.find(|(key, _)| *key == name).map(|(_, value)| value);
        found.unwrap_or_default().trim_matches(['"', '\'']).to_owned()
    };
    (value("ID"), value("VERSION_ID"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_debian() {
        let text = "Package: bash\nStatus: install ok installed\nMaintainer: Some One <one@x.example>\n\
            Architecture: amd64\nVersion: 5.2-1\nDescription: shell\n Package: no\n .\n more\n\n\
            Package: gone\nStatus: deinstall ok config-files\nVersion: 1\n\n\n\
            Package: libc6\nStatus: install ok installed\nSource: glibc (2.36-9)\nVersion: 2.36-9\nArchitecture: amd64";
        let found = dpkg(text);
        let names: Vec<_> = found
            .iter()
            .map(|package| (&*package.name, &*package.version))
            .collect();
        assert_eq!(names, [("bash", "5.2-1"), ("libc6", "2.36-9")]);
        assert_eq!(found[0].supplier, "Some One <one@x.example>");
        assert_eq!(found[1].origin, "glibc");
        assert_eq!(
            dpkg("Package: base-files\nVersion: 12\n").len(),
            1,
            "one of status.d"
        );
    }

    #[test]
    fn of_alpine() {
        let text = "C:Q1abc=\nP:musl\nV:1.2.5-r8\nA:x86_64\nL:MIT\no:musl\nU:https://musl.libc.org/\n\
            F:lib\nR:ld.so\na:0:0:755\n\nP:zlib\nV:1.3\nL:Zlib\n\n";
        let found = apk(text);
        assert_eq!(found.len(), 2);
        let musl = &found[0];
        assert_eq!(
            (&*musl.name, &*musl.license, &*musl.architecture),
            ("musl", "MIT", "x86_64")
        );
        assert_eq!(musl.homepage, "https://musl.libc.org/");
    }

    #[test]
    fn of_dependencies() {
        let text = "Package: app\nVersion: 1\nArchitecture: amd64\nPre-Depends: libc6 (>= 2)\nDepends: gone | awk, perl:any, none (= 1)\n\n\
            Package: libc6\nVersion: 2\nArchitecture: i386\n\nPackage: libc6\nVersion: 2\nArchitecture: amd64\n\n\
            Package: mawk\nVersion: 1\nProvides: awk (= 1), x\n\nPackage: perl\nVersion: 5\n";
        assert_eq!(dependencies(&dpkg(text))[0], [2, 3, 4]);
        let told = unmet(&dpkg(text));
        assert_eq!(told, [("app".to_owned(), "none".to_owned())]);
        let text = "P:app\nV:1\nD:so:libz.so.1 !bad musl>=1\n\nP:zlib\nV:1\np:so:libz.so.1=1.3 x\nF:lib\nR:libz.so.1\n\nP:musl\nV:1\n";
        assert_eq!(dependencies(&apk(text)), [vec![1, 2], vec![], vec![]]);
        assert_eq!(
            apk_files(text),
            [vec![], vec![b"lib".to_vec(), b"lib/libz.so.1".to_vec()], vec![]]
        );
    }

    #[test]
    fn of_languages() {
        let text =
            "Metadata-Version: 2.1\nName: requests\nVersion: 2.31.0\nLicense: Apache 2.0\n\nName: no\n";
        let found = python(text).unwrap();
        assert_eq!(
            (&*found.name, &*found.version, &*found.license),
            ("requests", "2.31.0", "Apache 2.0")
        );
        let found =
            node(r#"{"name":"@a/b","version":"1.0.0","license":"MIT","author":{"name":"One"}}"#).unwrap();
        assert_eq!(
            (&*found.name, &*found.version, &*found.supplier),
            ("@a/b", "1.0.0", "One")
        );
        // The file belongs to a directory of modules of a kind, not to a package.
        assert_eq!(node(r#"{"type":"module"}"#), None);
        assert_eq!(node("{"), None);
        assert_eq!(node(r#"{"name":1,"version":"1"}"#), None);
    }

    #[test]
    fn nonsense_is_no_package() {
        for text in [
            "",
            "\n\n\n",
            ":",
            "Package:\nVersion:\n",
            "\u{0}\u{1}",
            " a\n b\n",
        ] {
            assert_eq!(dpkg(text), []);
            assert_eq!(apk(text), []);
            assert_eq!(python(text), None);
        }
    }

    #[test]
    fn distributions() {
        assert_eq!(
            distribution("NAME=x\nID=debian\nVERSION_ID=\"12\"\n"),
            ("debian".to_owned(), "12".to_owned())
        );
        assert_eq!(distribution("").0, "");
    }
}
