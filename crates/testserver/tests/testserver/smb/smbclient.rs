//! Tests with an independent client, Samba's smbclient, in every dialect, with and without signing and
//! encryption. They are skipped if smbclient is not installed.

use dyno_testserver::smb::{Dialect, Encryption, Options, Server, Signing};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

const USER: &str = "bench";
const PASSWORD: &str = "correct horse";

fn options() -> Options {
    Options {
        user: Some(USER.to_owned()),
        password: PASSWORD.to_owned(),
        ..Options::on_loopback("volume1")
    }
}

fn is_installed() -> bool {
    let found = Command::new("smbclient").arg("--version").output().is_ok();
    if !found {
        eprintln!("skipped: smbclient is not installed");
    }
    found
}

fn run(server: &Server, user: &str, arguments: &[&str], commands: &str) -> Output {
    Command::new("smbclient")
        .args(["//127.0.0.1/volume1", "--port", &server.port().to_string()])
        .args(["-U", user, "--configfile=/dev/null", "-c", commands])
        .args(arguments)
        .output()
        .expect("smbclient starts")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

fn directory(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("dyno-reference-{}-{name}", std::process::id()));
    fs::create_dir_all(&path).expect("a directory");
    path
}

/// Runs every file operation of smbclient once, with `arguments`.
fn check(name: &str, options: &Options, arguments: &[&str]) {
    if !is_installed() {
        return;
    }
    let server = Server::start(options).expect("it starts");
    let place = directory(name);
    let content: Vec<u8> = (0..1_200_000_u32).map(|index| (index * 7 / 3) as u8).collect();
    fs::write(place.join("sent"), &content).expect("a file");
    let user = format!("{USER}%{PASSWORD}");
    let commands = format!(
        "lcd {}; mkdir d; put sent d/x; cd d; get x got; rename x y; ls; allinfo y; setmode y +h; \
         get y again; del y; cd ..; rmdir d; ls",
        place.display()
    );
    let output = run(&server, &user, arguments, &commands);
    let said = text(&output);
    assert!(
        output.status.success() && !said.contains("NT_STATUS"),
        "{name}: {said}"
    );
    assert!(said.contains("y") && said.contains("1200000"), "{name}: {said}");
    for got in ["got", "again"] {
        assert_eq!(
            fs::read(place.join(got)).expect("it was written"),
            content,
            "{name}"
        );
    }
    fs::remove_dir_all(&place).expect("it is ours");
    assert_eq!(server.open_files(), 0);
}

#[test]
fn every_dialect_serves_an_independent_client() {
    for dialect in ["SMB2_02", "SMB2_10", "SMB3_00", "SMB3_02", "SMB3_11"] {
        let only = format!("--option=client min protocol={dialect}");
        check(dialect, &options(), &["-m", dialect, &only]);
    }
}

#[test]
fn messages_are_signed_and_encrypted_if_the_client_wishes_or_the_server_requires_it() {
    for dialect in ["SMB2_02", "SMB3_00", "SMB3_11"] {
        let sign = ["-m", dialect, "--client-protection=sign"];
        check(&format!("sign-{dialect}"), &options(), &sign);
    }
    for dialect in ["SMB3_00", "SMB3_11"] {
        let encrypt = ["-m", dialect, "--client-protection=encrypt"];
        check(&format!("encrypt-{dialect}"), &options(), &encrypt);
    }
    let insists = Options {
        signing: Signing::Required,
        ..options()
    };
    check("insists-on-signing", &insists, &[]);
    let insists = Options {
        encryption: Encryption::Required,
        ..options()
    };
    check(
        "insists-on-encryption",
        &insists,
        &["--client-protection=encrypt"],
    );
}

#[test]
fn a_client_with_a_wrong_user_or_without_encryption_is_refused() {
    if !is_installed() {
        return;
    }
    let server = Server::start(&options()).expect("it starts");
    for stranger in ["bench%wrong", "other%correct horse", "%"] {
        let output = run(&server, stranger, &[], "ls");
        assert!(!output.status.success(), "{stranger}: {}", text(&output));
        assert!(text(&output).contains("LOGON_FAILURE"), "{}", text(&output));
    }
    let insists = Options {
        encryption: Encryption::Required,
        ..options()
    };
    let server = Server::start(&insists).expect("it starts");
    let user = format!("{USER}%{PASSWORD}");
    let output = run(&server, &user, &["-m", "SMB2_10"], "ls");
    assert!(text(&output).contains("ACCESS_DENIED"), "{}", text(&output));
}

#[test]
fn only_the_configured_dialects_are_spoken() {
    if !is_installed() {
        return;
    }
    let only = Options {
        min_dialect: Dialect::Smb300,
        max_dialect: Dialect::Smb302,
        ..options()
    };
    let server = Server::start(&only).expect("it starts");
    let user = format!("{USER}%{PASSWORD}");
    assert!(run(&server, &user, &[], "ls").status.success());
    assert!(!run(&server, &user, &["-m", "SMB2_10"], "ls").status.success());
}

#[test]
fn the_shares_are_listed() {
    if !is_installed() {
        return;
    }
    let shares = ["volume1", "second"].map(str::to_owned).to_vec();
    let server = Server::start(&Options { shares, ..options() }).expect("it starts");
    let output = Command::new("smbclient")
        .args(["--list=127.0.0.1", "--port", &server.port().to_string()])
        .args(["-U", &format!("{USER}%{PASSWORD}"), "--configfile=/dev/null"])
        .output()
        .expect("smbclient starts");
    let said = text(&output);
    let rows: Vec<Vec<&str>> = said
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    for row in [["volume1", "Disk"], ["second", "Disk"], ["IPC$", "IPC"]] {
        assert!(rows.contains(&row.to_vec()), "{row:?}: {said}");
    }
}

#[test]
fn a_client_may_ask_for_smb_2_with_an_smb_1_negotiate() {
    if !is_installed() {
        return;
    }
    for newest in [Dialect::Smb202, Dialect::Smb311] {
        let options = Options {
            max_dialect: newest,
            ..options()
        };
        // If SMB 1 is enabled, smbclient begins with an SMB 1 NEGOTIATE.
        check(
            &format!("from-smb-1-{newest:?}"),
            &options,
            &["--option=client min protocol=NT1"],
        );
    }
    let new_only = Options {
        min_dialect: Dialect::Smb210,
        max_dialect: Dialect::Smb210,
        ..options()
    };
    check("to-smb-2.1", &new_only, &["--option=client min protocol=NT1"]);
}

#[test]
fn the_server_copies_ranges_by_itself() {
    if !is_installed() {
        return;
    }
    let server = Server::start(&options()).expect("it starts");
    let place = directory("scopy");
    // More data than one request may copy, in an amount that is not a multiple of the maximum range.
    let content: Vec<u8> = (0..17_500_000_u32).map(|index| (index / 7) as u8).collect();
    fs::write(place.join("sent"), &content).expect("a file");
    let sent = format!("lcd {}; put sent", place.display());
    let user = format!("{USER}%{PASSWORD}");
    assert!(run(&server, &user, &[], &sent).status.success());
    let written = requests(&server, "WRITE");
    let commands = format!("lcd {}; scopy sent copy; get copy", place.display());
    let said = text(&run(&server, &user, &[], &commands));
    assert!(!said.contains("NT_STATUS"), "{said}");
    assert_eq!(fs::read(place.join("copy")).expect("it was written"), content);
    assert_eq!(requests(&server, "WRITE"), written);
    assert!(requests(&server, "IOCTL") > 2);
    fs::remove_dir_all(&place).expect("it is ours");
}

fn requests(server: &Server, command: &str) -> u64 {
    let all = server.requests();
    let found = all.iter().find(|(name, _)| *name == command);
    found.expect("every command is counted").1
}

#[test]
fn a_guest_is_accepted_if_there_is_no_user() {
    if !is_installed() {
        return;
    }
    let server = Server::start(&Options::on_loopback("volume1")).expect("it starts");
    let output = run(
        &server,
        "anybody%",
        &["--option=client signing=disabled"],
        "mkdir d; ls",
    );
    assert!(
        output.status.success() && text(&output).contains("  d "),
        "{}",
        text(&output)
    );
    let wrong = run(&server, "anybody%", &[], "ls nothing");
    assert!(
        text(&wrong).contains("NT_STATUS_NO_SUCH_FILE"),
        "{}",
        text(&wrong)
    );
}
