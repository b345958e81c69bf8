"""The backend for many machines: the controller's view of the nodes that have joined a scheduler.

A node that has ended, was stopped or can't be reached counts as lost after `SILENT_S` and one check. The controller
waits for a node that is only short of CPU time (`silence.py`). `membership.py` checks that the required nodes are
present.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import socket
import threading
import time
from collections.abc import Coroutine, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import Any, TypeVar

import psutil
from distributed.core import rpc

from serverdyno.clean import quoted
from serverdyno.errors import DynoError
from serverdyno.fleet import dask_settings, facts, link
from serverdyno.fleet.address import host_and_port
from serverdyno.fleet.contract import Exchange
from serverdyno.fleet.folder import CONTROLLER, SCHEDULER, FleetFolder
from serverdyno.fleet.packing import MOST_ANSWER_BYTES, packed, unpacked
from serverdyno.fleet.pipe import told_or_raised
from serverdyno.fleet.plain_comm import PeerError
from serverdyno.fleet.shapes import check_answer, check_facts
from serverdyno.fleet.silence import LISTENER_LOOK_S, Silence
from serverdyno.probes.noise import process_cpu_s

Told = TypeVar("Told")

LEVEL_LOOK_S = 1.2
"""Longest time between two reports of a node on a level: a level of 2 s needs two reports and no ping."""
PING_S = 1.5
"""Time from the last message of a node to a ping.

This time is longer than `LEVEL_LOOK_S`, so no pings are sent during a level.
"""
CONNECT_S = 0.75
CONNECT_LOOKS = 5
"""Number of checks within `CONNECT_S`. A single check would be late if this process gets no CPU time."""
SILENT_S = 3.0
"""A node that answers no ping for this long is lost, if it had CPU time."""
FACTS_S = 9.0
AT_ONCE = 16
"""Number of nodes that are asked for their facts at the same time. Each connection takes a TLS handshake."""
END_S = 5.0
AGAIN_S = 0.1
CHECK_MEMBERS_S = 0.5
"""Time between two checks of the fleet's members."""
ENDED = "it has ended"
UNREACHED = "its machine does not answer, because the machine or its link is down"
STANDS_STILL = "its machine answers, but the node does not run: it was stopped (SIGSTOP) or gets no CPU time"
"""Reasons why a node may not answer."""


class DaskNode:
    """One node, as seen by the controller."""

    look_s = LEVEL_LOOK_S

    def __init__(self, cluster: Cluster, name: str, address: str, told: dict[str, Any]) -> None:
        """Create the node. `told` contains its facts, see `facts.node_facts`."""
        self.name, self.address, self.facts = f"node {name}", address, told
        self.short_name = name
        self.lost = False
        self._cluster = cluster
        self._rpc = cluster.rpc(name, address)
        self._why, self._cpu_s, self._pid = "", 0.0, facts.pid_seen_from_here(told)
        self._request: Future[bytes] | None = None
        self._do = ""
        self._exchange: Exchange | None = None
        self._heard = Silence(SILENT_S, time.monotonic())
        self._gone = cluster.run(_event())
        self._watching = cluster.begin(self._watch())

    @property
    def host(self) -> str:
        """The host address of the node in the fleet's network."""
        return host_and_port(self.address.rpartition("/")[2])[0]

    @property
    def on_this_clock(self) -> bool:
        """Whether the node has the same monotonic clock as this process.

        Clocks differ between machines, and between the time namespaces of one machine.
        """
        here, there = facts.place(), self.facts["place"]
        return bool(here["boot"] == there["boot"] and here["time"] == there["time"] != "unknown")

    @property
    def exchange(self) -> Exchange:
        assert self._exchange is not None, "a request comes first"
        return self._exchange

    @property
    def on_this_machine(self) -> bool:
        """Whether the node runs on the same kernel."""
        return bool(facts.place()["boot"] == self.facts["place"]["boot"])

    def ask(self, do: str, **arguments: object) -> None:
        """Send a request. `answer` returns its result."""
        if self.lost:
            raise self._loss()
        self._do = do
        self._request = self._cluster.begin(self._call(packed({"do": do, "with": arguments})))

    def answered(self, timeout_s: float) -> bool:
        """Wait up to `timeout_s` for the answer. Return true if the answer has arrived or the node is lost."""
        assert self._request is not None, "a request comes first"
        return bool(wait([self._request], timeout_s).done)

    def answer(self) -> Any:
        """Wait for the answer. Raises the error that the node reports, or DynoError if the node is lost."""
        assert self._request is not None, "a request comes first"
        try:
            answer = self._request.result()
        except PeerError as error:
            self._lose(str(error))
            raise self._loss() from error
        except (OSError, RuntimeError, asyncio.CancelledError) as error:
            self._lose(self._cluster.run(self._silence()))
            raise self._loss() from error
        if not answer:
            raise self._loss()
        try:
            words, blob = unpacked(answer, MOST_ANSWER_BYTES)
        except ValueError as error:
            raise DynoError(f"can't parse the answer from {self.name}: {error}") from error
        try:
            told = told_or_raised(words, blob)
        except (KeyError, TypeError) as error:
            raise self._no_answer(error) from error
        try:
            check_answer(self._do, told)
        except ValueError as error:
            raise self._no_answer(error) from error
        return told

    def _no_answer(self, why: Exception) -> DynoError:
        return DynoError(f"{self.name} sent a malformed answer to {self._do}: {why}")

    def cpu_s(self) -> float:
        """Return the CPU seconds of the node's process on this machine; 0 if it runs on another machine."""
        if self._pid is not None:
            with contextlib.suppress(psutil.NoSuchProcess):
                self._cpu_s = max(self._cpu_s, process_cpu_s(self._pid))
        return self._cpu_s

    def end(self) -> None:
        """Release the node. The node ends its work soon, even if this message does not arrive."""
        self._watching.cancel()
        if not self.lost:
            with contextlib.suppress(OSError, TimeoutError, asyncio.CancelledError):
                self._cluster.run(self._release())

    async def _release(self) -> None:
        await asyncio.wait_for(said(self._rpc, "dyno_release", controller=self._cluster.controller), SILENT_S)

    async def _call(self, request: bytes) -> bytes:
        """Send a request and return the answer, or empty bytes if the node is lost meanwhile."""
        sent_ns = time.monotonic_ns()
        asked = said(self._rpc, "dyno", request=request, controller=self._cluster.controller)
        call = asyncio.ensure_future(asked)
        gone = asyncio.ensure_future(self._gone.wait())
        await asyncio.wait({call, gone}, return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        if not call.done():
            call.cancel()
            return b""
        came_ns = time.monotonic_ns()
        match call.result():
            case {
                "answer": bytes(answer),
                "late_s": float(late_s),
                "heard_ns": int(heard),
                "said_ns": int(at),
            }:
                self._exchange = Exchange(sent_ns, heard, at, came_ns)
                self._heard.heard(time.monotonic(), late_s)
                return answer
        raise PeerError("its answer is malformed")

    async def _watch(self) -> None:
        """Ping the node while no other message arrives from it, until the node is lost. A late answer counts."""
        ping: asyncio.Future[Any] | None = None
        try:
            while not self.lost:
                if ping is None and (quiet_s := self._heard.quiet_s(time.monotonic())) < PING_S:
                    await asyncio.sleep(PING_S - quiet_s)
                    continue
                ping = ping or asyncio.ensure_future(self._pinged())
                due_s = time.monotonic() + LISTENER_LOOK_S
                await asyncio.wait({ping}, timeout=LISTENER_LOOK_S)
                self._look(due_s)
                if ping.done() and isinstance(why := ping.exception(), PeerError):
                    self._lose(str(why))
                    return
                if ping.done() and ping.exception() is None:
                    self._heard.heard(time.monotonic(), ping.result())
                    ping = None
                    continue
                if ping.done():
                    ping = None
                    await asyncio.sleep(AGAIN_S)
                await self._doubt()
        finally:
            if ping is not None:
                ping.cancel()

    async def _pinged(self) -> float:
        """Ping the node. Return the recent delay of the node's own checks, in s."""
        match await said(self._rpc, "dyno_ping", controller=self._cluster.controller):
            case {"late_s": float(late_s)}:
                return late_s
        raise PeerError("its answer is malformed")

    async def _doubt(self) -> None:
        """Mark the node as lost if it has ended or has been silent for too long."""
        due_s = time.monotonic() + CONNECT_S
        why = await self._silence()
        if why == UNREACHED:
            self._look(due_s)  # the attempt to connect counts as one long look
        now_s = time.monotonic()
        if why == ENDED or self._heard.is_over(now_s, patient=why == STANDS_STILL):
            self._lose(why)

    def _look(self, due_s: float) -> None:
        self._heard.look(late_s=max(0.0, time.monotonic() - due_s))

    async def _silence(self) -> str:
        """Return why the node does not answer, judged by an attempt to connect.

        The attempt ends after a fixed number of checks, so that a controller without CPU time does not blame the node.
        """
        at = host_and_port(self.address.rpartition("/")[2])
        connecting = asyncio.ensure_future(asyncio.open_connection(*at))
        try:
            for _ in range(CONNECT_LOOKS):
                await asyncio.wait({connecting}, timeout=CONNECT_S / CONNECT_LOOKS)
            if not connecting.done():
                return UNREACHED
            _, writer = connecting.result()
        except ConnectionRefusedError:
            return ENDED
        except OSError:
            return UNREACHED
        finally:
            connecting.cancel()
        writer.close()
        return STANDS_STILL

    def _lose(self, why: str) -> None:
        if not self.lost:
            self.lost, self._why = True, why
            self._cluster.loop.call_soon_threadsafe(self._gone.set)

    def _loss(self) -> DynoError:
        scheduler = (
            ""
            if self._cluster.has_scheduler()
            else (
                f". The fleet's scheduler at {self._cluster.folder.at} no longer answers, so its other nodes are lost"
            )
        )
        return DynoError(
            f"{self.name} is lost: {self._why}{scheduler}",
            hint="Once dyno fleet status lists the node again, dyno resume measures the missing levels.",
        )


async def _event() -> asyncio.Event:
    return asyncio.Event()


async def said(peer: rpc, handler: str, **words: object) -> dict[str, Any]:
    """Send a request to a peer and return the answer.

    Raises OSError if there is no answer, and PeerError if the peer refuses the request or fails.
    """
    try:
        answer: dict[str, Any] = await getattr(peer, handler)(**words)
    except PeerError as error:
        raise PeerError(str(error.__cause__ or error)) from error
    except OSError:
        raise
    except Exception as error:  # an error in the peer's handler, as reported by Dask's server
        raise PeerError(f"it failed: {quoted(str(error))}") from error
    if "refused" in answer:
        raise PeerError(quoted(str(answer["refused"])))
    return answer


class Cluster:
    """A connection to a fleet's scheduler and its nodes."""

    def __init__(self, folder: FleetFolder, loop: asyncio.AbstractEventLoop) -> None:
        """Create the cluster. `loop` runs in its own thread."""
        self.folder, self.loop = folder, loop
        self.controller = f"{socket.gethostname()}-{secrets.token_hex(4)}"
        self._connecting = dask_settings.connecting(folder.path / CONTROLLER, SCHEDULER, MOST_ANSWER_BYTES)
        self._peers: dict[tuple[str, str], rpc] = {}

    def begin(self, work: Coroutine[Any, Any, Told]) -> Future[Told]:
        """Start a coroutine on the connection's thread."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def run(self, work: Coroutine[Any, Any, Told]) -> Told:
        """Run a coroutine to its end on the connection's thread."""
        return self.begin(work).result()

    def rpc(self, name: str, address: str) -> rpc:
        """Return an RPC client for a peer whose certificate must have this name. It connects at the first request."""
        if (name, address) not in self._peers:
            connecting = self._connecting | {"peer": name}
            self._peers[name, address] = rpc(address, deserialize=False, connection_args=connecting)
        return self._peers[name, address]

    def close(self) -> None:
        """Close all connections. Pending requests get no answer."""

        async def close_all() -> None:
            for peer in self._peers.values():
                for comm in peer.comms:
                    comm.abort()
                await peer.close_rpc()

        self.run(close_all())

    def has_scheduler(self) -> bool:
        """Return whether anything listens at the scheduler's address."""
        try:
            socket.create_connection(host_and_port(self.folder.at), CONNECT_S).close()
        except OSError:
            return False
        return True

    def members(self) -> dict[str, str]:
        """Return the address of each joined node, by name.

        Raises DynoError if the scheduler does not answer.
        """
        told = self._of_scheduler("dyno_members")["members"]
        return {name: dask_settings.address_of(at) for name, at in told.items()}

    def refused_connections(self) -> int:
        """Return how many connections the scheduler has refused since its start. Raises DynoError."""
        return int(self._of_scheduler("dyno_refused")["refused_connections"])

    def _of_scheduler(self, request: str) -> dict[str, Any]:
        scheduler = self.rpc(SCHEDULER, self.folder.address)
        try:
            return self.run(asyncio.wait_for(said(scheduler, request), dask_settings.CONNECT_S))
        except (OSError, TimeoutError) as error:
            raise link.NobodyThere(
                f"the fleet's scheduler at {self.folder.at} does not answer{f': {error}' if error else ''}"
            ) from error

    def end_nodes(self) -> list[str]:
        """Tell every joined node to end, and return the names of these nodes."""
        members = self.members()

        async def ask(name: str, address: str) -> None:
            with contextlib.suppress(OSError, TimeoutError):
                await asyncio.wait_for(said(self.rpc(name, address), "dyno_end"), SILENT_S)

        async def ask_all() -> None:
            await asyncio.gather(*(ask(name, address) for name, address in members.items()))

        self.run(ask_all())
        return list(members)

    def facts(self, members: dict[str, str], patience_s: float = FACTS_S) -> dict[str, dict[str, Any] | None]:
        """Return the facts that each node reports, or None for a node that does not answer in time.

        Raises DynoError if a node's certificate has another name, or if its answer is malformed.
        """
        until_s = time.monotonic() + patience_s
        turns = asyncio.Semaphore(AT_ONCE)

        async def ask(name: str, address: str) -> dict[str, Any] | None:
            async with turns:
                asked = said(self.rpc(name, address), "dyno_facts")
                try:
                    told = (await asyncio.wait_for(asked, until_s - time.monotonic()))["facts"]
                    found = json.loads(told)
                    check_facts(found)
                except PeerError as error:
                    raise DynoError(f"node {name} is not used: {error}") from error
                except (KeyError, TypeError, ValueError, RecursionError) as error:
                    raise DynoError(f"node {name} sent a malformed description of itself: {error}") from error
                except (OSError, TimeoutError):
                    return None
                return dict(found)

        async def ask_all() -> list[dict[str, Any] | None]:
            return list(await asyncio.gather(*(ask(*member) for member in members.items())))

        return dict(zip(members, self.run(ask_all()), strict=True))


@contextmanager
def _loop() -> Iterator[asyncio.AbstractEventLoop]:
    """Yield an event loop in its own thread. At the end of the block, everything that runs in it is cancelled."""
    begun: Future[asyncio.AbstractEventLoop] = Future()

    async def stay() -> None:
        end.append(asyncio.Event())
        begun.set_result(asyncio.get_running_loop())
        await end[0].wait()

    end: list[asyncio.Event] = []
    thread = threading.Thread(target=lambda: asyncio.run(stay()), name="fleet", daemon=True)
    thread.start()
    loop = begun.result()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(end[0].set)
        thread.join(END_S)


@contextmanager
def connected(folder: FleetFolder) -> Iterator[Cluster]:
    """Yield a connection for the duration of the block.

    Raises DynoError if there is no scheduler, or if the scheduler refuses the controller.
    """
    link.check(folder.at, folder.path / CONTROLLER)
    dask_settings.prepare()
    with _loop() as loop:
        cluster = Cluster(folder, loop)
        try:
            yield cluster
        finally:
            cluster.close()


def wait_for(cluster: Cluster, names: Sequence[str], patience_s: float) -> dict[str, str]:
    """Wait for at most `patience_s` until all nodes in `names` have joined.

    Return the addresses of the joined nodes.
    """
    until = time.monotonic() + patience_s
    while True:
        there = cluster.members()
        if all(name in there for name in names) or time.monotonic() >= until:
            return {name: there[name] for name in names if name in there}
        time.sleep(min(CHECK_MEMBERS_S, patience_s))
