"""What a worker process gives up before it sees any SQL. Linux only.

The policy and SQLite's limits keep SQL inside its replica. This is the second wall, for what they overlook: after
`confine` the kernel refuses the process every network call, every new process, every file opened for writing and
every change of the file tree, so that not even a defect of SQLite reaches a template or the host.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import signal
import struct
from pathlib import Path

import apsw

_PR_SET_PDEATHSIG = 1
_PR_SET_SECCOMP = 22
_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_MODE_FILTER = 2
_SECCOMP_RET_KILL_PROCESS = 0x80000000
_SECCOMP_RET_ERRNO = 0x00050000
_SECCOMP_RET_ALLOW = 0x7FFF0000
_EPERM = 1
_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_OFFSET_NUMBER, _OFFSET_ARCH, _OFFSET_ARGUMENTS = 0, 4, 16
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_X32_CALLS = 0x40000000

OPEN_FILES = 32
CPU_SLACK_S = 10  # beyond a script's limit: the owner's kill comes first
_cpu_limit = 0  # of this process

# Audit number, system calls that are refused, and calls that open a file: {number: position of the flags}.
_CALLS: dict[str, tuple[int, tuple[int, ...], dict[int, int]]] = {
    "x86_64": (
        0xC000003E,
        (
            *(41, 42, 43, 49, 50, 53, 288, 425),  # socket connect accept bind listen socketpair accept4 io_uring_setup
            *(56, 57, 58, 59, 322, 435, 62, 424),  # clone fork vfork execve execveat clone3 kill pidfd_send_signal
            *(101, 310, 311, 434, 438, 321, 272, 308),  # ptrace process_vm_* pidfd_open pidfd_getfd bpf unshare setns
            *(76, 82, 83, 84, 85, 86, 87, 88),  # truncate rename mkdir rmdir creat link unlink symlink
            *(90, 92, 94, 133, 165, 188, 304, 437),  # chmod chown lchown mknod mount setxattr open_by_handle_at openat2
            *(258, 259, 260, 263, 264, 265, 266, 268),  # mkdirat mknodat fchownat unlinkat renameat linkat symlinkat
            *(280, 316, 452),  # fchmodat utimensat renameat2 fchmodat2
        ),
        {2: 1, 257: 2},  # open, openat
    ),
    "aarch64": (
        0xC00000B7,
        (
            *(198, 203, 202, 200, 201, 199, 242, 425),  # as above, where the machine has the call
            *(220, 221, 281, 435, 129, 424),
            *(117, 270, 271, 434, 438, 280, 97, 268),
            *(45, 40, 5, 265, 437),
            *(34, 33, 54, 35, 38, 37, 36, 53),
            *(88, 276, 452),
        ),
        {56: 2},
    ),
}


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def confine(parent_pid: int, folder: int, memory_bytes: int, *, writes_copies: bool) -> None:
    """Die with the parent, stand in an empty folder that does not exist any more, and give up all rights.

    `folder` is the descriptor of that folder. With `writes_copies` the process may write to descriptors it is
    given, up to `limit_file_size`; without, to no file at all. Raises OSError where the kernel cannot do this.
    """
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:  # the parent died before the line above
        os._exit(1)
    os.fchdir(folder)
    os.close(folder)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    files = _smaller(OPEN_FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1] if writes_copies else 0
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    _filter_calls()
    apsw.hard_heap_limit(memory_bytes // 2)


def limit_memory(extra: int) -> None:
    """Address space: what is mapped now plus `extra` bytes."""
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    _limit(resource.RLIMIT_AS, mapped + extra)


def unlimit_memory() -> None:
    """No limit of ours, to map another template. Only our own code runs then."""
    _limit(resource.RLIMIT_AS, resource.RLIM_INFINITY)


def limit_file_size(size: int) -> None:
    """No file may grow beyond `size` bytes."""
    _limit(resource.RLIMIT_FSIZE, size)


def limit_cpu(seconds: float) -> None:
    """CPU seconds from now on, plus slack: a backstop should the owner's kill not come."""
    global _cpu_limit
    usage = resource.getrusage(resource.RUSAGE_SELF)
    limit = int(usage.ru_utime + usage.ru_stime + seconds) + CPU_SLACK_S
    if limit != _cpu_limit:  # it is asked for at every statement, and mostly is the same whole second
        _limit(resource.RLIMIT_CPU, limit)
        _cpu_limit = limit


def _limit(kind: int, value: int) -> None:
    """Set a limit that can be changed again, within the one that whoever started the pool has set for good."""
    hard = resource.getrlimit(kind)[1]
    resource.setrlimit(kind, (_smaller(value, hard), hard))


def _smaller(a: int, b: int) -> int:
    """Of two limits, where RLIM_INFINITY is -1."""
    return min((limit for limit in (a, b) if limit != resource.RLIM_INFINITY), default=resource.RLIM_INFINITY)


def _filter_calls() -> None:
    machine = platform.machine()
    if machine not in _CALLS:
        raise OSError(f"SQL workers cannot be confined on {machine}: its system calls are not known here")
    audit, refused, opening = _CALLS[machine]
    code = _instruction(_LOAD, _OFFSET_ARCH)
    code += _instruction(_JUMP_EQUAL, audit, if_true=1) + _instruction(_RETURN, _SECCOMP_RET_KILL_PROCESS)
    code += _instruction(_LOAD, _OFFSET_NUMBER)
    refuse = _instruction(_RETURN, _SECCOMP_RET_ERRNO | _EPERM)
    code += _instruction(_JUMP_AT_LEAST, _X32_CALLS, if_false=1) + refuse
    for number in refused:
        code += _instruction(_JUMP_EQUAL, number, if_false=1) + refuse
    for number, position in opening.items():
        code += _instruction(_JUMP_EQUAL, number, if_false=4)
        code += _instruction(_LOAD, _OFFSET_ARGUMENTS + 8 * position)
        code += _instruction(_JUMP_ANY_BIT, _WRITING, if_false=1) + refuse
        code += _instruction(_RETURN, _SECCOMP_RET_ALLOW)
    code += _instruction(_RETURN, _SECCOMP_RET_ALLOW)
    program = _Program(len(code) // 8, code)
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(program))


def _instruction(code: int, value: int, *, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _prctl(option: int, argument: int, pointer: int = 0) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    arguments = [ctypes.c_ulong(value) for value in (argument, pointer, 0, 0)]
    if libc.prctl(option, *arguments) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"SQL workers cannot be confined: prctl({option}) failed ({os.strerror(error)})")
