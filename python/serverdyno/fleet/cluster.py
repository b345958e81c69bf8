"""The backend of many machines: nodes that have met at a Dask scheduler, as the controller holds them.

A node that ends, stands still or can't be reached any more is lost within `SILENT_S` and a ping. Not for: who must be
there (`membership.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import socket
import time
from collections.abc import Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

import psutil
from distributed import Client

from serverdyno.errors import DynoError
from serverdyno.fleet import dask_settings, facts, link
from serverdyno.fleet.folder import CONTROLLER, FleetFolder, host_and_port
from serverdyno.fleet.pipe import told_or_raised
from serverdyno.probes.noise import process_cpu_s

Told = TypeVar("Told")

PING_S = 0.5
DOOR_S = 1.0
SILENT_S = 3.0
"""A node that answers no ping for so long is lost."""
FACTS_S = 9.0
END_S = 5.0


class DaskNode:
    """One node, as the controller holds it."""

    def __init__(self, cluster: Cluster, name: str, address: str, told: dict[str, Any]) -> None:
        """`told`: see `facts.node_facts`."""
        self.name, self.address, self.facts = f"node {name}", address, told
        self.short_name = name
        self.lost = False
        self._cluster = cluster
        self._rpc = cluster.client.rpc(address)
        self._why, self._cpu_s, self._pid = "", 0.0, facts.pid_seen_from_here(told)
        self._request: Future[dict[str, Any]] | None = None
        self._gone = cluster.run(_event())
        self._watching = cluster.begin(self._watch())

    @property
    def host(self) -> str:
        """The address by which the fleet knows it."""
        return host_and_port(self.address.rpartition("/")[2])[0]

    @property
    def on_this_clock(self) -> bool:
        """Two time namespaces of one machine have clocks of their own."""
        here, there = facts.place(), self.facts["place"]
        return bool(here["boot"] == there["boot"] and here["time"] == there["time"] != "unknown")

    @property
    def on_this_machine(self) -> bool:
        """Whether the kernel is the same one."""
        return bool(facts.place()["boot"] == self.facts["place"]["boot"])

    def ask(self, do: str, **arguments: object) -> None:
        """Send a request; `answer` gives what it came to."""
        if self.lost:
            raise self._loss()
        self._request = self._cluster.begin(self._call(json.dumps({"do": do, "with": arguments})))

    def answer(self) -> Any:
        """Wait for the answer. Raises what the node refused with, or DynoError where it is lost."""
        assert self._request is not None, "a request comes first"
        try:
            answer = self._request.result()
        except (OSError, RuntimeError, asyncio.CancelledError) as error:
            self._lose(self._cluster.run(self._silence()))
            raise self._loss() from error
        if not answer:
            raise self._loss()
        return told_or_raised(json.loads(answer["answer"]), answer["blob"])

    def cpu_s(self) -> float:
        """Of its process, where it runs on this machine; else it uses nothing here."""
        if self._pid is not None:
            with contextlib.suppress(psutil.NoSuchProcess):
                self._cpu_s = max(self._cpu_s, process_cpu_s(self._pid))
        return self._cpu_s

    def end(self) -> None:
        """Let it go: it ends what it has under way, also where this does not reach it."""
        self._watching.cancel()
        if not self.lost:
            with contextlib.suppress(OSError, TimeoutError, asyncio.CancelledError):
                self._cluster.run(self._release())

    async def _release(self) -> None:
        await asyncio.wait_for(self._rpc.dyno_release(controller=self._cluster.controller), SILENT_S)

    async def _call(self, request: str) -> dict[str, Any]:
        """The answer; nothing where the node is lost meanwhile."""
        call = asyncio.ensure_future(self._rpc.dyno(request=request, controller=self._cluster.controller))
        gone = asyncio.ensure_future(self._gone.wait())
        await asyncio.wait({call, gone}, return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        if not call.done():
            call.cancel()
            return {}
        return dict(call.result())

    async def _watch(self) -> None:
        while not self.lost:
            try:
                ping = self._rpc.dyno_ping(controller=self._cluster.controller)
                await asyncio.wait_for(ping, SILENT_S)
            except (OSError, TimeoutError):
                self._lose(await self._silence())
            await asyncio.sleep(PING_S)

    async def _silence(self) -> str:
        """Why it doesn't answer, as far as that can be told from here."""
        at = host_and_port(self.address.rpartition("/")[2])
        try:
            _, door = await asyncio.wait_for(asyncio.open_connection(*at), DOOR_S)
        except ConnectionRefusedError:
            return "it has ended"
        except (OSError, TimeoutError):
            return "its machine does not answer: it is down, or its link is cut"
        door.close()
        return "its machine is there, and it stands still: it was stopped (SIGSTOP), or has no CPU time"

    def _lose(self, why: str) -> None:
        if not self.lost:
            self.lost, self._why = True, why
            self._cluster.client.loop.asyncio_loop.call_soon_threadsafe(self._gone.set)

    def _loss(self) -> DynoError:
        scheduler = (
            ""
            if self._cluster.has_scheduler()
            else (
                f". The fleet's scheduler at {self._cluster.folder.at} is gone, too: its nodes left with it"
            )
        )
        return DynoError(
            f"{self.name} is lost: {self._why}{scheduler}",
            hint="Once it is back (dyno fleet status), dyno resume does what is missing.",
        )


async def _event() -> asyncio.Event:
    return asyncio.Event()


class Cluster:
    """A connection to a fleet's scheduler and to its nodes."""

    def __init__(self, folder: FleetFolder, client: Client) -> None:
        self.folder, self.client = folder, client
        self.controller = f"{socket.gethostname()}-{secrets.token_hex(4)}"

    def begin(self, work: Coroutine[Any, Any, Told]) -> Future[Told]:
        """Begin something on the thread of the connection."""
        return asyncio.run_coroutine_threadsafe(work, self.client.loop.asyncio_loop)

    def run(self, work: Coroutine[Any, Any, Told]) -> Told:
        """The same, to its end."""
        return self.begin(work).result()

    def has_scheduler(self) -> bool:
        """Whether anybody listens where it should be."""
        try:
            socket.create_connection(host_and_port(self.folder.at), DOOR_S).close()
        except OSError:
            return False
        return True

    def members(self) -> dict[str, str]:
        """Name of each node that is there -> its address. Of two with one name neither."""
        found: dict[str, list[str]] = {}
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        for address, worker in workers.items():
            found.setdefault(str(worker["name"]), []).append(address)
        return {name: at[0] for name, at in sorted(found.items()) if len(at) == 1}

    def refused_connections(self) -> int:
        """How many the scheduler has refused since it began."""

        async def ask() -> str:
            return str(await self.client.scheduler.dyno_refused())

        return int(json.loads(self.run(ask())))

    def end_nodes(self) -> list[str]:
        """Ask every node that is there to end; their names."""
        members = self.members()

        async def ask(address: str) -> None:
            with contextlib.suppress(OSError, TimeoutError):
                await asyncio.wait_for(self.client.rpc(address).dyno_end(), SILENT_S)

        async def ask_all() -> None:
            await asyncio.gather(*(ask(address) for address in members.values()))

        self.run(ask_all())
        return list(members)

    def facts(self, members: dict[str, str], patience_s: float = FACTS_S) -> dict[str, dict[str, Any] | None]:
        """What each says of itself; None of one that doesn't answer in time: it reads its files for that."""

        async def ask(address: str) -> dict[str, Any] | None:
            try:
                return dict(
                    json.loads(await asyncio.wait_for(self.client.rpc(address).dyno_facts(), patience_s))
                )
            except (OSError, TimeoutError):
                return None

        async def ask_all() -> list[dict[str, Any] | None]:
            return list(await asyncio.gather(*(ask(address) for address in members.values())))

        return dict(zip(members, self.run(ask_all()), strict=True))


@contextmanager
def connected(folder: FleetFolder) -> Iterator[Cluster]:
    """A connection for as long as the block lasts. Raises DynoError where there is no scheduler, or it refuses us."""
    link.check(folder.at, folder.path / CONTROLLER)
    dask_settings.prepare()
    security = dask_settings.security(folder.path / CONTROLLER)
    try:
        client = Client(
            folder.address, security=security, set_as_default=False, timeout=dask_settings.CONNECT_S
        )
    except OSError as error:
        raise DynoError(f"the fleet's scheduler at {folder.at} can't be used: {error}") from error
    try:
        yield Cluster(folder, client)
    finally:
        with contextlib.suppress(OSError, TimeoutError):
            client.close(END_S)


def wait_for(cluster: Cluster, names: Sequence[str], patience_s: float) -> dict[str, str]:
    """Those of `names` that are there, as soon as all are, or after `patience_s`."""
    until = time.monotonic() + patience_s
    while True:
        there = cluster.members()
        if all(name in there for name in names) or time.monotonic() >= until:
            return {name: there[name] for name in names if name in there}
        time.sleep(min(PING_S, patience_s))
