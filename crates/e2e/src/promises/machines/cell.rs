//! Cell of the matrix: a user and a value of each axis that this user's machines have.

#[path = "tables/axes.rs"]
mod axes;

use axes::{AXES, Axis, Of};

/// Group of the tests in the table of all.
pub(super) const GROUP: &str = "machines::";

/// The one whose commands run in a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum User {
    /// Root.
    Root,
    /// A user without rights.
    Ordinary,
}

impl User {
    /// Both.
    pub(super) const ALL: [Self; 2] = [Self::Root, Self::Ordinary];

    /// Returns the name in the names of cells.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Ordinary => "user",
        }
    }

    /// Lists the axes of the user's machines.
    pub(super) fn axes(self) -> Vec<&'static Axis> {
        let others = match self {
            Self::Root => Of::User,
            Self::Ordinary => Of::Root,
        };
        AXES.iter().filter(|axis| axis.of != others).collect()
    }
}

/// Cell of the matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) user: User,
    /// Place of a value in each of the user's axes.
    pub(super) values: Vec<usize>,
}

impl Cell {
    /// Returns the name of the cell's test, which says each value that is not the usual one: `machines::user.tun-missing.uplink-vpn`.
    pub(super) fn name(&self) -> String {
        let mut name = format!("{GROUP}{}", self.user.name());
        for (axis, place) in self.unusual() {
            name += &format!(".{}-{}", axis.name, axis.values[place].name);
        }
        if self.unusual().next().is_none() {
            name += ".usual";
        }
        name
    }

    fn unusual(&self) -> impl Iterator<Item = (&'static Axis, usize)> {
        self.places().filter(|(_, place)| *place != 0)
    }

    fn places(&self) -> impl Iterator<Item = (&'static Axis, usize)> {
        self.user.axes().into_iter().zip(self.values.clone())
    }

    /// Reads a cell's name.
    pub(super) fn parse(name: &str) -> Option<Self> {
        let mut words = name.strip_prefix(GROUP)?.split('.');
        let user = words.next()?;
        let user = User::ALL.into_iter().find(|known| known.name() == user)?;
        let axes = user.axes();
        let mut values = vec![0; axes.len()];
        for word in words.filter(|word| *word != "usual") {
            let (axis, value) = word.split_once('-')?;
            let place = axes.iter().position(|known| known.name == axis)?;
            values[place] = axes[place].values.iter().position(|known| known.name == value)?;
        }
        Some(Self { user, values })
    }

    /// Returns the value of an axis; the usual one where the user's machines do not have the axis.
    pub(super) fn value(&self, axis: &str) -> &'static str {
        let found = self.places().find(|(known, _)| known.name == axis);
        found.map_or("", |(axis, place)| axis.values[place].name)
    }

    /// Returns the axis whose value is a lack.
    pub(super) fn lack(&self) -> Option<&'static str> {
        let mut all = self.places();
        all.find(|(axis, place)| axis.values[*place].lack)
            .map(|(axis, _)| axis.name)
    }

    /// Returns assignments of a shell, one a line, for `machine.sh`.
    pub(super) fn assignments(&self) -> String {
        let mut text = format!("who={}\n", self.user.name());
        let mut names = Vec::new();
        for (axis, place) in self.places() {
            text += &format!("cell_{}={}\n", axis.name, axis.values[place].name);
            names.push(axis.name);
        }
        text + &format!("AXES='{}'\n", names.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_its_cell() {
        for name in [
            "machines::root.usual",
            "machines::root.firewall-ufw.rp-2",
            "machines::user.resolv-dead.tun-closed",
        ] {
            assert_eq!(Cell::parse(name).unwrap().name(), name);
        }
        for name in [
            "machines::",
            "machines::joe",
            "machines::root.tun-missing",
            "machines::root.rp-3",
            "x::root",
        ] {
            assert_eq!(Cell::parse(name), None, "{name}");
        }
    }

    #[test]
    fn each_value_is_made_by_the_script() {
        let script = include_str!("machine.sh");
        for axis in AXES {
            for value in axis.values {
                let function = format!("\n{}_{}() {{", axis.name, value.name);
                assert!(script.contains(&function), "{function}");
            }
        }
    }
}
