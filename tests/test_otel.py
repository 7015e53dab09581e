"""The files of ``otel/``, as far as they can be checked without a server."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from memplugin.telemetry import names
from memplugin.telemetry.conventions import markdown

OTEL = Path(__file__).parent.parent / "otel"
COLLECTORS = ["collector.yaml", "collector-production.yaml"]
TEXTS = (names.QUERY_TEXT, names.RECORDS, names.CONTENTS, names.CANDIDATE_CONTENTS)
SUFFIX = {"counter": ["_total"], "gauge": [""], "histogram": ["_bucket", "_sum", "_count"]}
UNIT = {"s": "_seconds"}


def files() -> list[Path]:
    return sorted(p for p in OTEL.rglob("*") if p.suffix in (".md", ".yaml", ".json"))


def read(name: str) -> Any:
    return yaml.safe_load((OTEL / name).read_text(encoding="utf-8"))


# ---------------------------------------------------------------- names


@pytest.mark.parametrize("file", files(), ids=lambda p: p.relative_to(OTEL).as_posix())
def test_every_attribute_and_metric_that_is_named_exists(file: Path) -> None:
    text = file.read_text(encoding="utf-8").replace("memplugin.telemetry.conventions", "")
    named = set(re.findall(r"(?<![\w./-])(?:memplugin|gen_ai\.memory)\.[a-z_.]*[a-z_]", text))
    metrics = {metric.name for metric in (*names.METRICS, *names.COUNTED)}
    assert named <= {*names.ATTRIBUTES, *metrics, names.CANDIDATE_EVENT}


def test_the_table_of_names_is_up_to_date() -> None:
    assert (OTEL / "conventions.md").read_text(encoding="utf-8") == markdown(), (
        "run: python -m memplugin.telemetry.conventions > otel/conventions.md"
    )


def test_every_name_is_in_the_table() -> None:
    table = markdown()
    for name in (*names.ATTRIBUTES, *(m.name for m in (*names.METRICS, *names.COUNTED))):
        assert f"`{name}`" in table


# ---------------------------------------------------------------- collector


@pytest.mark.parametrize("name", COLLECTORS)
def test_pipelines_refer_to_components_that_are_defined(name: str) -> None:
    config = read(name)
    defined = {kind: set(config.get(kind, {})) for kind in ("receivers", "processors", "exporters")}
    ends = set(config.get("connectors", {}))
    for pipeline in config["service"]["pipelines"].values():
        assert set(pipeline["receivers"]) <= defined["receivers"] | ends
        assert set(pipeline.get("processors", [])) <= defined["processors"]
        assert set(pipeline["exporters"]) <= defined["exporters"] | ends
    assert set(config["service"]["extensions"]) <= set(config["extensions"])


@pytest.mark.parametrize("name", COLLECTORS)
def test_a_connector_has_a_pipeline_at_each_end(name: str) -> None:
    config = read(name)
    pipelines = config["service"]["pipelines"].values()
    for connector in config["connectors"]:
        assert any(connector in pipeline["exporters"] for pipeline in pipelines)
        assert any(connector in pipeline["receivers"] for pipeline in pipelines)


@pytest.mark.parametrize("name", COLLECTORS)
def test_what_is_counted_from_spans_has_the_names_and_attributes_of_the_table(name: str) -> None:
    counted = read(name)["connectors"]["count"]["spans"]
    assert {
        metric: tuple(attribute["key"] for attribute in given["attributes"])
        for metric, given in counted.items()
    } == {metric.name: metric.attributes for metric in names.COUNTED}


def test_the_collector_keeps_the_buckets_that_the_sampler_keeps() -> None:
    policies = read("collector-production.yaml")["processors"]["tail_sampling"]["policies"]
    by_bucket = policies[0]["numeric_attribute"]
    assert by_bucket == {"key": names.TASK_BUCKET, "min_value": 98, "max_value": 99}
    assert len({policy["name"] for policy in policies}) == len(policies)
    assert all(policy["type"] in policy for policy in policies)


def test_redaction_masks_every_attribute_that_holds_whole_texts() -> None:
    redaction = read("collector-production.yaml")["processors"]["redaction"]
    patterns = [re.compile(pattern) for pattern in redaction["blocked_key_patterns"]]
    for key in TEXTS:
        assert any(pattern.search(key) for pattern in patterns), key
    masked = {k for k in names.ATTRIBUTES if any(pattern.search(k) for pattern in patterns)}
    assert masked == set(TEXTS)  # and nothing that a verdict is read from
    assert all(re.compile(pattern) for pattern in redaction["blocked_values"])


# ---------------------------------------------------------------- compose


def test_mounted_files_exist_and_images_are_pinned() -> None:
    compose = read("docker-compose.yaml")
    for service in compose["services"].values():
        assert re.fullmatch(r"[\w./-]+:v?\d+\.\d+\.\d+", service["image"])
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            exists = (OTEL / source).exists() if source.startswith(".") else None
            assert exists or source in compose["volumes"], source
        assert set(service.get("depends_on", [])) <= set(compose["services"])
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


def test_the_versions_of_the_readme_are_those_of_the_compose_file() -> None:
    readme = (OTEL / "README.md").read_text(encoding="utf-8")
    for service in read("docker-compose.yaml")["services"].values():
        version = service["image"].rpartition(":")[2].removeprefix("v")
        assert f"| {version} |" in readme


def test_addresses_are_those_of_services_and_of_their_ports() -> None:
    services = set(read("docker-compose.yaml")["services"])
    exporters = read("collector.yaml")["exporters"]
    sources = read("grafana/provisioning/datasources/datasources.yaml")["datasources"]
    scraped = read("prometheus.yaml")["scrape_configs"][0]["static_configs"][0]["targets"]
    addresses = [e["endpoint"] for e in exporters.values() if "endpoint" in e]
    addresses += [source["url"].removeprefix("http://") for source in sources]
    hosts = {address.partition(":")[0] for address in (*addresses, *scraped)}
    assert hosts - {"0.0.0.0"} <= services
    assert scraped == ["collector:" + exporters["prometheus"]["endpoint"].rpartition(":")[2]]
    assert f"tempo:{read('tempo.yaml')['server']['http_listen_port']}" in addresses


# ---------------------------------------------------------------- Grafana


def dashboards() -> list[Any]:
    return [json.loads(p.read_text(encoding="utf-8")) for p in OTEL.rglob("dashboards/*.json")]


def panels() -> Iterator[Any]:
    for dashboard in dashboards():
        yield from dashboard["panels"]


def test_dashboards_and_panels_have_ids_of_their_own() -> None:
    uids = [dashboard["uid"] for dashboard in dashboards()]
    assert uids
    assert len(set(uids)) == len(uids)
    for dashboard in dashboards():
        ids = [panel["id"] for panel in dashboard["panels"]]
        assert len(set(ids)) == len(ids)
        places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in dashboard["panels"]]
        assert len(set(places)) == len(places)


def test_panels_ask_data_sources_that_are_provisioned() -> None:
    provisioned = read("grafana/provisioning/datasources/datasources.yaml")["datasources"]
    known = {(source["type"], source["uid"]) for source in provisioned}
    assert len({source["uid"] for source in provisioned}) == len(provisioned)
    for panel in panels():
        for asked in (panel, *panel["targets"]):
            assert (asked["datasource"]["type"], asked["datasource"]["uid"]) in known


def test_dashboards_are_where_grafana_looks_for_them() -> None:
    (provider,) = read("grafana/provisioning/dashboards/dashboards.yaml")["providers"]
    mounts = read("docker-compose.yaml")["services"]["grafana"]["volumes"]
    assert f"./grafana/dashboards:{provider['options']['path']}:ro" in mounts


def test_panels_ask_for_series_and_labels_that_there_are() -> None:
    series: dict[str, set[str]] = {}
    for metric in (*names.METRICS, *names.COUNTED):
        base = metric.name.replace(".", "_") + UNIT.get(metric.unit, "")
        labels = {key.replace(".", "_") for key in metric.attributes}
        series |= {base + suffix: labels for suffix in SUFFIX[metric.type]}
    expressions = [t["expr"] for panel in panels() for t in panel["targets"] if "expr" in t]
    asked = {name for e in expressions for name in re.findall(r"memplugin_\w+(?=[\[{)])", e)}
    assert asked - {label for labels in series.values() for label in labels} <= set(series)
    for expression in expressions:
        (name,) = {n for n in series if re.search(rf"\b{n}\b", expression)}
        used = re.findall(r"by \(([^)]*)\)", expression) + re.findall(r"\{(\w+)=", expression)
        labels = {label.strip() for group in used for label in group.split(",")}
        assert labels - {"le"} <= series[name], expression


def test_every_metric_is_on_the_dashboard() -> None:
    shown = json.dumps(dashboards())
    for metric in (*names.METRICS, *names.COUNTED):
        assert metric.name.replace(".", "_") in shown
