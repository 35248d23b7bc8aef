"""Prometheus metrics: correct, well-formed, bounded, and as docs, dashboard and alerts describe them."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from controller.core.controller_state import ControllerState
from controller.model.fabric import Fabric
from controller.rest import schemas
from controller.southbound.cabling.survey import Survey
from controller.telemetry.instruments import exposition
from controller.telemetry.sample_columns import Labels, SampleColumns
from controller.views.cluster import ReplicaCounts
from controller.views.link_list import link_list, link_table
from controller.views.link_metrics import link_groups, link_labels
from controller.views.metrics import families
from tests.unit.rest.asking import ask
from tests.unit.routing.pod_fabrics import fat_tree
from tests.unit.service.job_steps import STEPS
from tests.unit.service.reading.full_state import REFUSAL, Family, everything, metrics_in, moment, names_of, promtool
from tests.unit.service.world import World, flow
from tests.unit.southbound.cabling.networks import seen
from tests.unit.strategies import fabrics, plane_fabrics
from tests.unit.workload.documents import FABRIC

ROOT = Path(__file__).parents[4]
RULES = ROOT / "etc" / "prometheus-rules.yaml"
ALERT_TESTS = sorted((ROOT / "tests" / "prometheus").glob("*.yaml"))
DASHBOARD = ROOT / "etc" / "grafana-dashboard.json"
OPEN_METRICS = "application/openmetrics-text"


def values(metrics: list[Family], name: str) -> dict[str, float]:
    """Of one family, by the first of its labels in the order of the alphabet (``""``: it has none)."""
    (family,) = [family for family in metrics if family.name == name]
    return {
        next((value for key, value in sorted(s.labels.items()) if key not in ("layer", "leaf")), ""): s.value
        for s in family.samples
    }


@given(STEPS)
def test_metrics_of_links_equal_those_of_v1_links(state: ControllerState) -> None:
    now = moment(state)
    told = list(families(now))
    assert state.fabric is not None
    table = link_table(
        state, now.readings, np.full(state.fabric.n_links, np.nan), connected={s.key for s in now.switches}
    )
    listed = link_list(table, None, version="p-1", since=None, under="plan", measured=2.0, period=5.0)
    rows = schemas.LinkList.model_validate_json(listed)
    assert rows.period == 5
    of = {name: values(told, f"fairspine_link_{name}") for name in ("up", "drained", "utilisation_ratio", "errors")}
    of["planned"] = values(told, "fairspine_link_planned_bytes_per_second")
    of["capacity"] = values(told, "fairspine_link_capacity_bytes_per_second")
    of["dropped"] = values(told, "fairspine_link_dropped_packets")
    for row in rows.links:
        assert (of["up"].get(row.id), of["drained"][row.id]) == (row.up if row.known else None, row.drained)
        assert of["utilisation_ratio"].get(row.id) == row.utilisation
        assert of["dropped"].get(row.id) == row.dropped
        assert of["errors"].get(row.id) == row.errors
        assert math.isclose(of["capacity"][row.id], row.gbps * 1e9 / 8)
        assert math.isclose(of["planned"][row.id], row.load_gbps * 1e9 / 8)
    # The switch that is not connected says nothing, and nothing is made up for it.
    gone = FABRIC.spines[-1].name
    assert {row.id for row in rows.links if row.utilisation is None} == {
        link for link in FABRIC.link_ids if link.startswith(f"{gone}->")
    }


@given(STEPS)
def test_large_fabrics_have_metrics_of_the_links_that_each_switch_counts_together(state: ControllerState) -> None:
    fabric = state.fabric
    assert fabric is not None
    few, many = list(families(moment(state, most_links=fabric.n_links - 1))), list(families(moment(state)))
    told = {family.name: family for family in few}
    assert not any(family.samples for family in few if family.name.startswith("fairspine_link_"))
    assert not any(family.samples for family in many if family.name.startswith("fairspine_links_"))
    members: dict[tuple[str, str], list[str]] = {}
    for link, layer, leaf in link_labels(fabric):
        counting = leaf if layer == "from_host" else link.partition("->")[0]
        members.setdefault((counting, layer), []).append(link)

    def of(name: str) -> dict[tuple[str, str], float]:
        return {(s.labels["switch"], s.labels["layer"]): s.value for s in told[f"fairspine_links_{name}"].samples}

    def expected(name: str, fold: Any = sum, over: set[str] | None = None) -> dict[tuple[str, str], float]:
        known = values(many, f"fairspine_link_{name}")
        found = {
            at: [known[link] for link in links if link in known and (over is None or link in over)]
            for at, links in members.items()
        }
        return {at: fold(each) for at, each in found.items() if each}

    up = {link for link, is_up in zip(fabric.link_ids, fabric.link_up.tolist(), strict=True) if is_up}
    drained = {link for link, is_so in values(many, "fairspine_link_drained").items() if is_so}
    for name in ("bytes", "dropped_packets", "errors", "planned_bytes_per_second", "drained"):
        assert of(name) == pytest.approx(expected(name))
    assert of("highest_utilisation_ratio") == pytest.approx(expected("utilisation_ratio", max, up - drained))
    assert of("lowest_utilisation_ratio") == pytest.approx(expected("utilisation_ratio", min, up - drained))
    assert of("down") == {at: float(len(set(links) - up)) for at, links in members.items()}
    assert of("capacity_bytes_per_second") == pytest.approx(
        dict.fromkeys(members, 0.0) | expected("capacity_bytes_per_second", sum, up)
    )


@given(fabric=plane_fabrics())
def test_groups_of_links_have_the_plane_of_their_links(fabric: Fabric) -> None:
    told, group = link_groups(fabric)
    for (link, layer, _, plane), number in zip(link_labels(fabric), group.tolist(), strict=True):
        assert told[number][1:] == (layer, plane)
        assert told[number][0] in link
    assert len(set(told)) == len(told) == len(set(group.tolist()))


@given(
    st.lists(
        st.tuples(
            st.text(st.sampled_from('ab->"\n\\\u00e9:'), max_size=4),
            st.sampled_from(["up", "down"]),
            # No value is -0.0, which columns with a 0 show as that.
            st.none() | st.floats(allow_nan=False).map(lambda value: value + 0.0) | st.integers(0, 2**63),
        ),
        max_size=8,
        unique_by=lambda row: row[:2],
    ),
    st.sampled_from(["counter", "gauge"]),
    st.sampled_from(["", OPEN_METRICS]),
)
def test_columns_are_encoded_as_the_library_encodes_their_samples(
    rows: list[tuple[str, str, float | None]], kind: Literal["counter", "gauge"], accept: str
) -> None:
    labels = Labels(("link", "layer"), [row[:2] for row in rows])
    columns = SampleColumns("fairspine_some", "Some.", kind, labels, [row[2] for row in rows])
    plain = columns.head()
    plain.samples = columns.samples
    assert exposition([columns], accept) == exposition([plain], accept)


@given(st.one_of(fabrics(), st.just(fat_tree(4))))
def test_links_have_a_layer_and_the_leaf_where_they_begin_or_end(fabric: Fabric) -> None:
    above = {switch.name for switch in fabric.layers[1]}
    for link, layer, leaf in link_labels(fabric):
        src, dst = link.partition(":")[0].split("->")
        expected = {
            "from_host": src in fabric.host_index and leaf == dst,
            "to_host": dst in fabric.host_index and leaf == src,
            "uplink": dst in above and leaf == src in fabric.leaf_index,
            "downlink": src in above and leaf == dst in fabric.leaf_index,
            "aggregation_uplink": dst in fabric.spine_index and leaf == src in above,
            "aggregation_downlink": src in fabric.spine_index and leaf == dst in above,
        }
        assert expected[layer]


@given(fabric=plane_fabrics())
def test_links_have_the_plane_of_their_leaf_where_nics_have_several_ports(fabric: Fabric) -> None:
    plane = dict(zip(fabric.leaf_index, (fabric.planes.of_leaf + 1).tolist(), strict=True))
    assert [(link, told) for link, _, _, told in link_labels(fabric)] == [
        (link, str(plane[leaf])) for link, _, leaf, _ in link_labels(fabric)
    ]
    (family,) = [
        each
        for each in families(moment(ControllerState(survey=Survey(fabric, ()))))
        if each.name == "fairspine_link_drained"
    ]
    assert {sample.labels["link"]: sample.labels["plane"] for sample in family.samples} == {
        link: told for link, _, _, told in link_labels(fabric)
    }


def test_a_full_switch_is_named_with_what_it_lacks_and_the_others_lack_nothing() -> None:
    told = list(families(moment()))
    short = values(told, "fairspine_switch_rules_short")
    assert short.pop(REFUSAL.switch) == 7
    assert set(short.values()) == {0}
    assert values(told, "fairspine_plan_refused") == {"table full": 1}
    well = list(families(moment(refusal=None)))
    assert set(values(well, "fairspine_switch_rules_short").values()) == {0}
    assert values(well, "fairspine_plan_refused") == {}


def test_of_several_states_exactly_the_one_that_is_so_is_1() -> None:
    told = list(families(moment()))
    for name in ("health", "mode", "enforcement"):
        *others, one = sorted(values(told, f"fairspine_{name}").values())
        assert (set(others), one) == ({0}, 1)
    assert values(told, "fairspine_health")["degraded"] == 1


def test_the_place_of_a_replica_in_its_cluster_is_told_and_a_single_controller_has_none() -> None:
    told = list(families(moment()))
    assert values(told, "fairspine_cluster_role") == {"leader": 1, "follower": 0}
    assert values(told, "fairspine_cluster_replicas") == {"works": 2, "missing": 1}
    assert "fairspine_plan_active" in {sample.name for family in told for sample in family.samples}
    follower = list(families(moment(replica=ReplicaCounts("follower", 3, 0, 3, 0, None, None))))
    names = {sample.name for family in follower for sample in family.samples}
    assert "fairspine_cluster_leader_changes_total" in names
    assert not names & {"fairspine_plan_active", "fairspine_cluster_lag_seconds", "fairspine_cluster_take_over_seconds"}
    # What is planned and measured is told once, by the leader.
    assert not {
        name for name in names if name.startswith(("fairspine_link_", "fairspine_plan_flows", "fairspine_job_"))
    }
    assert not {family.name for family in families(moment(replica=None)) if "cluster" in family.name}


def test_an_unknown_fabric_has_no_metrics() -> None:
    told = list(
        families(moment(ControllerState(), switches=[], expected=None, active=None, refusal=None, measured=None))
    )
    names = {sample.name for family in told for sample in family.samples}
    assert "fairspine_plan_epoch" in names
    assert not {name for name in names if name.startswith(("fairspine_link", "fairspine_switches_expected"))}
    assert "fairspine_plan_min_speed_ratio" not in names


def test_both_formats_say_the_same_and_parse() -> None:
    plain, plain_type = exposition(everything(), "")
    open_, open_type = exposition(everything(), f"{OPEN_METRICS};version=1.0.0,text/plain;q=0.5")
    assert plain_type.startswith("text/plain; version=0.0.4")
    assert open_type.startswith(OPEN_METRICS)

    def samples(parsed: Any) -> set[tuple[str, frozenset[tuple[str, str]]]]:
        return {(s.name, frozenset(s.labels.items())) for family in parsed for s in family.samples}

    both = samples(parse_text(plain.decode())), samples(parse_openmetrics(open_.decode()))
    assert both[0] == both[1]
    assert len(both[0]) > 200


@given(
    st.text(st.characters(codec="latin-1")) | st.from_regex(r"(text/plain|application/openmetrics-text); ?version=.*")
)
def test_whatever_a_scraper_says_that_it_accepts_it_gets_text_of_a_type_that_there_is(accept: str) -> None:
    _, media_type = exposition([], accept)
    assert media_type in ("text/plain; version=0.0.4; charset=utf-8", f"{OPEN_METRICS}; version=1.0.0; charset=utf-8")


def test_labels_are_few_and_of_known_names() -> None:
    known = {
        "link",
        "layer",
        "leaf",
        "plane",
        "host",
        "direction",
        "class",
        "tenant",
        "switch",
        "kind",
        "job",
        "policy",
        "operation",
        "method",
        "status",
        "mode",
        "enforcement",
        "learning",
        "feeder",
        "outcome",
        "type",
        "version",
        "python",
        "le",
        "role",
        "state",
        "implementation",
        "major",
        "minor",
        "patchlevel",
    }
    told = {label for family in everything() for sample in family.samples for label in sample.labels}
    assert told <= known
    # What a client makes up is not repeated to Prometheus.
    assert not re.search("BREW", exposition(everything(), "")[0].decode())


def test_promtool_has_nothing_to_say_about_the_text() -> None:
    assert promtool("check", "metrics", text=exposition(everything(), "")[0].decode()) == ""


def test_the_alerts_come_when_they_should_and_ask_for_metrics_that_there_are(tmp_path: Path) -> None:
    promtool("check", "rules", str(RULES))
    promtool("test", "rules", *map(str, ALERT_TESTS))
    rules = yaml.safe_load(RULES.read_text())["groups"][0]["rules"]
    for rule in rules:
        assert metrics_in(rule["expr"]) <= names_of(everything()), rule["alert"]
    tried = {
        case["alertname"]
        for file in ALERT_TESTS
        for test in yaml.safe_load(file.read_text())["tests"]
        for case in test["alert_rule_test"]
        if case.get("exp_alerts")
    }
    assert tried == {rule["alert"] for rule in rules}


def test_promtool_accepts_the_example_of_a_scrape_as_it_is_and_with_a_token(tmp_path: Path) -> None:
    example = ROOT / "etc" / "prometheus.yaml"
    promtool("check", "config", str(example))
    secret = tmp_path / "token"
    secret.write_text("t")
    text = example.read_text()
    for line in ("authorization:", "  credentials_file: /etc/prometheus/fairspine.token"):
        assert f"    # {line}\n" in text
        text = text.replace(f"    # {line}\n", f"    {line}\n")
    config = tmp_path / "prometheus.yaml"
    config.write_text(text.replace("/etc/prometheus/fairspine.token", str(secret)))
    (tmp_path / "prometheus-rules.yaml").write_text(RULES.read_text())
    promtool("check", "config", str(config))


def expressions(part: Any) -> list[str]:
    """Every expression of a dashboard."""
    if isinstance(part, dict):
        own = [value for key, value in part.items() if key == "expr"]
        return own + [found for value in part.values() for found in expressions(value)]
    return [found for each in part for found in expressions(each)] if isinstance(part, list) else []


def test_the_dashboard_asks_for_metrics_that_there_are_in_words_that_prometheus_knows(tmp_path: Path) -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    asked = expressions(dashboard)
    assert len(asked) > 50
    for expression in asked:
        assert metrics_in(expression)
        assert metrics_in(expression) <= names_of(everything()), expression
    # Each is well-formed: as a recording rule, with Grafana's variables filled in.
    filled = [text.replace("$__rate_interval", "1m").replace("$instance", "c") for text in asked]
    rules = [{"record": f"tried:{n}", "expr": text} for n, text in enumerate(filled)]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    promtool("check", "rules", str(tmp_path / "rules.yaml"))
    # Everything is shown somewhere, but for what only says that the rest is up to date.
    shown = {name for expression in asked for name in metrics_in(expression)}
    alerted = metrics_in(RULES.read_text())
    hidden = {name for name in names_of(everything()) if name.startswith("fairspine") and name.endswith("_total")}
    assert hidden <= shown | alerted
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)


def test_the_documentation_lists_every_metric_as_it_is() -> None:
    text = (ROOT / "docs" / "reference" / "telemetry.md").read_text()
    rows = re.findall(r"^\| `(fairspine_\w+)` \| (\w+) \| (.*?) \| (.*) \|$", text, re.MULTILINE)
    suffix = {"counter": "_total"}
    made = [
        (
            family.name + suffix.get(family.type, ""),
            family.type,
            ", ".join(sorted({label for s in family.samples for label in s.labels if label != "le"})),
            family.documentation,
        )
        for family in everything()
        if family.name.startswith("fairspine")
    ]
    assert rows == made, "\n".join(f"| `{name}` | {kind} | {labels} | {text} |" for name, kind, labels, text in made)


def test_a_running_controller_counts_its_actions(tmp_path: Path) -> None:
    world = World(FABRIC, seen(FABRIC)).planned()
    try:
        world.put("one", [flow(FABRIC.hosts[0].name, FABRIC.hosts[-1].name)])
        world.switches[0].epoch = world.service.state.enforced
        world.switches_changed()
        response = ask("metrics", backend=world.service, headers={"Accept": "*/*"})
        assert response.status == 200
        found = {
            (s.name, *sorted(s.labels.values())): s.value
            for family in parse_text(response.body.decode())
            for s in family.samples
        }
        epoch = world.service.state.epoch
        assert found[("fairspine_plan_epoch",)] == found[("fairspine_plan_active_epoch",)] == epoch
        assert (
            found[("fairspine_plans_total", "fair")] == found[("fairspine_plan_solve_seconds_count", "fair")] == epoch
        )
        assert found[("fairspine_plan_active_seconds_count",)] >= 1
        assert found[("fairspine_job_min_speed_ratio", "one")] == 1
        world.store.broken = "the disk is full"
        with pytest.raises(Exception, match="full"):
            world.put("two", [flow(FABRIC.hosts[0].name, FABRIC.hosts[-1].name)])
        text = world.service.metrics("").body.decode()
        assert "\nfairspine_store_errors_total 1.0\n" in text
        assert "\nfairspine_store_up 0.0\n" in text
    finally:
        world.close()
