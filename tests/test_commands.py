"""Every command ends in one way: in silence where its reader has read enough, in one line after Ctrl-C."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bayesgrad.evidence import ROOT

LONG = ("derivations attention.delta-identity", "derivations --tree", "checks --help", "bayesgrad.training --help")


@pytest.mark.parametrize("command", LONG)
def test_a_reader_that_goes_away_is_no_error(command):
    with subprocess.Popen(
        [sys.executable, "-m", *command.split()], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as said:
        said.stdout.close()
        assert said.stderr.read() == ""
        assert said.wait() in (0, 141)


def test_an_interrupt_is_one_line():
    script = "from bayesgrad.command import finish as f\ndef main(): raise KeyboardInterrupt\nf(main, 'all is kept')"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr, done.stdout) == (130, "all is kept\n", "")
