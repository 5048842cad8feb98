//! The server's address.

use http::Uri;
use http::uri::{Authority, PathAndQuery, Scheme};

use crate::error::ClientError;

/// Where the calls go: a server, and the path before `/v1/` if a proxy wants one.
#[derive(Clone, Debug)]
pub(crate) struct Base {
    authority: Authority,
    path: String,
}

impl Base {
    pub(crate) fn parse(url: &str) -> Result<Self, ClientError> {
        let bad = |reason: &str| ClientError::BadUrl { url: url.to_owned(), reason: reason.to_owned() };
        const LIKE: &str = "write it like http://127.0.0.1:9463";
        let uri: Uri = url.parse().map_err(|error| bad(&format!("{error}; {LIKE}")))?;
        match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => (),
            Some(scheme) if *scheme == Scheme::HTTPS => {
                return Err(bad("https is not supported yet: use http://, or a proxy that adds TLS"));
            }
            Some(_) | None => return Err(bad(&format!("it must begin with http://; {LIKE}"))),
        }
        let authority = uri.authority().ok_or_else(|| bad(LIKE))?.clone();
        if authority.as_str().contains('@') {
            return Err(bad("it must not hold a user name or a password"));
        }
        if uri.query().is_some() {
            return Err(bad("it must not have a query"));
        }
        Ok(Self { authority, path: uri.path().trim_end_matches('/').to_owned() })
    }

    /// The address of a path of the API, which begins with a slash.
    pub(crate) fn join(&self, path: &str) -> Uri {
        let path = PathAndQuery::try_from(format!("{}{path}", self.path));
        let path = path.expect("a path that was parsed, and one of the API's");
        let uri = Uri::builder().scheme(Scheme::HTTP).authority(self.authority.clone()).path_and_query(path);
        uri.build().expect("a scheme, an authority and a path make an address")
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}{}", self.authority, self.path)
    }
}
