"""Command lines as people write them: pasted, with options of other tools, or with a word in the wrong place."""

from __future__ import annotations

import os

import pytest

from support.dyno_process import Home

URL = "http://127.0.0.1:9/"
BODIES = ("@body.json", "file:/tmp/body", "a=b", '{"a": 1}')
SHARE = "smb://127.0.0.1:9/data"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["load", "\u2013d", "1s", URL],
            "begins with a typographic dash, as from a document or a web page: write -d\n",
        ),
        (["load", "\u2014clients", "3", URL], "write --clients\n"),
        (["load", "\u2013-clients=3", URL], "write --clients=3\n"),
        (["run", "-\u2013scale", "3", "x.toml"], "write --scale\n"),
        (["bonnie", "\u2212s", "1"], "write -s\n"),
        (["bonnie", "\u2013s64", "-d", "/tmp"], "write -s64\n"),
        (["load", "-H", "\u201cAccept:", "a\u201d", URL], "\u201cAccept: has typographic quotation marks"),
        (["load", "-H", "\u201cAccept:a\u201d", URL], "has typographic quotation marks"),
        (["load", f"\u2018{URL}\u2019"], "write ' or \""),
        (["load", f"{URL}\u200b"], "contains the invisible U+200B"),
        (["load\u00a0-c", "3", URL], "contains a no-break space"),
    ],
)
def test_what_a_document_made_of_a_command_is_told(home: Home, words: list[str], told: str) -> None:
    done = home.here(*words)
    assert done.returncode == 2 and done.stderr.count("hint: ") == 1, done.stderr
    assert told in done.stderr.partition("hint: ")[2]


def test_typography_in_the_value_of_an_option_is_text(home: Home) -> None:
    done = home.here("load", "-H", "X-A: \u2013\u201cb\u201d", "--data", "\u2013", "-d", "1s", URL)
    assert done.returncode == 1 and "nothing accepted the connection" in done.stderr
    assert "typographic" not in done.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["bonnie", "-s", "1", SHARE], f"is given as -d {SHARE}"),
        (["bonnie", "."], "is given as -d ."),
        (["scenario", "metadata", "/mnt"], "is given as -d /mnt"),
        (["scenario", SHARE], f"is given as -d {SHARE}"),
        (["load", URL, "http://127.0.0.1:10/"], "One load goes to one URL"),
        (["load", "/tmp/x"], "dyno scenario NAME -d /tmp/x and dyno bonnie -d /tmp/x"),
        (["load", "./x"], "dyno bonnie -d ./x"),
        (["load", "file:/tmp/x"], "dyno bonnie -d file:///tmp/x"),
        (["load", "ftp://nas/a"], "mount it (curlftpfs), and to measure files, use a plan"),
        (["load", URL, "--user", "me:pw"], "export DYNO_AUTHORIZATION=user:password, and give --auth basic"),
        (["load", SHARE, "--user", "me"], "dyno bonnie and dyno scenario, which have --user"),
        *((["load", URL, "-d", body], "for a body, use --data TEXT or --data-file FILE") for body in BODIES),
        (["run", URL], f"A URL is loaded by dyno load {URL}"),
        ([URL], f"To load a URL: dyno load {URL}"),
        (["p.toml"], "To measure a plan: dyno run p.toml"),
        (["run"], "Missing argument"),
        (["load", URL, "-c", "x"], "must be a whole number"),
    ],
)
def test_a_place_without_its_option_or_command_is_told_with_it(
    home: Home, words: list[str], told: str
) -> None:
    done = home.here(*words)
    assert done.returncode == 2 and told in done.stderr, done.stderr


@pytest.mark.parametrize(
    "words",
    [["bonnie", "-d", "smb://me@127.0.0.1/data"], ["load", URL, "-c", "1x"], ["bonnie", "-d", ".", "a.b"]],
)
def test_a_place_in_its_place_is_not_the_cause(home: Home, words: list[str]) -> None:
    done = home.here(*words)
    assert done.returncode == 2 and "is given as" not in done.stderr and "One load" not in done.stderr


@pytest.mark.parametrize("command", [("bonnie",), ("scenario", "metadata")])
@pytest.mark.parametrize(
    ("option", "told"),
    [
        (("-U", "games%pw"), "the option for the user is --user"),
        (("--password", "pw"), "export DYNO_SMB_PASSWORD"),
        (("-A", "file"), "export DYNO_SMB_PASSWORD"),
        (("-W", "T2"), "--user 'DOMAIN\\NAME'"),
        (("-N",), "Leave it out"),
        (("-k",), "--authentication kerberos"),
        (("--use-kerberos=required",), "--authentication kerberos"),
        (("-p", "445"), "smb://HOST:PORT/SHARE"),
        (("-I", "127.0.0.1"), "smb://ADDRESS/SHARE"),
        (("-t", "nfs"), "nfs://HOST/EXPORT"),
        (("-o", "vers=4.1"), "?vers=4.1"),
        (("--directory=/mnt",), "-d DIRECTORY"),
        (("--bs=4k",), "--chunk 16384"),
    ],
)
def test_options_of_smbclient_mount_and_fio_are_answered(
    home: Home, command: tuple[str, ...], option: tuple[str, ...], told: str
) -> None:
    done = home.here(*command, *option)
    assert done.returncode == 2 and told in done.stderr, done.stderr
    assert "No such option" not in done.stderr


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("Z:\\data", "in WSL, write a drive as -d '/mnt/z/data'"),
        ("c:/Users/me", "in WSL, write a drive as -d '/mnt/c/Users/me'"),
        ("a\\b", "-d 'a/b'"),
        ("~/nothere", "in quotation marks: write -d /"),
        ("$NOWHERE/a", "The shell does not replace $ in quotation marks"),
        ("=/mnt", "A short option has no =: write -d /mnt"),
        ("me@nas.example:data", "mount it with sshfs"),
        ("nas.example:data", "mount it with sshfs"),
        ("\\\\nas\\data", "-d 'smb://nas/data'"),
        ("sftp://nas/a", '-d: "sftp://nas/a" must begin with smb:// or nfs:// or file://: '),
        ("s4://nas/a", '-d: "s4://nas/a" must begin with smb:// or nfs:// or file://\n'),
        ("sftp://nas/a", "mount it (sshfs)"),
        ("DAVS://nas/a", "mount it (davfs2)"),
        ("s3://bucket", "use dyno objects s3://bucket"),
        ("gs://bucket", "mount it (rclone mount)"),
        ("cifs://nas/a", "write it smb://nas/a"),
        (
            "smb://127.0.0.1:9/data?vers=3.1.1",
            "a suite sets the dialect (max_dialect in [smb]); the user is an option",
        ),
        ("smb://127.0.0.1:9/data?user=me", "-d: has parameters (?user=me), and URLs of SMB have none"),
        ("file:///tmp/a?b", "write ? in a name as %3F"),
        ("smb://127.0.0.1:9", "-d: names no share: write smb://HOST/SHARE"),
    ],
)
@pytest.mark.parametrize("command", [("bonnie",), ("scenario", "metadata")])
def test_a_place_of_another_system_is_told_by_its_notation(
    home: Home, command: tuple[str, ...], place: str, told: str
) -> None:
    done = home.here(*command, "-d", place)
    assert done.returncode == 2 and told in done.stderr, done.stderr
    assert "servers[0]" not in done.stderr


def test_what_a_browser_or_curl_adds_without_effect_is_left_out(home: Home) -> None:
    url = "http://127.0.0.1:9/a?b=c"
    for given in (
        ("-H", "Connection: keep-alive", "-H", "Expect:"),
        ("--no-keep-alive", "-H", "connection: Close"),
        ("-H", "Content-Length: 5", "--data", "hello"),
        ("-H", "content-length: 6", "--data", "grün"[:4] + "!"),
        ("-H", "Content-Length: 0", "--method", "POST"),
        ("-H", "Transfer-Encoding:", "-H", "TE: trailers", "-H", "Keep-Alive: 300"),
        ("-H", "Host: 127.0.0.1:9", "-H", "Accept-Encoding: gzip, deflate, br, zstd"),
    ):
        done = home.here("load", f"{url}#top", *given)
        assert done.returncode == 1 and f"{url}: nothing accepted" in done.stderr, done.stderr
        assert "nothing listens there" in done.stderr
    for refused in (
        ("-H", "Connection: close"),
        ("--no-keep-alive", "-H", "Connection: keep-alive"),
        ("-H", "Expect: 100-continue"),
        ("-H", "Transfer-Encoding: chunked", "--data", "hello"),
        ("-H", "Content-Length: 6", "--data", "hello"),
        ("--no-keep-alive", "-H", "Keep-Alive: 300"),
    ):
        done = home.here("load", url, *refused)
        assert done.returncode == 2 and "can't be given" in done.stderr, done.stderr
        if "Content-Length: 6" in refused:
            assert "Content-Length says 6, but the body has 5 bytes" in done.stderr


@pytest.mark.parametrize("options", [(), ("--user", "me"), ("--authentication", "kerberos")])
@pytest.mark.parametrize(
    ("place", "told"),
    [("cifs://nas/a", "write it smb://nas/a"), ("http://nas/a", "use dyno load http://nas/a")],
)
def test_a_scheme_is_judged_before_the_options_of_another(
    home: Home, place: str, told: str, options: tuple[str, ...]
) -> None:
    done = home.here("bonnie", "-d", place, *options)
    assert done.returncode == 2 and told in done.stderr, done.stderr
    assert "only for URLs" not in done.stderr


def test_settings_of_a_server_are_told_by_their_option(home: Home) -> None:
    done = home.here("bonnie", "--server", "samba", "--set", "bogus=1")
    assert "--set.bogus: unknown key" in done.stderr, done.stderr
    done = home.here("bonnie", "--server", "ngix")
    assert "--server: no server" in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("", "-d is empty"),
        ("x" * 300, "can't be used: File name too long"),
        ("circle", "can't be used: "),
        ("smb:/127.0.0.1/data", "-d 'smb://127.0.0.1/data'"),
        ("smb:\\\\127.0.0.1\\data", "-d 'smb://127.0.0.1/data'"),
        ("10.0.0.1/data", "Write a share as -d smb://10.0.0.1/data, an export as -d nfs://10.0.0.1/data"),
        ("smb://::1/data", "write an IPv6 address in brackets"),
        ("smb://$NAS/data", "is not a host name, because it contains $: replace a placeholder by the name"),
    ],
)
def test_a_place_that_is_none_is_told_and_nothing_is_made(home: Home, place: str, told: str) -> None:
    if place == "circle" and not (home.temporary / "circle").is_symlink():
        (home.temporary / "circle").symlink_to("circle")
    done = home.here("bonnie", "-s", "1", "-d", place)
    assert done.returncode == 2 and told in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--user", "", "-d", SHARE), "--user is empty"),
        (("--user", "me", "-d", "/tmp"), "--user is only for URLs that begin with smb://"),
        (("-c", "1-16", "-d", "/tmp"), "--clients: must be a whole number"),
        (("-s", "1500k", "-d", "/tmp"), "-s 1500k: not a whole number of MiB: 1,500 KiB are 1.465 MiB"),
        (("-s", "512k", "-d", "/tmp"), "Use -s 1."),
        (("-s", "1.5g", "-d", "/tmp"), "must be a whole number of MB, or end with K, M or G"),
        (("-s=64", "-d", "/tmp"), "A short option has no =: write -s 64"),
    ],
)
def test_options_that_do_not_fit_the_place_are_told(home: Home, options: tuple[str, ...], told: str) -> None:
    done = home.here("bonnie", *options)
    assert done.returncode == 2 and told in done.stderr, done.stderr


def test_a_pipe_that_would_be_empty_the_second_time_is_refused(home: Home) -> None:
    fifo = home.temporary / "fifo"
    if not fifo.exists():
        os.mkfifo(fifo)
    for option in ("--data-file", "--cert", "--ca-file"):
        for file in (fifo, "-"):
            done = home.here("load", "https://127.0.0.1:9/", option, file)
            assert done.returncode == 2 and "can't be read a second time" in done.stderr, done.stderr
    done = home.here("run", fifo)
    assert done.returncode == 2 and "save the text in a file" in done.stderr, done.stderr
