"""The counters of NICs: names of each driver, and nothing where a driver does not count."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.linux.nic_counters import CLASSES, SYS_NET, counts_of, ethtool_counters, nic_counters, rdma_counters

MLX5 = """NIC statistics:
     rx_packets: 901
     rx_ecn_mark: 3
     rx_discards_phy: 12
     tx_discards_phy: 1
     rx_prio0_bytes: 11
     rx_prio0_pause: 0
     rx_prio3_pause: 50847
     rx_prio3_pause_duration: 9
     rx_prio3_discards: 10
     rx_prio4_discards: 2
     tx_prio3_pause: 7
     rx_global_pause: 0
     tx_global_pause: 0
"""
BNXT = """NIC statistics:
     [0]: rx_ucast_packets: 5
     rx_pause_frames: 0
     tx_pause_frames: 1
     rx_pfc_frames: 41
     rx_pfc_ena_frames_pri0: 0
     rx_pfc_ena_frames_pri5: 41
     tx_pfc_ena_frames_pri5: 8
     rx_discard_packets_cos5: 6
     rx_discard_bytes_cos5: 6000
     rx_stat_discard: 6
     tx_stat_discard: 0
"""
ICE = """NIC statistics:
     rx_packets: 4
     link_xon_rx.nic: 8
     link_xoff_rx.nic: 9
     link_xoff_tx.nic: 0
     rx_dropped.nic: 2
     tx_priority_1_xon.nic: 3
     tx_priority_1_xoff.nic: 4
     rx_priority_1_xoff.nic: 5
"""
VETH = """NIC statistics:
     peer_ifindex: 4
     rx_queue_0_xdp_packets: 0
"""


def parsed(text: str) -> dict[str, int]:
    """Return the names and values that ``ethtool -S`` shows."""
    rows = (line.rpartition(":") for line in text.splitlines()[1:])
    return {name.strip(): int(value) for name, _, value in rows}


def only(**classes: int) -> list[int | None]:
    return [classes.get(f"c{number}") for number in range(CLASSES)]


@pytest.mark.parametrize(
    ("text", "rdma", "known"),
    [
        (
            MLX5,
            {"np_ecn_marked_roce_packets": 310, "np_cnp_sent": 20, "rp_cnp_handled": 21},
            {
                "pause_received": only(c0=0, c3=50847),
                "pause_sent": only(c3=7),
                "dropped": only(c3=10, c4=2),
                "link_pause_received": 0,
                "link_pause_sent": 0,
                "received_dropped": 12,
                "sent_dropped": 1,
                "ecn_marked": 310,
                "cnp_sent": 20,
                "cnp_received": 21,
            },
        ),
        (MLX5, {}, {"ecn_marked": 3}),
        (
            BNXT,
            {"rx_ecn_marked_pkts": 4, "tx_cnp_pkts": 5, "rx_cnp_pkts": 6},
            {
                "pause_received": only(c0=0, c5=41),
                "pause_sent": only(c5=8),
                "dropped": only(c5=6),
                "link_pause_received": 0,
                "link_pause_sent": 1,
                "received_dropped": 6,
                "sent_dropped": 0,
                "ecn_marked": 4,
                "cnp_sent": 5,
                "cnp_received": 6,
            },
        ),
        (
            ICE,
            {"RxECNMrkd": 7, "cnpSent": 8, "cnpHandled": 9},
            {
                "pause_received": only(c1=5),
                "pause_sent": only(c1=4),
                "link_pause_received": 9,
                "link_pause_sent": 0,
                "received_dropped": 2,
                "ecn_marked": 7,
                "cnp_sent": 8,
                "cnp_received": 9,
            },
        ),
        (VETH, {}, {}),
    ],
)
def test_the_counters_of_each_driver_are_found_by_its_names(
    text: str, rdma: dict[str, int], known: dict[str, object]
) -> None:
    counts = counts_of({**parsed(text), **rdma})
    assert {name: value for name, value in counts.items() if name in known} == known
    if rdma or not known:
        assert all(value is None for name, value in counts.items() if name not in known)


@given(st.sets(st.sampled_from(sorted({*parsed(MLX5), *parsed(BNXT), *parsed(ICE), *parsed(VETH)}))), st.integers(0))
def test_a_counter_is_known_if_and_only_if_the_driver_has_one_and_has_its_value(names: set[str], value: int) -> None:
    for counted in counts_of(dict.fromkeys(names, value)).values():
        values = counted if isinstance(counted, list) else [counted]
        assert all(each in (None, value) for each in values)
        assert counted is None or any(each is not None for each in values)
    nothing = counts_of({name: value for name in names if name in parsed(VETH)})
    assert set(nothing.values()) == {None}


def test_the_counters_of_rdma_are_those_of_all_ports_of_the_device_of_the_interface(tmp_path: Path) -> None:
    for port in (1, 2):
        folder = tmp_path / "eth2" / "device" / "infiniband" / "mlx5_0" / "ports" / str(port) / "hw_counters"
        folder.mkdir(parents=True)
        (folder / "np_cnp_sent").write_text(f"{port}\n")
        (folder / "lifespan").write_text("none\n")
    assert rdma_counters("eth2", tmp_path) == {"np_cnp_sent": 3}
    assert rdma_counters("eth3", tmp_path) == {}


@pytest.mark.skipif(shutil.which("ethtool") is None, reason="ethtool is not installed")
def test_the_counters_of_an_interface_are_those_that_ethtool_shows() -> None:
    compared = 0
    for path in SYS_NET.iterdir():
        shown = subprocess.run(["ethtool", "-S", path.name], capture_output=True, text=True, check=False).stdout
        # Others may add and remove interfaces meanwhile.
        with suppress(OSError):
            assert list(ethtool_counters(path.name)) == list(parsed(shown))
            compared += 1
    assert compared


def test_an_interface_without_such_counters_has_none() -> None:
    with pytest.raises(OSError, match="No such device"):
        ethtool_counters("nowhere0")
    assert set(nic_counters("lo").values()) == {None}
