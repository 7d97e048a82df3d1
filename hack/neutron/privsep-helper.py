#!/usr/bin/env python3
"""The process in which Neutron's agents do what needs root.

For each call in another network namespace, Debian 12's pyroute2 (0.7.2) starts a process by a fork of this one, which has threads. On
a slow machine each takes a tenth of a second, and a fork of a process with threads may hang. Here a thread opens the socket in that
namespace, in which the socket stays.
"""
import contextlib
import ctypes
import os
import sys

import pyroute2
from oslo_privsep.daemon import helper_main

CLONE_NEWNET = 0x40000000
libc = ctypes.CDLL(None, use_errno=True)


def enter(namespace):
    """Moves this thread to the network namespace of that file descriptor."""
    if libc.setns(namespace, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "cannot enter a network namespace")


@contextlib.contextmanager
def opened(path):
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


class NetNS(pyroute2.IPRoute):
    """IPRoute in a namespace that exists."""

    def __init__(self, name, **_):
        with opened("/proc/thread-self/ns/net") as own, opened("/run/netns/" + name) as other:
            enter(other)
            try:
                super().__init__()
            finally:
                enter(own)


if __name__ == "__main__":
    pyroute2.NetNS = NetNS
    sys.exit(helper_main())
