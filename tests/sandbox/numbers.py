"""Numbers of system calls from the kernel's headers: not those of the package that makes the filter."""

_TABLE = """
mount 165 40, umount2 166 39, pivot_root 155 41, chroot 161 51, setns 308 268, unshare 272 97,
open_tree 428 428, open_tree_attr 467 467, move_mount 429 429, mount_setattr 442 442,
fsopen 430 430, fsconfig 431 431, fsmount 432 432, fspick 433 433, bpf 321 280,
perf_event_open 298 241, userfaultfd 323 282, keyctl 250 219, add_key 248 217,
request_key 249 218, kexec_load 246 104, kexec_file_load 320 294, init_module 175 105,
finit_module 313 273, delete_module 176 106, open_by_handle_at 304 265, swapon 167 224,
swapoff 168 225, reboot 169 142, acct 163 89, quotactl 179 60, quotactl_fd 443 443, iopl 172 -,
ioperm 173 -, clock_settime 227 112, clock_adjtime 305 266, settimeofday 164 170,
adjtimex 159 171, syslog 103 116, vhangup 153 58, ptrace 101 117, process_vm_readv 310 270,
process_vm_writev 311 271, pidfd_getfd 438 438, kcmp 312 272, clone3 435 435, openat2 437 437,
io_uring_setup 425 425, io_uring_enter 426 426, io_uring_register 427 427, chmod 90 -,
fchmod 91 52, fchmodat 268 53, fchmodat2 452 452, mknod 133 -, mknodat 259 33, mkdir 83 -,
mkdirat 258 34, creat 85 -, open 2 -, openat 257 56, clone 56 220, ioctl 16 29, socket 41 198,
socketpair 53 199, read 0 63, write 1 64, execve 59 221, exit_group 231 94, kill 62 129,
connect 42 203, bind 49 200, listen 50 201, seccomp 317 277, prctl 157 167, memfd_create 319 279,
pidfd_open 434 434, statx 291 291
"""


def _number(text: str) -> int | None:
    return None if text == "-" else int(text)


def _row(row: str) -> tuple[str, tuple[int | None, int | None]]:
    name, x86_64, aarch64 = row.split()
    return name, (_number(x86_64), _number(aarch64))


NUMBERS = dict(_row(row) for row in _TABLE.split(","))
"""Call to its numbers on x86_64 and aarch64; None where there is no such call."""
