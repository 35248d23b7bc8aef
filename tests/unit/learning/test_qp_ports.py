"""Laws of QPs that hosts tell of: bytes stay, and every QP that is open is a flow of its own."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from controller.learning.learned_job import LearnedGroup, LearnedJob
from controller.learning.qp_ports import OpenQp, OpenQps, as_open, in_order, is_open, with_ports
from controller.learning.sightings import QpKey, tcp_key
from controller.model.traffic import ANY_PORT

PAIRS = [(1, 2), (2, 1), (1, 3)]
ends = st.sampled_from(PAIRS)
sizes = st.integers(100, 10**12)
open_qps = st.lists(
    st.builds(OpenQp, st.integers(0, 5), st.integers(49152, 65000), st.integers(49152, 65000)),
    min_size=1,
    max_size=8,
    unique_by=lambda each: each[:2],
)


def job_of(*groups: dict[QpKey, int]) -> LearnedJob:
    # The QPs of a group are in order.
    rows = [dict(sorted(group.items())) for group in groups]
    made = tuple(LearnedGroup(n, "flows", tuple(group), tuple(group.values())) for n, group in enumerate(rows))
    return LearnedJob(1.0, 3, made, (0.0,) * len(groups), 1.0, 0.0, 0.0)


@st.composite
def unnamed_jobs(draw: st.DrawFn) -> LearnedJob:
    """Jobs of which some QPs were seen without ports."""
    keys = st.builds(
        lambda pair, port, dst_qp: QpKey(pair[0], pair[1], port, dst_qp),
        ends,
        st.sampled_from([ANY_PORT, ANY_PORT, 50000]),
        st.integers(0, 7),
    )
    return job_of(*draw(st.lists(st.dictionaries(keys, sizes, min_size=1, max_size=6), min_size=1, max_size=3)))


@given(job=unnamed_jobs(), known=st.fixed_dictionaries(dict.fromkeys(PAIRS, open_qps)))
def test_a_job_has_the_ports_of_all_open_qps_and_as_many_bytes_as_before(job: LearnedJob, known: OpenQps) -> None:
    named = with_ports(job, known)
    assert all(key.udp_src != ANY_PORT for key in named.qps)
    assert named.name == job.name
    for before, after in zip(job.groups, named.groups, strict=True):
        sent: Counter[tuple[int, int]] = Counter()
        for group, sign in ((before, -1), (after, 1)):
            for key, size in zip(group.qps, group.bytes, strict=True):
                sent[key.src, key.dst] += sign * size
        assert not any(sent.values())
        assert list(after.qps) == sorted(set(after.qps))
        # What was seen by its number stays one QP, and what was not is spread evenly.
        for key, size in zip(before.qps, before.bytes, strict=True):
            of_pair = known[key.src, key.dst]
            same = [each for each in of_pair if each.dst_qp == key.dst_qp]
            parts = {
                QpKey(key.src, key.dst, each.udp_src, each.dst_qp) for each in (same if len(same) == 1 else of_pair)
            }
            if key.udp_src == ANY_PORT:
                assert parts <= set(after.qps)
                least = size // len(parts)
                assert all(after.bytes[after.qps.index(part)] >= least for part in parts)


@given(job=unnamed_jobs(), known=st.fixed_dictionaries(dict.fromkeys(PAIRS, open_qps)), lacking=ends)
def test_a_job_of_which_one_pair_is_not_known_stays_as_it_is(
    job: LearnedJob, known: OpenQps, lacking: tuple[int, int]
) -> None:
    named = with_ports(job, {pair: qps for pair, qps in known.items() if pair != lacking})
    unnamed = {(key.src, key.dst) for key in job.qps if key.udp_src == ANY_PORT}
    assert (named is job) == (lacking in unnamed or not unnamed)


def test_tcp_has_no_qps() -> None:
    job = job_of({tcp_key(1, 2): 100})
    assert with_ports(job, {(1, 2): [OpenQp(1, 50000, 50000)]}) is job


@given(
    seen=st.dictionaries(ends, st.lists(sizes, min_size=1, max_size=4), min_size=1),
    moves=st.lists(st.booleans(), min_size=4, max_size=4),
    named=st.booleans(),
)
def test_qps_that_move_to_planned_ports_leave_a_job_what_it_was(
    seen: dict[tuple[int, int], list[int]], moves: list[bool], named: bool
) -> None:
    def keys(pair: tuple[int, int], number: int, moved: bool) -> tuple[QpKey, OpenQp]:
        port, known = (60000 + number, 50000 + number) if moved else (55000 + number, 55000 + number)
        return QpKey(*pair, port, number if named else 0), OpenQp(number, known, port)

    def job(moved: list[bool], *, both: bool = False) -> tuple[LearnedJob, OpenQps]:
        group, known = {}, {}
        for pair, bytes_of in seen.items():
            rows = [keys(pair, n, moved[n - 1]) for n in range(1, len(bytes_of) + 1)]
            known[pair] = [each for _, each in rows]
            group |= dict(zip((key for key, _ in rows), bytes_of, strict=True))
            if both:
                # What was seen of them before they moved.
                group |= {keys(pair, n, False)[0]: size for n, size in enumerate(bytes_of, start=1)}
        return job_of(group), known

    before, known = job([False] * 4)
    assert is_open(as_open(before, known), known)
    first = in_order(as_open(before, known))
    for both in (False, True):
        after, known = job(moves, both=both)
        now = as_open(after, known)
        assert is_open(now, known)
        assert in_order(now).volumes == first.volumes
        assert in_order(now).name == first.name
    assert as_open(before, {}) is not None
    assert as_open(before, {}).volumes == before.volumes
    assert not is_open(before, {})
    assert is_open(job_of({tcp_key(1, 2): 100}), {})


@given(job=unnamed_jobs(), known=st.dictionaries(ends, open_qps))
def test_no_two_hosts_are_left_out_whatever_is_known_of_their_qps(job: LearnedJob, known: OpenQps) -> None:
    now = as_open(with_ports(job, known), known)
    edges = {(key.src, key.dst) for key in job.qps if key.udp_src == ANY_PORT or (key.src, key.dst) not in known}
    assert edges <= {(key.src, key.dst) for key in now.qps}
    assert all(each.qps for each in now.groups)
