"""An intruder with one node's folder of a fleet: `python -m support.fleet_intruder HOW FOLDER MARKER [...]`.

Everything that it sends would create the file MARKER wherever it is unpickled, imported or run. HOW: `dask`, Dask's own
client and requests; `client`, requests in the fleet's format; `node`, a member with harmful answers.
"""

from __future__ import annotations

import asyncio
import gc
import json
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
from distributed import Client, Security
from distributed.comm import connect
from distributed.comm.tcp import TLS
from distributed.core import rpc
from distributed.protocol import Serialize, ToPickle

from serverdyno.fleet import dask_settings, node, plain_comm
from serverdyno.fleet.folder import SCHEDULER, NodeFolder
from serverdyno.fleet.packing import packed
from serverdyno.fleet.plain_comm import LENGTH, PlainComm

PATIENCE_S = 5
"""Longest wait for the answer to an attack."""
MOST_BYTES = 1 << 20


class Harm:
    """Creates a file when it is unpickled."""

    def __init__(self, marker: str) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Path]]:
        return Path.touch, (Path(self.marker),)


def tried(do: Callable[[], Any]) -> str:
    try:
        return f"done: {do()}"
    except Exception as error:  # noqa: BLE001 (whatever stops an attack)
        return f"{type(error).__name__}: {error}"


async def tried_in_time(work: Any) -> str:
    try:
        return f"answered: {await asyncio.wait_for(work, PATIENCE_S)}"
    except Exception as error:  # noqa: BLE001 (as above)
        return f"{type(error).__name__}: {error}"


def with_dask(folder: NodeFolder, marker: str, victim: str) -> dict[str, str]:
    """Attack a scheduler and a worker with Dask's own client, and return the outcomes."""
    at = {
        part: str(folder.path / name)
        for part, name in (("cert", "certificate.pem"), ("key", "certificate.key"))
    }
    security = Security(
        require_encryption=True,
        tls_ca_file=str(folder.path / "authority.pem"),
        tls_client_cert=at["cert"],
        tls_client_key=at["key"],
    )
    touch = Path(marker).touch
    connecting = security.get_connection_args("client")

    def with_client(do: Callable[[Client], Any]) -> str:
        def use() -> Any:
            with Client(
                folder.address, security=security, timeout=PATIENCE_S, set_as_default=False
            ) as client:
                return do(client)

        said = tried(use)
        # A client of Dask that could not connect deadlocks if it is collected while the next one starts.
        gc.collect()
        return said

    async def straight() -> dict[str, str]:
        found = {}
        for name, address in (("scheduler", folder.address), ("node", victim)):
            peer = rpc(address, connection_args=connecting, timeout=PATIENCE_S)
            told = pickle.dumps(touch)
            found[f"{name}: run"] = await tried_in_time(peer.run(function=told, args=pickle.dumps(())))
            found[f"{name}: run_function"] = await tried_in_time(peer.run_function(function=told))
            found[f"{name}: pickled"] = await tried_in_time(peer.identity(data=ToPickle(Harm(marker))))
            found[f"{name}: serialized"] = await tried_in_time(peer.identity(data=Serialize(Harm(marker))))
            for comm in peer.comms:
                comm.abort()
            await peer.close_rpc()
        return found

    return {
        "run": with_client(lambda client: client.run(touch)),
        "run_on_scheduler": with_client(lambda client: client.run_on_scheduler(touch)),
        "submit": with_client(lambda client: client.submit(touch).result(PATIENCE_S)),
        **asyncio.run(straight()),
    }


REQUESTS = (
    "run",
    "run_function",
    "run_coroutine",
    "register_scheduler_plugin",
    "register_worker_plugin",
    "plugin-add",
    "feed",
    "actor_execute",
    "upload_file",
    "update_graph",
    "connection_stream",
    "dump_state",
    "terminate",
    "dyno",
    "dyno_end",
)
"""Requests that Dask's servers or a node accept, but our scheduler does not."""


async def with_requests(folder: NodeFolder, marker: str, victim: str) -> dict[str, str]:
    """Attack them with requests in the fleet's format, and return the outcomes."""
    dask_settings.prepare()
    harm, found = pickle.dumps(Harm(marker)), {}
    connecting = dask_settings.connecting(folder.path, SCHEDULER, MOST_BYTES)

    async def asked(request: dict[str, Any]) -> Any:
        comm = await connect(folder.address, **connecting)
        try:
            await comm.write(request)
            return await comm.read()
        finally:
            comm.abort()

    async def sent(data: bytes) -> Any:
        comm = await connect(folder.address, **connecting)
        try:
            comm.stream.write(data)
            return await comm.read()
        finally:
            comm.abort()

    for name in REQUESTS:
        request = {"op": name, "function": harm, "plugin": harm, "data": harm, "filename": "harm.py"}
        found[name] = await tried_in_time(asked(request))
    marked = msgpack.packb({"op": "dyno_join", "name": {"__Pickled__": 1}, "at": {"__Serialized__": 1}})
    for name, data in {
        "a pickle": LENGTH.pack(len(harm)) + harm,
        "a marked pickle": LENGTH.pack(len(marked)) + marked,
        "a length of 8 EiB": LENGTH.pack(1 << 63),
        "deep": LENGTH.pack(60_000) + b"\x91" * 60_000,
    }.items():
        found[name] = await tried_in_time(sent(data))
    at = victim.partition("//")[2]
    found["foreign name"] = await tried_in_time(asked({"op": "dyno_join", "name": "a", "at": at}))
    found["controller's name"] = await tried_in_time(
        asked({"op": "dyno_join", "name": "controller", "at": at})
    )
    found["members"] = await tried_in_time(asked({"op": "dyno_members"}))
    connecting["peer"] = "a"

    async def of_the_node() -> Any:
        comm = await connect(victim, **connecting)
        try:
            request = packed({"do": "clock", "with": {}})
            await comm.write({"op": "dyno", "request": request, "controller": "intruder"})
            return await comm.read()
        finally:
            comm.abort()

    found["a node"] = await tried_in_time(of_the_node())
    return found


def as_node(folder: NodeFolder, marker: str, kind: str) -> None:
    """Join as a member that gives the controller harmful answers, until killed.

    `kind`: the time and kind of the attack, or the false facts about access to a server.
    """
    when, _, how = kind.partition(": ")
    harm = pickle.dumps(Harm(marker))
    answers: dict[str, Any] = {
        "an error": {
            "status": "uncaught-error",
            "exception": harm,
            "traceback": harm,
            "exception_text": "boom",
        },
        "a pickle": harm,
        "frames of Dask": {"frames": True},
        "a pickle in an answer": {"answer": harm, "late_s": 0.0, "heard_ns": 0, "said_ns": 0},
        "nothing that it should": {"facts": "[" * 100_000, "answer": 7},
        "another shape": {
            "facts": "{}",
            "answer": packed({"told": {"ended": False, "snapshot": {}, "link_down": None}}),
            "late_s": 0.0,
            "heard_ns": 0,
            "said_ns": 0,
        },
    }
    plain_write = PlainComm.write

    async def write(comm: PlainComm, msg: Any, *arguments: Any, **options: Any) -> int:
        if msg == answers["frames of Dask"]:
            return int(await TLS.write(comm, {"facts": ToPickle(Harm(marker))}))
        return await plain_write(comm, msg, *arguments, **options)

    class Hostile(node.FleetNode):
        async def dyno_facts(self) -> dict[str, str]:
            told: dict[str, str] = answers[how] if when == "facts" else await super().dyno_facts()
            return told

        def _answer(self, heard_ns: int, answer: dict[str, Any], blob: bytes | None = None) -> dict[str, Any]:
            said = answer.get("told")
            if when == "serve" and isinstance(said, dict) and "access" in said:
                said["access"] |= json.loads(how)
            is_look = isinstance(said, dict) and "snapshot" in said
            told: dict[str, Any] = super()._answer(heard_ns, answer, blob)
            return answers[how] if when == "look" and is_look else told

    plain_comm.PlainComm.write = write  # type: ignore[assignment, method-assign]
    node.FleetNode = Hostile  # type: ignore[misc]
    node.run(folder, lambda line: print(line, file=sys.stderr, flush=True))


async def at_address(folder: NodeFolder, at: str) -> None:
    """Join as a member with another member's address, until killed."""
    dask_settings.prepare()
    comm = await connect(folder.address, **dask_settings.connecting(folder.path, SCHEDULER, MOST_BYTES))
    await comm.write({"op": "dyno_join", "name": folder.name, "at": at.partition("//")[2]})
    print(f"{folder.name} has joined: {await comm.read()}", file=sys.stderr, flush=True)
    await comm.read()


def main() -> None:
    how, path, marker, last = sys.argv[1:]
    folder = NodeFolder.open(Path(path))
    if how == "dask":
        print(json.dumps(with_dask(folder, marker, last)))
    elif how == "client":
        print(json.dumps(asyncio.run(with_requests(folder, marker, last))))
    elif how == "node":
        as_node(folder, marker, last)
    elif how == "at":
        asyncio.run(at_address(folder, last))


if __name__ == "__main__":
    main()
