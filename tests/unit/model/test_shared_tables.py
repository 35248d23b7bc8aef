"""Fabrics that differ in what is up share their other tables: all that are equal, and none that is not."""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.fabric import Fabric, live_property
from controller.model.files.clos import clos
from controller.model.files.pod_clos import pod_clos
from tests.unit.laws import examples
from tests.unit.routing.pod_fabrics import random_pods
from tests.unit.strategies import fabrics, nic_fabrics

TABLES = sorted(
    {name for kind in Fabric.__mro__ for name, each in vars(kind).items() if isinstance(each, cached_property)}
)
OF_THREE_LAYERS = {"pods", "pod_prefixes"}


def plain(value: Any) -> Any:
    """Return a value that equality compares: arrays and records as tuples."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, tuple | list):
        return tuple(map(plain, value))
    if isinstance(value, dict):
        return tuple((key, plain(each)) for key, each in value.items())
    if dataclasses.is_dataclass(value):
        return tuple(plain(getattr(value, field.name)) for field in dataclasses.fields(value))
    return value


def tables(fabric: Fabric) -> dict[str, Any]:
    """Return all tables of a fabric, computed if it does not have them."""
    return {
        name: plain(getattr(fabric, name)) for name in TABLES if len(fabric.layers) == 3 or name not in OF_THREE_LAYERS
    }


def fresh(fabric: Fabric) -> Fabric:
    """Return an equal fabric without tables."""
    return dataclasses.replace(fabric)


drawn = st.one_of(
    fabrics(), nic_fabrics(), st.integers(0, 2**32 - 1).map(lambda n: random_pods(np.random.default_rng(n)))
)


@settings(max_examples=examples(12, 75))
@given(fabric=drawn, data=st.data())
def test_no_table_survives_a_change_that_alters_it(fabric: Fabric, data: st.DataObject) -> None:
    tables(fabric)
    parts = [*fabric.cable_names, *fabric.layer_of, *(f"{host.name}-{host.leaf}" for host in fabric.hosts)]
    failed = fabric.without_links(data.draw(st.sets(st.sampled_from(parts))))
    assert tables(failed) == tables(fresh(failed))
    assert tables(failed.healthy()) == tables(fresh(failed.healthy()))


def test_every_table_is_shared_or_differs_after_some_failure() -> None:
    """A table that is computed again though nothing alters it costs the time of plans after a failure."""
    differing = set()
    for fabric in (clos(2, 2, 2), pod_clos(2, 1, 2, 2, 2), pod_clos(2, 2, 1, 1, 1, planes=2), clos(2, 4, 2, planes=2)):
        before = tables(fabric)
        for name in fabric.cable_names:
            failed = fabric.without_links([name])
            shared = {each for each in TABLES if failed.__dict__.get(each) is fabric.__dict__.get(each, "none")}
            after = tables(failed)
            assert shared == {each for each in before if not isinstance(getattr(Fabric, each), live_property)}
            differing |= {each for each in before if before[each] != after[each]}
    assert differing == {each for each in TABLES if isinstance(getattr(Fabric, each), live_property)}
