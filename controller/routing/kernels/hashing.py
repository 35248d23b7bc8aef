"""The hash functions by which switches spread 5-tuples over equal-cost paths."""

from __future__ import annotations

import numba as nb
import numpy as np

from controller.routing.kernels.paths import met, next_live


def _crc32_tables():
    """Return [8, 256] the CRC-32 of each byte before 0 to 7 zero bytes, IEEE 802.3 polynomial, reflected."""
    value = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        value = np.where(value & 1, (value >> 1) ^ np.uint32(0xEDB88320), value >> 1).astype(np.uint32)
    tables = [value]
    for _ in range(7):
        tables.append(value[tables[-1] & 0xFF] ^ (tables[-1] >> 8))
    return np.stack(tables)


CRC32_TABLES = _crc32_tables()
TOEPLITZ_KEY = np.frombuffer(
    bytes.fromhex("6d5a56da255b0ec24167253d43a38fb0d0ca2bcbae7b30b477cb2da38030f20c6a42b73bbeac01fa"), dtype=np.uint8
).copy()
"""The key of Microsoft's receive-side scaling specification, used as the default by most hardware."""


@nb.njit(nogil=True, cache=True)
def _five_tuple(src_ip, dst_ip, src_port, dst_port, protocol, data):
    """Write the 13 bytes to hash into ``data``: addresses, ports (network byte order), protocol."""
    for i in range(4):
        data[i] = (src_ip >> (24 - 8 * i)) & 0xFF
        data[4 + i] = (dst_ip >> (24 - 8 * i)) & 0xFF
    data[8], data[9] = (src_port >> 8) & 0xFF, src_port & 0xFF
    data[10], data[11] = (dst_port >> 8) & 0xFF, dst_port & 0xFF
    data[12] = protocol


@nb.njit(nogil=True, cache=True)
def _swapped(word):
    """Return 32 bits with their bytes in reversed order, as the reflected CRC-32 takes them."""
    return ((word & 0xFF) << 24) | ((word & 0xFF00) << 8) | ((word >> 8) & 0xFF00) | ((word >> 24) & 0xFF)


@nb.njit(nogil=True, cache=True)
def _of_word(word, tables, before):
    """Return the CRC-32 of four bytes that stand ``before`` further ones."""
    return (
        tables[before + 3, word & 0xFF]
        ^ tables[before + 2, (word >> 8) & 0xFF]
        ^ tables[before + 1, (word >> 16) & 0xFF]
        ^ tables[before, (word >> 24) & 0xFF]
    )


@nb.njit(nogil=True, cache=True)
def crc32(src_ip, dst_ip, src_port, dst_port, protocol, seed, tables):
    """Return the CRC-32 [N] of each 5-tuple; seed [N] is the initial register, as in ``zlib.crc32(data, seed)``.

    Both addresses are taken at once, and both ports: slicing by eight (Kounavis and Berry, ISCC 2005).
    """
    out = np.empty(len(src_ip), np.uint32)
    for i in range(len(out)):
        crc = np.int64(seed[i]) ^ 0xFFFFFFFF
        ends = crc ^ _swapped(np.int64(src_ip[i])), _swapped(np.int64(dst_ip[i]))
        crc = np.int64(_of_word(ends[0], tables, 4) ^ _of_word(ends[1], tables, 0))
        ports = ((np.int64(src_port[i]) & 0xFFFF) << 16) | (np.int64(dst_port[i]) & 0xFFFF)
        crc = np.int64(_of_word(crc ^ _swapped(ports), tables, 0))
        crc = np.int64(tables[0, (crc ^ np.int64(protocol[i])) & 0xFF]) ^ (crc >> 8)
        out[i] = np.uint32(crc ^ 0xFFFFFFFF)
    return out


@nb.njit(nogil=True, cache=True)
def toeplitz(src_ip, dst_ip, src_port, dst_port, protocol, seed, key):
    """Return the Toeplitz hash [N] of each 5-tuple; seed [N] is XORed on the key's first 32 bits."""
    out = np.empty(len(src_ip), np.uint32)
    data = np.empty(13, np.uint8)
    for i in range(len(out)):
        ends = np.int64(src_ip[i]), np.int64(dst_ip[i])
        _five_tuple(*ends, np.int64(src_port[i]), np.int64(dst_port[i]), np.int64(protocol[i]), data)
        window = np.uint32(0)
        for j in range(4):
            window = (window << np.uint32(8)) | np.uint32(key[j])
        window ^= seed[i]
        value = np.uint32(0)
        for j in range(len(data)):
            for bit in range(8):
                if data[j] & (0x80 >> bit):
                    value ^= window
                window = (window << np.uint32(1)) | np.uint32((key[j + 4] >> (7 - bit)) & 1)
        out[i] = value
    return out


@nb.njit(nogil=True, cache=True)
def pick_live(hashes, src, dst, tier, path):
    """Set ``path`` [U] to live path number ``hash mod n`` of the n live paths of each unit."""
    live_up, live_down = tier.up, tier.down
    n_paths = live_up.shape[1]
    for u in range(len(hashes)):
        a, b = src[u], dst[u]
        n = 0
        for k in range(n_paths):
            n += live_up[a, k] >= 0 and live_down[b, k] >= 0
        wanted = np.int64(hashes[u]) % n
        for k in range(n_paths):
            if live_up[a, k] >= 0 and live_down[b, k] >= 0:
                if wanted == 0:
                    path[u] = k
                    break
                wanted -= 1


@nb.njit(nogil=True, cache=True)
def pick_choice(hashes, units, src, dst, ways, tier, number):
    """Make the choice of one tier for units: number ``hash mod n`` of the n choices that lead to their destinations.

    Args:
        hashes: [M] hash of each unit at the switch that it has come to.
        units: [M] the units, which all need a choice on this tier.
        src: [U] source leaf of each unit.
        dst: [U] destination leaf of each unit.
        ways: the live ways.
        tier: the tier of the choice.
        number: [U] the choices on the tiers below, as a path's number has them; the choice is added.

    Returns:
        the choices [M].
    """
    links = np.empty(2 * len(ways.width), np.int64)
    chosen = np.empty(len(units), np.int64)
    width = ways.width[tier]
    live = np.empty(width, np.int64)
    for i in range(len(units)):
        u = units[i]
        top = met(ways, src[u], dst[u])
        after = 1
        for above in range(tier + 1, top + 1):
            after *= ways.width[above]
        n = 0
        for k in range(width):
            begin = ways.first[top] + (number[u] * width + k) * after
            if next_live(ways, src[u], dst[u], begin, begin + after, links) >= 0:
                live[n] = k
                n += 1
        chosen[i] = live[np.int64(hashes[i]) % n]
        number[u] = number[u] * width + chosen[i]
    return chosen
