"""The disk mix's calls below the client cache, over a real Samba, compared with the packet captures of 2004."""

from __future__ import annotations

from support.disk_mix import mixed, passed, served, whole
from support.file_server import samba

# Counts per pass (Windows XP, batch oplocks). A call that finds nothing has its own line.
WIRE_2004 = {
    "open": 450.5,
    "open, not there": 163.0,
    "close": 450.5,
    "read": 962.6,
    "write": 303.1,
    "query path": 367.4,
    "query path, not there": 189.0,
    "find": 104.0,
    "find, not there": 111.0,
    "query space": 102.0,
    "query file": 97.0,
    "set times": 50.0,
    "delete": 124.0,
    "flush": 43.0,
    "rename": 26.0,
    "lock": 2.0,
    "unlock": 2.0,
}
SHARE = 0.05
# SMB 2 requests for each kind of call: a single call in the table of 2004 may be a compound here.
REQUESTS = {
    "CREATE": ("open", "query path", "query space", "find", "delete", "rename"),
    "CLOSE": ("close", "query path", "query space", "find", "delete", "rename"),
    "QUERY_INFO": ("query path", "query space", "query file"),
    "SET_INFO": ("set times", "delete", "rename"),
    "READ": ("read",),
    "WRITE": ("write",),
    "FLUSH": ("flush",),
    "LOCK": ("lock", "unlock"),
}


def test_a_pass_over_samba_is_on_the_wire_what_it_was_in_2004() -> None:
    clients = 2
    # The space that the server reserves for a growing file decides how often the client extends it: once, in 2004.
    with samba({"allocation_roundup_bytes": 1 << 20}) as server:
        before = served(server)
        result = mixed(
            server,
            clients=clients,
            length_s=12.0,
            files={"cache": "oplocks", "redirector": "xp", "dormant_s": 10.0},
        )
        after = served(server)
    assert whole(result)
    calls = passed(result)
    lines = {name: float(count) for name, count in calls.items()}
    lines["open"] += lines.pop("create")
    lines |= {f"{each['call']}, not there": float(each["not_there"]) for each in result["calls"]}
    done = result["passes"]
    assert done is not None and done >= clients, "no whole pass to count"
    # The end of the level stops a client anywhere in its pass.
    missed = {
        name: (lines[name] / done, fact)
        for name, fact in WIRE_2004.items()
        if not done * fact * (1 - SHARE) <= lines[name] <= (done + clients) * fact * (1 + SHARE)
    }
    assert missed == {}
    requests = {each["request"]: each["count"] for each in result["requests"]}
    both = {name: lines[name] + lines.get(f"{name}, not there", 0.0) for name in WIRE_2004 if "," not in name}
    assert sum(after.values()) - sum(before.values()) == result["protocol_requests"]
    for request, kinds in REQUESTS.items():
        assert requests[request] >= sum(lines[kind] for kind in kinds), request
    assert requests["CREATE"] >= both["open"] + both["query path"] + both["find"] + both["query space"]
