"""`dyno calibrate`: what the generator could do with the CPU time that it used."""

from __future__ import annotations

from dataclasses import replace

from serverdyno.runner.calibrate import Ceiling, capacity_s

# 20,000 operations in 2 s for 1 CPU second.
PROBE = Ceiling("HTTP", clients=10, threads=1, window_s=2.0, operations=20_000, cpu_s=1.0)


def test_a_generator_that_was_held_up_could_have_made_what_its_cpu_time_allows() -> None:
    assert capacity_s(PROBE, engine_threads=1) == 20_000
    assert capacity_s(PROBE, engine_threads=2) == 40_000


def test_a_generator_that_was_the_limit_reached_its_ceiling() -> None:
    saturated = replace(PROBE, cpu_s=2.0)
    assert capacity_s(saturated, engine_threads=1) == saturated.operations / saturated.window_s


def test_cpu_time_that_was_read_later_than_the_clock_makes_no_ceiling_below_what_was_reached() -> None:
    late = replace(PROBE, cpu_s=2.01)
    assert capacity_s(late, engine_threads=1) == late.operations / late.window_s


def test_no_more_threads_count_than_there_are_clients() -> None:
    assert capacity_s(replace(PROBE, clients=2), engine_threads=4) == 40_000
