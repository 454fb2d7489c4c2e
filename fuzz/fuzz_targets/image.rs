//! Any bytes as a manifest, an index and a configuration of an image: no panic, and a configuration reads back as it is
//! written. The same bytes as a name: it reads back as it prints.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tote_image::{ImageConfig, Index, Manifest, Raw, Read as _, Reference};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(manifest) = Raw::<Manifest>::read(bytes.to_vec()) {
        assert!(manifest.bytes() == bytes);
        assert!(manifest.value().layers.len() <= bytes.len());
    }
    if let Ok(index) = Raw::<Index>::read(bytes.to_vec()) {
        assert!(index.bytes() == bytes);
    }
    if let Ok(config) = ImageConfig::read(bytes) {
        let written = config.to_json();
        let again = ImageConfig::read(&written).expect("what was written can be read");
        assert_eq!(again, config);
        assert!(again.to_json() == written);
        config.platform().to_string();
    }
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Ok(name) = Reference::parse(text)
    {
        let printed = name.to_string();
        assert_eq!(Reference::parse(&printed).expect("what was printed can be read"), name);
        assert_eq!(Reference::parse(&name.familiar()).expect("so can its short form"), name);
    }
});
