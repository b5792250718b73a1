//! The URL that an HTTP user fetches.

use std::fmt::{self, Display, Formatter};
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use http::Uri;

use crate::error::LoadError;

/// An `http` URL, with the address of its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    text: String,
    /// The host and port in the form of the `Host` header.
    authority: String,
    path: String,
    address: SocketAddr,
}

impl Url {
    /// The server's address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The bytes of a GET request. With `close`, the request asks the server to close the connection after
    /// its reply.
    pub fn request(&self, close: bool) -> Vec<u8> {
        let connection = if close { "Connection: close\r\n" } else { "" };
        let version = env!("CARGO_PKG_VERSION");
        format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: linerate/{version}\r\n{connection}\r\n",
            self.path, self.authority
        )
        .into_bytes()
    }
}

impl FromStr for Url {
    type Err = LoadError;

    fn from_str(text: &str) -> Result<Self, LoadError> {
        let wrong = |why: &str| {
            LoadError::Arguments(format!("'{text}' is not a URL to load: {why}; write http://HOST:PORT/PATH"))
        };
        let uri: Uri = text.parse().map_err(|error: http::uri::InvalidUri| wrong(&error.to_string()))?;
        if uri.scheme_str() != Some("http") {
            return Err(wrong("only http without TLS is supported"));
        }
        let authority = uri.authority().ok_or_else(|| wrong("it has no host"))?;
        if authority.as_str().contains('@') {
            return Err(wrong("users and passwords aren't supported"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        let port = match (authority.port_u16(), authority.as_str().rsplit_once(':')) {
            (Some(port), _) => port,
            (None, Some((_, rest))) if !rest.ends_with(']') => return Err(wrong("its port isn't a number")),
            (None, _) => 80,
        };
        let mut addresses = (host, port).to_socket_addrs().map_err(|error| wrong(&error.to_string()))?;
        let address = addresses.next().ok_or_else(|| wrong("its host has no address"))?;
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let path = if path.starts_with('/') { path.into() } else { format!("/{path}") };
        Ok(Self { text: text.into(), authority: authority.as_str().into(), path, address })
    }
}

impl Display for Url {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_an_address_and_a_request() {
        let url: Url = "http://127.0.0.1:8080/a?b=c".parse().unwrap();
        assert_eq!(url.address(), "127.0.0.1:8080".parse().unwrap());
        let request = String::from_utf8(url.request(true)).unwrap();
        assert!(request.starts_with("GET /a?b=c HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n"), "{request}");
        assert!(request.ends_with("Connection: close\r\n\r\n"));
        let six: Url = "http://[::1]/".parse().unwrap();
        assert_eq!(six.address(), "[::1]:80".parse().unwrap());
        let bare: Url = "http://127.0.0.1?x".parse().unwrap();
        assert!(bare.request(false).starts_with(b"GET /?x HTTP/1.1\r\n"));
    }

    #[test]
    fn other_urls_are_refused_with_a_reason() {
        let reason = |text: &str| text.parse::<Url>().unwrap_err().to_string();
        assert!(reason("https://127.0.0.1/").contains("without TLS"));
        assert!(reason("127.0.0.1:80/x").contains("URL"));
        assert!(reason("http://u:p@127.0.0.1/").contains("passwords"));
        assert!(
            reason("http://127.0.0.1:99999/").contains("port")
                || reason("http://127.0.0.1:99999/").contains("URL")
        );
        assert!(reason("http://a b/").contains("URL"));
        assert!(reason("http://127.0.0.1/a\r\nX: y").contains("URL"));
    }
}
