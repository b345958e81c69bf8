//! `dyno-page`: program behind the dynamic page, a small static executable.
//!
//! With a CGI environment, or without arguments, it runs as a CGI program. `dyno-page beside SOCKET [UID GID]
//! -- SERVER ...` creates a Unix socket, starts itself there as a FastCGI application (as that user if
//! given), and then becomes the server. The application thus belongs to the same supervisor, and its CPU time
//! counts as the server's.

mod fastcgi;

use dyno_page::{render, BYTES};
use fastcgi::Variables;
use std::env;
use std::ffi::OsString;
use std::fs::{set_permissions, Permissions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

const BY_FASTCGI: &str = "fastcgi";
const BESIDE: &str = "beside";

fn main() -> ExitCode {
    let arguments: Vec<OsString> = env::args_os().skip(1).collect();
    // Servers pass a query without `=` as arguments (RFC 3875, section 4.4), so these come from the client.
    let by_server = env::var_os("GATEWAY_INTERFACE").is_some();
    let done = match arguments.first().and_then(|first| first.to_str()) {
        _ if by_server => io::stdout().write_all(&by_cgi()),
        None => io::stdout().write_all(&by_cgi()),
        Some(BY_FASTCGI) => fastcgi::serve(by_fastcgi),
        Some(BESIDE) => beside(&arguments[1..]),
        Some(_) => Err(io::Error::other(
            "a CGI program: a web server starts it, without arguments",
        )),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("dyno-page: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Builds a CGI response (RFC 3875, section 6). `no-store` prevents answers from caches.
fn response(page: &[u8]) -> Vec<u8> {
    let head = format!(
        "Content-Type: text/html; charset=us-ascii\r\nCache-Control: no-store\r\nContent-Length: {BYTES}\r\n\r\n"
    );
    [head.as_bytes(), page].concat()
}

fn by_cgi() -> Vec<u8> {
    response(&render("cgi", |name| env::var(name).ok()))
}

fn by_fastcgi(variables: &Variables) -> Vec<u8> {
    response(&render(BY_FASTCGI, |name| {
        let value = variables.get(name.as_bytes())?;
        Some(String::from_utf8_lossy(value).into_owned())
    }))
}

fn beside(arguments: &[OsString]) -> io::Result<()> {
    let usage = || io::Error::other("usage: dyno-page beside SOCKET [UID GID] -- SERVER [ARGUMENT ...]");
    let dashes = arguments
        .iter()
        .position(|argument| argument == "--")
        .ok_or_else(usage)?;
    let (ours, server) = (&arguments[..dashes], &arguments[dashes + 1..]);
    let number = |text: &OsString| text.to_str().and_then(|text| text.parse::<u32>().ok());
    let (socket, user) = match ours {
        [socket] => (socket, None),
        [socket, user, group] => {
            let ids = number(user).zip(number(group)).ok_or_else(usage)?;
            (socket, Some(ids))
        }
        _ => return Err(usage()),
    };
    let (program, rest) = server.split_first().ok_or_else(usage)?;
    let listener = UnixListener::bind(socket)?;
    // The mode may allow everybody, because only this user and the server's workers can enter the socket's
    // directory.
    set_permissions(socket, Permissions::from_mode(0o666))?;
    let mut application = Command::new(env::current_exe()?);
    application.arg(BY_FASTCGI).stdin(OwnedFd::from(listener));
    if let Some((user, group)) = user {
        application.gid(group).uid(user);
    }
    application.spawn()?;
    Err(Command::new(program).args(rest).exec())
}
