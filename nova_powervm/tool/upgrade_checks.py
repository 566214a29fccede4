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

"""The checks of ``nova-powervm-status``, each a function to one result."""

import dataclasses
import importlib.metadata
import re
import sys
from collections import Counter
from collections.abc import Collection

import microversion_parse
from oslo_config import cfg
from oslo_upgradecheck import upgradecheck

from nova_powervm import exception
from nova_powervm.conf import powervm as options
from nova_powervm.devices import names
from nova_powervm.devices import policy as policies
from nova_powervm.powervm import session
from nova_powervm.powervm import system
from nova_powervm.tool import wait_notice
from nova_powervm.tool.inventory import config
from nova_powervm.tool.inventory import placement_client
from nova_powervm.tool.rules import placement_cost
from nova_powervm.tool.rules import placement_tree

#: The newest microversion, which Placement has had since 7.0 (Yoga).
PLACEMENT_API = '1.39'
#: Takes changes of allocations that make an overfull provider less full.
PLACEMENT_RELEASE = 14
#: Nova's own gate for OWNER_NOVA in what its scheduler asks for.
OWNER_VERSION = 73

_SHORT = re.compile(re.escape(names.PROVIDER_PREFIX) + '[0-9A-F]{8}')
_CANDIDATE_OPTIONS = {
    'placement': [
        cfg.IntOpt('max_allocation_candidates', default=-1),
        cfg.StrOpt(
            'allocation_candidates_generation_strategy', default='depth-first'
        ),
    ],
    'workarounds': [
        cfg.BoolOpt('optimize_for_wide_provider_trees', default=False)
    ],
}

Result = upgradecheck.Result
Code = upgradecheck.Code


def success(details: str | None = None) -> Result:
    """Make the result of a check that found nothing."""
    return Result(Code.SUCCESS, details)


def warning(details: str) -> Result:
    """Make the result of a check that found something to look at."""
    return Result(Code.WARNING, details)


def failure(details: object) -> Result:
    """Make the result of a check that found what has to be mended."""
    return Result(Code.FAILURE, str(details))


class NotChecked(Exception):
    """What a check needs could not be read.

    :param check: The check that says why.
    """

    def __init__(self, check: str) -> None:
        super().__init__(
            f'Not checked: see the result of the check "{check}".'
        )


def check_inventory_file(policy: policies.Policy) -> Result:
    """Say whether the file offers anything; that it is good is known."""
    if not policy.resource_classes:
        return warning(
            f'{policy.source}: no device is offered. '
            '"nova-powervm-inventory generate" writes a file to begin with.'
        )
    return success(f'{len(policy.paragraphs)} paragraph(s) in {policy.source}')


@dataclasses.dataclass(frozen=True, slots=True)
class HostSummary:
    """What one look at the host told.

    :param slots: Number of its slots.
    :param server: Who was asked.
    :param reports_owners: Whether it tells who owns a slot.
    """

    slots: int
    server: str
    reports_owners: bool


def read_host(server: options.Server) -> HostSummary:
    """Log on to the host and read it once.

    :param server: The PowerVM REST server, which is tried once.
    :raises exception.PowerVMError: It can't be read.
    """
    server = dataclasses.replace(server, connect_timeout=0)
    with wait_notice.announce_wait(
        server,
        'nova-powervm-status',
        sys.stderr,
        '[powervm]rest_read_timeout',
    ):
        adapter = session.connect(server)
        try:
            managed = system.RestSystem(adapter, server)
            slots = len(managed.read().io_slots)
            return HostSummary(slots, str(server), managed.reports_owners)
        finally:
            adapter.session.close()


def check_slot_ownership(host: HostSummary) -> Result:
    """Say whether the host itself tells who owns its slots."""
    if host.reports_owners:
        return success()
    return warning(
        'The host lacks ioslot_owner_assignment_capable: owners of slots are '
        "worked out from the partitions' profiles, with two more requests in "
        'each cycle, and a partition without a profile hides what it owns. '
        'Update NovaLink and the firmware if you can.'
    )


@dataclasses.dataclass(frozen=True, slots=True)
class PlacementSummary:
    """What the first requests to Placement told.

    :param client: Asks further.
    :param max_microversion: The newest that it knows.
    :param slot_providers: Names of all slot providers of the cloud.
    """

    client: placement_client.PlacementClient
    max_microversion: str
    slot_providers: tuple[str, ...]


def read_placement(
    client: placement_client.PlacementClient,
) -> PlacementSummary:
    """Ask Placement for its versions, and as a user for providers.

    The versions alone would be told to anybody.

    :raises exception.PowerVMError: It can't be asked.
    """
    return PlacementSummary(
        client,
        client.max_microversion(),
        client.named(names.PROVIDER_PREFIX),
    )


def check_placement_release(
    newest: str, policy: policies.Policy | None
) -> Result:
    """Say whether Placement is new enough for burned devices.

    The release can't be asked for: 7.0 to 16.0 all have the same newest
    microversion. What is installed beside this command may tell.

    :param newest: Its newest microversion.
    :param policy: The inventory file; None if it can't be read.
    """
    parse = microversion_parse.parse_version_string
    if parse(newest) < parse(PLACEMENT_API):
        return failure(
            f'Placement knows microversions up to {newest} only, so it is '
            f'older than {PLACEMENT_RELEASE}.0 (2025.2). Upgrade it first.'
        )
    try:
        installed = importlib.metadata.version('openstack-placement')
    except importlib.metadata.PackageNotFoundError:
        installed = ''
    if installed and int(installed.split('.')[0]) >= PLACEMENT_RELEASE:
        return success(f'openstack-placement {installed} is installed here')
    advice = (
        f'its API ({newest}) does not tell the release, which has to be '
        f'{PLACEMENT_RELEASE}.0 (2025.2) or later to move instances with '
        'devices that are kept back. Look on its host: '
        'pip show openstack-placement'
    )
    if policy is None:
        return success(
            f'Placement answers; {advice}. Whether that matters here is not '
            'known before the inventory file can be read.'
        )
    if any(p.one_time_use for p in policy.paragraphs):
        return warning(f'One-time-use devices are configured, but {advice}.')
    return success(f'Placement answers; {advice}.')


def check_compute_versions(lowest: int) -> Result:
    """Say whether Nova's scheduler asks for OWNER_NOVA by itself.

    :param lowest: Lowest version of a nova-compute service; 0 for none.
    """
    if lowest >= OWNER_VERSION:
        return success(f'the lowest nova-compute service version is {lowest}')
    if not lowest:
        return success('no nova-compute service has started yet')
    return warning(
        f'The lowest nova-compute service version is {lowest}; below '
        f'{OWNER_VERSION} the scheduler does not ask for OWNER_NOVA. Upgrade '
        'all nova-compute services.'
    )


def check_provider_names(found: Collection[str], style: str) -> Result:
    """Say whether names of providers can collide between hosts.

    :param found: Names of all slot providers of the cloud.
    :param style: ``[powervm]provider_names``.
    """
    short = sorted(name for name in found if _SHORT.fullmatch(name))
    if short:
        more = f' and {len(short) - 3} more' if len(short) > 3 else ''
        return warning(
            f'{len(short)} provider(s) have the short names of the '
            f'specification: {", ".join(short[:3])}{more}. They work, but a '
            'second host with such a slot can not have the same name. In a '
            'cloud of several hosts delete them while they are free, with '
            '[powervm]provider_names = node.'
        )
    if style == 'spec':
        return warning(
            '[powervm]provider_names = spec makes names that are unique in '
            'a cloud of one host only. Set it to node.'
        )
    return success()


def check_candidate_limits(
    tree: placement_tree.Tree, files: Collection[str]
) -> Result:
    """Say whether Placement is set up for many equal devices.

    :param tree: What Placement holds of this node.
    :param files: placement.conf, if it can be read here.
    """
    counts = Counter(rc for o in tree.slot_providers for rc in o.inventory)
    many = {
        rc: n for rc, n in counts.items() if n >= placement_cost.MANY_DEVICES
    }
    if not many:
        return success()
    where = ', '.join(f'{n} {rc}' for rc, n in sorted(many.items()))
    advice = (
        f'{where} on one host: flavors with several of them make very many '
        'candidates, which cost Placement minutes and gigabytes. Set in '
        f'placement.conf {placement_cost.PLACEMENT_OPTIONS}'
    )
    if not files:
        return warning(
            f"{advice}; Placement's API does not tell them and the file can "
            'not be read here, so look.'
        )
    missing = _not_set(files)
    if not missing:
        return success()
    return warning(f'{advice}. In {", ".join(files)}: {"; ".join(missing)}.')


def _not_set(files: Collection[str]) -> list[str]:
    """Say what Placement's configuration lacks for many equal devices."""
    conf = cfg.ConfigOpts()
    for group, known in _CANDIDATE_OPTIONS.items():
        conf.register_opts(known, group=group)
    config.parse_config(conf, [], list(files))
    limit = conf.placement.max_allocation_candidates
    strategy = conf.placement.allocation_candidates_generation_strategy
    missing = []
    if limit <= 0:
        missing.append('max_allocation_candidates sets no limit')
    if strategy != 'breadth-first':
        missing.append(f'the strategy is {strategy}')
    if not conf.workarounds.optimize_for_wide_provider_trees:
        missing.append('optimize_for_wide_provider_trees is not set')
    return missing


#: What makes a check fail; anything else is an error of the program.
EXPECTED = (exception.PowerVMError, cfg.Error, OSError, ValueError)
