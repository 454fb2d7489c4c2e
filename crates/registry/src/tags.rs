use crate::auth::Scope;
use crate::client::Client;
use crate::endpoint::{Endpoint, path};
use crate::error::Error;
use crate::http::Call;
use crate::uri::{join, same_origin};
use serde::Deserialize;
use tote_image::Reference;
use ureq::http::Method;

/// Maximum number of pages that are fetched.
pub(crate) const MAX_PAGES: usize = 200;

/// Maximum length of a page in bytes.
pub(crate) const MAX_PAGE: u64 = 4 << 20;

#[derive(Deserialize)]
struct Page {
    tags: Option<Vec<String>>,
}

impl Client {
    /// Lists the tags of a repository, in the registry's order. Tags that violate the grammar are left out.
    ///
    /// # Errors
    /// [`Error::NotFound`], and every failure of a request.
    pub fn tags(&self, reference: &Reference) -> Result<Vec<String>, Error> {
        let what = format!("tags of {}", reference.familiar_name());
        let endpoint = Endpoint::of(reference.registry());
        let mut uri = self.address(&endpoint, &what, &path(reference, "tags", "list?n=1000"))?;
        let mut tags = Vec::new();
        for _ in 0..MAX_PAGES {
            let call = Call::new(&what, Method::GET, uri.clone());
            let answer = self.send(&endpoint, &Scope::Pull(reference.repository()), call)?;
            if answer.status() != 200 {
                return Err(answer.refusal(&what, self.is_known(&endpoint, reference)));
            }
            let next = answer
                .header("link")
                .and_then(next_page)
                .and_then(|link| join(&uri, link))
                .filter(|next| same_origin(next, &uri) && *next != uri);
            let bytes = answer.bytes(&what, MAX_PAGE)?;
            let page: Page = serde_json::from_slice(&bytes).map_err(|_| Error::Protocol {
                what: what.clone(),
                why: "the answer is no list of tags".to_owned(),
            })?;
            let valid = |tag: &String| reference.with_tag(tag).is_ok();
            tags.extend(page.tags.unwrap_or_default().into_iter().filter(valid));
            match next {
                Some(next) => uri = next,
                None => return Ok(tags),
            }
        }
        Err(Error::Protocol {
            what,
            why: format!("the registry has more than {MAX_PAGES} pages of them"),
        })
    }
}

/// Returns the target of `Link: <target>; rel="next"`.
pub(crate) fn next_page(header: &str) -> Option<&str> {
    header.split(',').find_map(|link| {
        let (target, parameters) = link.trim().strip_prefix('<')?.split_once('>')?;
        let is_next = parameters
            .split(';')
            .any(|parameter| matches!(parameter.trim(), "rel=\"next\"" | "rel=next"));
        is_next.then_some(target)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links() {
        for (header, target) in [
            (
                r#"</v2/a/tags/list?last=b&n=1>; rel="next""#,
                Some("/v2/a/tags/list?last=b&n=1"),
            ),
            (r#"<x>; rel="prev", <y>;rel=next"#, Some("y")),
            ("<x>", None),
            ("x; rel=next", None),
            ("", None),
        ] {
            assert_eq!(next_page(header), target, "{header}");
        }
    }
}
