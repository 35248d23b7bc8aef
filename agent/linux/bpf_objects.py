"""Programs and maps of eBPF, by libbpf (Debian: libbpf1, which iproute2 needs, too)."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterable, Iterator, Mapping
from ctypes import POINTER, byref, c_char_p, c_int, c_uint32, c_uint64, c_void_p, create_string_buffer
from functools import cache
from pathlib import Path

from agent.errors import HostAgentError

LIBRARY = "libbpf.so.1"
AT_ONCE = 4096
"""Elements in one call."""

_MOST_MAPS = 64


class _ProgramInfo(ctypes.Structure):
    """The first fields of ``struct bpf_prog_info`` (linux/bpf.h)."""

    _fields_ = (
        ("type", c_uint32),
        ("id", c_uint32),
        ("tag", ctypes.c_uint8 * 8),
        ("jited_prog_len", c_uint32),
        ("xlated_prog_len", c_uint32),
        ("jited_prog_insns", c_uint64),
        ("xlated_prog_insns", c_uint64),
        ("load_time", c_uint64),
        ("created_by_uid", c_uint32),
        ("nr_map_ids", c_uint32),
        ("map_ids", c_uint64),
        ("name", ctypes.c_char * 16),
    )


class _MapInfo(ctypes.Structure):
    """The first fields of ``struct bpf_map_info``."""

    _fields_ = (
        ("type", c_uint32),
        ("id", c_uint32),
        ("key_size", c_uint32),
        ("value_size", c_uint32),
        ("max_entries", c_uint32),
        ("map_flags", c_uint32),
        ("name", ctypes.c_char * 16),
    )


@cache
def library() -> ctypes.CDLL:
    """Return libbpf.

    Raises:
        HostAgentError: it is missing.
    """
    try:
        bpf = ctypes.CDLL(LIBRARY, use_errno=True)
    except OSError:
        raise HostAgentError(
            f"--steering ebpf: {LIBRARY} is missing (Debian: apt-get install libbpf1)", exit_code=2
        ) from None
    for name, result, arguments in (
        ("bpf_object__open_file", c_void_p, (c_char_p, c_void_p)),
        ("bpf_object__load", c_int, (c_void_p,)),
        ("bpf_object__find_map_by_name", c_void_p, (c_void_p, c_char_p)),
        ("bpf_object__find_program_by_name", c_void_p, (c_void_p, c_char_p)),
        ("bpf_object__close", None, (c_void_p,)),
        ("bpf_map__fd", c_int, (c_void_p,)),
        ("bpf_map__key_size", c_uint32, (c_void_p,)),
        ("bpf_map__value_size", c_uint32, (c_void_p,)),
        ("bpf_map__reuse_fd", c_int, (c_void_p, c_int)),
        ("bpf_program__fd", c_int, (c_void_p,)),
        ("bpf_prog_get_fd_by_id", c_int, (c_uint32,)),
        ("bpf_map_get_fd_by_id", c_int, (c_uint32,)),
        ("bpf_obj_get_info_by_fd", c_int, (c_int, c_void_p, POINTER(c_uint32))),
        ("bpf_map_update_batch", c_int, (c_int, c_void_p, c_void_p, POINTER(c_uint32), c_void_p)),
        ("bpf_map_delete_elem", c_int, (c_int, c_void_p)),
        ("bpf_map_lookup_elem", c_int, (c_int, c_void_p, c_void_p)),
        ("bpf_map_get_next_key", c_int, (c_int, c_void_p, c_void_p)),
        ("bpf_prog_query", c_int, (c_int, c_int, c_uint32, c_void_p, c_void_p, POINTER(c_uint32))),
        ("bpf_prog_attach_opts", c_int, (c_int, c_int, c_int, c_void_p)),
        ("bpf_prog_detach2", c_int, (c_int, c_int, c_int)),
        ("libbpf_set_print", c_void_p, (c_void_p,)),
    ):
        function = getattr(bpf, name)
        function.restype, function.argtypes = result, arguments
    # What the kernel's verifier says would fill the log; errors have their number.
    bpf.libbpf_set_print(None)
    return bpf


def failed(what: str) -> OSError:
    """Return the error of the last call of libbpf."""
    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")


class BpfMap:
    """A map of the kernel, by its file descriptor. Keys and values are bytes of fixed sizes."""

    def __init__(self, descriptor: int) -> None:
        """Ask the kernel for the sizes.

        Raises:
            OSError: the kernel has refused it.
        """
        self._library, self.descriptor = library(), descriptor
        info, size = _MapInfo(), c_uint32(ctypes.sizeof(_MapInfo))
        if self._library.bpf_obj_get_info_by_fd(descriptor, byref(info), byref(size)):
            raise failed("eBPF map")
        self.name = info.name.decode()
        self.sizes = info.key_size, info.value_size

    def set(self, items: Iterable[tuple[bytes, bytes]]) -> None:
        """Add elements, or give them other values; each one at once.

        Raises:
            OSError: the map is full (``E2BIG``), or the kernel has refused it.
        """
        wanted = list(items)
        for first in range(0, len(wanted), AT_ONCE):
            part = wanted[first : first + AT_ONCE]
            keys, values = b"".join(key for key, _ in part), b"".join(value for _, value in part)
            count = c_uint32(len(part))
            if self._library.bpf_map_update_batch(self.descriptor, keys, values, byref(count), None):
                if ctypes.get_errno() == errno.E2BIG:
                    raise OSError(errno.E2BIG, f"the eBPF map {self.name} is full")
                raise failed(f"eBPF map {self.name}")

    def remove(self, keys: Iterable[bytes]) -> None:
        """Remove elements; one that is not there is no error.

        Raises:
            OSError: the kernel has refused it.
        """
        for key in keys:
            if self._library.bpf_map_delete_elem(self.descriptor, key) and ctypes.get_errno() != errno.ENOENT:
                raise failed(f"eBPF map {self.name}")

    def value(self, key: bytes) -> bytes | None:
        """Return the value of a key; ``None``: it is not there.

        Raises:
            OSError: the kernel has refused it.
        """
        value = create_string_buffer(self.sizes[1])
        if self._library.bpf_map_lookup_elem(self.descriptor, key, value):
            if ctypes.get_errno() == errno.ENOENT:
                return None
            raise failed(f"eBPF map {self.name}")
        return value.raw

    def read(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield all elements; nobody else may change the map meanwhile.

        Raises:
            OSError: the kernel has refused it.
        """
        key, value = create_string_buffer(self.sizes[0]), create_string_buffer(self.sizes[1])
        before = None
        while not self._library.bpf_map_get_next_key(self.descriptor, before, key):
            if not self._library.bpf_map_lookup_elem(self.descriptor, key, value):
                yield key.raw, value.raw
            before = key.raw
        if ctypes.get_errno() != errno.ENOENT:
            raise failed(f"eBPF map {self.name}")


class BpfObject:
    """A program that is loaded, and its maps by name; the kernel keeps both while the program is attached."""

    def __init__(self, path: Path, program: str, names: Iterable[str], held: int | None) -> None:
        """Load a compiled file.

        Args:
            path: of the file.
            program: name of its function.
            names: of its maps.
            held: id of a program whose maps of the same names and sizes are used on; ``None``: there is none.

        Raises:
            HostAgentError: libbpf or the file is missing, or it is no compiled program.
            OSError: the kernel has refused it.
        """
        bpf = library()
        if not path.is_file():
            raise HostAgentError(f"--ebpf-object {path}: there is no such file ('make ebpf' compiles it)", exit_code=2)
        opened = bpf.bpf_object__open_file(str(path).encode(), None)
        if not opened:
            raise HostAgentError(f"--ebpf-object {path}: is no compiled eBPF program", exit_code=2)
        used = {} if held is None else maps_of(held)
        pointers = {name: bpf.bpf_object__find_map_by_name(opened, name.encode()) for name in names}
        function = bpf.bpf_object__find_program_by_name(opened, program.encode())
        if not function or not all(pointers.values()):
            raise HostAgentError(f"--ebpf-object {path}: is another eBPF program than the agent's", exit_code=2)
        for name, pointer in pointers.items():
            sizes = bpf.bpf_map__key_size(pointer), bpf.bpf_map__value_size(pointer)
            if name in used and used[name].sizes == sizes:
                bpf.bpf_map__reuse_fd(pointer, used[name].descriptor)
        if bpf.bpf_object__load(opened):
            raise failed("the kernel refuses the eBPF program")
        self.maps: Mapping[str, BpfMap] = {name: BpfMap(bpf.bpf_map__fd(pointer)) for name, pointer in pointers.items()}
        self.program = int(bpf.bpf_program__fd(function))
        for each in used.values():
            os.close(each.descriptor)


def maps_of(program: int) -> dict[str, BpfMap]:
    """Return the maps of a program of the kernel, by id; none, if it has gone.

    Raises:
        OSError: the kernel has refused it.
    """
    ids = (c_uint32 * _MOST_MAPS)()
    info = _program_info(program, ids)
    if info is None:
        return {}
    maps = [BpfMap(library().bpf_map_get_fd_by_id(ids[i])) for i in range(min(info.nr_map_ids, len(ids)))]
    return {each.name: each for each in maps}


def program_name(program: int) -> str:
    """Return the name of a program of the kernel, by id, or an empty one, if it has gone.

    Raises:
        OSError: the kernel has refused it.
    """
    info = _program_info(program, (c_uint32 * _MOST_MAPS)())
    return "" if info is None else bytes(info.name).decode()


def program_id(descriptor: int) -> int:
    """Return the id of a program.

    Raises:
        OSError: the kernel has refused it.
    """
    return int(_info_of(descriptor, (c_uint32 * _MOST_MAPS)()).id)


def _program_info(program: int, maps: ctypes.Array[c_uint32]) -> _ProgramInfo | None:
    descriptor = library().bpf_prog_get_fd_by_id(program)
    if descriptor < 0:
        return None
    try:
        return _info_of(descriptor, maps)
    finally:
        os.close(descriptor)


def _info_of(descriptor: int, maps: ctypes.Array[c_uint32]) -> _ProgramInfo:
    """Return what the kernel says of a program; ``maps`` gets the ids of its maps."""
    info = _ProgramInfo(nr_map_ids=len(maps), map_ids=ctypes.addressof(maps))
    size = c_uint32(ctypes.sizeof(_ProgramInfo))
    if library().bpf_obj_get_info_by_fd(descriptor, byref(info), byref(size)):
        raise failed("eBPF program")
    return info
