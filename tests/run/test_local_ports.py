"""Local ports: a load that needs more than this machine has is refused or reported, with a remedy."""

from __future__ import annotations

from support.consenting import said

SCRIPT = """
    with open("/proc/sys/net/ipv4/ip_local_port_range", "w") as settings:
        settings.write("40000 40019")
    target = opened(lambda path, host: (200, right(path, host)[1]))

    def level(clients, **more):
        return web_level(
            target, workload="url", clients=clients, length_s=0.3, max_rate_per_s=1000.0, verify_share=0.0, **more
        )
"""


def test_too_few_local_ports_are_told_before_the_load(namespace: str) -> None:
    script = f"""{SCRIPT}
    try:
        level(21).start()
    except OSError as error:
        print(error)
    """
    told = said(namespace, script)
    assert "21 connections to one server need as many local ports, but this machine has 20" in told
    assert "a wider net.ipv4.ip_local_port_range (sysctl; now 40000 to 40019)" in told
    assert "several machines (--fleet)" in told


def test_local_ports_that_run_out_under_load_are_told_with_the_fix(namespace: str) -> None:
    script = f"""{SCRIPT}
    load = level(4, keep_alive=False).start()
    assert load.wait(30)
    print([(row["fault"], row["advice"]) for row in load.result()["errors"] if row["fault"] == "no_ports"])
    """
    told = said(namespace, script)
    assert "no_ports" in told and "sysctl; now 40000 to 40019" in told and "TIME_WAIT" in told
