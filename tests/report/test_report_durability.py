"""A report's statements on flushes of file servers: promises, counts, the medium, and what is unknown."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from serverdyno.analysis.durability import NOT_DURABLE, SyncExtent, border
from serverdyno.analysis.medium import TOO_FAST
from serverdyno.plan.protocols.objects import OBJECTS
from serverdyno.report.build import build_from
from serverdyno.report.model import Report
from serverdyno.report.source import Source
from serverdyno.report.subjects import durability
from serverdyno.report.subjects.durability import Promise
from serverdyno.report.views import document
from serverdyno.store.note import FsyncTimes, RunNote
from serverdyno.store.powercut import Cut, PowerCuts
from serverdyno.store.records import LevelRecord, SyncRow
from support.report_tables import STRICT, column, report_of, table
from support.synthetic_files import FileShape, experiment

EACH = "at least as many syncs as flushes at each load level, except at the start of its window"
FEWER = "fewer syncs than flushes at one or more load levels"
NONE, STRAY = (
    "flushes answered without any sync",
    "flushes answered without a sync, apart from unrelated syncs",
)
SYNCED = "at least as many syncs as flushes"
NOWHERE = "the medium of the files is not known"
MEMORY = "synced to memory only: no data reach a disk"
SYNCHRONOUS = "not known: the file system writes synchronously (mount option sync)"
DIRECTORIES = "not known: the file system writes directories synchronously (mount option dirsync)"
CACHE = "syncs go no further than the device's cache: mount option "
IGNORED = "syncs are ignored (mount option volatile)"


@pytest.fixture(scope="module")
def report() -> Report:
    return report_of(experiment(STRICT))


def test_flushes_and_syncs_are_disclosed_run_by_run(report: Report) -> None:
    shown = table(report, "durability")
    assert column(shown, "What a flush did") == [
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
        "When clients ask for durable data (a flush), these configurations do different"
    )
    assert f"samba-strict: {EACH}; samba-lax: flushes answered without any sync." in warning


def test_programs_and_who_reads_no_further_than_the_summary_see_it_too(report: Report) -> None:
    highest = next(said for said in report.summary.text if "Highest peak" in said)
    assert f"clients, {NONE}. Lowest peak: samba-strict, " in highest and f"clients, {EACH}." in highest
    made = document.ReportDocument.of(report)
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
    assert {each.differs_in_durability for each in document.ReportDocument.of(report).comparisons} == {
        differs
    }
    assert in_improvements(report, "differs_in_durability") == {cell}
    assert in_improvements(report, "part_of_a_pass") == {"yes", "no"}  # in the average, but not at the peak
    highest = next(said for said in report.summary.text if "Highest peak" in said)
    assert (EACH in highest) is (syncs is None)


def test_a_comparison_of_a_server_that_flushes_with_one_that_does_not_says_so(report: Report) -> None:
    [claim] = [found.claim for found in report.findings if found.topic == "Comparison"]
    assert "the two differ in durability" in claim
    [durable] = [found.claim for found in report.findings if found.topic == "Durability"]
    assert "samba-lax: flushes answered without any sync (" in durable
    assert durable.endswith(" flushes, 0 syncs).")
    alike = report_of(experiment({"a": FileShape(100), "b": FileShape(200)}))
    assert "flush" not in " ".join(found.claim for found in alike.findings if found.topic == "Comparison")
    unknown = report_of(experiment({"a": FileShape(100), "b": FileShape(200, syncs_a_flush=None)}))
    [claim] = [found.claim for found in unknown.findings if found.topic == "Comparison"]
    assert "Whether the two differ in durability is not known." in claim


@pytest.mark.parametrize(
    ("syncs", "verdict", "warning"),
    [
        (1.0, EACH, ""),
        (0.985, EACH, ""),
        (0.4, FEWER, ""),
        (
            0.0,
            "flushes answered without any sync",
            "Data that a client believed to be on disk were not on disk.",
        ),
        (None, "not known", "What a flush did on samba is not known"),
    ],
)
def test_the_verdict_on_flushes_is_that_of_the_counts(
    syncs: float | None, verdict: str, warning: str
) -> None:
    report = report_of(experiment({"samba": FileShape(100, syncs_a_flush=syncs)}, repetitions=1))
    assert column(table(report, "durability"), "What a flush did") == [verdict]
    found = [said for said in report.warnings if "flush" in said or "disk" in said]
    assert [warning in said for said in found] == ([True] if warning else [])
    if syncs is None:
        assert column(table(report, "durability"), "Syncs of the server") == ["–"]  # noqa: RUF001
        assert any("counting needs root" in note for note in table(report, "durability").notes)


def test_runs_of_one_configuration_that_differ_are_not_called_alike() -> None:
    source = experiment({"samba": FileShape(100)}, repetitions=2)
    report = report_of(source, lambda row: replace(row, syncs=[]) if row.run == 1 else row)
    assert set(column(table(report, "durability"), "What a flush did")) == {
        NONE,
        EACH,
    }
    differing = report_of(
        experiment({"a": FileShape(100), "b": FileShape(100, syncs_a_flush=0.5)}, repetitions=1)
    )
    assert any("may do different things" in warning for warning in differing.warnings)


@pytest.mark.parametrize(
    ("layers", "syncs", "verdict", "warning"),
    [
        ((("tmpfs", "rw"),), 1.0, MEMORY, "so no figure describes a disk"),
        ((("tmpfs", "rw"),), 0.0, MEMORY, "so no figure describes a disk"),
        ((("tmpfs", "rw"),), None, MEMORY, "so no figure describes a disk"),
        ((("ext4", "rw"), ("tmpfs", "rw")), 1.0, MEMORY, "in memory (on ext4, on tmpfs)"),
        ((("overlay", "rw"), ("ramfs", "rw")), 1.0, MEMORY, "in memory (on overlay, on ramfs)"),
        ((("ext4", "rw,sync"),), 0.0, SYNCHRONOUS, "syncs don't show what a flush did on samba"),
        ((("ext4", "rw,sync"),), 0.5, SYNCHRONOUS, "syncs don't show what a flush did on samba"),
        ((("ext4", "rw,sync"),), None, SYNCHRONOUS, "syncs don't show what a flush did on samba"),
        ((("ext4", "rw,dirsync"),), 0.0, DIRECTORIES, "syncs don't show what a flush did on samba"),
        (
            (("overlay", "rw"), ("ext4", "rw,sync")),
            0.0,
            SYNCHRONOUS,
            "syncs don't show what a flush did on samba",
        ),
        ((("ext4", "rw,sync"),), 1.0, EACH, ""),
        (
            (("ext4", "rw,nobarrier"),),
            1.0,
            f"{EACH}, and {CACHE}nobarrier",
            "A power cut can lose flushed data",
        ),
        ((("ext4", "rw"), ("ext4", "rw,barrier=0")), 1.0, f"{EACH}, and {CACHE}barrier=0", CACHE),
        ((("overlay", "volatile"), ("ext4", "rw")), 1.0, f"{EACH}, and {IGNORED}", IGNORED),
        ((("ext4", "rw,data=writeback"),), 1.0, EACH, ""),
        # Synchronous writes of the file system with the image don't make those inside the image synchronous.
        ((("ext4", "rw"), ("ext4", "rw,sync")), 0.0, NONE, "believed to be on disk were not"),
    ],
)
def test_the_verdict_on_flushes_is_that_of_the_mounts_too(
    layers: tuple[tuple[str, str], ...], syncs: float | None, verdict: str, warning: str
) -> None:
    report = report_of(
        experiment({"samba": FileShape(100, syncs_a_flush=syncs, layers=layers)}, repetitions=1)
    )
    assert column(table(report, "durability"), "What a flush did") == [verdict]
    found = [said for said in report.warnings if "flush" in said or "disk" in said]
    assert [warning in said for said in found] == ([True] if warning else [])
    assert NONE in verdict or not any(NONE in said for said in found)


FAST = FsyncTimes(count=100, p50=0.0005, p99=0.001, max=0.01)


@pytest.mark.parametrize(
    "noted", [{"volume_fsync_ms": [0.0005]}, {"disk_fsync_ms": FAST}], ids=["each volume", "an older run"]
)
def test_a_medium_that_is_faster_than_any_device_is_warned_of_whatever_its_mounts_are(
    noted: dict[str, object],
) -> None:
    source = experiment({"samba": FileShape(100)}, repetitions=1)
    notes = {run: note.model_copy(update=noted) for run, note in source.run_notes.items()}
    report = report_of(replace(source, run_notes=notes))
    fast = f"syncs do not reach a device: {TOO_FAST}"
    assert column(table(report, "durability"), "What a flush did") == [f"{EACH}, and {fast}"]
    assert f"samba: {fast}. A power cut can lose flushed data." in report.warnings


@pytest.mark.parametrize("layers", [(("9p", "rw"),), (("overlay", "rw"),), (("nfs4", "rw"),)])
def test_of_a_medium_that_the_mounts_do_not_tell_nothing_is_said_to_be_lost(
    layers: tuple[tuple[str, str], ...],
) -> None:
    shapes = {"samba": FileShape(100, syncs_a_flush=0.0, layers=layers)}
    [warning] = [said for said in report_of(experiment(shapes)).warnings if "flush" in said]
    assert warning == f"samba: {NONE}."


@pytest.mark.parametrize("note", [None, RunNote(state="failed", reason="it ended")], ids=["none", "failed"])
@pytest.mark.parametrize(
    ("syncs", "verdict"), [(1.0, f"{SYNCED}, but {NOWHERE}"), (0.0, f"not known: {NOWHERE}")]
)
def test_a_run_whose_note_is_lost_does_not_pass_for_one_on_a_disk(
    note: RunNote | None, syncs: float, verdict: str
) -> None:
    shape = FileShape(100, syncs_a_flush=syncs, layers=(("tmpfs", "rw"),))
    source = experiment({"a": shape, "b": shape})
    report = report_of(replace(source, run_notes={key.number: note for key in source.head.order if note}))
    assert set(column(table(report, "durability"), "What a flush did")) == {verdict}
    assert f"a and b: {NOWHERE}. If it is memory, no data are on a disk." in report.warnings
    [claim] = [found.claim for found in report.findings if found.topic == "Comparison"]
    assert "Whether the two differ in durability is not known." in claim


def test_an_unrecorded_medium_is_named_as_far_as_the_driver_told_it() -> None:
    source = experiment({"a": FileShape(100), "b": FileShape(100)})
    told = {"notes": ["Data volumes: directories of ext4 (rw) on /dev/vda."]}
    disclosed = {**source.disclosure, "servers": {"a": told}}
    report = report_of(replace(source, run_notes={}, disclosure=disclosed))
    assert "a: the files are on ext4 (rw) on /dev/vda; what is below was not recorded." in report.warnings
    assert f"b: {NOWHERE}. If it is memory, no data are on a disk." in report.warnings


def test_one_note_that_is_lost_makes_the_configuration_uncertain_and_not_its_runs_unlike() -> None:
    for layer, said in (
        ("tmpfs", f"not known: {NOWHERE} for each run"),
        ("ext4", f"{SYNCED}, but {NOWHERE}"),
    ):
        source = experiment({"samba": FileShape(100, layers=((layer, "rw"),))})
        kept = {run: note for run, note in source.run_notes.items() if run != 2}
        report = report_of(replace(source, run_notes=kept))
        [found] = [each.claim for each in report.findings if each.topic == "Durability"]
        assert found.startswith(f"samba: {said} (")


@pytest.mark.parametrize(
    ("shape", "verdict", "warning"),
    [
        (
            FileShape(100, layers=(("fuse.bindfs", "rw"),)),
            f"{SYNCED}, but not known below fuse.bindfs, which is not a disk file system",
            "Whether the synced data reached a disk is not known below fuse.bindfs",
        ),
        (
            FileShape(100, layers=(("overlay", "rw"),), unfollowed="it is elsewhere"),
            f"{SYNCED}, but not known below overlay: it is elsewhere",
            "not known below overlay",
        ),
        (
            FileShape(100, write_cache=None),
            f"{SYNCED}, but not known below vda1, which may have a cache",
            "not known below vda1",
        ),
        (FileShape(100, write_cache="write through"), EACH, None),
        (
            FileShape(100, syncs_a_flush=0.0, at_once=True),
            "not known: writes reach the medium without a sync there (tested with a file; chattr +S has this effect)",
            "syncs don't show what a flush did on samba: writes reach the medium",
        ),
        (
            FileShape(100, syncs_a_flush=0.0, at_once=None),
            "not known: a test file could not show whether writes wait for a sync",
            "syncs don't show what a flush did on samba: a test file could not show",
        ),
        (
            FileShape(100, syncs_a_flush=0.0, witnesses=(0, 124)),
            "not known: the server's own counters show 124 file syncs in the run, the kernel counted 0",
            "the kernel counted 0",
        ),
        (
            FileShape(100, witnesses=(9_000, 7)),
            "not known: the server's own counters show 7 file syncs in the run, fewer than",
            "the kernel counted 9,000 syncs of all kinds",
        ),
        (FileShape(100, witnesses=(90_000, 80_000)), EACH, None),
        (
            FileShape(100, preloaded=("/usr/lib/libeatmydata.so",)),
            EACH,
            "(LD_PRELOAD): /usr/lib/libeatmydata.so.",
        ),
    ],
)
def test_a_verdict_needs_every_layer_a_tried_write_and_witnesses_that_agree(
    shape: FileShape, verdict: str, warning: str | None
) -> None:
    report = report_of(experiment({"samba": shape}, repetitions=1))
    [said] = column(table(report, "durability"), "What a flush did")
    assert said.startswith(verdict)
    found = [text for text in report.warnings if "flush" in text or "disk" in text]
    assert [warning in text for text in found if warning] == ([True] if warning else [])
    assert warning or not found


def test_servers_on_unlike_mounts_are_not_called_alike() -> None:
    on_disk = FileShape(100)
    for options, differ in (("rw,nobarrier", True), ("rw,data=writeback", False)):
        other = FileShape(100, layers=(("ext4", options),))
        report = report_of(experiment({"a": on_disk, "b": other}))
        [claim] = [found.claim for found in report.findings if found.topic == "Comparison"]
        assert ("the two differ in durability" in claim) is differ
        assert any("do different things" in said for said in report.warnings) is differ
        assert column(table(report, "durability"), "Files on")[1] == f"ext4 ({options.removeprefix('rw,')})"
    report = report_of(experiment({"a": on_disk, "b": FileShape(100, layers=(("tmpfs", "rw"),))}))
    assert any(f"b: {MEMORY}" in said for said in report.warnings)


def few(flushes: int, syncs: int, clients: int) -> Callable[[LevelRecord], LevelRecord]:
    """Return a change that gives all of a run's flushes and syncs to its first level."""

    def changed(row: LevelRecord) -> LevelRecord:
        count, made = (flushes, syncs) if row.level == 1 else (0, 0)
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
        # At 2,500 flushes/s, the 25 flushes in 10 ms exceed one flush per client.
        (10_000, 9_971, 4, EACH),
        (10_000, 9_970, 4, FEWER),
        # With so many clients, each of these flushes could have been under way.
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
    results = report_of(source, few(flushes, syncs, clients)).results
    shown = results.promises
    assert [(each.flushes, each.syncs) for each in shown] == [(flushes, syncs)]
    assert [row[-1].text for row in durability.table(shown, "").rows] == [verdict]
    warned = durability.warnings(shown)
    assert [NONE in said or STRAY in said for said in warned] == ([True] if verdict in (NONE, STRAY) else [])
    if verdict == STRAY:
        assert f"({flushes:,} flushes, {syncs} sync" in warned[0]


def shifted(source: Source, by: dict[int, int]) -> tuple[Promise, ...]:
    """Return the promises if each level has a sync per flush, plus the surplus in `by`."""

    def changed(row: LevelRecord) -> LevelRecord:
        flushes = sum(each.count for each in row.by_operation if each.operation == "flush")
        return replace(row, syncs=[SyncRow("fsync", flushes + by.get(row.level, 0))])

    changed_source = replace(source, records=[changed(row) for row in source.records])
    return build_from(changed_source).results.promises


def test_of_syncs_that_one_run_does_not_know_no_sum_is_told() -> None:
    made = experiment({"samba": FileShape(100)})
    records = [replace(row, syncs=[], syncs_known=False) if row.run == 2 else row for row in made.records]
    found = build_from(replace(made, records=records)).results.promises
    assert [each.syncs is None for each in found] == [False, True, False]
    assert durability.flush_summaries(found)["samba"].syncs is None


def test_syncs_to_spare_in_one_level_are_not_those_that_another_lacks() -> None:
    source = experiment({"samba": FileShape(100)}, repetitions=1)
    for by, verdict in (({1: -3}, FEWER), ({1: -3, 5: 3}, FEWER), ({1: -3, 5: 300}, FEWER), ({1: -2}, EACH)):
        [promise] = shifted(source, by)
        assert str(promise.outcome) == verdict
    [promise] = shifted(source, {1: -2, 3: -1, 5: 3})  # in total none is missing
    assert promise.syncs == promise.flushes and promise.short
    [found] = durability.findings([promise], {"durability": ""})
    assert "; 3 syncs missing at 2 load levels; up to " in found.claim


def test_a_level_of_few_flushes_may_lack_one_and_a_run_of_such_levels_may_not_lack_all() -> None:
    assert border(3, clients=8, window_s=4.0) == 1
    source = experiment({"samba": FileShape(100)}, repetitions=1)

    def changed(row: LevelRecord) -> LevelRecord:
        kept = [each for each in row.by_operation if each.operation != "flush"]
        flush = next(each for each in row.by_operation if each.operation == "flush")
        return replace(row, by_operation=[*kept, replace(flush, count=1)], syncs=[])

    [said] = column(table(report_of(source, changed), "durability"), "What a flush did")
    assert said == NONE


def test_where_no_client_sent_a_flush_durability_is_no_finding() -> None:
    source = experiment(STRICT, repetitions=1)

    def without(names: set[str]) -> Callable[[LevelRecord], LevelRecord]:
        def changed(row: LevelRecord) -> LevelRecord:
            if row.configuration not in names:
                return row
            kept = [each for each in row.by_operation if each.operation != "flush"]
            return replace(row, by_operation=kept, syncs=[])

        return changed

    none = report_of(source, without({"samba-strict", "samba-lax"}))
    assert "Durability" not in [each.topic for each in none.findings]
    assert column(table(none, "durability"), "What a flush did") == ["no flush was sent"] * 2
    some = report_of(source, without({"samba-lax"}))
    [claim] = [each.claim for each in some.findings if each.topic == "Durability"]
    assert claim.startswith(f"samba-strict: {EACH} (") and "samba-lax: no flush was sent" in claim


def test_syncs_that_are_short_within_the_borders_are_told_with_what_may_fall_outside() -> None:
    source = experiment({"samba": FileShape(100)}, repetitions=1)
    report = report_of(source, few(3_060, 3_054, 1))
    [found] = [each for each in report.findings if each.topic == "Durability"]
    short = "6 syncs missing at 1 load level; up to 8 may lie outside the windows"
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
    assert "may not have waited for the disk" in notes
    notes, _ = notes_and_cell(FileShape(100, settings=(("fsync_delay_ms", 20.0),)))
    assert "samba: fsync_delay_ms adds at least 20 ms" in notes
    notes, _ = notes_and_cell(FileShape(100, syncs_a_flush=0.0, settings=(("fsync_delay_ms", 20.0),)))
    assert "fsync_delay_ms" not in notes


def cuts_of(name: str, lost: int) -> PowerCuts:
    cut = Cut(
        cut_after_s=1.0,
        flushed_files=50,
        flushed_bytes=1,
        lost_files=lost,
        lost_bytes=lost,
        unreadable_files=0,
        unflushed_files=4,
        kept_unflushed_files=0,
    )
    return PowerCuts(
        configuration=name,
        version="4.17",
        kernel="6.1",
        changed=[],
        clients=4,
        seed=1,
        took_s=60.0,
        cuts=[cut],
    )


@pytest.mark.parametrize(
    ("lost", "differ", "claimed"),
    [
        ((0, 50), True, "the two differ in durability"),
        ((0, 0), False, ""),
        ((50, 7), False, ""),
        ((None, 50), None, "Whether the two differ in durability is not known."),
        ((None, 0), False, ""),
    ],
)
def test_a_loss_in_power_cuts_outweighs_the_counts_of_syncs(
    lost: tuple[int | None, int | None], differ: bool | None, claimed: str
) -> None:
    cuts = [cuts_of(name, count) for name, count in zip("ab", lost, strict=True) if count is not None]
    source = experiment({"a": FileShape(100), "b": FileShape(200)})
    report = report_of(replace(source, power_cuts=cuts))
    made = document.ReportDocument.of(report)
    assert {each.differs_in_durability for each in made.comparisons} == {differ}
    words = [f"{NOT_DURABLE}; by the counts: {EACH}" if count else EACH for count in lost]
    assert [each.flush_outcome for each in made.configurations] == words
    [claim] = [found.claim for found in report.findings if found.topic == "Comparison"]
    assert claimed in claim
    assert ("durability" in claim) is bool(claimed)
    told = [said for said in report.warnings if "do different things" in said]
    assert [f"b: {NOT_DURABLE}; by the counts: {EACH}" in said for said in told] == [True] * bool(differ)
    assert not any("may do" in said for said in told)


def test_a_loss_in_power_cuts_is_a_difference_even_if_syncs_were_not_counted() -> None:
    unknown = FileShape(100, syncs_a_flush=None)
    source = experiment({"a": unknown, "b": unknown})
    report = report_of(replace(source, power_cuts=[cuts_of("a", 0), cuts_of("b", 50)]))
    assert {each.differs_in_durability for each in document.ReportDocument.of(report).comparisons} == {True}
    assert any(f"b: {NOT_DURABLE}; by the counts: not known" in said for said in report.warnings)


def test_the_runs_of_a_configuration_keep_its_loss_though_their_counts_differ() -> None:
    source = replace(experiment({"a": FileShape(100)}, repetitions=2), power_cuts=[cuts_of("a", 50)])
    records = [replace(row, syncs=[]) if row.run == 1 else row for row in source.records]
    [outcome] = durability.outcomes(durability.promises(source, records)).values()
    assert outcome.lost and outcome.extent is SyncExtent.NOT_ALIKE


def test_words_for_puts_leave_the_names_of_configurations_and_mount_options_alone() -> None:
    name = "seaweedfs-flush"
    source = experiment(
        {name: FileShape(100, syncs_a_flush=0.0, layers=(("vfat", "rw,flush"),)), "flush": FileShape(9)}
    )
    found = [
        replace(promise, word=durability.words_of(OBJECTS))
        for promise in durability.promises(source, source.records)
    ]
    [warning] = [said for said in durability.warnings(found) if "different things" in said]
    assert "ask for durable data (a PUT), these" in warning
    assert f"{name}: PUTs answered without any sync" in warning
    assert "; flush: at least as many syncs as PUTs at each load level" in warning
    assert durability.price(found, name).startswith(f"{name} answered ")
    assert " PUTs without a sync, so" in durability.price(found, name)
    shown = durability.table(found, "")
    assert [head.label for head in shown.columns][2:5] == ["PUTs", "PUTs", "PUT p50"]
    assert column(shown, "What a PUT did")[0] == "PUTs answered without any sync"
    assert not [note for note in shown.notes if "flush" in note and "vfat" not in note]
    [claim] = [each.claim for each in durability.findings(found, {"durability": ""})]
    assert (
        claim.startswith(f"{name}: PUTs answered without any sync (") and " PUTs, 0 syncs); flush: " in claim
    )
    assert set(durability.flush_summaries(found)) == {name, "flush"}
