//! Packages as a document of SPDX 2.3.

use super::statement::{Predicate, escaped};
use serde_json::{Value, json};
use std::time::Duration;
use tote_graph::packages::{Package, PackageKind};
use tote_image::Digest;

const PREDICATE: &str = "https://spdx.dev/Document";
const NONE: &str = "NOASSERTION";
const IMAGE: &str = "SPDXRef-image";

/// Packages and distribution of an image.
#[derive(Clone, Debug)]
pub(crate) struct BillOfMaterials {
    pub packages: Vec<Package>,
    /// Id and version of the distribution; empty if unknown.
    pub distribution: (String, String),
}

impl BillOfMaterials {
    /// Builds the document; `name` is the image's.
    pub(crate) fn predicate(&self, name: &str, image: &Digest, now: Duration) -> Predicate {
        let mut packages = vec![json!({
            "SPDXID": IMAGE,
            "name": name,
            "downloadLocation": NONE,
            "filesAnalyzed": false,
            "licenseConcluded": NONE,
            "licenseDeclared": NONE,
            "copyrightText": NONE,
            "primaryPackagePurpose": "CONTAINER",
        })];
        let mut relationships = vec![relationship("SPDXRef-DOCUMENT", "DESCRIBES", IMAGE)];
        for (number, package) in self.packages.iter().enumerate() {
            let id = format!("SPDXRef-package-{}", number + 1);
            relationships.push(relationship(IMAGE, "CONTAINS", &id));
            packages.push(self.package(&id, package));
        }
        let content = json!({
            "spdxVersion": "SPDX-2.3",
            "dataLicense": "CC0-1.0",
            "SPDXID": "SPDXRef-DOCUMENT",
            "name": name,
            "documentNamespace": format!("https://spdx.org/spdxdocs/tote-{}-{}", image.hex(), now.as_nanos()),
            "creationInfo": {
                "created": tote_calendar::in_seconds(now),
                "creators": [format!("Tool: tote-{}", env!("CARGO_PKG_VERSION"))],
            },
            "packages": packages,
            "relationships": relationships,
        });
        Predicate {
            file: "sbom.spdx.json",
            kind: PREDICATE,
            content,
        }
    }

    fn package(&self, id: &str, package: &Package) -> Value {
        let license = if is_license(&package.license) {
            &package.license
        } else {
            NONE
        };
        let mut json = json!({
            "SPDXID": id,
            "name": package.name,
            "versionInfo": package.version,
            "downloadLocation": NONE,
            "filesAnalyzed": false,
            "licenseConcluded": NONE,
            "licenseDeclared": license,
            "copyrightText": NONE,
            "externalRefs": [{
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": self.address(package),
            }],
        });
        if !package.supplier.is_empty() {
            let name = package.supplier.split('<').next().unwrap_or_default().trim();
            json["supplier"] = format!("Person: {name}").into();
        }
        if !package.homepage.is_empty() {
            json["homepage"] = package.homepage.clone().into();
        }
        if !package.origin.is_empty() && package.origin != package.name {
            json["sourceInfo"] = format!("built package from: {}", package.origin).into();
        }
        json
    }

    /// Builds an address such as `pkg:deb/debian/bash@5.2?arch=amd64&distro=debian-12`.
    fn address(&self, package: &Package) -> String {
        let (id, version) = &self.distribution;
        let (kind, usual) = match package.kind {
            PackageKind::Debian => ("deb", Some("debian")),
            PackageKind::Alpine => ("apk", Some("alpine")),
            PackageKind::Python => ("pypi", None),
            PackageKind::Node => ("npm", None),
        };
        let mut name = package.name.clone();
        if package.kind == PackageKind::Python {
            name = name.to_ascii_lowercase().replace('_', "-");
        }
        let own = if package.kind == PackageKind::Node {
            "/"
        } else {
            ""
        };
        let mut address = format!("pkg:{kind}/");
        if let Some(usual) = usual {
            let namespace = if id.is_empty() { usual } else { id };
            address += &format!("{}/", escaped(namespace, ""));
        }
        address += &format!("{}@{}", escaped(&name, own), escaped(&package.version, ""));
        let mut qualifiers = Vec::new();
        if !package.architecture.is_empty() {
            qualifiers.push(format!("arch={}", escaped(&package.architecture, "")));
        }
        if usual.is_some() && !id.is_empty() {
            let distribution = match &**version {
                "" => id.clone(),
                version => format!("{id}-{version}"),
            };
            qualifiers.push(format!("distro={}", escaped(&distribution, "")));
        }
        if !qualifiers.is_empty() {
            address += &format!("?{}", qualifiers.join("&"));
        }
        address
    }
}

fn relationship(from: &str, kind: &str, to: &str) -> Value {
    json!({ "spdxElementId": from, "relationshipType": kind, "relatedSpdxElement": to })
}

/// True for a possible license expression of SPDX: identifiers without blanks, joined by its three words.
fn is_license(text: &str) -> bool {
    let plain = |word: &str| {
        let word = word.trim_matches(['(', ')']);
        let fits = |letter: char| letter.is_ascii_alphanumeric() || "-.+:".contains(letter);
        !word.is_empty() && word.chars().all(fits)
    };
    let words: Vec<&str> = text.split(' ').collect();
    let is_word = |(at, word): (usize, &&str)| match at % 2 {
        0 => plain(word) && !["AND", "OR", "WITH"].contains(word),
        _ => ["AND", "OR", "WITH"].contains(word),
    };
    words.len() % 2 == 1 && words.iter().enumerate().all(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(kind: PackageKind, name: &str, version: &str, architecture: &str) -> Package {
        Package {
            kind,
            name: name.to_owned(),
            version: version.to_owned(),
            architecture: architecture.to_owned(),
            ..Package::default()
        }
    }

    #[test]
    fn addresses_of_packages() {
        let of = |id: &str, version: &str| BillOfMaterials {
            packages: Vec::new(),
            distribution: (id.to_owned(), version.to_owned()),
        };
        for (bill, package, address) in [
            (
                of("debian", "12"),
                package(PackageKind::Debian, "libstdc++6", "12.2.0-14+deb12u1", "amd64"),
                "pkg:deb/debian/libstdc%2B%2B6@12.2.0-14%2Bdeb12u1?arch=amd64&distro=debian-12",
            ),
            (
                of("", ""),
                package(PackageKind::Alpine, "musl", "1.2.5-r8", "x86_64"),
                "pkg:apk/alpine/musl@1.2.5-r8?arch=x86_64",
            ),
            (
                of("debian", "12"),
                package(PackageKind::Python, "Flask_SQL", "1.0", ""),
                "pkg:pypi/flask-sql@1.0",
            ),
            (
                of("debian", "12"),
                package(PackageKind::Node, "@a/b", "1.0.0", ""),
                "pkg:npm/%40a/b@1.0.0",
            ),
        ] {
            assert_eq!(bill.address(&package), address);
        }
    }

    #[test]
    fn a_document_describes_the_image() {
        let mut musl = package(PackageKind::Alpine, "musl", "1.2.5-r8", "x86_64");
        musl.license = "MIT".to_owned();
        musl.supplier = "Some One <one@x.example>".to_owned();
        let bill = BillOfMaterials {
            packages: vec![musl],
            distribution: ("alpine".to_owned(), "3.21".to_owned()),
        };
        let found = bill
            .predicate("app:1", &Digest::sha256([1; 32]), Duration::from_secs(1))
            .content;
        assert_eq!(found["spdxVersion"], "SPDX-2.3");
        assert_eq!(found["creationInfo"]["created"], "1970-01-01T00:00:01Z");
        let package = &found["packages"][1];
        assert_eq!(package["licenseDeclared"], "MIT");
        assert_eq!(package["supplier"], "Person: Some One");
        let relationships = found["relationships"].as_array().unwrap();
        assert_eq!(
            relationships[0]["relatedSpdxElement"],
            found["packages"][0]["SPDXID"]
        );
        assert_eq!(relationships[1]["relatedSpdxElement"], package["SPDXID"]);
        // SPDX allows all these names.
        for package in found["packages"].as_array().unwrap() {
            let id = package["SPDXID"]
                .as_str()
                .unwrap()
                .strip_prefix("SPDXRef-")
                .unwrap();
            assert!(
                id.chars()
                    .all(|letter| letter.is_ascii_alphanumeric() || ".-".contains(letter))
            );
        }
    }

    #[test]
    fn licenses() {
        for text in [
            "MIT",
            "GPL-2.0-only",
            "MIT OR Apache-2.0",
            "(MIT OR X) AND Y",
            "GPL-2.0+",
        ] {
            assert!(is_license(text), "{text}");
        }
        for text in [
            "",
            "Apache 2.0",
            "see LICENSE",
            "MIT OR",
            "AND MIT X",
            "MIT, BSD",
            "a\nb",
        ] {
            assert!(!is_license(text), "{text}");
        }
    }
}
