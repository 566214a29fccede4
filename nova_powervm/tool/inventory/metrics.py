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

"""Command ``metrics``."""

import argparse
import collections
import os
import time
from collections.abc import Iterator
from collections.abc import Mapping

from nova_powervm.ops import metrics
from nova_powervm.tool.inventory import base
from nova_powervm.tool.inventory import host_reader
from nova_powervm.tool.inventory import placement_client
from nova_powervm.tool.inventory import survey as surveys

_MIB, _GIB = 2**20, 2**30


class Metrics(base.Command):
    """Print metrics of the host and its devices for Prometheus.

    The host, the inventory file and Placement are read once. If one of them
    cannot be read, nothing is printed, and an existing file stays as it is:
    powervm_metrics_timestamp_seconds tells how old it is.

    A slot is counted once, in one of these states::

      offered      free for instances
      allocated    allocated, but no LPAR owns it yet
      attached     an LPAR of an instance owns it
      burned       a one-time-use device that has to be cleaned and released
      withdrawn    not offered any more, but still allocated or reserved
      quarantined  taken out of use; the reason is that of "quarantine", or
                   REPLACED
      foreign      not offered; the reason says why

    Which projects burned the devices that wait for cleaning is read from
    Nova's records of servers, through [DEFAULT]transport_url in nova.conf; the
    project is "unknown" if they do not tell, or are not to be had.

    With --output, the file is replaced at once, and everybody can read it. The
    exit code is 0, or 1 if there are no metrics.
    """

    examples = """
        # Print the metrics
        nova-powervm-inventory metrics

        # Write them where the Prometheus node exporter reads them
        nova-powervm-inventory metrics \\
            --output /var/lib/prometheus/node-exporter/powervm.prom
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the options of this command."""
        parser = super().get_parser(prog_name)
        base.add_file_option(parser, 'file')
        parser.add_argument(
            '--output',
            metavar='FILE',
            help='replace this file, with mode 0644, instead of printing',
        )
        host_reader.add_live_host_options(parser)
        placement_client.add_node_option(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Print or write the metrics."""
        families = list(self._families(parsed_args))
        if parsed_args.output:
            metrics.write(parsed_args.output, families)
        else:
            self.app.stdout.write(metrics.format_text(families))
        return 0

    def _families(
        self, parsed_args: argparse.Namespace
    ) -> Iterator[metrics.Metric]:
        policy = base.load_inventory(self.app, parsed_args.file)
        reading = host_reader.read_host(
            self.app, parsed_args, with_lpars=True, with_disk=True
        )
        tree = surveys.read_tree(
            self.app, parsed_args, reading.system.io_slots
        )
        survey = surveys.make_survey(
            policy, reading, tree, tree.node, self.app.config.settings
        )
        allocated = {p.uuid for p in tree.below if p.consumers}
        yield metrics.make_slot_family(
            'powervm_slots',
            tree.node,
            metrics.count_slots(survey.plan, allocated),
        )
        yield metrics.make_burned_family(
            'powervm_burned_devices',
            tree.node,
            collections.Counter(self._projects(survey).values()),
        )
        path = parsed_args.file or self.app.config.inventory_file
        yield from _host_families(tree.node, survey, path)

    def _projects(self, survey: surveys.Survey) -> Mapping[str, str]:
        """Return the providers of devices that wait, and who burned them."""
        below = survey.tree.below if survey.tree else ()
        waiting = {each.uuid for each in below if each.needs_cleaning}
        return {
            uuid: project
            for uuid, project in surveys.read_projects(
                self.app, survey
            ).items()
            if uuid in waiting
        }


def _host_families(
    host: str, survey: surveys.Survey, path: str
) -> Iterator[metrics.Metric]:
    """Yield the metrics of all but the slots."""
    managed, disk = survey.reading.system, survey.reading.disk
    lpars = survey.reading.lpar_names or {}
    ours = set(lpars) & set(survey.tree.instance_lpars if survey.tree else ())
    by_kind: dict[str, tuple[str, dict[str, float]]] = {
        'powervm_lpars': (
            'LPARs of the host',
            {'instance': len(ours), 'other': len(lpars) - len(ours)},
        ),
        'powervm_memory_bytes': (
            'Memory of the host',
            {
                'total': managed.memory_mb * _MIB,
                'used': managed.memory_used_mb * _MIB,
            },
        ),
        'powervm_processor_units': (
            'Processing units of the host',
            {
                'total': managed.proc_units,
                'used': round(managed.proc_units - managed.proc_units_free, 2),
            },
        ),
    }
    if disk:
        by_kind['powervm_disk_bytes'] = (
            'Storage for the disks of instances; reserved is used by what '
            'Placement does not count',
            {
                'total': disk.total_gb * _GIB,
                'used': disk.used_gb * _GIB,
                'reserved': disk.reserved_gb * _GIB,
            },
        )
    for name, (text, values) in by_kind.items():
        yield metrics.make_family(
            name,
            text,
            {(host, kind): value for kind, value in values.items()},
            ('host', 'kind'),
        )
    if os.path.exists(path):
        yield metrics.make_family(
            'powervm_inventory_file_timestamp_seconds',
            'When the inventory file was changed',
            {(host,): os.path.getmtime(path)},
        )
    yield metrics.make_family(
        'powervm_metrics_timestamp_seconds',
        'When these metrics were read',
        {(host,): time.time()},
    )
