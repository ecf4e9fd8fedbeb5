"""What the kernel refuses a worker, whatever its SQL engine may be talked into."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from birdrl.errors import InfraError
from birdrl.sql import PoolConfig, ReplicaPool

ATTEMPTS = {
    "open a network socket": "socket.socket()",
    "open a local socket": "socket.socket(socket.AF_UNIX)",
    "make a pair of sockets": "socket.socketpair()",
    "resolve a name": "socket.create_connection(('127.0.0.1', 9))",
    "fork": "os.fork()",
    "start a program": "os.posix_spawn('/bin/true', ['true'], {})",
    "become a program": "os.execv('/bin/true', ['true'])",
    "start a thread": "threading.Thread(target=print).start()",
    "write a file": "open(target, 'w')",
    "append to a file": "open(target, 'ab')",
    "make a file": "open(target + '.new', 'x')",
    "make a nameless file": "os.open('/tmp', os.O_TMPFILE | os.O_RDWR)",
    "make a file here": "open('x', 'w')",
    "remove a file": "os.unlink(target)",
    "rename a file": "os.rename(target, target + '.old')",
    "cut a file": "os.truncate(target, 0)",
    "link a file": "os.link(target, target + '.link')",
    "name a link": "os.symlink(target, target + '.link')",
    "make a folder": "os.mkdir(target + '.folder')",
    "give rights": "os.chmod(target, 0o777)",
    "change times": "os.utime(target, (0, 0))",
    "kill its parent": "os.kill(os.getppid(), 9)",
    "write to its own file": "os.write(own, b'x')",
}
ALLOWED = {
    "read a file": "open(target).read()",
    "read its own file": "os.read(own, 1)",
    "answer": "channel.send(b'x')",
    "use memory": "bytearray(1 << 20)",
}
PROGRAM = """
import json, os, socket, sys, tempfile, threading
from birdrl.sql.confinement import confine, limit_file_size
target, copies, attempts = sys.argv[1], sys.argv[2] == "copies", json.loads(sys.argv[3])
channel, _other = socket.socketpair()
own = os.open(target + ".own", os.O_RDWR)
folder = tempfile.mkdtemp()
descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
os.rmdir(folder)
confine(os.getppid(), descriptor, 64 << 20, writes_copies=copies)
if copies:
    limit_file_size(100)
done = {}
for name, code in attempts.items():
    try:
        eval(code)
        done[name] = "done"
    except (OSError, RuntimeError) as error:
        done[name] = type(error).__name__
print(json.dumps(done))
"""


def attempt(tmp_path: Path, attempts: dict[str, str], mode: str) -> dict[str, str]:
    target = tmp_path / "target"
    target.write_text("kept")
    (tmp_path / "target.own").write_text("own")
    command = [sys.executable, "-c", PROGRAM, str(target), mode, json.dumps(attempts)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert target.read_text() == "kept"
    assert {path.name for path in tmp_path.iterdir()} == {"target", "target.own"}
    found: dict[str, str] = json.loads(done.stdout)
    return found


def test_a_worker_can_reach_nothing(tmp_path: Path) -> None:
    found = attempt(tmp_path, ATTEMPTS | ALLOWED, "overlay")
    assert {name for name, result in found.items() if result == "done"} == set(ALLOWED)
    assert set(found.values()) <= {"done", "PermissionError", "RuntimeError", "OSError"}
    assert (tmp_path / "target.own").read_text() == "own"


def test_a_worker_on_copies_writes_only_what_it_was_given_and_not_much(tmp_path: Path) -> None:
    extra = {"beyond the limit": "os.pwrite(own, b'x', 100)"}
    found = attempt(tmp_path, ATTEMPTS | ALLOWED | extra, "copies")
    assert {name for name, result in found.items() if result == "done"} == {*ALLOWED, "write to its own file"}
    assert (tmp_path / "target.own").read_text() == "xwn"


@pytest.mark.parametrize("strategy", ["overlay", "copy"])
def test_the_limits_of_a_running_worker(template: Path, strategy: str) -> None:
    config = PoolConfig(workers=1, strategy=strategy, memory_mb=128, overlay_mb=8)  # type: ignore[arg-type]
    with ReplicaPool(config) as pool, pool.acquire("a", template) as lease:
        lease.execute("SELECT 1")
        proc = Path(f"/proc/{pool._replicas[0].process.result(10).pid}")
        status = dict(line.split(":\t", 1) for line in (proc / "status").read_text().splitlines() if ":\t" in line)
        assert (status["Seccomp"].strip(), status["NoNewPrivs"].strip(), status["Threads"].strip()) == ("2", "1", "1")
        limits = {line[:26].strip(): line[26:].split()[0] for line in (proc / "limits").read_text().splitlines()}
        assert limits["Max open files"] == "32"
        assert limits["Max core file size"] == "0"
        assert limits["Max file size"] == str(0 if strategy == "overlay" else template.stat().st_size + 2 * (8 << 20))
        assert int(limits["Max address space"]) < (128 + 16 + 300) << 20
        assert 10 < int(limits["Max cpu time"]) < 40
        assert os.readlink(proc / "cwd").endswith(" (deleted)")
        opened = {entry.name: os.readlink(entry) for entry in (proc / "fd").iterdir()}
        assert sum(name.startswith("socket:") for name in opened.values()) == 1
        (number,) = (number for number, name in opened.items() if name == str(template))
        flags = dict(line.split(":\t") for line in (proc / "fdinfo" / number).read_text().splitlines())["flags"]
        assert int(flags, 8) & os.O_ACCMODE == os.O_RDONLY


UNDER_LIMITS = """
import resource, sys
from pathlib import Path
from birdrl.sql import PoolConfig, ReplicaPool
for kind, value in ((resource.RLIMIT_AS, 8 << 30), (resource.RLIMIT_CPU, 1000), (resource.RLIMIT_NOFILE, 30)):
    resource.setrlimit(kind, (value, value))
for strategy in ("overlay", "copy"):
    with ReplicaPool(PoolConfig(workers=1, strategy=strategy)) as pool:
        for number in range(2):
            with pool.acquire(str(number), Path(sys.argv[1])) as lease:
                print(lease.execute("DELETE FROM item; SELECT count(*) FROM item")[-1].rows)
"""


def test_workers_fit_into_the_limits_of_whoever_starts_the_pool(template: Path) -> None:
    done = subprocess.run([sys.executable, "-c", UNDER_LIMITS, str(template)], capture_output=True, text=True)
    assert (done.stdout.split("\n")[:-1], done.stderr) == (["((0,),)"] * 4, "")


def test_workers_need_a_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    with pytest.raises(InfraError, match=r"absent.*cannot make an empty folder"):
        ReplicaPool(PoolConfig(workers=1))


def test_cpu_time_ends_a_worker_that_nobody_kills() -> None:
    program = "from birdrl.sql.confinement import CPU_SLACK_S, limit_cpu\nlimit_cpu(1 - CPU_SLACK_S)\nwhile True: pass"
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == -signal.SIGXCPU
