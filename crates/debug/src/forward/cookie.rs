//! Cookies of X servers: what a client has to show before it may draw.

use std::path::PathBuf;

/// Name of the one kind of cookie that servers of one machine use.
const KIND: &[u8] = b"MIT-MAGIC-COOKIE-1";

/// Family of entries for sockets of this machine, whose address is its host name.
const LOCAL: u16 = 256;

/// Family of entries that are good for every address.
const WILD: u16 = 65535;

/// Size of the largest file of cookies that is read.
const LARGEST: u64 = 1 << 20;

/// Returns the file in which clients of this user look for cookies.
pub(super) fn place(variable: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let wanted = |name| variable(name).filter(|value| !value.is_empty());
    wanted("XAUTHORITY")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(wanted("HOME")?).join(".Xauthority")))
}

/// Reads the user's file of cookies; `None` if there is no such file.
pub(super) fn read(variable: &dyn Fn(&str) -> Option<String>) -> std::io::Result<Option<Vec<u8>>> {
    use std::io::Read as _;
    let Some(path) = place(variable) else {
        return Ok(None);
    };
    match std::fs::File::open(path) {
        Ok(file) => {
            let mut bytes = Vec::new();
            file.take(LARGEST).read_to_end(&mut bytes)?;
            Ok(Some(bytes))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Entry of a file of cookies.
struct Entry<'a> {
    family: u16,
    address: &'a [u8],
    /// Number of the display; empty for all of them.
    display: &'a [u8],
    kind: &'a [u8],
    cookie: &'a [u8],
}

/// Parses the first entry; `None` at the end, and where it is not whole.
fn entry<'a>(rest: &mut &'a [u8]) -> Option<Entry<'a>> {
    fn number(rest: &mut &[u8]) -> Option<u16> {
        let (bytes, after) = rest.split_first_chunk::<2>()?;
        *rest = after;
        Some(u16::from_be_bytes(*bytes))
    }
    fn text<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
        let length = number(rest)?;
        let (bytes, after) = rest.split_at_checked(length.into())?;
        *rest = after;
        Some(bytes)
    }
    Some(Entry {
        family: number(rest)?,
        address: text(rest)?,
        display: text(rest)?,
        kind: text(rest)?,
        cookie: text(rest)?,
    })
}

/// Finds the cookie of this display in the file of the user. `None` if the file has none for it.
pub(super) fn of_display<'a>(file: &'a [u8], display: u32, host: &[u8]) -> Option<&'a [u8]> {
    let (mut rest, display) = (file, display.to_string());
    let mut found: Option<Entry<'a>> = None;
    while let Some(entry) = entry(&mut rest) {
        let is_here = entry.family == LOCAL && entry.address == host || entry.family == WILD;
        let is_its = entry.display.is_empty() || entry.display == display.as_bytes();
        // Xlib takes the first one that fits.
        if is_here && is_its && entry.kind == KIND && found.is_none() {
            found = Some(entry);
        }
    }
    found.map(|found| found.cookie)
}

/// Makes a file with this cookie for every address, since a session has another host name. `None` for one that is too long.
pub(super) fn file_of(cookie: &[u8]) -> Option<Vec<u8>> {
    let mut made = WILD.to_be_bytes().to_vec();
    for text in [b"", b"", KIND, cookie] {
        made.extend(u16::try_from(text.len()).ok()?.to_be_bytes());
        made.extend(text);
    }
    Some(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(family: u16, address: &str, display: &str, kind: &[u8], cookie: &str) -> Vec<u8> {
        let mut made = family.to_be_bytes().to_vec();
        for text in [address.as_bytes(), display.as_bytes(), kind, cookie.as_bytes()] {
            made.extend(u16::try_from(text.len()).unwrap().to_be_bytes());
            made.extend(text);
        }
        made
    }

    #[test]
    fn the_cookie_of_the_display_is_found() {
        let file = [
            line(LOCAL, "far", "1", KIND, "wrong host"),
            line(LOCAL, "here", "2", KIND, "wrong display"),
            line(LOCAL, "here", "1", b"XDM", "wrong kind"),
            line(LOCAL, "here", "1", KIND, "right"),
            line(WILD, "", "", KIND, "late"),
        ]
        .concat();
        let found = |display| of_display(&file, display, b"here");
        assert_eq!(found(1), Some(&b"right"[..]));
        assert_eq!(found(7), Some(&b"late"[..]));
        assert_eq!(file_of(b"key").unwrap(), line(WILD, "", "", KIND, "key"));
        assert_eq!(of_display(&file[..20], 1, b"here"), None);
        assert_eq!(of_display(b"", 1, b"here"), None);
        let cut = [line(LOCAL, "here", "1", KIND, "right"), vec![1, 0, 255]].concat();
        assert!(of_display(&cut, 1, b"here").is_some());
    }

    #[test]
    fn the_file_is_named_or_in_the_home_directory() {
        let place = |name: &str, value: &str| {
            let (name, value) = (name.to_owned(), value.to_owned());
            place(&move |wanted: &str| (wanted == name).then(|| value.clone()))
        };
        assert_eq!(place("XAUTHORITY", "/x").unwrap(), PathBuf::from("/x"));
        assert_eq!(place("HOME", "/h").unwrap(), PathBuf::from("/h/.Xauthority"));
        assert_eq!(place("XAUTHORITY", ""), None);
    }
}
