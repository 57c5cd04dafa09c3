"""The reference of clusters names what the code has."""

import dataclasses
import re

from execzmq import cluster
from execzmq.client.plan import RunOptions
from execzmq.client.sync import Process
from execzmq.cluster.aio import ClusterRunOptions
from tests.sources import ROOT

PAGE = (ROOT / "docs/reference/cluster.md").read_text()


def named(heading: str) -> set[str]:
    """Return the names in the first column of the tables of a section."""
    found = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    cells = [line.split("|")[1] for line in found[1].splitlines() if line.startswith("| ")]
    return {name for cell in cells for name in re.findall(r"`(\w+)(?:\(.*?\))?`", cell)}


def public(cls: type) -> set[str]:
    """Return what a class itself has for everybody."""
    return {name for name in vars(cls) if not name.startswith("_")}


def test_every_name_is_there() -> None:
    """What the package exports, no more and no less."""
    assert named("Names") == set(cluster.__all__)


def test_members_and_keywords_are_there() -> None:
    """What a cluster's client and process have besides what every one has, and the keywords."""
    raised = {"ConnectionFailed", "ServerLost", "ClientClosed"}
    keywords = set(ClusterRunOptions.__annotations__) - set(RunOptions.__annotations__)
    assert named("ClusterClient") == public(cluster.ClusterClient) | keywords | raised
    assert named("ClusterProcess") == public(cluster.ClusterProcess)
    fields = {one.name for one in dataclasses.fields(cluster.MapResult)}
    assert named("MapResult") == fields | {"returncode"}


def test_twins_have_the_same() -> None:
    """The blocking and the async client of a cluster differ as those of a server do."""
    own, twin = public(cluster.ClusterClient), public(cluster.AsyncClusterClient)
    assert own == twin
    assert public(cluster.ClusterProcess) == public(cluster.AsyncClusterProcess) - public(Process)
