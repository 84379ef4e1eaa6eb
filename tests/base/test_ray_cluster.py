"""Ray is started and stopped here, hears nobody outside this machine, and tells nobody that it runs."""

from __future__ import annotations

import os
import re
import socket
import tempfile
from pathlib import Path
from typing import Any

import pytest

from pomona.base import ray_cluster
from pomona.base.errors import MissingPackageError, RunError
from pomona.base.ray_cluster import LOOPBACK, cluster

LISTENING = "0A"


def sockets_of(processes: set[int]) -> set[str]:
    """The numbers of the sockets that processes have open."""
    found = set()
    for process in processes:
        for link in Path(f"/proc/{process}/fd").glob("*"):
            try:
                match = re.fullmatch(r"socket:\[(\d+)\]", str(link.readlink()))
            except OSError:  # closed meanwhile
                continue
            if match:
                found.add(match[1])
    return found


def children_of(process: int) -> set[int]:
    """A process and all that it started, and that they started."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
    found = {process}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def listening(processes: set[int]) -> list[str]:
    """The addresses at which these processes wait for connections, in the words of /proc/net."""
    mine = sockets_of(processes)
    rows = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    return [row[1].partition(":")[0] for row in rows if row[3] == LISTENING and row[9] in mine]


def is_loopback(address: str) -> bool:
    """127.0.0.1, ::1 or ::ffff:127.0.0.1, as /proc/net writes them."""
    return address in ("0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F")


def test_nothing_listens_outside_loopback_and_everything_ends() -> None:
    before = children_of(os.getpid())
    with cluster(workers=2) as ray:
        assert ray.get([ray.remote(lambda: os.nice(0)).remote() for _ in range(4)]) == [os.nice(0)] * 4  # as we are
        assert ray.cluster_resources()["CPU"] == 2
        (node,) = ray.nodes()
        assert node["NodeManagerAddress"] == LOOPBACK
        started = children_of(os.getpid()) - before
        heard = listening(started | {os.getpid()})
        assert len(heard) >= 4  # GCS, raylet, the workers, this process: the listing sees them
        assert all(map(is_loopback, heard)), heard
        assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
        folder = Path(ray._private.worker._global_node.get_temp_dir_path())
        assert folder.exists()
        with cluster() as again:  # a Ray that runs is used, and left running
            assert again.is_initialized()
        assert ray.is_initialized()
    assert not ray.is_initialized()
    assert not folder.exists()
    assert "RAY_AUTH_TOKEN" not in os.environ
    assert ray_cluster.SEVERAL_MACHINES not in os.environ  # a Ray of the user's own is as it was


class FakeRay:
    """What `cluster` needs of Ray; its start fails as often as it is told."""

    __version__ = "0.0"

    def __init__(self, failures: int, address: str = LOOPBACK) -> None:
        self.failures, self.address, self.calls, self.stopped = failures, address, 0, 0

    def is_initialized(self) -> bool:
        return False

    def init(self, address: str, **told: Any) -> None:
        self.calls, self.told = self.calls + 1, {"address": address, **told}
        if self.calls <= self.failures:
            raise TimeoutError("the agent took too long")

    def shutdown(self) -> None:
        self.stopped += 1

    def nodes(self) -> list[dict[str, str]]:
        return [{"NodeManagerAddress": self.address}]


def test_a_start_that_fails_is_tried_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeRay(1)
    monkeypatch.setattr(ray_cluster, "_imported", lambda: fake)
    with cluster(workers=3):
        pass
    assert (fake.calls, fake.stopped) == (2, 2)  # after the failure, and at the end
    assert fake.told["num_cpus"] == 3
    with pytest.raises(ZeroDivisionError), cluster():
        _ = 1 / 0
    assert fake.stopped == 3  # also after an error inside
    for address, words in (("", "Ray does not start here: the"), ("auto", "the cluster at auto cannot be")):
        monkeypatch.setattr(ray_cluster, "_imported", lambda: FakeRay(2))
        with pytest.raises(RunError, match=words), cluster(address):
            pass


def test_a_ray_that_would_listen_elsewhere_is_stopped_unless_it_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeRay(0, "10.0.0.7")
    monkeypatch.setattr(ray_cluster, "_imported", lambda: fake)
    with pytest.raises(RunError, match=r"outside this machine, at 10\.0\.0\.7, and was stopped"), cluster():
        pass
    assert fake.stopped == 1
    with socket.create_server((LOOPBACK, 0)) as server:
        address = f"{LOOPBACK}:{server.getsockname()[1]}"
        with cluster(address):
            assert fake.told == {"address": address, "log_to_driver": False, "logging_level": "ERROR"}
    with pytest.raises(RunError, match=f"the cluster at {address} cannot be reached: .*refused"), cluster(address):
        pass  # nobody listens there any more


def test_a_token_is_sent_where_there_is_one_and_none_is_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray would write a token to the user's home, and send none to an address that is named."""
    names = (ray_cluster.AUTHENTICATION, "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
    for name in names:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    fake = FakeRay(0)
    monkeypatch.setattr(ray_cluster, "_imported", lambda: fake)

    def told(address: str) -> tuple[str | None, ...]:
        fake.address = LOOPBACK
        with cluster(address):
            found = tuple(os.environ.get(name) for name in names)
        assert not any(name in os.environ for name in names)
        return found

    mode, own, path = told("")
    assert (mode, path) == (None, None)  # Ray asks for a token by itself
    assert own is not None
    assert len(own) == 64
    assert told("auto") == (None, None, None)
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("secret")
    assert told("auto") == ("token", None, None)
    assert told("") == (None, None, None)
    monkeypatch.setenv(ray_cluster.AUTHENTICATION, "disabled")  # the user's word counts
    with cluster("auto"):
        assert os.environ[ray_cluster.AUTHENTICATION] == "disabled"
    assert os.environ[ray_cluster.AUTHENTICATION] == "disabled"


def test_a_long_folder_for_temporary_files_does_not_stop_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeRay(0)
    monkeypatch.setattr(ray_cluster, "_imported", lambda: fake)
    for folder, kept in ((tmp_path / ("long" * 20), False), (Path("/tmp"), True)):
        folder.mkdir(exist_ok=True)
        monkeypatch.setattr(tempfile, "tempdir", str(folder))
        with cluster():
            assert Path(fake.told["_temp_dir"]).is_dir()
            assert (Path(fake.told["_temp_dir"]).parent == folder) is kept
            assert len(fake.told["_temp_dir"]) <= ray_cluster.LONGEST_FOLDER + 13


def test_without_ray_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingPackageError, match=r"this needs ray: pip install 'pomona\[cluster\]'"), cluster():
        pass
