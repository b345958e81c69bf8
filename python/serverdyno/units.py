"""Units, and the format of figures in every table for people."""

from __future__ import annotations

NS_PER_MS = 1e6
NS_PER_S = 1e9
MS_PER_S = 1000
BITS_PER_BYTE = 8
BITS_PER_MBIT = 1e6
MIB = 1 << 20


def mbit_per_s(byte_count: float, seconds: float) -> float:
    """Return the throughput in Mbit/s (10^6 bits) of `byte_count` bytes moved in `seconds`."""
    return byte_count * BITS_PER_BYTE / BITS_PER_MBIT / seconds


def percentile_name(share: float) -> str:
    """Return the name of a percentile in every column and key, without its unit: `p99_9` for 0.999."""
    return f"p{share * 100:g}".replace(".", "_")


class Written(str):
    """A figure as text for people. `value` is the unrounded figure, for programs."""

    __slots__ = ("value",)
    value: float

    def __new__(cls, text: str, value: float) -> Written:
        made = super().__new__(cls, text)
        made.value = value
        return made


def format_count(value: float) -> str:
    """Return a count or rate with thousands separators: `12,345`, or two decimals below ten."""
    return Written(f"{value:,.0f}" if abs(value) >= 10 else f"{value:,.2f}", value)


def format_duration_s(seconds: float) -> str:
    """Return a duration for people: `45 s`, `3 min 20 s`, `12 min`, `1 h 20 min`."""
    whole = round(seconds)
    if whole < 90:
        return f"{whole} s"
    if whole < 600:
        return f"{whole // 60} min {whole % 60:02} s" if whole % 60 else f"{whole // 60} min"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02} min"
