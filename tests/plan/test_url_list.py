"""Users' files of URLs: accepted, or refused with line and advice."""

from __future__ import annotations

import gzip
import re
import subprocess
from pathlib import Path

import pytest

from serverdyno.errors import PlanError
from serverdyno.plan.url_list import read_url_list

URL = "http://127.0.0.1:8080/"


def logged(request: str) -> str:
    return f'1.2.3.4 - - [28/Nov/2026:21:00:00 +0000] "{request} HTTP/1.1" 200 5 "-" "x"\n'


def listed(tmp_path: Path, content: bytes | str) -> list[str]:
    file = tmp_path / "urls.txt"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_url_list(file, URL)


@pytest.mark.parametrize(
    ("content", "paths"),
    [
        ("/a\n\n# a comment\n/b 3\n", ["/a", "/b 3"]),
        ("/a\n/b\n/a\n", ["/a 2", "/b"]),
        (b"\xef\xbb\xbf/a\r\n/b\r\n", ["/a", "/b"]),
        ("/a\r\n".encode("utf-16"), ["/a"]),
        ("/caf\u00e9?q=\u017elu\n", ["/caf%C3%A9?q=%C5%BElu"]),
        ("http://127.0.0.1:8080/x?y=1\nHTTP://127.0.0.1:8080\n", ["/x?y=1", "/"]),
        ("GET http://127.0.0.1:8080/x\nGET /y HTTP/1.1\n", ["/x", "/y"]),
        ("   1200 /index.html\n     31 /about\n", ["/index.html 1200", "/about 31"]),
        ("31 http://127.0.0.1:8080/about\n", ["/about 31"]),
        ('1.2.3.4 - - [28/Nov/2026:21:00:00 +0000] "GET /a HTTP/1.1" 200 5 "-" "x"\n' * 2, ["/a 2"]),
        ("/page#part\n", ["/page"]),
        ("/map,3 1\n/a,b\n/c;d=1,2 1\n", ["/map,3", "/a,b", "/c;d=1,2"]),
        ('{"request":"GET /a HTTP/1.1","status":200}\n', ["/a"]),
        ("/a%20b\n", ["/a%20b"]),
        (logged(r"GET /a.txt?x=\x22q\x22"), ['/a.txt?x="q"']),
        (logged(r"GET /bilder/Z\xC3\xBCrich.txt"), ["/bilder/Z%C3%BCrich.txt"]),
        (logged(r"GET /a?x=\"q\"&y=\\\\&z=\t\x5C"), [r'/a?x="q"&y=\\&z=%09' + "\\"]),
        (
            r'{"request":"GET \/a\u00fc\ud83d\ude00\ud800?b=\"c\" HTTP\/1.1"}'.replace("HTTP\\/", "HTTP/"),
            [r'/a%C3%BC%F0%9F%98%80%EF%BF%BD?b="c"'],
        ),
        ("/raw\\x22\n", ["/raw\\x22"]),
        ("\t/a\t7\n", ["/a 7"]),
    ],
)
def test_lists_that_people_have_are_taken(tmp_path: Path, content: bytes | str, paths: list[str]) -> None:
    assert listed(tmp_path, content) == paths


@pytest.mark.parametrize(
    ("url", "listed_url"),
    [("http://server/", "http://server:80/x"), ("https://server:443/", "https://server/x")],
)
def test_the_port_of_a_scheme_may_be_left_out(tmp_path: Path, url: str, listed_url: str) -> None:
    (tmp_path / "urls.txt").write_text(listed_url)
    assert read_url_list(tmp_path / "urls.txt", url) == ["/x"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("/a\nb\n", "line 2: 'b' does not begin with /; write /b"),
        ("./sub/s.html\n", "line 1: './sub/s.html' does not begin with /; write /sub/s.html"),
        ("http://$(HOST)/good\n", "line 1: http://$(HOST)/good has a variable of siege; write its value"),
        ("/a\nhttp://other/x\n", "line 2: http://other/x is not on the server http://127.0.0.1:8080/"),
        ("$(HOST)/index.html\n", "line 1: $(HOST)/index.html has a variable of siege; write its value"),
        ("HOST=127.0.0.1\n", "if it defines a variable of siege, write its value in the URLs"),
        ("https://127.0.0.1:8080/x\n", "line 1: https://127.0.0.1:8080/x is not on the server"),
        ("POST http://127.0.0.1:8080/x\n", "line 1: the method is POST; keep the lines with GET"),
        ("http://127.0.0.1:8080/x POST a=b\n", "line 1: a request with a method or a body"),
        ('{"method": "GET", "url": "http://127.0.0.1:8080/"}\n{}\n', "line 1: JSON; keep only the paths"),
        ('{"method":"GET","url":"http://127.0.0.1:8080/good"}\n', "jq -r '.url' FILE"),
        ('{"level":"info","request":{"method":"GET","host":"x","uri":"/a"}}\n', "jq -r '.request.uri' FILE"),
        ('{"referer":"http://x/","request":"GET /a"}\n', "jq -r '.request' FILE"),
        ('["/a", "/b"]\n', "jq -r '.[]' FILE"),
        ('[\n  "/a",\n  "/b"\n]\n', "1 problem"),
        ("<urlset><url><loc>http://127.0.0.1:8080/good</loc></url></urlset>\n", "XML (such as a sitemap)"),
        ('<?xml version="1.0"?>\n<urlset>\n', "1 problem"),
        ("url,weight\n/good,3\n", "line 1: a table with commas (CSV); write /path weight"),
        ('"/good",3\n', "line 1: a table with commas (CSV)"),
        (
            "/a\n/good,3\n",
            "line 2: a comma before a number: write /good 3 if the number is a weight, or /good,3 1 if the comma "
            "belongs to the path",
        ),
        (
            "see:http://127.0.0.1:8080/a\n",
            "line 1: 'see:http://127.0.0.1:8080/a' begins with neither / nor http://",
        ),
        (
            "#Software: IIS\n#Fields: date time cs-method cs-uri-stem s-port\n2026 12:00 GET /good 80\n",
            "line 2: a log in W3C's extended format, as written by IIS; keep only the paths of GET requests: "
            "awk '!/^#/ && $3 == \"GET\" {print $4}' FILE",
        ),
        ("/a b c\n", "line 1: '/a b c' is not a path; write /path, or /path weight; write a space as %20"),
        ("Content-Type: text/plain\n", "line 1: "),
        (
            '1.2.3.4 - - [28/Nov/2026:21:00:00 +0000] "-" 400 0 "-" "-"\n',
            "this line of an access log has no request",
        ),
        ("/a 0.5\n", "line 1: the weight 0.5 is not a whole number"),
        (b"/a\n/caf\xe9\n", "line 2: not UTF-8 text; iconv -f ISO-8859-1 -t UTF-8"),
        ("# nothing, a\n", "it contains no path; write one per line"),
        (
            "".join(f"/{number}\n" for number in range(251)),
            "251 different paths, more than 250; keep the most",
        ),
        ("/a 10000000000\n", "line 1: the weight 10000000000 is above 999,999,999"),
        ("http://[::1/x\n", "line 1: http://[::1/x is not a URL"),
    ],
)
def test_others_are_refused_with_line_and_advice(tmp_path: Path, content: bytes | str, words: str) -> None:
    with pytest.raises(PlanError) as raised:
        listed(tmp_path, content)
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("content", "paths"),
    [
        ('"path","weight"\r\n"/a.txt",2\r\n"/b",1\r\n', ["/a.txt 2", "/b"]),
        ("url;weight\nhttp://127.0.0.1:8080/a;3\n", ["/a 3"]),
        ('"/a","2"\n', ["/a 2"]),
        ("path,title\n/a\n", ["/a"]),
        (
            "<urlset><url>\n<loc>http://127.0.0.1:8080/a?b=1&amp;c=2</loc></url>\n<url><loc> http://127.0.0.1:8080/d "
            "</loc></url></urlset>\n",
            ["/a?b=1&c=2", "/d"],
        ),
    ],
)
def test_the_command_for_another_format_makes_a_list_that_is_taken(
    tmp_path: Path, content: str, paths: list[str]
) -> None:
    with pytest.raises(PlanError) as raised:
        listed(tmp_path, content)
    found = re.search(r"(?:awk|grep) .* FILE(?: \| sed \S+ ?\S+')?", str(raised.value))
    assert found is not None, raised.value
    command = found[0].replace("FILE", str(tmp_path / "urls.txt"))
    done = subprocess.run(["sh", "-c", command], capture_output=True, check=True, timeout=60)
    assert listed(tmp_path, done.stdout) == paths


def test_every_line_that_can_not_be_used_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="2 problems") as raised:
        listed(tmp_path, "a\n/b\nc\n")
    assert [problem.split(":")[0] for problem in raised.value.problems] == ["line 1", "line 3"]


def test_a_log_with_other_requests_is_told_once_by_cause_with_a_remedy(tmp_path: Path) -> None:
    lines = [logged("GET /a"), logged("POST /b"), logged("HEAD /a")]
    lines += [logged(text).replace(" HTTP/1.1", "") for text in ("-", r"\x16\x03\x01", "GET /")]
    with pytest.raises(PlanError, match="3 problems") as raised:
        listed(tmp_path, "".join(lines * 5000))
    posts, heads, none = raised.value.problems
    assert posts.startswith(
        "line 2 and 4,999 other lines: the method is POST; keep the lines with GET (grep -E "
    )
    assert heads.startswith("line 3 and 4,999 other lines: the method is HEAD; ")
    assert none.startswith("line 4 and 14,999 other lines: this line of an access log has no request; ")
    [pattern] = re.findall("grep -E '(.*)' FILE", posts)
    kept = [line for line in lines if re.search(pattern, line)]
    assert listed(tmp_path, "".join(kept)) == ["/a"]


def test_a_packed_log_is_told_with_the_program_that_prints_it(tmp_path: Path) -> None:
    file = tmp_path / "access.log.gz"
    file.write_bytes(gzip.compress(b"/a\n"))
    with pytest.raises(PlanError, match="it is compressed; zcat FILE prints its text"):
        read_url_list(file, "http://127.0.0.1/")
