# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Metrics of a host in Prometheus' text format."""

import collections
import os
import tempfile
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import TypeAlias

import prometheus_client
from prometheus_client import metrics_core
from prometheus_client import registry

from nova_powervm.devices import matching
from nova_powervm.devices import names
from nova_powervm.devices import plan as plans

Metric: TypeAlias = metrics_core.Metric
#: Resource class, paragraph, state and reason.
Labels: TypeAlias = tuple[str, str, str, str]

SLOT_LABELS = ('host', 'resource_class', 'paragraph', 'state', 'reason')
#: Further reasons, beside the codes of verdicts and of quarantines.
GONE, RESERVED, DUPLICATE = 'gone', 'reserved', 'duplicate'

# Whoever scrapes the file is another user.
_MODE = 0o644


class _Families(registry.Collector):
    """Metrics whose values are known already."""

    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        """Return the metrics."""
        return self._families


def format_text(families: Sequence[Metric]) -> str:
    """Return metrics as text."""
    return prometheus_client.generate_latest(_Families(families)).decode()


def write(path: str, families: Sequence[Metric]) -> None:
    """Write metrics into a file that everybody can read.

    A reader finds the old file or the new file, whole. The new file is written
    under a name that nobody can foresee: the user who scrapes may own the
    directory, and put a link there.

    :raises OSError: The file can't be written; the old file is still there.
    """
    try:
        _replace(path, format_text(families))
    except OSError as error:
        # The operator did not choose the temporary name.
        raise OSError(error.errno, error.strerror, path) from error


def _replace(path: str, text: str) -> None:
    # The textfile collector of the node exporter reads *.prom only.
    descriptor, new = tempfile.mkstemp(
        prefix=os.path.basename(path), dir=os.path.dirname(path) or '.'
    )
    try:
        with open(descriptor, 'w', encoding='utf-8') as stream:
            os.fchmod(descriptor, _MODE)
            stream.write(text)
        os.replace(new, path)
    except OSError:
        os.unlink(new)
        raise


def make_family(
    name: str,
    help_text: str,
    values: Mapping[tuple[str, ...], float],
    labels: Sequence[str] = ('host',),
) -> Metric:
    """Return a gauge.

    :param values: Values of the labels to the value of the metric.
    """
    family = metrics_core.GaugeMetricFamily(name, help_text, labels=labels)
    for label_values, value in values.items():
        family.add_metric(label_values, value)
    return family


def make_slot_family(
    name: str, host: str, counts: Mapping[Labels, int]
) -> Metric:
    """Return the gauge of the slots of a host in each state."""
    return make_family(
        name,
        'Physical I/O slots of the host by what they are to an operator',
        {(host, *labels): count for labels, count in counts.items()},
        SLOT_LABELS,
    )


def make_burned_family(
    name: str, host: str, counts: Mapping[str, int]
) -> Metric:
    """Return the gauge of the devices that wait for cleaning.

    :param counts: The project that burned devices, to their number.
    """
    return make_family(
        name,
        'One-time-use devices that wait for cleaning, by the project that '
        'burned them',
        {(host, project): count for project, count in counts.items()},
        ('host', 'project'),
    )


def count_slots(
    plan: plans.Plan, allocated: Collection[str] = ()
) -> Mapping[Labels, int]:
    """Count the slots of a host, each once, and providers of missing slots.

    :param plan: The plan.
    :param allocated: Uuids of the providers that are allocated, as far as they
        are known.
    """
    kept = {
        entry.drc_index: entry
        for entry in plan.entries
        if entry.action is not plans.Action.DELETE
    }
    counts: collections.Counter[Labels] = collections.Counter()
    for verdict in plan.verdicts:
        entry = kept.pop(verdict.slot.drc_index, None)
        counts[_labels(entry, verdict, allocated)] += 1
    for entry in kept.values():
        counts[_labels(entry, None, allocated)] += 1
    return counts


def _labels(
    entry: plans.Entry | None,
    verdict: matching.Verdict | None,
    allocated: Collection[str],
) -> Labels:
    paragraphs = verdict.paragraphs if verdict else ()
    paragraph = paragraphs[0].name if paragraphs else ''
    if entry is None:
        code = verdict.reason.code if verdict and verdict.reason else ''
        return '', paragraph, plans.State.FOREIGN, code
    state = entry.state
    may_be_allocated = state in (plans.State.OFFERED, plans.State.BURNED)
    if may_be_allocated and entry.uuid in allocated:
        state = plans.State.ALLOCATED
    classes = ','.join(entry.resource_classes)
    return classes, paragraph, state, _reason(entry, verdict)


def _reason(entry: plans.Entry, verdict: matching.Verdict | None) -> str:
    """Return the code of the reason why a device is not offered."""
    if entry.state is plans.State.QUARANTINED:
        codes = names.quarantine_codes(entry.traits)
        # An alert of its own watches for replaced cards.
        return names.REPLACED if names.REPLACED in codes else ','.join(codes)
    if verdict is None:
        return GONE
    if verdict.reason:
        return verdict.reason.code
    if entry.state is not plans.State.WITHDRAWN:
        return ''
    return DUPLICATE if entry.action is plans.Action.WITHDRAW else RESERVED
