"""The access key and the region of a user's bucket: from the AWS variables or profiles, and never in any output."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from serverdyno.errors import UserError
from serverdyno.servers import registry
from serverdyno.servers.access_key import access_key, region

URL = "s3://127.0.0.1:8333/bucket"
SECRET = "not/a+secret=%(here)s"
TOKEN = "session-token"


@pytest.fixture(autouse=True)
def profiles(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[Path, Path]:
    """Point AWS's profile files into the test's directory, and unset every other AWS variable."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    credentials, config = tmp_path / "credentials", tmp_path / "config"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(credentials))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    return credentials, config


def test_without_variables_and_profiles_requests_are_anonymous_and_for_the_usual_region() -> None:
    assert (access_key(), region()) == (None, "us-east-1")


def test_the_variables_precede_the_profile(
    monkeypatch: pytest.MonkeyPatch, profiles: tuple[Path, Path]
) -> None:
    profiles[0].write_text("[default]\naws_access_key_id = A\naws_secret_access_key = B\n")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ID")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    assert access_key() == ("ID", SECRET, None)
    monkeypatch.setenv("AWS_SESSION_TOKEN", TOKEN)
    assert access_key() == ("ID", SECRET, TOKEN)


def test_one_variable_without_the_other_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ID")
    with pytest.raises(UserError, match="AWS_SECRET_ACCESS_KEY is not set"):
        access_key()


def test_an_empty_variable_is_as_good_as_none_and_named_if_there_is_no_other_key(
    monkeypatch: pytest.MonkeyPatch, profiles: tuple[Path, Path]
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "")
    with pytest.raises(UserError, match="set, but empty: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"):
        access_key()
    profiles[0].write_text("[default]\naws_access_key_id = A\naws_secret_access_key = B\n")
    assert access_key() == ("A", "B", None)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    with pytest.raises(UserError, match="AWS_ACCESS_KEY_ID is empty, but AWS_SECRET_ACCESS_KEY is set"):
        access_key()


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("aws_access_key_id = A", "aws_secret_access_key is missing"),
        (f"aws_secret_access_key = {SECRET}", "aws_access_key_id is missing"),
        (
            f"aws_access_key_id = A\naws_secret_access_key = {SECRET} # mine",
            "aws_secret_access_key of the AWS",
        ),
        (f"aws_access_key_id = \u00e4\naws_secret_access_key = {SECRET}", "aws_access_key_id of the AWS"),
    ],
)
def test_half_of_a_key_and_a_comment_after_a_value_are_named_without_the_value(
    monkeypatch: pytest.MonkeyPatch, profiles: tuple[Path, Path], lines: str, expected: str
) -> None:
    profiles[0].write_text(f"[half]\n{lines}\n", encoding="utf-8")
    monkeypatch.setenv("AWS_PROFILE", "half")
    with pytest.raises(UserError, match=expected) as caught:
        access_key()
    told = f"{caught.value} {caught.value.hint}"
    assert "'half'" in told and SECRET not in told


def test_a_profile_may_stand_in_both_files_and_have_any_letter_in_its_secret(
    monkeypatch: pytest.MonkeyPatch, profiles: tuple[Path, Path]
) -> None:
    profiles[0].write_text(
        f"[default]\naws_access_key_id = A\naws_secret_access_key = B\n"
        f"[lab]\naws_access_key_id = ID\naws_secret_access_key = {SECRET}\naws_session_token = {TOKEN}\n"
    )
    profiles[1].write_text("[default]\nregion = eu-west-1\n[profile lab]\nregion = eu-central-1\n")
    assert (access_key(), region()) == (("A", "B", None), "eu-west-1")
    monkeypatch.setenv("AWS_PROFILE", "lab")
    assert (access_key(), region()) == (("ID", SECRET, TOKEN), "eu-central-1")
    monkeypatch.setenv("AWS_REGION", "us-west-2")
    assert region() == "us-west-2"


def test_a_named_profile_that_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "lab")
    with pytest.raises(UserError, match="there is no AWS profile 'lab'"):
        access_key()


def test_a_profile_whose_key_only_the_aws_cli_can_get_is_refused_with_the_command_for_it(
    profiles: tuple[Path, Path],
) -> None:
    profiles[1].write_text("[default]\nsso_session = work\n")
    with pytest.raises(UserError) as caught:
        access_key()
    assert "export-credentials --profile default" in f"{caught.value.hint}"


def test_a_damaged_profile_file_is_named_without_its_content(profiles: tuple[Path, Path]) -> None:
    profiles[0].write_text(f"aws_secret_access_key = {SECRET}\n")
    with pytest.raises(UserError) as caught:
        access_key()
    assert f"{profiles[0]}" in f"{caught.value}" and SECRET not in f"{caught.value} {caught.value.hint}"
    assert caught.value.__cause__ is None and caught.value.__suppress_context__


def test_the_key_goes_to_the_generator_and_into_nothing_that_is_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ID")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", TOKEN)
    settings = {"addressing": "virtual", "region": "eu-west-3"}
    driver = registry.create("external", settings, documents=tmp_path, url=URL)
    driver.ready()
    access = driver.access()
    assert access.access_key == ("ID", SECRET, TOKEN)
    assert (access.region, access.addressing) == ("eu-west-3", "virtual")
    assert not any(secret in f"{access!r} {driver.describe()!r}" for secret in (SECRET, TOKEN))


def test_a_user_learns_that_requests_were_anonymous(tmp_path: Path) -> None:
    driver = registry.create("external", {}, documents=tmp_path, url=URL)
    assert any(note.startswith("Requests were anonymous") for note in driver.describe().notes)


@pytest.mark.parametrize("settings", [{"region": "eu-west-1"}, {"addressing": "virtual"}])
def test_a_server_of_another_protocol_has_no_region(tmp_path: Path, settings: dict[str, str]) -> None:
    with pytest.raises(UserError, match="only for URLs that begin with s3:// or s3s://"):
        registry.create("external", settings, documents=tmp_path, url="http://127.0.0.1/")
