//! Expectations: what each try sees in a cell.

use super::cell::{Cell, User};

/// Expectation of a try.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// The try prints this line.
    Works(&'static str),
    /// The try prints something else, and a command in the cell has printed these words on standard error, which say why and what to do.
    Explained(&'static str),
}

/// Names of all tries, in order.
pub(super) const TRIES: &[&str] = &[
    "start",
    "out",
    "in",
    "member",
    "default",
    "name",
    "bridge-name",
    "neighbour",
    "allowed",
    "refused",
    "bulk",
    "build",
    "debug",
    "end",
    "left",
];

/// Sentence about a device that pasta needs.
const TUN: &str = "this user may not open /dev/net/tun, which pasta needs; as root, 'modprobe tun' and 'chmod 666 /dev/net/tun' help";

/// Sentence about a firewall that no program keeps: its policy is the administrator's will.
const FIREWALL: &str = "drops what it does not know, so containers of tote-";

/// Returns what a try sees in a cell.
pub(super) fn expected(cell: &Cell, attempt: &str) -> Expected {
    match (cell.lack(), attempt) {
        (Some("tun"), "left") => {}
        (Some("tun"), _) => return Expected::Explained(TUN),
        // A program of the machine asks its server.
        (Some("firewall"), "bridge-name") if asks_loopback(cell) => {}
        // Rules that forward packets are not asked about those of a user's containers: a program of the machine sends them.
        (
            Some("firewall"),
            "out" | "in" | "member" | "default" | "bridge-name" | "allowed" | "bulk" | "build",
        ) if cell.user == User::Root => {
            return Expected::Explained(FIREWALL);
        }
        // Where the kernel asks them about frames, between members as well.
        (Some("firewall"), "neighbour") if cell.value("frames") == "1" => {
            return Expected::Explained(FIREWALL);
        }
        _ => {}
    }
    let line = match attempt {
        "start" => "started",
        "out" | "member" | "default" | "allowed" if cell.value("uplink") == "changed" => "198.51.100.3",
        "out" | "member" | "default" | "allowed" => "198.51.100.2",
        "in" => "198.51.100.9",
        "name" => teller(cell),
        // The machine's name servers are asked directly, those of systemd-resolved in its place, and others at the loopback device by the
        // process that watches the container (docs/networks.md).
        "bridge-name" if cell.value("resolv") == "resolved" => LAN,
        "bridge-name" => teller(cell),
        "neighbour" => "hears",
        "refused" => "none",
        "bulk" => "3000000",
        "build" => "built",
        "debug" => "root",
        "end" => "web",
        _ => "nothing",
    };
    Expected::Works(line)
}

/// Whether the only name server that the machine asks is at its loopback device.
fn asks_loopback(cell: &Cell) -> bool {
    matches!(cell.value("resolv"), "dnsmasq" | "unbound")
}

/// Address that the LAN's name server gives.
const LAN: &str = "192.0.2.1";

/// Address that the name server gives which the machine asks.
fn teller(cell: &Cell) -> &'static str {
    match cell.value("resolv") {
        "dnsmasq" => "192.0.2.2",
        "unbound" => "192.0.2.3",
        "resolved" => "192.0.2.4",
        _ => LAN,
    }
}
