//! Values of `--forward` and `--port-forward`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// A port of this machine whose connections go on to a port of the container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PortWay {
    /// Address here.
    pub here: SocketAddr,
    /// Port of the container.
    pub there: u16,
}

/// Parses `[[ADDRESS:]PORT:]PORT`; the address is 127.0.0.1 unless it is given.
pub(super) fn parse_port(text: &str) -> Option<PortWay> {
    let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port != 0);
    let (rest, there) = match text.rsplit_once(':') {
        Some((rest, there)) => (Some(rest), port(there)?),
        None => (None, port(text)?),
    };
    let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let here = match rest {
        None => SocketAddr::new(local, there),
        Some(rest) => match rest.rsplit_once(':') {
            None => SocketAddr::new(local, port(rest)?),
            Some((address, here)) => {
                let address = address
                    .strip_prefix('[')
                    .and_then(|address| address.strip_suffix(']'))
                    .unwrap_or(address);
                SocketAddr::new(address.parse().ok()?, port(here)?)
            }
        },
    };
    Some(PortWay { here, there })
}

/// A socket of this machine that a session gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SocketWay {
    /// Path here; it may be in the abstract namespace, with a NUL byte in front.
    pub here: String,
    /// Path in the session.
    pub there: String,
    /// Variables that tell programs of it.
    pub env: Vec<String>,
    /// Number of the display, if it is that of an X server.
    pub display: Option<u32>,
}

/// Where a session has its sockets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    directory: &'static str,
    /// True if a socket may have the path that it has here.
    keeps_paths: bool,
}

impl Place {
    /// The root is a tree of tools, with files of the session's own above it.
    pub(super) const TOOLS: Self = Self {
        directory: "/.tote/run",
        keeps_paths: true,
    };

    /// The root is the container's tree, which gets no file.
    pub(super) const TARGET: Self = Self {
        directory: "/.tote/.run",
        keeps_paths: false,
    };

    /// Returns the path of a file in the directory of sockets.
    pub(super) fn at(self, name: &str) -> String {
        format!("{}/{name}", self.directory)
    }
}

/// Understands a value of `--forward`, with the caller's variables.
///
/// # Errors
/// A text that says what is missing.
pub(super) fn parse_socket(
    text: &str,
    place: Place,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<SocketWay, String> {
    let wanted = |name: &str| {
        variable(name)
            .filter(|value| !value.is_empty())
            .ok_or_else(|| format!("${name} is not set"))
    };
    let there = |name: &str| place.at(name);
    match text {
        "ssh-agent" => Ok(SocketWay {
            here: wanted("SSH_AUTH_SOCK")?,
            env: vec![format!("SSH_AUTH_SOCK={}", there(text))],
            there: there(text),
            display: None,
        }),
        "wayland" => {
            let display = variable("WAYLAND_DISPLAY").unwrap_or_else(|| "wayland-0".to_owned());
            let here = if display.starts_with('/') {
                display
            } else {
                format!("{}/{display}", wanted("XDG_RUNTIME_DIR")?)
            };
            // An absolute path needs no XDG_RUNTIME_DIR.
            Ok(SocketWay {
                here,
                env: vec![format!("WAYLAND_DISPLAY={}", there(text))],
                there: there(text),
                display: None,
            })
        }
        "dbus" => {
            let address = match variable("DBUS_SESSION_BUS_ADDRESS") {
                Some(address) => address,
                None => format!("unix:path={}/bus", wanted("XDG_RUNTIME_DIR")?),
            };
            let here = bus_path(&address).ok_or_else(|| {
                format!("$DBUS_SESSION_BUS_ADDRESS is {address:?}, which names no socket of this machine")
            })?;
            Ok(SocketWay {
                here,
                env: vec![format!("DBUS_SESSION_BUS_ADDRESS=unix:path={}", there(text))],
                there: there(text),
                display: None,
            })
        }
        "x11" => display(&wanted("DISPLAY")?, place),
        path if path.starts_with('/') => Ok(SocketWay {
            here: path.to_owned(),
            there: if place.keeps_paths {
                path.to_owned()
            } else {
                format!("{}{path}", place.directory)
            },
            env: Vec::new(),
            display: None,
        }),
        _ => Err("it is neither x11, wayland, dbus or ssh-agent nor an absolute path".to_owned()),
    }
}

/// Understands `x11` for this value of `DISPLAY`.
fn display(display: &str, place: Place) -> Result<SocketWay, String> {
    let number = display_number(display)
        .ok_or_else(|| format!("$DISPLAY is {display:?}, which is no display of this machine"))?;
    let usual = format!("/tmp/.X11-unix/X{number}");
    let here = if display.starts_with('/') {
        display.to_owned()
    } else {
        usual.clone()
    };
    // A display may be the path of a socket, which only old clients do not understand.
    let (there, name) = if place.keeps_paths {
        (usual, format!(":{number}"))
    } else {
        let there = place.at(&format!("X{number}"));
        (there.clone(), there)
    };
    Ok(SocketWay {
        here,
        there,
        env: vec![format!("DISPLAY={name}")],
        display: Some(number),
    })
}

/// Returns the number of a display such as `:0.0` or `unix:1`. For clients a path is that of display 0.
fn display_number(display: &str) -> Option<u32> {
    if display.starts_with('/') {
        return Some(0);
    }
    let (host, number) = display.split_once(':')?;
    let number = number.split('.').next()?.parse().ok()?;
    matches!(host, "" | "unix").then_some(number)
}

/// Returns the path of the first Unix socket of an address of D-Bus.
fn bus_path(addresses: &str) -> Option<String> {
    addresses.split(';').find_map(|address| {
        let fields = address.strip_prefix("unix:")?;
        fields.split(',').find_map(|field| match field.split_once('=')? {
            ("path", path) => Some(path.to_owned()),
            ("abstract", name) => Some(format!("\0{name}")),
            _ => None,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports() {
        let parsed = |text: &str| parse_port(text).map(|way| format!("{} {}", way.here, way.there));
        for (text, expected) in [
            ("80", Some("127.0.0.1:80 80")),
            ("8080:80", Some("127.0.0.1:8080 80")),
            ("0.0.0.0:8080:80", Some("0.0.0.0:8080 80")),
            ("[::1]:8080:80", Some("[::1]:8080 80")),
            ("", None),
            ("0", None),
            ("x:80", None),
            ("8080:", None),
            ("70000:80", None),
            ("localhost:8080:80", None),
        ] {
            assert_eq!(parsed(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn sockets() {
        let variable = |name: &str| match name {
            "SSH_AUTH_SOCK" => Some("/tmp/agent".to_owned()),
            "XDG_RUNTIME_DIR" => Some("/run/user/7".to_owned()),
            "DISPLAY" => Some(":3.1".to_owned()),
            "DBUS_SESSION_BUS_ADDRESS" => Some("tcp:host=x;unix:abstract=/bus,guid=1".to_owned()),
            _ => None,
        };
        let here = |text: &str| parse_socket(text, Place::TOOLS, &variable).map(|way| way.here);
        assert_eq!(here("ssh-agent").unwrap(), "/tmp/agent");
        assert_eq!(here("wayland").unwrap(), "/run/user/7/wayland-0");
        assert_eq!(here("x11").unwrap(), "/tmp/.X11-unix/X3");
        assert_eq!(here("dbus").unwrap(), "\0/bus");
        assert_eq!(here("/run/x.sock").unwrap(), "/run/x.sock");
        assert!(here("x12").unwrap_err().contains("ssh-agent"));
        let nothing = parse_socket("x11", Place::TOOLS, &|_| None).unwrap_err();
        assert_eq!(nothing, "$DISPLAY is not set");
        assert_eq!(display_number("far:0"), None);
        assert_eq!(display_number("unix:4.0"), Some(4));
        let path = |name: &str| (name == "DISPLAY").then(|| "/tmp/X".to_owned());
        let way = parse_socket("x11", Place::TOOLS, &path).unwrap();
        assert_eq!((&*way.here, &*way.there), ("/tmp/X", "/tmp/.X11-unix/X0"));
    }

    #[test]
    fn the_containers_tree_gets_no_file() {
        let variable = |name: &str| (name == "DISPLAY").then(|| ":3".to_owned());
        let way = |text: &str| parse_socket(text, Place::TARGET, &variable).unwrap();
        assert_eq!(way("/run/x.sock").there, "/.tote/.run/run/x.sock");
        let display = way("x11");
        assert_eq!(display.env, ["DISPLAY=/.tote/.run/X3"]);
        assert_eq!((&*display.there, display.display), ("/.tote/.run/X3", Some(3)));
    }
}
