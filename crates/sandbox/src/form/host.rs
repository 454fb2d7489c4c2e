//! Form of the plan itself, and of what its parent does on the host.

use super::code::{Form, Reader, Writer, choice, record};
use crate::error::FormError;
use crate::plan::{Errand, Idmap, Plan, Tree};
use std::net::{Ipv4Addr, Ipv6Addr};
use tote_network::{
    Address, Attached, ContainerLink, IpvlanMode, Link6, LinkRules, LinkSetting, Mac, MacvlanMode, Prefix,
    Rate, Sublink, Tap,
};
use tote_sys::Unlocked;

record!(Plan {
    namespaces,
    pid_namespace,
    user_namespace,
    join,
    net_devices,
    links,
    ops,
    gates,
    warnings,
});

choice!(Errand {
    0 Maps,
    1 OomScore(score),
    2 Tree(tree),
    3 Root(tree),
    4 Idmap,
    5 Node(node),
    6 Network,
    7 NetDevices(path),
    8 Cgroup,
    9 Record,
    10 Hooks,
    11 Watch,
    12 IdmapOf(maps),
});

record!(Tree {
    path,
    subpath,
    recursive,
    idmap,
    unlocked
});

choice!(Idmap {
    0 Maps { uid, gid },
    1 Namespace(path),
});

choice!(Unlocked {
    0 Never,
    1 IfTied,
    2 Always,
});

record!(ContainerLink {
    outside,
    inside,
    attached,
    mac,
    mtu,
    address,
    subnet,
    gateway,
    ipv6,
    rules,
    reflects,
    isolated,
    rate,
    settings,
    tap,
});

record!(LinkSetting { file, value });

choice!(Attached {
    0 Bridge(index),
    1 Parent { index, sublink },
    2 Device,
});

choice!(Sublink {
    0 Macvlan(mode),
    1 Ipvlan(mode),
});

choice!(MacvlanMode {
    0 Private,
    1 Vepa,
    2 Bridge,
    3 Passthru,
});

choice!(IpvlanMode {
    0 L2,
    1 L3,
    2 L3s,
});

record!(Link6 {
    address,
    subnet,
    gateway
});
record!(Rate { rate, burst });
record!(Tap { name, owner });

impl Form for Mac {
    fn write<'p>(&'p self, out: &mut Writer<'p>) {
        out.bytes.extend_from_slice(&self.0);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        from.array().map(Self)
    }

    #[cfg(test)]
    fn any(from: &mut super::any::Any) -> Self {
        Self([(); 6].map(|()| u8::any(from)))
    }
}

macro_rules! addresses {
    ($($type:ty),*) => {
        $(impl Form for $type {
            fn write<'p>(&'p self, out: &mut Writer<'p>) {
                out.bytes.extend_from_slice(&self.octets());
            }

            fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
                from.array().map(Self::from_octets)
            }

            #[cfg(test)]
            fn any(from: &mut super::any::Any) -> Self {
                Self::from_octets([(); _].map(|()| u8::any(from)))
            }
        })*
    };
}

addresses!(Ipv4Addr, Ipv6Addr);

impl<A: Address + Form> Form for Prefix<A> {
    fn write<'p>(&'p self, out: &mut Writer<'p>) {
        out.bytes.push(self.prefix());
        out.bytes
            .extend_from_slice(&self.address().number().to_le_bytes());
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        let at = from.at();
        let (prefix, address) = (from.byte()?, u128::from_le_bytes(from.array()?));
        Self::around(A::of(address), prefix)
            .filter(|network| network.address().number() == address)
            .ok_or(FormError::Value { at })
    }

    #[cfg(test)]
    fn any(from: &mut super::any::Any) -> Self {
        let prefix = from.below(usize::from(A::BITS) + 1) as u8;
        Self::around(A::any(from), prefix)
            .unwrap_or_else(|| unreachable!("at most as many bits as there are"))
    }
}

impl Form for LinkRules {
    fn write<'p>(&'p self, out: &mut Writer<'p>) {
        let messages = self.messages();
        out.length(messages.len());
        for message in messages {
            out.list(message);
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        let at = from.at();
        Self::from_messages(Form::read(from)?).ok_or(FormError::Value { at })
    }

    #[cfg(test)]
    fn any(from: &mut super::any::Any) -> Self {
        let messages = (0..from.below(3)).map(|_| (0..16 + from.below(9)).map(|_| u8::any(from)).collect());
        Self::from_messages(messages.collect()).unwrap_or_else(|| unreachable!("each has a header"))
    }
}
