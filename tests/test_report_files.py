"""What a report says of file servers: Mbit/s, durability, single clients, calls, and times by operation."""

import io
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from serverdyno.report import charts, document, durability, html, markdown, text
from serverdyno.report.build import build_from
from serverdyno.report.model import Report, Table
from serverdyno.report.source import Source
from serverdyno.store.records import MixRecord, SyncRow
from synthetic_files import FileShape, experiment, without_clients
from test_report_views import check_golden

STRICT = {"samba-strict": FileShape(120), "samba-lax": FileShape(300, syncs_a_flush=0.0)}
EACH = "at least as many syncs as flushes in each mix, but for the opening of its window"
FEWER = "fewer syncs than flushes in at least one mix"
NONE, STRAY = "flushes answered without any sync", "flushes answered without a sync but for strays"
NOWHERE = "what the files lie on is not known"
MEMORY = "synced to memory: nothing is on a disk"
SYNCHRONOUS = "not known: the file system writes synchronously (mount option sync)"
DIRECTORIES = "not known: the file system writes directories synchronously (mount option dirsync)"
CACHE = "syncs go no further than the device's cache: mounted "
IGNORED = "syncs are ignored: mounted volatile"


def report_of(source: Source, change: Callable[[MixRecord], MixRecord] | None = None) -> Report:
    return build_from(
        source if change is None else replace(source, records=[change(row) for row in source.records])
    )


def table(report: Report, key: str) -> Table:
    return next(table for table in report.tables if table.key == key)


def column(table: Table, label: str) -> list[str]:
    place = next(place for place, column in enumerate(table.columns) if column.label == label)
    return [row[place].text for row in table.rows]


@pytest.fixture(scope="module")
def report() -> Report:
    return report_of(experiment(STRICT))


def test_throughput_is_in_mbit_of_what_applications_moved(report: Report) -> None:
    apache = report.results.configurations[0]
    first = report.source.records[0]
    assert first.configuration == apache.name
    moved = first.bytes_read + first.bytes_written
    assert apache.runs.throughput[0, 0] == pytest.approx(moved * 8 / 1e6 / first.window_s)
    assert table(report, "throughput").columns[2].unit == "Mbit/s"
    assert table(report, "peaks").columns[1].unit == "Mbit/s"
    assert [axis for figure in report.figures if figure.key == "throughput" for axis in _axes(figure)] == [
        "Mbit/s"
    ]


def _axes(figure: object) -> list[str]:
    return [panel.y_title for panel in figure.panels]  # type: ignore[attr-defined]


def test_nothing_is_said_in_requests_a_second(report: Report) -> None:
    said = [*report.summary.text, *(f"{found.claim} {found.evidence}" for found in report.findings)]
    heads = [f"{head.label} {head.unit}" for table in report.tables for head in table.columns]
    assert not any("requests/s" in words for words in said + heads)


def test_what_a_client_moved_before_it_left_is_not_throughput() -> None:
    source = experiment({"samba": FileShape(120)}, repetitions=1)
    whole = report_of(source).results.configurations[0].runs.throughput
    hit = source.records[-1]
    report = report_of(source, lambda row: without_clients(row, 4) if row is hit else row)
    left = report.results.configurations[0].runs.throughput
    assert left[0, :-1].tolist() == whole[0, :-1].tolist()
    gone = sum((row.bytes_read or 0) + row.bytes_written for row in hit.by_client[:4])
    assert whole[0, -1] - left[0, -1] == pytest.approx(gone * 8 / 1e6 / hit.window_s)
    assert column(table(report, "clients"), "Clients left")[-1] == "4"
    assert "L" in table(report, "throughput").rows[-1][2].marks


def test_when_all_clients_left_that_is_said_and_not_that_nothing_succeeded() -> None:
    source = experiment(STRICT, repetitions=2)
    report = report_of(
        source,
        lambda row: without_clients(row, row.clients) if row.configuration == "samba-lax" else row,
    )
    said = " ".join([*report.summary.text, *(found.claim for found in report.findings)])
    assert "completed no operation" not in said
    assert (
        said.count("samba-lax has no throughput: all clients left in the mixes of 1, 2, 4, 8 and 16 clients")
        == 2
    )
    [head] = [warning for warning in report.warnings if warning.startswith("Clients left")]
    assert head.startswith(
        "Clients left in 5 of 10 points, all repetitions together: samba-lax with 1 client (all of"
    )
    assert (
        "8 clients (all of 16) and 1 more. These points are marked L" in head
        and "Throughput counts nothing" in head
    )

    hit = source.records[-1]
    few = report_of(source, lambda row: without_clients(row, 3) if row is hit else row)
    [head] = [warning for warning in few.warnings if warning.startswith("Clients left")]
    assert f"together: {hit.configuration} with 16 clients (3 of 32). These" in head


def test_what_passed_below_the_cache_stands_beside_each_mix_in_every_form(report: Report) -> None:
    shown = table(report, "throughput")
    assert [(head.label, head.unit) for head in shown.columns[2:]] == [
        (name, unit) for name in STRICT for unit in ("Mbit/s", "Mbit/s below the cache")
    ]
    rows = [row for row in report.source.records if row.configuration == "samba-lax" and row.mix == 3]
    passed = [(row.bytes_in + row.bytes_out) * 8 / 1e6 / row.window_s for row in rows]
    mean = sum(passed) / len(passed)
    assert shown.rows[2][5].text == f"{mean:,.0f}"
    [points] = [raw for raw in report.raw if raw.name == "points"]
    at = points.columns.index("below_cache_mbit_s_mean")
    [kept] = [row[at] for row in points.rows if row[:2] == ("samba-lax", rows[0].clients)]
    assert kept == pytest.approx(mean)
    point = document.document(report).configurations[1].points[2]
    assert point.below_cache_mbit_s is not None and point.below_cache_mbit_s.mean == pytest.approx(mean)
    for view in (markdown.text(report), html.page(report, {key.key: "" for key in report.figures})):
        assert "Mbit/s below the cache" in view


def few_passes(source: Source, mixes: set[int], configuration: str) -> Report:
    """Where the clients of some mixes of a configuration made less than a pass, and all others one and more."""
    return report_of(
        source,
        lambda row: replace(
            row,
            passes=row.clients // 2
            if (row.mix in mixes and row.configuration == configuration)
            else 2 * row.clients,
        ),
    )


def test_a_mix_of_less_than_a_pass_is_marked_and_so_is_what_is_compared_of_it() -> None:
    source = experiment(STRICT)
    aside = few_passes(source, {1}, "samba-lax")  # not at the peak, but in the average
    marks = [[cell.marks for cell in row[2::2]] for row in table(aside, "throughput").rows]
    assert marks == [["U", "UP"], *[["U", "U"]] * 4]
    assert any(note.startswith("P part of a pass: ") for note in table(aside, "throughput").notes)
    assert [row[3].marks for row in table(aside, "improvements").rows] == ["", "P"]
    assert any(note.startswith("P part of a pass: ") for note in table(aside, "improvements").notes)
    [claim] = [found.claim for found in aside.findings if found.topic == "Comparison"]
    assert "less than one pass of the workload in the window in mixes of overall average, so" in claim
    assert [row.part_of_a_pass for row in document.document(aside).comparisons] == [False, True]

    at_peak = few_passes(source, {3}, "samba-strict")
    assert [row[3].marks for row in table(at_peak, "improvements").rows] == ["P", "P"]
    assert "P" in table(at_peak, "peaks").rows[0][1].marks
    whole = few_passes(source, set(), "samba-lax")
    assert not any("pass" in found.claim for found in whole.findings)
    assert not any("P part" in note for table in whole.tables for note in table.notes)


def test_passes_of_the_ramps_are_none_of_the_window() -> None:
    source = experiment({"samba": FileShape(120)}, repetitions=2)

    def half_outside(record: MixRecord) -> MixRecord:
        # 1.5 passes a client in the mix, 0.75 in the window; of the first mix 3 and 1.5.
        passes = record.clients * (3 if record.mix == 1 else 1.5)
        return replace(record, passes=int(passes), operations_total=2 * record.operations)

    report = report_of(source, half_outside)
    assert ["P" in row[2].marks for row in table(report, "throughput").rows] == [
        False,
        True,
        True,
        True,
        True,
    ]
    [said] = [warning for warning in report.warnings if "marked P" in warning]
    assert said.startswith(
        "In 4 of 5 points (of 2, 4, 8 and 16 clients) there was less than one pass of the workload in"
    )
    assert "nearer" not in said


@pytest.mark.parametrize("repetitions", [2, 3])
def test_a_peak_is_marked_p_only_for_the_mixes_at_which_it_was_read(repetitions: int) -> None:
    # Noise at the other mixes makes all of them candidates for the peak; every run has its highest at the third.
    source = experiment(
        {"a": FileShape(120, noise=0.0), "b": FileShape(120, noise=0.0)}, repetitions=repetitions
    )
    scatter = {1: 1.0, 2: 0.5, 3: 0.9}

    def scattered(record: MixRecord) -> MixRecord:
        share = 1.0 if record.mix == 3 else 0.98 * scatter[record.repetition]
        moved = [
            replace(row, bytes_read=int(share * 8_000_000 / record.clients), bytes_written=0)
            for row in record.by_client
        ]
        return replace(record, by_client=moved)

    noisy = replace(source, records=[scattered(row) for row in source.records])
    aside = few_passes(noisy, {2}, "a")
    peak = aside.results.configurations[0].shape.peak
    assert peak is not None and peak.mix == 2 and 1 in (peak.candidates or ())
    assert [row[3].marks for row in table(aside, "improvements").rows] == ["", "P"]
    assert [row[3].marks for row in table(few_passes(noisy, {3}, "a"), "improvements").rows] == ["P", "P"]


def test_single_clients_are_those_that_stayed_with_how_even_they_were_served() -> None:
    source = experiment({"samba": FileShape(120)}, repetitions=1)
    hit = source.records[1]
    report = report_of(source, lambda row: without_clients(row, 1) if row is hit else row)
    stayed = [(row.bytes_read or 0) + row.bytes_written for row in hit.by_client[1:]]
    mbit_s = np.array(stayed) * 8 / 1e6 / hit.window_s
    row = table(report, "clients").rows[1]
    assert [cell.text for cell in row[2:5]] == [f"{mbit_s.mean():.1f}"] * 3
    assert row[6].text == "1.000"
    uneven = [replace(client, bytes_read=0, bytes_written=0) for client in source.records[2].by_client[:3]]
    starved = replace(source.records[2], by_client=[*uneven, source.records[2].by_client[3]])
    report = report_of(source, lambda row: starved if row is source.records[2] else row)
    assert table(report, "clients").rows[2][6].text == "0.250"


def test_what_differs_between_runs_is_not_sold_as_unfairness_to_clients() -> None:
    source = experiment({"samba": FileShape(120)}, repetitions=2)

    def slower(record: MixRecord) -> MixRecord:
        share = 4 if record.repetition == 2 else 1
        moved = [replace(row, bytes_read=4_000_000 // share, bytes_written=0) for row in record.by_client]
        return replace(record, by_client=moved)

    shown = table(report_of(source, slower), "clients")
    assert [(row[6].text, row[6].detail) for row in shown.rows] == [("1.000", "1.000–1.000")] * 5  # noqa: RUF001
    assert {row[5].text for row in shown.rows[1:]} == {"0"}
    assert shown.rows[0][5].text == "–"  # noqa: RUF001  (one client deviates from nobody)
    assert "with the smallest and the largest" in shown.basis


def test_calls_below_the_cache_are_counted_by_operation_at_the_peak(report: Report) -> None:
    peak = [row for row in report.source.records if row.configuration == "samba-lax" and row.mix == 3]
    calls = [call for row in peak for call in row.calls if call.call == "create"]
    creates = sum(call.done + call.not_there + call.failed for call in calls)
    operations = sum(row.operations_total for row in peak)
    shown = [row[2].text for row in table(report, "calls").rows if row[0].text == "create"]
    assert shown == [f"{1000 * creates / operations:,.0f}"]
    requests = sum(row.count for record in peak for row in record.requests)
    assert column(table(report, "cache"), "Requests")[1] == f"{requests:,}"


def test_sessions_that_were_lost_and_set_up_again_stand_beside_the_connections() -> None:
    source = experiment({"samba": FileShape(120)}, repetitions=2)
    report = report_of(source, lambda row: replace(row, connections=row.clients + 1, reconnects=1))
    shown = table(report, "connections")
    assert column(shown, "Connections") == [f"{2 * (int(text) + 1)}" for text in column(shown, "Clients")]
    assert set(column(shown, "Reconnects")) == {"2"}
    assert any("sessions set up after one" in note for note in shown.notes)
    assert not any("keep" in note or "kept" in note for note in shown.notes)


def test_a_run_of_a_file_server_is_counted_in_requests_of_the_protocol_and_none_of_them_fails() -> None:
    source = experiment({"samba": FileShape(120)}, repetitions=1)
    note = {
        "state": "done",
        "requests_answered": 10_000,
        "requests_failed": None,
        "requests_by_server_count": 10_000,
    }
    report = report_of(replace(source, run_notes={1: note}))
    shown = table(report, "runs")
    assert [head.unit for head in shown.columns[-3:]] == ["requests"] * 3
    assert [cell.text for cell in shown.rows[0][-3:]] == ["10,000", "–", "10,000"]  # noqa: RUF001
    assert not any("the generator counted" in said for said in report.warnings)


def test_flushes_and_syncs_are_disclosed_run_by_run(report: Report) -> None:
    shown = table(report, "durability")
    assert column(shown, "What became of a flush") == [
        EACH,
        "flushes answered without any sync",
        "flushes answered without any sync",
        EACH,
        EACH,
        "flushes answered without any sync",
    ]
    run = [row for row in report.source.records if row.run == 1]
    flushes = sum(row.count for record in run for row in record.by_operation if row.operation == "flush")
    assert column(shown, "Flushes")[0] == f"{flushes:,}"
    assert column(shown, "The disk's own fsync p50")[0] == "4.20"


def test_what_differs_in_durability_stands_above_all_figures(report: Report) -> None:
    [warning] = [warning for warning in report.warnings if "flush" in warning]
    assert warning.startswith(
        "The configurations differ in what became of a flush, so their throughput buys different"
    )
    assert f"samba-strict: {EACH}; samba-lax: flushes answered without any sync." in warning


def test_programs_and_who_reads_no_further_than_the_summary_see_it_too(report: Report) -> None:
    highest = next(said for said in report.summary.text if "Highest peak" in said)
    assert f"clients, {NONE}. Lowest peak: samba-strict, " in highest and f"clients, {EACH}." in highest
    made = document.document(report)
    assert [each.flush_outcome for each in made.configurations] == [EACH, NONE]
    strict, lax = made.configurations
    assert strict.flushes == strict.syncs != 0 and lax.flushes and lax.syncs == 0
    assert {each.differs_in_durability for each in made.comparisons} == {True}
    assert in_improvements(report, "differs_in_durability") == {"yes"}


def in_improvements(report: Report, column: str) -> set[object]:
    [kept] = [raw for raw in report.raw if raw.name == "improvements"]
    return {row[kept.columns.index(column)] for row in kept.rows}


@pytest.mark.parametrize(("syncs", "differs", "cell"), [(1.0, False, "no"), (None, None, None)])
def test_what_is_alike_or_not_known_is_not_called_different(
    syncs: float | None, differs: bool | None, cell: str | None
) -> None:
    shapes = {"a": FileShape(100), "b": FileShape(200, syncs_a_flush=syncs)}
    report = report_of(experiment(shapes))
    assert {each.differs_in_durability for each in document.document(report).comparisons} == {differs}
    assert in_improvements(report, "differs_in_durability") == {cell}
    assert in_improvements(report, "part_of_a_pass") == {"yes", "no"}  # of the average, and not of the peak
    highest = next(said for said in report.summary.text if "Highest peak" in said)
    assert (EACH in highest) is (syncs is None)


def test_a_comparison_of_a_server_that_flushes_with_one_that_does_not_says_so(report: Report) -> None:
    [claim] = [found.claim for found in report.findings if found.topic == "Comparison"]
    assert "They differ in what became of a flush, so like is not compared with like." in claim
    [durable] = [found.claim for found in report.findings if found.topic == "Durability"]
    assert "samba-lax: flushes answered without any sync (" in durable
    assert durable.endswith(" flushes, 0 syncs).")
    alike = report_of(experiment({"a": FileShape(100), "b": FileShape(200)}))
    assert "flush" not in " ".join(found.claim for found in alike.findings if found.topic == "Comparison")
    unknown = report_of(experiment({"a": FileShape(100), "b": FileShape(200, syncs_a_flush=None)}))
    [claim] = [found.claim for found in unknown.findings if found.topic == "Comparison"]
    assert "Whether they did the same with a flush is not known." in claim


@pytest.mark.parametrize(
    ("syncs", "verdict", "warning"),
    [
        (1.0, EACH, ""),
        (0.985, EACH, ""),
        (0.4, FEWER, ""),
        (0.0, "flushes answered without any sync", "What a client believed to be on the disk was not."),
        (None, "not known", "What became of a flush is not known for samba"),
    ],
)
def test_the_verdict_on_flushes_is_that_of_the_counts(
    syncs: float | None, verdict: str, warning: str
) -> None:
    report = report_of(experiment({"samba": FileShape(100, syncs_a_flush=syncs)}, repetitions=1))
    assert column(table(report, "durability"), "What became of a flush") == [verdict]
    found = [said for said in report.warnings if "flush" in said or "disk" in said]
    assert [warning in said for said in found] == ([True] if warning else [])
    if syncs is None:
        assert column(table(report, "durability"), "Syncs of the server") == ["–"]  # noqa: RUF001
        assert any("counting needs root" in note for note in table(report, "durability").notes)


def test_runs_of_one_configuration_that_differ_are_not_called_alike() -> None:
    source = experiment({"samba": FileShape(100)}, repetitions=2)
    report = report_of(source, lambda row: replace(row, syncs=[]) if row.run == 1 else row)
    assert set(column(table(report, "durability"), "What became of a flush")) == {
        NONE,
        EACH,
    }
    differing = report_of(
        experiment({"a": FileShape(100), "b": FileShape(100, syncs_a_flush=0.5)}, repetitions=1)
    )
    assert any("may buy different things" in warning for warning in differing.warnings)


@pytest.mark.parametrize(
    ("layers", "syncs", "verdict", "warning"),
    [
        ((("tmpfs", "rw"),), 1.0, MEMORY, "nothing is on a disk"),
        ((("tmpfs", "rw"),), 0.0, MEMORY, "nothing is on a disk"),
        ((("tmpfs", "rw"),), None, MEMORY, "nothing is on a disk"),
        ((("ext4", "rw"), ("tmpfs", "rw")), 1.0, MEMORY, "in memory (on ext4, on tmpfs)"),
        ((("overlay", "rw"), ("ramfs", "rw")), 1.0, MEMORY, "in memory (on overlay, on ramfs)"),
        ((("ext4", "rw,sync"),), 0.0, SYNCHRONOUS, "can't be told from the syncs of samba"),
        ((("ext4", "rw,sync"),), 0.5, SYNCHRONOUS, "can't be told from the syncs of samba"),
        ((("ext4", "rw,sync"),), None, SYNCHRONOUS, "can't be told from the syncs of samba"),
        ((("ext4", "rw,dirsync"),), 0.0, DIRECTORIES, "can't be told from the syncs of samba"),
        ((("overlay", "rw"), ("ext4", "rw,sync")), 0.0, SYNCHRONOUS, "can't be told from the syncs of samba"),
        ((("ext4", "rw,sync"),), 1.0, EACH, ""),
        ((("ext4", "rw,nobarrier"),), 1.0, f"{EACH}, and {CACHE}nobarrier", "can be lost with the power"),
        ((("ext4", "rw"), ("ext4", "rw,barrier=0")), 1.0, f"{EACH}, and {CACHE}barrier=0", CACHE),
        ((("overlay", "volatile"), ("ext4", "rw")), 1.0, f"{EACH}, and {IGNORED}", IGNORED),
        ((("ext4", "rw,data=writeback"),), 1.0, EACH, ""),
        # What an image lies on does not make the writes of the file system inside synchronous.
        ((("ext4", "rw"), ("ext4", "rw,sync")), 0.0, NONE, "believed to be on the disk was not"),
    ],
)
def test_the_verdict_on_flushes_is_that_of_the_mounts_too(
    layers: tuple[tuple[str, str], ...], syncs: float | None, verdict: str, warning: str
) -> None:
    report = report_of(
        experiment({"samba": FileShape(100, syncs_a_flush=syncs, layers=layers)}, repetitions=1)
    )
    assert column(table(report, "durability"), "What became of a flush") == [verdict]
    found = [said for said in report.warnings if "flush" in said or "disk" in said]
    assert [warning in said for said in found] == ([True] if warning else [])
    assert NONE in verdict or not any(NONE in said for said in found)


@pytest.mark.parametrize("layers", [(("9p", "rw"),), (("overlay", "rw"),), (("nfs4", "rw"),)])
def test_of_a_medium_that_the_mounts_do_not_tell_nothing_is_said_to_be_lost(
    layers: tuple[tuple[str, str], ...],
) -> None:
    shapes = {"samba": FileShape(100, syncs_a_flush=0.0, layers=layers)}
    [warning] = [said for said in report_of(experiment(shapes)).warnings if "flush" in said]
    assert warning == f"samba: {NONE}."


@pytest.mark.parametrize("note", [{}, {"state": "failed", "reason": "it ended"}], ids=["none", "failed"])
@pytest.mark.parametrize(
    ("syncs", "verdict"), [(1.0, f"{EACH}, and {NOWHERE}"), (0.0, f"{NONE}, and {NOWHERE}")]
)
def test_a_run_whose_note_is_lost_does_not_pass_for_one_on_a_disk(
    note: dict[str, str], syncs: float, verdict: str
) -> None:
    shape = FileShape(100, syncs_a_flush=syncs, layers=(("tmpfs", "rw"),))
    source = experiment({"a": shape, "b": shape})
    report = report_of(replace(source, run_notes={key.number: note for key in source.head.order if note}))
    assert set(column(table(report, "durability"), "What became of a flush")) == {verdict}
    assert f"a and b: {NOWHERE}. On memory, nothing would be on a disk." in report.warnings
    [claim] = [found.claim for found in report.findings if found.topic == "Comparison"]
    assert "Whether they did the same with a flush is not known." in claim


def test_one_note_that_is_lost_makes_the_configuration_uncertain_and_not_its_runs_unlike() -> None:
    for layer, said in (("tmpfs", f"not known: {NOWHERE} for each run"), ("ext4", f"{EACH}, and {NOWHERE}")):
        source = experiment({"samba": FileShape(100, layers=((layer, "rw"),))})
        kept = {run: note for run, note in source.run_notes.items() if run != 2}
        report = report_of(replace(source, run_notes=kept))
        [found] = [each.claim for each in report.findings if each.topic == "Durability"]
        assert found.startswith(f"samba: {said} (")


def test_servers_on_unlike_mounts_are_not_called_alike() -> None:
    on_disk = FileShape(100)
    for options, differ in (("rw,nobarrier", True), ("rw,data=writeback", False)):
        other = FileShape(100, layers=(("ext4", options),))
        report = report_of(experiment({"a": on_disk, "b": other}))
        [claim] = [found.claim for found in report.findings if found.topic == "Comparison"]
        assert ("They differ in what became of a flush" in claim) is differ
        assert any("buys different things" in said for said in report.warnings) is differ
        assert column(table(report, "durability"), "Files on")[1] == f"ext4 ({options.removeprefix('rw,')})"
    report = report_of(experiment({"a": on_disk, "b": FileShape(100, layers=(("tmpfs", "rw"),))}))
    assert any(f"b: {MEMORY}" in said for said in report.warnings)


def few(flushes: int, syncs: int, clients: int) -> Callable[[MixRecord], MixRecord]:
    """Changes a record to so many of all in its run, whose other mixes have none."""

    def changed(row: MixRecord) -> MixRecord:
        count, made = (flushes, syncs) if row.mix == 1 else (0, 0)
        operations = [
            replace(each, count=count) if each.operation == "flush" else each for each in row.by_operation
        ]
        return replace(row, by_operation=operations, syncs=[SyncRow("fsync", made)], clients=clients)

    return changed


@pytest.mark.parametrize(
    ("flushes", "syncs", "clients", "verdict"),
    [
        (30, 28, 1, EACH),
        (30, 27, 1, FEWER),
        (30, 27, 2, EACH),
        (30, 26, 2, FEWER),
        # 2,500 a second: those of 10 ms are more than the single one.
        (10_000, 9_971, 4, EACH),
        (10_000, 9_970, 4, FEWER),
        # So many clients that each of these could have been under way.
        (30, 23, 100, EACH),
        (30, 22, 100, FEWER),
        (30, 0, 100, NONE),
        (1, 0, 100, NONE),
        (3_000, 30, 1, STRAY),
        (3_000, 31, 1, FEWER),
        (3_000, 1, 1, STRAY),
        (3_000, 0, 1, NONE),
    ],
)
def test_syncs_may_be_short_by_what_was_under_way_at_the_opening_and_no_more(
    flushes: int, syncs: int, clients: int, verdict: str
) -> None:
    source = experiment({"samba": FileShape(100)}, repetitions=1)
    shown = durability.promises(
        replace(source, records=[few(flushes, syncs, clients)(row) for row in source.records]),
        report_of(source, few(flushes, syncs, clients)).results,
    )
    assert [(each.flushes, each.syncs) for each in shown] == [(flushes, syncs)]
    assert [row[-1].text for row in durability.table(shown, "").rows] == [verdict]
    warned = durability.warnings(shown)
    assert [NONE in said or STRAY in said for said in warned] == ([True] if verdict in (NONE, STRAY) else [])
    if verdict == STRAY:
        assert f"({flushes:,} flushes, {syncs} sync" in warned[0]


def shifted(source: Source, by: dict[int, int]) -> list[durability.Promise]:
    """As many syncs as flushes in each mix, but for those of `by`, which have so many more."""

    def changed(row: MixRecord) -> MixRecord:
        flushes = sum(each.count for each in row.by_operation if each.operation == "flush")
        return replace(row, syncs=[SyncRow("fsync", flushes + by.get(row.mix, 0))])

    changed_source = replace(source, records=[changed(row) for row in source.records])
    return durability.promises(changed_source, build_from(changed_source).results)


def test_syncs_to_spare_in_one_mix_are_not_those_that_another_lacks() -> None:
    source = experiment({"samba": FileShape(100)}, repetitions=1)
    for by, verdict in (({1: -3}, FEWER), ({1: -3, 5: 3}, FEWER), ({1: -3, 5: 300}, FEWER), ({1: -2}, EACH)):
        [promise] = shifted(source, by)
        assert str(promise.outcome) == verdict
    [promise] = shifted(source, {1: -2, 3: -1, 5: 3})  # in sum none is missing
    assert promise.syncs == promise.flushes and promise.short
    [found] = durability.findings([promise], {"durability": ""})
    assert "; 3 missing in 2 mixes, where up to " in found.claim


def test_a_mix_of_few_flushes_may_lack_one_and_a_run_of_such_mixes_may_not_lack_all() -> None:
    assert durability.border(3, clients=8, window_s=4.0) == 1
    source = experiment({"samba": FileShape(100)}, repetitions=1)

    def changed(row: MixRecord) -> MixRecord:
        kept = [each for each in row.by_operation if each.operation != "flush"]
        flush = next(each for each in row.by_operation if each.operation == "flush")
        return replace(row, by_operation=[*kept, replace(flush, count=1)], syncs=[])

    [said] = column(table(report_of(source, changed), "durability"), "What became of a flush")
    assert said == NONE


def test_syncs_that_are_short_within_the_borders_are_told_with_what_may_fall_outside() -> None:
    source = experiment({"samba": FileShape(100)}, repetitions=1)
    report = report_of(source, few(3_060, 3_054, 1))
    [found] = [each for each in report.findings if each.topic == "Durability"]
    short = "6 missing in 1 mix, where up to 8 may fall outside"
    assert found.claim == f"samba: {EACH} (3,060 flushes, 3,054 syncs; {short})."
    [row] = table(report, "durability").rows
    assert (row[7].text, row[7].detail) == ("3,054", short)
    whole = report_of(source, few(3_060, 3_060, 1))
    assert f"{EACH} (3,060 flushes, 3,060 syncs)." in [each.claim for each in whole.findings][1]
    assert table(whole, "durability").rows[0][7].detail == ""


def test_stray_syncs_are_no_difference_between_servers_that_do_not_sync() -> None:
    shapes = {"a": FileShape(100, syncs_a_flush=0.0), "b": FileShape(100, syncs_a_flush=0.005)}
    report = report_of(experiment(shapes))
    [warning] = [said for said in report.warnings if "flush" in said]
    assert warning.startswith(f"a: {NONE}; b: {STRAY} (")
    assert "differ" not in warning


def test_the_disks_own_fsync_is_no_measure_where_it_changed_over_the_run() -> None:
    def notes_and_cell(shape: FileShape) -> tuple[str, str]:
        shown = table(report_of(experiment({"samba": shape}, repetitions=1)), "durability")
        place = next(n for n, head in enumerate(shown.columns) if head.label.startswith("The disk's own"))
        return " ".join(shown.notes), shown.rows[0][place].detail

    notes, cell = notes_and_cell(FileShape(100))
    assert "nstable" not in notes + cell and "waited for" not in notes and "fsync_delay_ms" not in notes
    assert cell == "4.40 after"
    notes, cell = notes_and_cell(FileShape(100, disk_after_ms=0.19))
    assert "Unstable: " in notes and cell == "0.190 after, unstable"
    notes, _ = notes_and_cell(FileShape(100, syncs_a_flush=None))
    assert "may not have waited for it" in notes
    notes, _ = notes_and_cell(FileShape(100, settings=(("fsync_delay_ms", 20.0),)))
    assert "samba: fsync_delay_ms adds 20 ms" in notes
    notes, _ = notes_and_cell(FileShape(100, syncs_a_flush=0.0, settings=(("fsync_delay_ms", 20.0),)))
    assert "fsync_delay_ms" not in notes


def test_times_are_given_for_each_operation_at_the_peak_and_at_the_last_mix(report: Report) -> None:
    times = table(report, "times")
    rows = [row for row in times.rows if row[0].text == "samba-strict" and row[1].text == "flush"]
    assert [(row[2].text, row[2].detail) for row in rows] == [("4", "peak"), ("16", "last")]
    peak = [row for row in report.source.records if row.configuration == "samba-strict" and row.mix == 3]
    count = sum(row.count for record in peak for row in record.by_operation if row.operation == "flush")
    assert rows[0][3].text == f"{count:,}"
    labels = [head.label for head in times.columns[3:]]
    assert labels == ["Count", "Mean", "Deviation", "Smallest", "p50", "p95", "p99", "p99.9", "Largest"]
    smallest, median, largest = (
        float(rows[0][labels.index(label) + 3].text) for label in ("Smallest", "p50", "Largest")
    )
    assert smallest < median < largest
    assert {row[1].text for row in times.rows} == {"open", "read", "write", "flush", "close"}


def test_what_the_file_report_says_is_as_kept(report: Report) -> None:
    lines = [*report.warnings, *report.summary.text]
    lines += [f"{finding.topic}: {finding.claim} [{finding.evidence}]" for finding in report.findings]
    lines += [f"{fact.label}: {fact.text}" for fact in report.methodology]
    check_golden("files-sentences.txt", "\n".join(lines) + "\n")


def test_the_terminal_shows_the_file_report_as_kept(report: Report) -> None:
    screen = io.StringIO()
    text.render(report, Console(width=140, file=screen, force_terminal=False))
    check_golden("files-report.txt", screen.getvalue())


def test_a_page_of_file_servers_has_all_figures_and_raw_tables(report: Report) -> None:
    page = html.page(report, {figure.key: charts.svg(figure) for figure in report.figures})
    labels = [shown.label for shown in report.tables] + [shown.label for shown in report.figures]
    assert all(f"<b>{label}.</b>" in page for label in labels)
    assert {"clients", "calls", "requests", "syncs"} <= {raw.name for raw in report.raw}
    clients = next(raw for raw in report.raw if raw.name == "clients")
    assert len(clients.rows) == sum(len(record.by_client) for record in report.source.records)
