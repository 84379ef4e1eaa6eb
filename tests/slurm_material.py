"""A real Slurm on this machine, of one node, for the time of a block: its own daemons, ports, keys and folders.

    with slurm(folder) as told:
        subprocess.run(["sinfo"], env=told)

It needs the programs of Slurm and MUNGE (Debian: `apt-get install slurm-wlm munge`), and no rights beyond the user's.
Jobs of the partition `urgent` preempt those of `cpu`, which then wait in the queue again.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "squeue")
PLACES = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
MISSING = [name for name in PROGRAMS if shutil.which(name, path=PLACES) is None]
START_SECONDS = 60.0

CONF = """
ClusterName=here
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=1,sched_interval=1,bf_interval=1
KillWait=2
ReturnToService=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 RealMemory=8000
PartitionName=cpu Nodes=ALL Default=YES PriorityTier=1 PreemptMode=REQUEUE
PartitionName=urgent Nodes=ALL PriorityTier=2 PreemptMode=OFF
"""


@contextmanager
def slurm(folder: Path) -> Iterator[dict[str, str]]:
    """The variables of a process that uses it. The path of the folder must be short, since it holds a socket."""
    for name in ("state", "spool"):
        (folder / name).mkdir(parents=True)
    (folder / "munge.key").write_bytes(os.urandom(1024))
    (folder / "munge.key").chmod(0o400)
    user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    host, ports = socket.gethostname().partition(".")[0], _free_ports(2)
    (folder / "slurm.conf").write_text(CONF.format(folder=folder, host=host, user=user, ports=ports))
    told = {**os.environ, "PATH": PLACES, "SLURM_CONF": str(folder / "slurm.conf")}
    names = {"key-file": "munge.key", "socket": "munge.sock", "pid-file": "munged.pid", "log-file": "munged.log"}
    munge = [f"--{option}={folder / name}" for option, name in {**names, "seed-file": "munge.seed"}.items()]
    daemons: list[subprocess.Popen[bytes]] = []
    try:
        for words in (["munged", "--foreground", "--force", *munge], ["slurmctld", "-D"], ["slurmd", "-D"]):
            log = (folder / f"{words[0]}.said").open("wb")
            daemons.append(subprocess.Popen(words, env=told, stdout=log, stderr=log))
            log.close()
            if words[0] == "munged":
                _wait(lambda: (folder / "munge.sock").exists(), folder)
        _wait(lambda: "IDLE" in _said(["scontrol", "show", "node", host], told), folder)
        yield told
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in daemons:
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


def _said(words: list[str], told: dict[str, str]) -> str:
    return subprocess.run(words, env=told, capture_output=True, text=True, check=False).stdout


def _wait(reached, folder: Path) -> None:  # type: ignore[no-untyped-def]
    deadline = time.monotonic() + START_SECONDS
    while not reached():
        if time.monotonic() > deadline:
            logs = "\n".join(f"{path.name}: {path.read_text()[-1500:]}" for path in sorted(folder.glob("*.said")))
            raise RuntimeError(f"Slurm does not start here\n{logs}")
        time.sleep(0.2)


def _free_ports(count: int) -> list[int]:
    with_sockets = [socket.socket() for _ in range(count)]
    for each in with_sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in with_sockets]
    for each in with_sockets:
        each.close()
    return ports
