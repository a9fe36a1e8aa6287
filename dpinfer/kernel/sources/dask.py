"""Dask DataFrames: a task of the same graph maps each partition, whatever scheduler runs it."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

import cloudpickle
import numpy as np
import pandas as pd
from dask._task_spec import DataNode, GraphNode, List, Task, TaskRef, convert_legacy_graph
from dask.base import get_scheduler
from dask.core import flatten

from dpinfer.kernel.sources.engine import EngineSource, GroupedPeople, Result, clean_call, joined, task_result, version
from dpinfer.kernel.sources.frames import refuse_repeated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from dpinfer.kernel.sources.base import Pass

    Graph = dict[Any, GraphNode]

__all__ = ["DaskSource"]

T = TypeVar("T")

_JOINED = 16
"""Results that one task puts together."""

_IN_HAND = 16
"""Partitions whose pieces wait to be taken, where these cannot be joined."""


class DaskSource(EngineSource):
    """A Dask DataFrame, mapped by the scheduler that Dask would use for it."""

    engine = "Dask"

    def __init__(self, frame: Any) -> None:
        super().__init__()
        refuse_repeated([str(label) for label in frame.columns])
        self._frame = frame
        self._labels = {str(label): label for label in frame.columns}
        self.columns = tuple(self._labels)

    @property
    def types(self) -> Mapping[str, object]:
        """The dtypes."""
        return dict(zip(self.columns, self._frame.dtypes, strict=True))

    def results(self, one: Pass[T], packed: bytes) -> tuple[int, Iterator[Result[T]]]:
        """Do a pass: joined in the graph to one result where pieces can be joined, else some partitions at a time."""
        chosen = self._frame[[self._labels[name] for name in self.sent(one)]].optimize()
        graph = {key: _clean(node) for key, node in convert_legacy_graph(dict(chosen.__dask_graph__())).items()}
        token = f"dpinfer-{uuid4().hex}"  # a result that Dask keeps of an earlier pass is not this pass's
        graph[token] = DataNode(token, packed)
        keys = []
        for number, key in enumerate(flatten(chosen.__dask_keys__())):
            keys.append((token, 0, number))
            graph[keys[-1]] = Task(keys[-1], _mapped, TaskRef(token), number, TaskRef(key))
        groups = _groups(graph, keys, {token}) if one.join is None else [_tree(graph, token, keys)]
        return len(keys), self._found(graph, groups)

    @contextmanager
    def grouped(self, people: GroupedPeople) -> Iterator[EngineSource]:
        """Shuffle the rows by bucket, anew in every pass: nothing of them stays on the workers."""
        labels = [self._labels[name] for name in people.read]
        meta = pd.DataFrame({name: np.zeros(0, dtype=kind) for name, kind in _kinds(people).items()})
        packed = cloudpickle.dumps(people)
        emitted = self._frame[labels].map_partitions(_emitted, packed, meta=meta, enforce_metadata=False)
        yield DaskSource(emitted.shuffle(on="bucket", shuffle_method="tasks"))

    def _found(self, graph: Graph, groups: Sequence[Sequence[Any]]) -> Iterator[Result[Any]]:
        for keys in groups:
            yield from self._get(_needed(graph, keys), list(keys))

    @property
    def _get(self) -> Callable[..., Any]:
        get: Callable[..., Any] = get_scheduler(collections=[self._frame])
        return get

    def versions(self) -> Sequence[Any]:
        """Ask every worker; threads of this process need not be asked."""
        client: Any = getattr(self._get, "__self__", None)
        return list(client.run(version).values()) if hasattr(client, "run") else []


def _mapped(packed: bytes, number: int, partition: Any) -> Result[Any]:
    return clean_call(task_result, packed, number, [partition])


def _kinds(people: GroupedPeople) -> dict[str, str]:
    kinds = ("int32", "int64", "int64", *("float64" for _ in people.columns))
    return dict(zip(people.names, kinds, strict=True))


def _emitted(partition: pd.DataFrame, packed: bytes) -> pd.DataFrame:
    people: GroupedPeople = cloudpickle.loads(packed)
    named = partition.set_axis(people.read, axis=1)
    kinds = _kinds(people)
    none = [tuple(np.zeros(0, dtype=kind) for kind in kinds.values())]
    columns = zip(*none, *people.emitted([named]), strict=True)
    return pd.DataFrame({name: np.concatenate(parts) for name, parts in zip(kinds, columns, strict=True)})


def _joined(packed: bytes, results: Sequence[Result[Any]]) -> Result[Any]:
    return clean_call(joined, packed, results)


def _clean(node: GraphNode) -> GraphNode:
    """Return a task that does the same and fails without saying why, for Dask logs what is said.

    Tasks that Dask knows by their type are left alone.
    """
    if type(node) is not Task:
        return node
    call = partial(clean_call, node.func)
    return Task(node.key, call, *node.args, _data_producer=node.data_producer, **node.kwargs)


def _tree(graph: Graph, token: str, keys: Sequence[Any]) -> list[Any]:
    """Add tasks that join results, some at a time, until one is left."""
    level = 0
    while len(keys) > 1:
        level += 1
        above = []
        for place in range(0, len(keys), _JOINED):
            above.append((token, level, place))
            parts = List(*map(TaskRef, keys[place : place + _JOINED]))
            graph[above[-1]] = Task(above[-1], _joined, TaskRef(token), parts)
        keys = above
    return list(keys)


def _needed(graph: Graph, keys: Sequence[Any]) -> Graph:
    """Return the part of a graph that some keys need."""
    found: Graph = {}
    waiting = list(keys)
    while waiting:
        key = waiting.pop()
        if key not in found and key in graph:  # what was persisted is no part of a graph
            found[key] = graph[key]
            waiting.extend(graph[key].dependencies)
    return found


def _groups(graph: Graph, keys: Sequence[Any], shared: set[Any]) -> list[Sequence[Any]]:
    """Cut keys into groups that are computed one after the other; all at once where they have tasks in common."""
    groups = [keys[place : place + _IN_HAND] for place in range(0, len(keys), _IN_HAND)]
    seen: set[Any] = set()
    for group in groups:
        mine = {key for key, node in _needed(graph, group).items() if not isinstance(node, DataNode)} - shared
        if not seen.isdisjoint(mine):
            return [keys]
        seen |= mine
    return groups
