//! The dynamic page of the suites: exactly 1,024 bytes from a fixed list of CGI variables.
//!
//! Re-created from VeriTest 2003: "simple executable code that reads a number of Web server environment
//! variables and places their values into an HTML response string of 1024 bytes". The variables were not
//! published, so `VARIABLES` is our choice. None of them is secret, and nothing else of the environment is
//! read.
//!
//! There are several implementations: the program in `main.rs` (CGI, FastCGI), the reference server,
//! `page.lua` (Apache, nginx, lighttpd) and `mod_dyno_page.c` (Apache). `check` verifies an answer byte for
//! byte.

pub const BYTES: usize = 1024;
/// URL path of the page, the same on every server.
pub const PATH: &str = "/cgi-bin/dyno";
/// CGI variables (RFC 3875, section 4.1) in page order. `HTTPS` is Apache's: `on` over TLS.
pub const VARIABLES: [&str; 8] = [
    "SERVER_SOFTWARE",
    "SERVER_NAME",
    "SERVER_PORT",
    "SERVER_PROTOCOL",
    "HTTPS",
    "REQUEST_METHOD",
    "SCRIPT_NAME",
    "QUERY_STRING",
];
/// Longer values are truncated.
pub const MOST_VALUE_BYTES: usize = 80;

/// How a server produces the page, as named on the page.
pub const CARRIERS: [&str; 4] = ["cgi", "fastcgi", "in-process", "native"];

const HEAD: &str =
    "<!DOCTYPE html>\n<html><head><title>Serverdyno dynamic page</title></head>\n<body><pre>\n";
const TAIL: &str = "\n</pre></body></html>\n";
const CARRIER: &str = "CARRIER";

/// Renders the page. `value` returns a variable by name. A missing and an empty value give the same page.
pub fn render<V: AsRef<str>>(carrier: &str, mut value: impl FnMut(&str) -> Option<V>) -> Vec<u8> {
    let mut page = Vec::with_capacity(BYTES);
    page.extend_from_slice(HEAD.as_bytes());
    let mut line = |name: &str, value: &str| {
        page.extend_from_slice(name.as_bytes());
        page.push(b'=');
        page.extend(value.bytes().take(MOST_VALUE_BYTES).map(harmless));
        page.push(b'\n');
    };
    line(CARRIER, carrier);
    for name in VARIABLES {
        line(name, value(name).as_ref().map_or("", AsRef::as_ref));
    }
    page.resize(BYTES - TAIL.len(), b'.');
    page.extend_from_slice(TAIL.as_bytes());
    page
}

/// Replaces bytes that could become markup or a new line, because clients influence the values.
fn harmless(byte: u8) -> u8 {
    match byte {
        b'<' | b'>' | b'&' | b'"' => b'_',
        b' '..=b'~' => byte,
        _ => b'_',
    }
}

/// Returns the value of a variable, or of `CARRIER`, on a page.
pub fn shown<'a>(page: &'a [u8], name: &str) -> Option<&'a str> {
    let lines = page.strip_prefix(HEAD.as_bytes())?.split(|byte| *byte == b'\n');
    let mut values = lines.filter_map(|line| {
        let rest = line.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        std::str::from_utf8(rest).ok()
    });
    values.next()
}

/// Returns whether `page` is the exact answer to a GET of `script` with `query`. Values known only to the
/// server (name, port, version, carrier) may be any valid ones.
pub fn check(page: &[u8], script: &str, query: &str) -> bool {
    let Some(carrier) = shown(page, CARRIER).filter(|carrier| CARRIERS.contains(carrier)) else {
        return false;
    };
    let expected = render(carrier, |name| match name {
        "REQUEST_METHOD" => Some("GET"),
        "SCRIPT_NAME" => Some(script),
        "QUERY_STRING" => Some(query),
        _ => shown(page, name),
    });
    page == expected
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(query: &str) -> Vec<u8> {
        render("cgi", |name| {
            Some(match name {
                "REQUEST_METHOD" => "GET".to_owned(),
                "SCRIPT_NAME" => PATH.to_owned(),
                "QUERY_STRING" => query.to_owned(),
                "SERVER_PORT" => "8080".to_owned(),
                _ => "x".repeat(200),
            })
        })
    }

    #[test]
    fn a_page_has_a_fixed_size_even_with_long_values() {
        assert_eq!(page("1").len(), BYTES);
        let empty = render("fastcgi", |_| None::<&str>);
        assert_eq!(empty.len(), BYTES);
        assert!(empty.ends_with(b"..\n</pre></body></html>\n"));
        let full = render("in-process", |_| Some("y".repeat(1000)));
        assert!(
            full.ends_with(b".\n</pre></body></html>\n"),
            "the filler is not gone"
        );
    }

    #[test]
    fn a_page_matches_only_its_own_request() {
        let answer = page("0123456789abcdef");
        assert!(check(&answer, PATH, "0123456789abcdef"));
        assert!(!check(&answer, PATH, "0123456789abcdee"), "a cache");
        assert!(!check(&answer, "/other", "0123456789abcdef"));
        assert_eq!(shown(&answer, "SERVER_PORT"), Some("8080"));
    }

    #[test]
    fn each_changed_byte_is_detected_except_in_values_known_only_to_the_server() {
        let answer = page("0123456789abcdef");
        let free = "SERVER_SOFTWARE=".len()..answer.len();
        let text = String::from_utf8(answer.clone()).expect("ASCII");
        let begins = text.find("SERVER_SOFTWARE=").expect("a line") + free.start;
        let ends = text.find("REQUEST_METHOD=").expect("a line");
        for place in (0..answer.len()).filter(|place| !(begins..ends).contains(place)) {
            let mut changed = answer.clone();
            changed[place] = b'#';
            assert!(!check(&changed, PATH, "0123456789abcdef"), "byte {place}");
        }
        assert!(!check(&answer[..BYTES - 1], PATH, "0123456789abcdef"));
        assert!(!check(b"", PATH, ""));
    }

    #[test]
    fn values_cannot_become_markup_or_new_lines() {
        let answer = render("cgi", |name| {
            (name == "QUERY_STRING").then(|| "<b>&\"\r\nSERVER_PORT=1\u{e4}".to_owned())
        });
        let text = String::from_utf8(answer).expect("ASCII");
        assert!(text.contains("QUERY_STRING=_b_____SERVER_PORT=1__\n"), "{text}");
    }
}
