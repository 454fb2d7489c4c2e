//! `tote network …`.

use crate::ask::agreed;
use crate::home::home;
use crate::listing::{describe_each, each_named, only_ids, show};
use crate::tell::{print, print_made, tell_damaged, tell_left, warning};
use crate::words::values;
use crate::words::words;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::str::FromStr;
use tote_engine::{
    ConnectFault, ConnectRequest, EngineError, NetworkFault, NetworkRequest, NetworkSelection,
};
use tote_options::Parsed;
use tote_view::{Listing, id_of_network};

/// Parses words such as `KEY=VALUE`; a word without `=` has an empty value.
fn pairs(parsed: &Parsed, option: &str) -> BTreeMap<String, String> {
    let words = values(parsed, option).into_iter();
    let pair = |word: String| match word.split_once('=') {
        Some((key, value)) => (key.to_owned(), value.to_owned()),
        None => (word, String::new()),
    };
    words.map(pair).collect()
}

pub(crate) fn create(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let driver = parsed
        .value("driver")
        .map(|driver| driver.to_string_lossy().into_owned());
    let request = NetworkRequest {
        name: words(parsed).pop().unwrap_or_default(),
        driver: driver.unwrap_or_default(),
        subnets: values(parsed, "subnet"),
        gateways: values(parsed, "gateway"),
        ranges: values(parsed, "ip-range"),
        internal: parsed.flag("internal"),
        ipv6: parsed.flag("ipv6"),
        labels: pairs(parsed, "label"),
        options: pairs(parsed, "opt"),
    };
    let home = home(parsed)?;
    if parsed.flag("ignore") && tote_engine::has_network(&home, &request.name)? {
        return Ok(print(&format!("{}\n", request.name)));
    }
    let id = tote_engine::create_network(&home, &request)?;
    Ok(print_made(&id, "the network is"))
}

pub(crate) fn exists(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let name = words(parsed).pop().unwrap_or_default();
    let is_here = tote_engine::has_network(&home(parsed)?, &name)?;
    Ok(ExitCode::from(u8::from(!is_here)))
}

pub(crate) fn list(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let selection = NetworkSelection {
        filters: values(parsed, "filter"),
    };
    let rows = tote_engine::networks(&home(parsed)?, &selection)?;
    let whole = parsed.flag("no-trunc");
    tell_damaged(rows.iter().map(|row| &row.error));
    if only_ids(parsed) {
        let ids = rows.iter().map(|row| format!("{}\n", id_of_network(row, whole)));
        return Ok(print(&ids.collect::<String>()));
    }
    let listing = Listing {
        no_heading: parsed.flag("noheading"),
        ..tote_view::networks(&rows, whole)
    };
    Ok(show(&listing, parsed))
}

pub(crate) fn inspect(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let home = home(parsed)?;
    Ok(describe_each(parsed, |name| {
        let found = tote_engine::inspect_network(&home, name)?;
        Ok(tote_view::network_details(&found))
    }))
}

pub(crate) fn remove(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let home = home(parsed)?;
    Ok(each_named(parsed, |name| {
        match tote_engine::remove_network(&home, name, parsed.flag("force")) {
            Err(error) if parsed.flag("force") && matches!(error.part(), Some(NetworkFault::NotFound(_))) => {
                Ok(String::new())
            }
            // docker prints the words as given.
            removed => removed.map(|_| format!("{name}\n")),
        }
    }))
}

pub(crate) fn connect(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let mut words = words(parsed).into_iter();
    let request = ConnectRequest {
        network: words.next().unwrap_or_default(),
        container: words.next().unwrap_or_default(),
        ip: address(parsed, "ip")?,
        ip6: address(parsed, "ip6")?,
        gw_priority: gw_priority(parsed)?,
        aliases: values(parsed, "alias"),
        links: values(parsed, "link"),
        driver_opts: values(parsed, "driver-opt"),
    };
    let warnings = tote_engine::connect_network(&home(parsed)?, &request)?;
    warnings.iter().for_each(|text| warning(text));
    Ok(ExitCode::SUCCESS)
}

fn gw_priority(parsed: &Parsed) -> Result<i64, EngineError> {
    let Some(text) = values(parsed, "gw-priority").pop() else {
        return Ok(0);
    };
    let wrong = |_| EngineError::Usage(format!("invalid --gw-priority {text:?}: give a whole number"));
    text.parse().map_err(wrong)
}

/// The address that an option has.
fn address<T: FromStr>(parsed: &Parsed, option: &str) -> Result<Option<T>, EngineError> {
    let Some(text) = values(parsed, option).pop() else {
        return Ok(None);
    };
    let address = text.parse();
    address
        .map(Some)
        .map_err(|_| EngineError::Usage(format!("invalid IP address: {text}")))
}

pub(crate) fn disconnect(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let words = words(parsed);
    let [network, container] = &words[..] else {
        return Ok(ExitCode::FAILURE);
    };
    match tote_engine::disconnect_network(&home(parsed)?, network, container) {
        Err(error)
            if parsed.flag("force")
                && matches!(
                    error.part(),
                    Some(NetworkFault::Connect(ConnectFault::NotConnected { .. }))
                ) =>
        {
            Ok(ExitCode::SUCCESS)
        }
        done => {
            done?.iter().for_each(|text| warning(text));
            Ok(ExitCode::SUCCESS)
        }
    }
}

pub(crate) fn prune(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let question = "This will remove all custom networks not used by at least one container.";
    if !agreed(parsed, question) {
        return Ok(ExitCode::SUCCESS);
    }
    let pruned = tote_engine::prune_networks(&home(parsed)?, &values(parsed, "filter"))?;
    let mut code = ExitCode::SUCCESS;
    if !pruned.removed.is_empty() {
        code = print(&format!("Deleted Networks:\n{}\n\n", pruned.removed.join("\n")));
    }
    Ok(tell_left(&pruned.errors).unwrap_or(code))
}
