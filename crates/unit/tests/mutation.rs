//! Any text as a unit file, as words, and as a description of a container: no panic, and errors of one line.

use proptest::prelude::*;
use tote_unit::{Kind, Quadlet, Surroundings, UnitFile, quote, split};

/// Pieces that have a meaning in quadlet files.
const PIECES: [&str; 16] = [
    "[Container]\n",
    "[Volume]\n",
    "[Install]\n",
    "Image=i\n",
    "Exec=",
    "Volume=a.volume:/b\n",
    "WantedBy=",
    "Environment=\"a=",
    "\\\n",
    "=",
    "'",
    "\\x4",
    "%i $A",
    "# x\n",
    "\n",
    "ä",
];

fn looked_at(text: &str) {
    if let Err(error) = split(text) {
        assert!(!error.to_string().contains('\n'));
    }
    let file = match UnitFile::parse(text) {
        Ok(file) => file,
        Err(error) => return assert!(!error.to_string().contains('\n'), "{error}"),
    };
    let written = file.to_string();
    let again = UnitFile::parse(&written).map(|file| file.to_string());
    assert_eq!(again, Ok(written));
    for kind in [Kind::Container, Kind::Volume, Kind::Pod] {
        let quadlet = Quadlet {
            kind,
            name: "a".to_owned(),
            path: "/etc/a".to_owned(),
            file: file.clone(),
        };
        match quadlet.service(&Surroundings::default()) {
            Ok(made) => assert!(UnitFile::parse(&made.text).is_ok(), "{}", made.text),
            Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
        }
    }
}

proptest! {
    #[test]
    fn any_text(text in ".{0,200}") {
        looked_at(&text);
    }

    #[test]
    fn any_pieces(pieces in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..40)) {
        looked_at(&pieces.concat());
    }

    #[test]
    fn words_come_back(words in prop::collection::vec("[^\0]{0,12}", 0..6)) {
        let line: Vec<_> = words.iter().map(|word| quote(word)).collect();
        prop_assert_eq!(split(&line.join(" ")), Ok(words));
    }
}
