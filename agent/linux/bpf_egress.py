"""The eBPF program that sees what leaves by an interface (tcx, from Linux 6.6 on), attached and removed by libbpf.

An older kernel takes such programs only by the discipline ``clsact``: making and removing it loses packets, five of a
thousand a second here, because the kernel deactivates the interface meanwhile.
"""

from __future__ import annotations

import ctypes
import errno
import os
from ctypes import byref, c_int, c_size_t, c_uint32

from agent.errors import HostAgentError
from agent.linux.bpf_objects import failed, library, program_id, program_name

_EGRESS = 47
"""BPF_TCX_EGRESS."""
_REPLACE = 4
"""BPF_F_REPLACE."""
_MOST_PROGRAMS = 64


class _Options(ctypes.Structure):
    """``struct bpf_prog_attach_opts`` (bpf/bpf.h)."""

    _fields_ = (("sz", c_size_t), ("flags", c_uint32), ("replace_prog_fd", c_int))


class BpfEgress:
    """The egress of one interface."""

    def __init__(self, index: int, name: str) -> None:
        """Prepare it.

        Args:
            index: of the interface.
            name: of the program; others of the interface are left alone.

        Raises:
            HostAgentError: libbpf is missing.
        """
        self._library, self._index, self._name = library(), index, name

    def program(self) -> int | None:
        """Return the id of the program that is attached; ``None``: there is none.

        Raises:
            HostAgentError: the kernel is too old.
            OSError: the kernel has refused it.
        """
        ids, count = (c_uint32 * _MOST_PROGRAMS)(), c_uint32(_MOST_PROGRAMS)
        if self._library.bpf_prog_query(self._index, _EGRESS, 0, None, ids, byref(count)):
            if ctypes.get_errno() == errno.ENOENT:
                return None
            if ctypes.get_errno() == errno.EINVAL:
                raise HostAgentError(
                    "--steering ebpf: this kernel attaches no program to the egress of an interface (Linux 6.6 does)",
                    exit_code=2,
                )
            raise failed("eBPF programs of the interface")
        return next((each for each in ids[: count.value] if program_name(each) == self._name), None)

    def attach(self, program: int) -> None:
        """Attach the program of a file descriptor, in place of ours before; each packet passes one of both.

        Raises:
            HostAgentError: the kernel is too old.
            OSError: the kernel has refused it.
        """
        if self.program() == program_id(program):
            return
        before = self._held()
        options = _Options(ctypes.sizeof(_Options), 0 if before is None else _REPLACE, before or 0)
        try:
            if self._library.bpf_prog_attach_opts(program, self._index, _EGRESS, byref(options)):
                raise failed("the eBPF program cannot be attached")
        finally:
            if before is not None:
                os.close(before)

    def detach(self) -> None:
        """Remove our program; there may be none.

        Raises:
            OSError: the kernel has refused it.
        """
        before = self._held()
        if before is None:
            return
        try:
            if self._library.bpf_prog_detach2(before, self._index, _EGRESS):
                raise failed("the eBPF program cannot be removed")
        finally:
            os.close(before)

    def _held(self) -> int | None:
        """Return a file descriptor of our program that is attached."""
        number = self.program()
        return None if number is None else int(self._library.bpf_prog_get_fd_by_id(number))


def forget(interface: int, name: str) -> None:
    """Remove a program that an agent has left, where the machine can have one at all."""
    try:
        BpfEgress(interface, name).detach()
    except HostAgentError:
        return
