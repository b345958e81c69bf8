"""Samba's own tests that the reference SMB server must pass; `conformance/smbtorture.py` runs all of them."""

from __future__ import annotations

import pytest

from conformance import smbtorture
from support.file_server import skip_unless_installed

PASSES = (
    "connect",
    "tcon",
    "rename",
    "session.reconnect1",
    "session.reconnect2",
    "session.reauth1",
    "session.reauth6",
    "session.bind1",
    "session.bind2",
    "session.bind_invalid_auth",
    "session.bind_negative_smb3to3s",
    "session.bind_negative_smb3signCtoHs",
    "session.signing-aes-128-gmac",
    "session.encryption-aes-256-gcm",
    "compound.related1",
    "compound.invalid1",
    "lock.unlock",
    "lock.stacking",
    "lock.replay_smb3_specification_multi",
    "multichannel.generic.interface_info",
    "multichannel.generic.num_channels",
    "lease.breaking1",
    "lease.upgrade",
    "lease.v2_epoch1",
    "durable-open.reopen1a",
    "durable-v2-open.reopen2-lease-v2",
    "durable-open.delete_on_close1",
    "durable-v2-open.create-blob",
    "durable-v2-open.durable-v2-setinfo",
    "replay.channel-sequence",
)
"""Quick tests of each part of the server, which don't wait for a timer."""


@pytest.mark.parametrize("name", PASSES)
def test_samba_finds_the_server_in_order(name: str) -> None:
    skip_unless_installed("smbtorture")
    outcomes = list(smbtorture.outcomes_of(smbtorture.tests_of([name])))
    assert outcomes
    assert [outcome for outcome in outcomes if outcome.result != "success"] == []
