"""A report's statements on curves and on many comparisons, and where it makes none."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from serverdyno.analysis.improvement import Verdict
from serverdyno.errors import UserError
from serverdyno.report.build import build, build_from
from serverdyno.report.model import Report
from serverdyno.report.source import Source
from serverdyno.report.views import charts
from serverdyno.store.experiment import Experiment
from serverdyno.store.head import FORMAT_VERSION
from serverdyno.store.note import RunNote
from serverdyno.store.records import LevelRecord
from support.report_tables import report_of, table
from support.synthetic_experiment import Shape, experiment, scaled, with_error, without_success

TEN = (1, 4, 8, 12, 16, 20, 24, 28, 32, 36)


def with_minimum_effect(source: Source, percent: float) -> Source:
    plan = source.head.plan.model_copy(update={"minimum_effect_percent": percent})
    return replace(source, head=source.head.model_copy(update={"plan": plan}))


def claims(report: Report, topic: str | None = None) -> list[str]:
    return [found.claim for found in report.findings if topic in (None, found.topic)]


def test_levels_that_noise_hides_are_not_told_apart_from_the_peak() -> None:
    flat = report_of(experiment({"flat": Shape(2000, knee=1, fall=0, noise=0.05)}))
    [row] = table(flat, "shape").rows
    assert row[5].text == "1, 8, 16, 24, 32"
    steep = report_of(experiment({"steep": Shape(2000, fall=0.5)}))
    [row] = table(steep, "shape").rows
    assert row[5].text == row[4].text == "16"
    [finding] = [found for found in flat.findings if found.topic == "Peak"]
    assert "the true peak may be at 1, 8, 16, 24, 32 clients" in finding.evidence
    assert "95 % interval" in finding.evidence


def test_a_dip_is_a_finding_with_its_size_and_a_smooth_curve_has_none() -> None:
    source = experiment({"smooth": Shape(2000, knee=12), "dented": Shape(2000, knee=12)}, clients=TEN)
    report = report_of(
        source, lambda row: scaled(row, 0.6) if (row.configuration, row.level) == ("dented", 7) else row
    )
    assert table(report, "shape").rows[0][9].text == "none found"
    [claim] = claims(report, "Dip")
    assert claim.startswith("dented has a dip at 24 clients: throughput there is at least 3")


def test_a_collapse_is_told_with_three_repetitions_and_not_judged_with_two() -> None:
    def collapsing(row: LevelRecord) -> LevelRecord:
        return scaled(row, 0.3) if row.level >= 7 else row

    three, two = (
        report_of(experiment({"apache": Shape(2000, knee=12)}, clients=TEN, repetitions=count), collapsing)
        for count in (3, 2)
    )
    [claim] = claims(three, "Collapse")
    assert claim.startswith(
        "apache collapses beyond 20 clients: at every higher load level, throughput is lower by 7"
    )
    assert claims(two, "Collapse") == []
    assert table(two, "shape").rows[0][9].text == "–"  # noqa: RUF001


def test_what_disturbed_a_dip_is_said_with_it() -> None:
    source = experiment({"apache": Shape(2000, knee=12)}, clients=TEN)

    def change(row: LevelRecord) -> LevelRecord:
        return with_error(scaled(row, 0.5), "server", 3, left=1) if row.level == 7 else row

    [claim] = claims(report_of(source, change), "Dip")
    assert claim.endswith("In the affected range, there were errors and clients left.")


def test_too_few_levels_are_not_judged_and_that_is_not_none_found() -> None:
    report = report_of(experiment({"apache": Shape(2000)}, repetitions=1))
    assert table(report, "shape").rows[0][9].text == "–"  # noqa: RUF001
    assert claims(report, "Dip") == []


def test_a_curve_that_still_rises_names_the_option_for_more_clients_unless_the_generator_held_it() -> None:
    rising = report_of(experiment({"apache": Shape(2000, knee=32, fall=0)}))
    [claim] = claims(rising, "Still rising")
    assert "apache (32 clients)" in claim
    assert "`--clients` of `dyno run PLAN`" in claim
    held = report_of(experiment({"apache": Shape(2000, knee=32, fall=0, waiting=0.5)}))
    [claim] = claims(held, "Still rising")
    assert "--clients" not in claim
    assert "would not bring more throughput" in claim
    assert claims(report_of(experiment({"apache": Shape(2000)})), "Still rising") == []


def test_every_pair_is_compared_up_to_eight_configurations_and_verdicts_are_corrected() -> None:
    shapes = {name: Shape(2000 + 300 * place) for place, name in enumerate("abc")}
    report = report_of(experiment(shapes))
    assert [(row.base, row.other) for row in report.comparisons] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert among(report) == {6}
    corrected = "corrected for 6 comparisons of averages and peaks"
    assert any(corrected in note for note in table(report, "improvements").notes)
    assert any(corrected in found.evidence for found in report.findings)
    assert any("orrected for 6 comparisons" in fact.text for fact in report.methodology)
    nine = report_of(experiment({f"n{place}": Shape(2000) for place in range(9)}))
    assert [row.base for row in nine.comparisons] == ["n0"] * 8
    assert among(report_of(experiment({"a": Shape(2000), "b": Shape(2500)}))) == {2}


def among(report: Report) -> set[int | None]:
    return {found.among for row in report.comparisons for found in row.improvements}


def test_a_difference_that_chance_explains_among_many_is_not_claimed() -> None:
    shapes = {f"s{place}": Shape(2000 + (100 if place == 5 else 0), noise=0.05) for place in range(6)}
    report = report_of(experiment(shapes, repetitions=4))
    found = [found for row in report.comparisons for found in row.improvements]
    by_chance = [
        each
        for each in found
        if each.low_percent is not None
        and each.high_percent is not None
        and not each.low_percent < 0 < each.high_percent
        and each.verdict is Verdict.NO_DIFFERENCE_SHOWN
    ]
    assert by_chance
    assert "not significant after the correction for 30 comparisons" in " ".join(claims(report))


@pytest.mark.parametrize(
    ("percent", "said"),
    [
        (0.0, "b is faster than a in overall average"),
        (5.0, "b is faster than a by more than 5\u00a0% in overall average"),
        (20.0, "b and a are equivalent within 20\u00a0% in overall average"),
        (9.0, "No difference beyond 9\u00a0% shown between b and a in overall average"),
    ],
)
def test_verdicts_are_about_the_minimum_effect_that_the_plan_states(percent: float, said: str) -> None:
    source = experiment({"a": Shape(2000), "b": Shape(2200)})
    report = report_of(with_minimum_effect(source, percent))
    assert said in " ".join(claims(report, "Comparison"))
    stated = any("minimum effect" in fact.text for fact in report.methodology if fact.label == "Verdicts")
    assert stated == (percent > 0)


def test_a_server_without_throughput_gets_no_statistics_and_the_other_keeps_its_own() -> None:
    source = experiment({"dead": Shape(0.0, noise=0), "alive": Shape(2000)})
    report = report_of(source)
    dead, alive = table(report, "shape").rows
    assert [cell.text for cell in dead[6:10]] == ["–"] * 4  # noqa: RUF001
    assert alive[4].text == "16"
    assert "dead completed no request in any window." in claims(report)


def test_the_shares_and_intervals_of_the_table_are_those_of_the_analysis() -> None:
    report = report_of(experiment({"apache": Shape(2000, fall=0.3)}))
    runs = report.results.configurations[0].runs.throughput
    [row] = table(report, "shape").rows
    assert float(row[7].text.split()[0]) == pytest.approx(
        100 * np.mean(runs[:, -1]) / np.mean(runs[:, 2]), abs=0.6
    )


def test_a_comparison_says_what_it_could_have_found_and_what_5_percent_would_take() -> None:
    report = report_of(experiment({"a": Shape(2000, noise=0.05), "b": Shape(2000, noise=0.05)}))
    [found] = [found for found in report.findings if found.topic == "Comparison"]
    [average, _] = report.comparisons[0].improvements
    assert average.found_percent is not None and average.repetitions_needed is not None
    assert (
        f"; to detect 5\N{NO-BREAK SPACE}% takes {average.repetitions_needed} repetitions; " in found.evidence
    )
    row = table(report, "improvements").rows[0]
    assert row[6].text.startswith("+") and row[7].text == f"{average.repetitions_needed}"
    once = report_of(experiment({"a": Shape(2000), "b": Shape(3000)}, repetitions=1))
    assert [cell.text for cell in table(once, "improvements").rows[0][6:8]] == ["–"] * 2  # noqa: RUF001


def test_points_whose_repetitions_disagree_are_named_at_the_head_the_farthest_first() -> None:
    source = experiment({"a": Shape(2000, noise=0.0), "b": Shape(3000, noise=0.0)}, repetitions=2)
    # The range over the mean is 2 (1 - share) / (1 + share).
    shares = {"a": [1.0, 0.85, 0.79, 0.5, 0.7], "b": [0.82, 0.75, 0.6, 1.0, 1.0]}

    def second_lower(record: LevelRecord) -> LevelRecord:
        return scaled(
            record, shares[record.configuration][record.level - 1] if record.repetition == 2 else 1.0
        )

    [said] = [warning for warning in report_of(source, second_lower).warnings if "disagree" in warning]
    said = said.replace("\N{NO-BREAK SPACE}", " ")
    assert said.startswith(
        "Repetitions disagree by more than 20 % in 5 of 10 load levels. Their range as a share of the mean"
    )
    first = "a with 24 clients (67 %), b with 16 clients (50 %), a with 32 clients (35 %), b with 8 clients (29 %)"
    assert f"{first} and 1 more. There, the" in said
    for alike in (source, experiment({"a": Shape(2000, noise=0.5)}, repetitions=1)):
        assert not any("disagree" in warning for warning in report_of(alike).warnings)


def said_everywhere(report: Report) -> str:
    notes = [note for table in report.tables for note in table.notes]
    return " ".join(
        [*notes, *(found.evidence for found in report.findings), *(fact.text for fact in report.methodology)]
    )


def test_a_correction_is_said_only_where_a_verdict_was_corrected_and_for_so_many() -> None:
    three = {name: Shape(2000) for name in "abc"}
    few = build_from(experiment(three, repetitions=1))
    assert "orrected" not in said_everywhere(few)
    assert among(few) == {None}
    [raw] = [table for table in few.raw if table.name == "improvements"]
    place = raw.columns.index("corrected_for_comparisons")
    assert {row[place] for row in raw.rows} == {None}

    four = experiment(three | {"d": Shape(2000)}, repetitions=3)
    # There is one run of d, so no comparison with d has an interval: three of the six are left.
    first = min(row.run for row in four.records if row.configuration == "d")
    report = build_from(
        replace(four, records=[row for row in four.records if row.configuration != "d" or row.run == first])
    )
    assert among(
        replace(report, comparisons=tuple(row for row in report.comparisons if row.other == "d"))
    ) == {None}
    assert among(
        replace(report, comparisons=tuple(row for row in report.comparisons if row.other != "d"))
    ) == {6}
    assert "corrected for 6 comparisons" in " ".join(table(report, "improvements").notes)
    assert "12 comparisons" not in said_everywhere(report)


def stored(folder: Path, source: Source) -> Experiment:
    with Experiment.create(folder, "name = 'x'\n", source.head) as kept:
        for record in source.records:
            kept.write_level(record)
        kept.write_host({"kernel": "6.1"})
    return Experiment.open(folder)


def test_a_damaged_file_is_named_at_the_head_and_all_others_are_reported(tmp_path: Path) -> None:
    source = experiment({"apache": Shape(300)}, clients=(1, 8, 16), repetitions=2)
    kept = stored(tmp_path / "experiment", source)
    hit = kept.folder / "runs" / "001-apache-r1" / "level-02.parquet"
    hit.write_bytes(hit.read_bytes()[:-9])
    (kept.folder / "disclosure" / "host.json").write_text("{", encoding="utf-8")
    report = build(kept)
    said = [warning for warning in report.warnings if "a file that can't be read: " in warning]
    assert [
        name in warning for name, warning in zip(["level-02.parquet", "host.json"], said, strict=True)
    ] == [True] * 2
    levels = report.results.configurations[0].finished
    assert [level.repetitions for level in levels] == [2, 1, 2]
    assert any("Unfinished: 5 of 6 planned load levels" in warning for warning in report.warnings)


def test_a_damaged_note_of_a_run_is_named_with_its_problem_and_the_other_notes_count(tmp_path: Path) -> None:
    source = experiment({"apache": Shape(300)}, clients=(1, 8), repetitions=2)
    stored(tmp_path / "experiment", source).close()
    with Experiment.open(tmp_path / "experiment", writable=True) as kept:
        for run in kept.head.order:
            kept.write_run_note(run, RunNote(state="done", requests_answered=10 * run.number))
    note = kept.folder / "runs" / "001-apache-r1" / "run.json"
    note.write_text("")
    report = build(kept)
    [said] = [warning for warning in report.warnings if "run.json" in warning]
    assert f"{note} is damaged: it is empty" in said
    assert [row[5].text for row in table(report, "runs").rows] == ["–", "20"]  # noqa: RUF001


def test_what_was_set_aside_is_named_at_the_head(tmp_path: Path) -> None:
    source = experiment({"apache": Shape(300)}, clients=(1, 8), repetitions=2)
    stored(tmp_path / "experiment", source).close()
    hit = tmp_path / "experiment" / "runs" / "001-apache-r1" / "level-02.parquet"
    hit.write_bytes(hit.read_bytes()[:-9])
    with Experiment.open(tmp_path / "experiment", writable=True) as kept:
        kept.set_aside_damaged()
        [said] = [warning for warning in build(kept).warnings if "damaged files and renamed them" in warning]
        assert (
            "runs/001-apache-r1/level-02.parquet.damaged. If the figures include such a load level" in said
            and "note" not in said
        )
        assert not any("can't be read" in warning for warning in build(kept).warnings)


def test_of_a_note_that_was_set_aside_no_level_is_said_to_be_measured_again(tmp_path: Path) -> None:
    source = experiment({"apache": Shape(300)}, clients=(1, 8), repetitions=2)
    stored(tmp_path / "experiment", source).close()
    with Experiment.open(tmp_path / "experiment", writable=True) as kept:
        kept.write_run_note(kept.head.order[0], RunNote(state="done"))
        (kept.folder / "runs" / "001-apache-r1" / "run.json").write_text("")
        kept.set_aside_damaged()
        [said] = [warning for warning in build(kept).warnings if "damaged files and renamed them" in warning]
    assert "run.json.damaged. The run's note was damaged." in said and "A level of that" not in said


def test_a_newer_format_is_refused_in_a_sentence(tmp_path: Path) -> None:
    kept = stored(tmp_path / "experiment", experiment({"apache": Shape(300)}, clients=(1,), repetitions=1))
    head = kept.folder / "experiment.json"
    text = head.read_text(encoding="utf-8")
    newer = text.replace(f'"format_version": {FORMAT_VERSION}', '"format_version": 99')
    assert newer != text
    head.write_text(newer, encoding="utf-8")
    with pytest.raises(UserError, match=r"format 99; this version of Serverdyno reads only format"):
        Experiment.open(kept.folder)


@pytest.mark.parametrize("repetitions", [1, 3])
def test_when_all_clients_failed_everywhere_a_report_says_so_and_claims_nothing(repetitions: int) -> None:
    source = experiment({"a": Shape(2000), "b": Shape(2000)}, clients=TEN, repetitions=repetitions)
    report = report_of(source, without_success)
    assert "a completed no request in any window." in claims(report)
    assert "can't be compared" in " ".join(claims(report, "Comparison"))
    assert {row[5].text for row in table(report, "improvements").rows} == {"not comparable"}
    for figure in report.figures:
        charts.svg(figure)


def test_a_comparison_where_nothing_was_measured_shows_no_zero() -> None:
    source = experiment({"a": Shape(2000), "b": Shape(2000)}, repetitions=2)
    only_a = replace(source, records=[row for row in source.records if row.configuration == "a"])
    report = build_from(only_a)
    cells = [(row[2].text, row[2].detail) for row in table(report, "improvements").rows]
    assert cells == [("–", "–")] * 2  # noqa: RUF001
    [finding] = [found for found in report.findings if found.topic == "Comparison"]
    assert finding.evidence.startswith("the two have no complete runs at the same load levels")
    assert "0.00" not in finding.evidence
