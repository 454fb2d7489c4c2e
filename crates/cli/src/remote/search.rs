//! `tote search`.

use crate::listing::show;
use crate::remote::access::access_with_creds;
use crate::tell::{engine_error, usage_error};
use serde_json::json;
use std::process::ExitCode;
use tote_engine::{EngineError, SearchRequest};
use tote_options::Parsed;
use tote_view::{Listing, cut};

pub(crate) fn search(parsed: &Parsed) -> ExitCode {
    let limit = parsed.converted("limit", |text| {
        text.parse::<usize>().map_err(|_| "it is a number of results")
    });
    let limit = match limit {
        Ok(limit) => limit,
        Err(error) => return usage_error(&error),
    };
    let listing = request(parsed, limit).and_then(|request| {
        if parsed.flag("list-tags") {
            tags(&request)
        } else {
            repositories(&request, parsed.flag("no-trunc"))
        }
    });
    match listing {
        Ok(listing) => show(&listing, parsed),
        Err(error) => {
            engine_error(&error);
            ExitCode::from(1)
        }
    }
}

fn request(parsed: &Parsed, limit: Option<usize>) -> Result<SearchRequest, EngineError> {
    let filters = parsed
        .all("filter")
        .map(|text| text.to_string_lossy().into_owned());
    Ok(SearchRequest {
        term: crate::remote::access::name(parsed),
        limit,
        filters: filters.collect(),
        access: access_with_creds(parsed)?,
    })
}

fn repositories(request: &SearchRequest, whole: bool) -> Result<Listing, EngineError> {
    let found = tote_engine::search(request)?.into_iter();
    let rows = found.map(|found| {
        let description = cut(&found.description, if whole { usize::MAX } else { 45 });
        json!({
            "Name": found.name,
            "Description": description,
            "StarCount": found.stars.to_string(),
            "IsOfficial": if found.is_official { "[OK]" } else { "" },
            "IsAutomated": if found.is_automated { "[OK]" } else { "" },
        })
    });
    Ok(Listing {
        headings: &[
            ("Name", "NAME"),
            ("Description", "DESCRIPTION"),
            ("StarCount", "STARS"),
            ("IsOfficial", "OFFICIAL"),
            ("IsAutomated", "AUTOMATED"),
        ],
        columns: "{{.Name}}\t{{.Description}}\t{{.StarCount}}\t{{.IsOfficial}}".to_owned(),
        rows: rows.collect(),
        ..Listing::default()
    })
}

/// Lists tags, as podman does.
fn tags(request: &SearchRequest) -> Result<Listing, EngineError> {
    let (name, tags) = tote_engine::list_tags(request)?;
    let rows = tags.into_iter().map(|tag| json!({ "Name": name, "Tag": tag }));
    Ok(Listing {
        headings: &[("Name", "NAME"), ("Tag", "TAG")],
        columns: "{{.Name}}\t{{.Tag}}".to_owned(),
        rows: rows.collect(),
        ..Listing::default()
    })
}
