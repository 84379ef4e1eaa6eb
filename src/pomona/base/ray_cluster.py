"""Ray, where it is wanted: the cluster at an address, or one on this machine that is started and stopped here.

    with cluster() as ray:                       # or cluster("ray-head:6379")
        ray.get([ray.remote(work).remote(part) for part in parts])

Ray is the extra `cluster` (`pip install 'pomona[cluster]'`). One that is started here listens on the loopback interface
alone, has no dashboard and sends no usage statistics. A Ray that this process is connected to already is used as it
is, and left running. All workers must see the folders that they write under the same path.

Ray asks for a token (`RAY_AUTH_TOKEN`, or the file `~/.ray/auth_token`) where a cluster was started with one. One that
is started here has a token of its own, which is written nowhere; for a cluster at an address the user's is sent, if
there is one.
"""

from __future__ import annotations

import os
import secrets
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from pomona.base.errors import RunError
from pomona.base.extras import extras_named

LOOPBACK = "127.0.0.1"
STARTS = 2  # tries to start Ray here: on a busy machine its own time-outs end the first
ANSWER_SECONDS = 10.0  # for a cluster to take a connection
LONGEST_FOLDER = 24  # letters; the path of a socket has at most 107, and Ray adds some 70
# Whether Ray may have other machines, whatever the system. If not, it takes the loopback address for its own;
# otherwise it replaces 127.0.0.1 by an address that can be reached from outside, and listens on all interfaces.
SEVERAL_MACHINES = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
AUTHENTICATION = "RAY_AUTH_MODE"
_TOKENS = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
STORE_BYTES = 128 << 20  # for what passes between tasks; results are files
_HERE = {"_node_ip_address": LOOPBACK, "include_dashboard": False, "object_store_memory": STORE_BYTES}


@contextmanager
def cluster(address: str = "", workers: int | None = None) -> Iterator[Any]:
    """The module `ray`, connected for the time of the block to the cluster at `address`, or to a Ray started here with
    so many workers (by default one for each core)."""
    with ExitStack() as at_the_end:
        at_the_end.enter_context(_token(address))
        ray = _imported()
        if ray.is_initialized():
            yield ray
            return
        if not address:
            at_the_end.enter_context(_alone())
        here = {} if address else {**_HERE, "num_cpus": workers, "_temp_dir": at_the_end.enter_context(_folder())}
        at_the_end.callback(ray.shutdown)
        _connect(ray, address or "local", here)
        yield ray


@contextmanager
def _token(address: str) -> Iterator[None]:
    """Inside, Ray uses the user's token, or for a cluster that is started here one of its own: Ray itself would leave a
    file in the user's home, which from then on closes clusters that the user starts. It reads these at its import."""
    has_one = any(os.environ.get(name) for name in _TOKENS) or (Path.home() / ".ray" / "auth_token").is_file()
    before = {name: os.environ.get(name) for name in (AUTHENTICATION, _TOKENS[0])}
    if not has_one and not address:
        os.environ[_TOKENS[0]] = _own_token()
    if has_one and address:
        os.environ.setdefault(AUTHENTICATION, "token")  # one that was started without does not mind
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


@cache
def _own_token() -> str:
    return secrets.token_hex(32)  # one for the process, since Ray reads it once


@contextmanager
def _folder() -> Iterator[str]:
    """A folder for Ray's logs and sockets; Ray's own default, /tmp/ray, may belong to somebody else."""
    short = len(tempfile.gettempdir()) <= LONGEST_FOLDER
    with tempfile.TemporaryDirectory(
        prefix="ray-", dir=None if short else "/tmp", ignore_cleanup_errors=True
    ) as folder:
        yield folder


def _imported() -> Any:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_worker_niceness", "0")  # else 15: tasks would wait for all else on a busy machine
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # or it warns of a change to come
    with extras_named():
        import ray
    return ray


@contextmanager
def _alone() -> Iterator[None]:
    """Inside, Ray that is started has no other machines. Its variable is for the processes that it starts; in this one
    it was read at the import."""
    from ray._private import ray_constants

    before, allowed = os.environ.get(SEVERAL_MACHINES), ray_constants.ENABLE_RAY_CLUSTER
    os.environ[SEVERAL_MACHINES], ray_constants.ENABLE_RAY_CLUSTER = "0", False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = allowed
        del os.environ[SEVERAL_MACHINES]
        if before is not None:
            os.environ[SEVERAL_MACHINES] = before


def _answers(address: str) -> None:
    """An error if nothing listens at host:port; Ray itself would try for minutes. Other addresses are Ray's to read."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal() and "/" not in host:
        try:
            socket.create_connection((host.strip("[]"), int(port)), ANSWER_SECONDS).close()
        except (OSError, OverflowError) as error:
            raise RunError(
                f"the cluster at {address} cannot be reached: {error}. `ray status` on one of its machines tells the "
                "address; without --address, Ray is started here."
            ) from None


def _connect(ray: Any, address: str, here: dict[str, Any]) -> None:
    _answers(address)
    for left in reversed(range(STARTS)):
        try:
            ray.init(address, log_to_driver=False, logging_level="ERROR", **here)
            break
        except Exception as error:
            ray.shutdown()
            if not left:
                where = "Ray does not start here" if here else f"the cluster at {address} cannot be reached"
                raise RunError(f"{where}: {error}") from error
    addresses = {node["NodeManagerAddress"] for node in ray.nodes()}
    if here and addresses != {LOOPBACK}:
        raise RunError(
            f"Ray {ray.__version__} would listen outside this machine, at {', '.join(sorted(addresses))}, and was "
            "stopped. Start a Ray of your own (`ray start --head`), and name it with --address."
        )
