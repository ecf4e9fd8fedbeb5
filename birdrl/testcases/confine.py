"""What a sandbox process may ask of the kernel: a list of system calls, everything else is refused.

Covered: no file is written, made, renamed, removed or changed; no socket is opened; no program is started; no other
process is signalled, traced or limited; memory, CPU time, file size and open files are bounded; the sandbox cannot
take any of this back. Not covered: reading files that the user may read, and using up CPU until the time limit. A
refused call fails with EPERM, which Python code sees as PermissionError.

Linux on x86-64 and arm64, without privileges (seccomp filter mode, PR_SET_NO_NEW_PRIVS).
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import struct

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
_LOAD, _JUMP_IF_EQUAL, _JUMP_IF_ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_NUMBER_OFFSET, _ARCHITECTURE_OFFSET, _ARGUMENTS_OFFSET = 0, 4, 16
_WRITING_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | (os.O_TMPFILE & ~os.O_DIRECTORY)

# Audit code of the architecture, and system call numbers: (x86-64, arm64), None where there is no such call.
_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_READING: dict[str, tuple[int | None, int | None, int]] = {
    "open": (2, None, 1),
    "openat": (257, 56, 2),
}  # the last number: which argument holds the flags
_ALWAYS: dict[str, tuple[int | None, int | None]] = {
    "read": (0, 63), "write": (1, 64), "close": (3, 57), "stat": (4, None), "fstat": (5, 80), "lstat": (6, None),
    "poll": (7, None), "lseek": (8, 62), "mmap": (9, 222), "mprotect": (10, 226), "munmap": (11, 215),
    "brk": (12, 214), "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139),
    "pread64": (17, 67), "readv": (19, 65), "writev": (20, 66), "access": (21, None), "select": (23, None),
    "sched_yield": (24, 124), "mremap": (25, 216), "madvise": (28, 233), "dup": (32, 23), "nanosleep": (35, 101),
    "getpid": (39, 172), "exit": (60, 93), "uname": (63, 160), "getcwd": (79, 17), "readlink": (89, None),
    "gettimeofday": (96, 169), "getrusage": (98, 165), "sysinfo": (99, 179), "getuid": (102, 174),
    "getgid": (104, 176), "geteuid": (107, 175), "getegid": (108, 177), "getppid": (110, 173),
    "sigaltstack": (131, 132), "gettid": (186, 178), "futex": (202, 98), "sched_getaffinity": (204, 123),
    "getdents64": (217, 61), "set_tid_address": (218, 96), "restart_syscall": (219, 128),
    "clock_gettime": (228, 113), "clock_getres": (229, 114), "clock_nanosleep": (230, 115), "exit_group": (231, 94),
    "newfstatat": (262, 79), "readlinkat": (267, 78), "faccessat": (269, 48), "pselect6": (270, 72),
    "ppoll": (271, 73), "set_robust_list": (273, 99), "getrandom": (318, 278), "membarrier": (324, 283),
    "statx": (332, 291), "rseq": (334, 293), "faccessat2": (439, 439),
}  # fmt: skip
# What our own code in the sandbox needs, and code of a test case must not have.
_SERVING: dict[str, tuple[int | None, int | None]] = {
    "recvfrom": (45, 207), "sendto": (44, 206), "clone": (56, 220), "fork": (57, None), "vfork": (58, None),
    "clone3": (435, 435), "wait4": (61, 260), "waitid": (247, 95), "kill": (62, 129), "fcntl": (72, 25),
    "dup2": (33, None), "dup3": (292, 24), "pipe2": (293, 59), "prctl": (157, 167), "setrlimit": (160, 164),
    "prlimit64": (302, 261), "seccomp": (317, 277),
}  # fmt: skip


class ConfinementError(Exception):
    """This system cannot confine a process; the message says what is missing."""


def limit_process() -> None:
    """No core dump, no file content, few open files, and a working folder that does not exist any more."""
    folder = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"birdrl-sandbox-{os.getpid()}")
    os.mkdir(folder, 0o700)
    os.chdir(folder)
    os.rmdir(folder)
    for what, value in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_NOFILE, 64)):
        resource.setrlimit(what, (value, value))


def filter_calls(*, serving: bool) -> None:
    """Install the filter for good. `serving`: for our own code, which forks and adds the narrower filter later.

    Raises ConfinementError where the kernel has no such filter.
    """
    program = _program(serving)
    buffer = ctypes.create_string_buffer(program)
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise ConfinementError(f"PR_SET_NO_NEW_PRIVS: {os.strerror(ctypes.get_errno())}")
    if libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, header, 0, 0) != 0:
        raise ConfinementError(f"seccomp filter: {os.strerror(ctypes.get_errno())}")


def _program(serving: bool) -> bytes:
    """The filter: check the architecture, allow listed numbers, allow opening for reading, refuse the rest."""
    if platform.system() != "Linux" or platform.machine() not in _ARCHITECTURES:
        raise ConfinementError(f"no system call list for {platform.system()} on {platform.machine()}")
    column, audit = _ARCHITECTURES[platform.machine()]
    listed = {**_ALWAYS, **(_SERVING if serving else {})}
    numbers = [number for pair in listed.values() if (number := pair[column]) is not None]
    code = [
        (_LOAD, 0, 0, _ARCHITECTURE_OFFSET),
        (_JUMP_IF_EQUAL, 1, 0, audit),
        (_RETURN, 0, 0, _REFUSE),
        (_LOAD, 0, 0, _NUMBER_OFFSET),  # the 32-bit calls of x86-64 have numbers of their own and are not listed
    ]
    for number in numbers:
        code += [(_JUMP_IF_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ALLOW)]
    for on_x86, on_arm, argument in _READING.values():
        opening = (on_x86, on_arm)[column]
        if opening is not None:
            code += [
                (_JUMP_IF_EQUAL, 0, 4, opening),
                (_LOAD, 0, 0, _ARGUMENTS_OFFSET + 8 * argument),
                (_JUMP_IF_ANY_BIT, 0, 1, _WRITING_FLAGS),
                (_RETURN, 0, 0, _REFUSE),
                (_RETURN, 0, 0, _ALLOW),
            ]
    code.append((_RETURN, 0, 0, _REFUSE))
    return b"".join(struct.pack("HBBI", *instruction) for instruction in code)
