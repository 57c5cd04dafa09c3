"""Attempts at what is on the host's disk, in the server's state and in memory of others."""

from tests.escapes.attempts import BOTH, HOST, IS_ROOT, Attempt

FILES = (
    Attempt("1", "write outside the roots", "echo x > $OUT/w1", lambda r: (r.site.out / "w1").exists()),
    Attempt(
        "2",
        "write through a symbolic link in the workspace",
        "echo x > $WS/lnk/w2",
        lambda r: (r.site.out / "w2").exists(),
    ),
    Attempt(
        "4",
        "write through a hard link that was there before",
        "echo after > $WS/linked",
        lambda r: (r.site.out / "linked").read_text() == "after\n",
        BOTH,
    ),
    Attempt(
        "7",
        "write .git/hooks/pre-commit",
        "echo x > $WS/.git/hooks/pre-commit",
        lambda r: any(r.site.ws.glob(".g*/hooks/pre-commit")),
    ),
    Attempt(
        "8",
        "rename .git and make a new one",
        "cd $WS; mv .git .g2; mkdir -p .git/hooks; echo evil > .git/hooks/post-commit; mv -T sub .git",
        lambda r: (r.site.ws / ".g2").exists() or (r.site.ws / ".git/hooks/post-commit").exists(),
    ),
    Attempt(
        "10",
        "create a protected path that does not exist yet",
        "cd $WS; mkdir .codex; echo x > .codex/config.toml; ln -s $OUT .agents; echo x > .vscode",
        lambda r: (
            (r.site.ws / ".codex/config.toml").exists()
            or (r.site.ws / ".agents").is_symlink()
            or (r.site.ws / ".vscode").is_file()
        ),
    ),
    Attempt(
        "C68",
        "rename a folder above a protected one",
        "cd $WS; mv a b; mkdir -p a/.git; echo evil > a/.git/config; echo evil > new; mv new b/.git/config",
        lambda r: (r.site.ws / "a/.git/config").read_text() != "before",
    ),
    Attempt(
        "25",
        "read a key of the user's",
        "cat $SSH /proc/self/root$SSH /proc/1/root$SSH; cp -r $HOME/.ssh $WS/keys;"
        "chmod -R u+rwX $WS/keys; cat $WS/keys/*",
        lambda r: r.shows("ssh"),
    ),
    Attempt(
        "26",
        "read the server's connection file",
        "cat $CONNECTION /proc/1/root$CONNECTION /proc/self/root$CONNECTION;"
        "cat /proc/self/cwd/../../../..$CONNECTION;"
        "find $RUN -type f | xargs cat",
        lambda r: r.shows("key"),
    ),
    Attempt("28", "secrets in the own environment", "#python\nprint(@ENVIRON@)", lambda r: r.shows("env")),
    Attempt(
        "66",
        "secrets in the environment of others in the sandbox",
        "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline | tr '\\0' '\\n'",
        lambda r: r.shows("env"),
    ),
    Attempt(
        "30",
        "use inherited descriptors, and those of pid 1",
        """#python
for pid in ("self", "1", str(os.getppid())):
    try:
        found = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        continue
    for number in found:
        path = f"/proc/{pid}/fd/{number}"
        for flags in (os.O_RDONLY, os.O_RDWR, os.O_RDONLY | os.O_DIRECTORY):
            try:
                fd = os.open(path, flags | os.O_NONBLOCK)
            except OSError:
                continue
            try:
                print(os.pread(fd, 100, 0))
            except OSError:
                pass
            for name in ("secret", "../out/secret", "../../../../../.." + OUT + "/secret"):
                try:
                    print("through", number, os.open(name, os.O_RDONLY, dir_fd=fd) and os.readlink(path))
                except OSError:
                    pass
""",
        lambda r: r.shows("fd") or (r.mode != HOST and r.says("30")),
        plain=False,
    ),
    Attempt(
        "32",
        "read the shared memory of the host",
        "cat $SHM /dev/shm/*",
        lambda r: r.shows("shm"),
    ),
    Attempt(
        "54",
        "many files in the workspace",
        "for n in 1 2 3 4 5 6 7 8 9; do head -c 1000000 /dev/zero > $WS/big$n; done",
        lambda r: (r.site.ws / "big9").stat().st_size == 1_000_000,
        BOTH,
    ),
    Attempt(
        "60",
        "read a file of the host outside of the roots",
        "cat $OUT/secret",
        lambda r: r.shows("out"),
        frozenset({HOST}),
    ),
    Attempt(
        "16",
        "make and open a device",
        "cd $WS; mknod blk b 254 0; mknod chr c 1 1; head -c8 blk; head -c8 /dev/vda && echo through",
        lambda r: r.says("16") or bool(r.site.privileged()),
        plain=False,
    ),
    Attempt(
        "N1",
        "leave a program that is set-uid",
        "cp /bin/true $WS/suid; chmod 4755 $WS/suid; install -m 2755 /bin/true $WS/sgid",
        lambda r: bool(r.site.privileged()),
    ),
    Attempt(
        "17",
        "open devices of the machine",
        "for d in mem kmem port kvm vsock fuse net/tun loop-control mapper/control vda sda kmsg uinput; do "
        "[ -e /dev/$d ] && echo through $d; done; mount -t devtmpfs none /mnt && echo through",
        lambda r: r.says("17"),
        plain=False,
    ),
    Attempt(
        "18",
        "write kernel.core_pattern, its own value",
        'v=$(cat /proc/sys/kernel/core_pattern); echo "$v" > /proc/sys/kernel/core_pattern && echo through',
        lambda r: r.says("18"),
        plain=IS_ROOT,
    ),
    Attempt(
        "19",
        "write other settings of the kernel, their own values",
        "for f in vm/overcommit_memory kernel/hostname kernel/modprobe net/ipv4/ip_forward fs/file-max; do "
        'v=$(cat /proc/sys/$f); echo "$v" > /proc/sys/$f && echo through $f; done',
        lambda r: r.says("19"),
        plain=IS_ROOT,
    ),
    Attempt(
        "21",
        "open what sysfs, control groups and /proc let root write",
        """#python
for top in ("/sys/kernel", "/sys/fs/cgroup", "/sys/power", "/sys/module", "/sys/class", "/proc/irq"):
    for folder, folders, names in os.walk(top):
        del folders[20:]
        for name in names[:40]:
            path = os.path.join(folder, name)
            if not os.path.islink(path):
                tell(path, lambda: os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK)))
for path in ("/proc/sysrq-trigger", "/proc/1/oom_score_adj"):
    if path != "/proc/1/oom_score_adj":
        tell(path, lambda: os.close(os.open(path, os.O_WRONLY)))
""",
        lambda r: r.says("21"),
        plain=False,
    ),
    Attempt(
        "59",
        "overwrite the wrapper through /proc/1/exe",
        """#python
tell("write", lambda: os.open("/proc/1/exe", os.O_WRONLY))
fd = os.open("/proc/1/exe", os.O_RDONLY)
tell("again", lambda: os.open(f"/proc/self/fd/{fd}", os.O_WRONLY))
tell("link", lambda: os.link("/proc/1/exe", WS + "/wrapper", follow_symlinks=True))
tell("map", lambda: __import__("mmap").mmap(fd, 4096, prot=3))
tell("truncate", lambda: os.truncate("/proc/1/exe", 0))
""",
        lambda r: r.says("59"),
        plain=False,
    ),
)
