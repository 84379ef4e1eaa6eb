"""A sweep on two hosts that see each other over a network only: two network namespaces of this machine, joined by a
cable, a node of Ray in each. It needs root and `ip` (Debian: iproute2)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pomona.sweeps.sweep import sweep
from sweeps_material import PLAN, bits

HEAD, OTHER, PORT = "10.77.31.1", "10.77.31.2", 6379
RAY = [sys.executable, "-c", "import ray.scripts.scripts as scripts; scripts.main()"]
STARTS = 2  # Ray's own time-outs may end the first on a busy machine
SWEEP = """
import json, sys
from pomona.sweeps.sweep import sweep
table = sweep(json.loads(sys.argv[1]), sys.argv[2], on="ray", address=sys.argv[3])
assert not table.failed, table.failed
"""
POSSIBLE = shutil.which("ip", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") and os.geteuid() == 0

pytestmark = [
    pytest.mark.conformance,
    pytest.mark.skipif(not POSSIBLE, reason="NOT RUN: two hosts are made by root with `ip netns` (iproute2)"),
]


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@contextmanager
def hosts() -> Iterator[tuple[str, str]]:
    """The names of two namespaces; all processes in them end with the block."""
    names = f"pomona-a{os.getpid()}", f"pomona-b{os.getpid()}"
    try:
        for name in names:
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("link", "add", "cable", "netns", names[0], "type", "veth", "peer", "name", "cable", "netns", names[1])
        for name, address in zip(names, (HEAD, OTHER), strict=True):
            ip("-n", name, "addr", "add", f"{address}/24", "dev", "cable")
            ip("-n", name, "link", "set", "cable", "up")
        yield names
    finally:
        for name in names:
            empty(name)
            subprocess.run(["ip", "netns", "delete", name], check=False)


def empty(name: str) -> None:
    """End what runs in a namespace."""
    for signal in ("-TERM", "-KILL"):
        listed = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=False)
        found = listed.stdout.split()
        if found:
            subprocess.run(["kill", signal, *found], check=False, capture_output=True)
            time.sleep(3)


def inside(name: str, words: list[str], told: dict[str, str], seconds: float = 400) -> None:
    run = subprocess.run(
        ["ip", "netns", "exec", name, *words], env=told, capture_output=True, text=True, timeout=seconds, check=False
    )
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-2000:]


def start(names: tuple[str, str], told: dict[str, str], folder: Path) -> None:
    """A node of one core on each host."""
    some = ["--num-cpus", "1", "--object-store-memory", str(100 << 20)]
    head = ["--head", "--port", str(PORT), "--include-dashboard", "false", "--temp-dir", str(folder)]
    for left in reversed(range(STARTS)):
        try:
            inside(names[0], [*RAY, "start", *head, "--node-ip-address", HEAD, *some], told)
            inside(names[1], [*RAY, "start", "--address", f"{HEAD}:{PORT}", "--node-ip-address", OTHER, *some], told)
            return
        except AssertionError:
            for name in names:
                empty(name)
            if not left:
                raise


def test_two_hosts_that_share_only_a_folder_and_a_network(tmp_path: Path) -> None:
    longer: dict[str, Any] = {**PLAN, "recipe": {**PLAN["recipe"], "epochs": 20}}
    sweep(longer, tmp_path / "alone", workers=1)
    sources = str(Path(__file__).parents[2] / "src")
    own = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    told = {**own, "PYTHONPATH": sources, "RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    told["RAY_AUTH_MODE"], told["RAY_AUTH_TOKEN"] = "token", "c0ffee" * 8  # as Ray advises for a network
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp") as folder, hosts() as names:
        start(names, told, Path(folder))
        words = [sys.executable, "-c", SWEEP, json.dumps(longer), str(tmp_path / "runs"), f"{HEAD}:{PORT}"]
        inside(names[0], words, told)
    assert bits(tmp_path / "runs") == bits(tmp_path / "alone")
    assert len(bits(tmp_path / "runs")) == 4
