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

"""Command ``nova-powervm-status``: its checks, and what runs them.

Each check is a function with one result, and the table in :class:`Checks`
names them all.
"""

import importlib.metadata
import re
import sys
from collections import Counter
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Sequence
from typing import Any
from typing import Generic
from typing import TypeVar

import microversion_parse
from oslo_config import cfg
from oslo_upgradecheck import upgradecheck

from nova_powervm import exception
from nova_powervm.conf import powervm as options
from nova_powervm.devices import names
from nova_powervm.devices import policy as policies
from nova_powervm.inventory_file import load
from nova_powervm.tool import errors
from nova_powervm.tool import exit_codes
from nova_powervm.tool.inventory import config
from nova_powervm.tool.inventory import host_reader
from nova_powervm.tool.inventory import placement_client
from nova_powervm.tool.rules import flavor_lint
from nova_powervm.tool.rules import placement_tree

NAME = 'nova-powervm-status'
#: Newest microversion, which Placement has supported since 7.0 (Yoga).
PLACEMENT_API = '1.39'
#: First release that lets an allocation shrink on an overfull provider.
PLACEMENT_RELEASE = 14

_SHORT = re.compile(re.escape(names.PROVIDER_PREFIX) + '[0-9A-F]{8}')
_FILTER = 'PowerVMDeviceOrderFilter'
#: Details of checks that need another configuration.
NO_SCHEDULER = 'nova-scheduler has another configuration file'
_DATABASE = cfg.StrOpt('connection', secret=True)
# Of Nova, with its defaults
_FILTERS = (
    cfg.ListOpt('enabled_filters', default=[]),
    cfg.BoolOpt('shuffle_best_same_weighed_hosts', default=False),
    cfg.IntOpt('host_subset_size', default=1),
)
_WAIT = cfg.BoolOpt('live_migration_wait_for_vif_plug', default=False)
_LIMIT = cfg.IntOpt('max_placement_results', default=1000)
# Compute nodes from which on it matters that schedulers choose different ones.
_MANY_NODES = 10

Result = upgradecheck.Result
Code = upgradecheck.Code


def success(details: str | None = None) -> Result:
    """Create the result of a check that passed."""
    return Result(Code.SUCCESS, details)


def warning(details: str) -> Result:
    """Create the result of a check with something to look into."""
    return Result(Code.WARNING, details)


def failure(details: object) -> Result:
    """Create the result of a check with a problem to correct."""
    return Result(Code.FAILURE, str(details))


def check_inventory_file(policy: policies.Policy) -> Result:
    """Check that a valid file offers at least one device."""
    if not policy.resource_classes:
        return warning(
            f'{policy.source}: no device is offered. '
            '"nova-powervm-inventory generate" creates a first file.'
        )
    return success(f'{len(policy.paragraphs)} paragraph(s) in {policy.source}')


def check_slot_ownership(host: host_reader.HostReading) -> Result:
    """Check that the host reports the owners of slots."""
    if not host.derives_owners:
        return success()
    return warning(
        'The host lacks ioslot_owner_assignment_capable: the driver derives '
        "the owners of slots from the partitions' profiles, with two more "
        'requests in each cycle, and misses slots of a partition without a '
        'profile. Update NovaLink and the firmware if possible.'
    )


def check_placement_release(
    newest: str, policy: policies.Policy | None
) -> Result:
    """Check that Placement is new enough for burned devices.

    Placement does not report its release, and 7.0 to 16.0 have the same newest
    microversion. The package installed with this command may tell.

    :param newest: Newest microversion of Placement.
    :param policy: The inventory file; None if it can't be read.
    """
    parse = microversion_parse.parse_version_string
    if parse(newest) < parse(PLACEMENT_API):
        return failure(
            f'Placement supports microversions up to {newest} only, so it is '
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
        'burned devices. Check it on the host of Placement with "pip show '
        'openstack-placement"'
    )
    if policy is None:
        return success(
            f'Placement answers; {advice}. Whether that matters here is not '
            'known before the inventory file can be read.'
        )
    if any(p.one_time_use for p in policy.paragraphs):
        return warning(f'One-time-use devices are configured, but {advice}.')
    return success(f'Placement answers; {advice}.')


def check_provider_names(there: Collection[str], style: str) -> Result:
    """Check that provider names can't collide between hosts.

    :param style: ``[powervm]provider_names``.
    """
    short = sorted(name for name in there if _SHORT.fullmatch(name))
    if short:
        more = f' and {len(short) - 3} more' if len(short) > 3 else ''
        return warning(
            f'{len(short)} provider(s) have the short names of the '
            f'specification: {", ".join(short[:3])}{more}. They work, but a '
            'second host with the same DRC index cannot use the name. In a '
            'cloud of several hosts, set [powervm]provider_names = node and '
            'delete the providers while they are free.'
        )
    if style == 'spec':
        return warning(
            '[powervm]provider_names = spec creates names that are unique '
            'only in a cloud of one host. Set it to node.'
        )
    return success()


def check_candidate_limits(tree: placement_tree.Tree) -> Result:
    """Check whether Placement has to be configured for many equal devices.

    Its API does not report these options.
    """
    counts = Counter(rc for p in tree.slot_providers for rc in p.inventory)
    many = {rc: n for rc, n in counts.items() if n >= flavor_lint.MANY_DEVICES}
    if not many:
        return success()
    where = ', '.join(f'{n} {rc}' for rc, n in sorted(many.items()))
    return warning(
        f'{where} on one host: for a flavor with several of them, Placement '
        'builds very many candidates, which takes minutes and gigabytes. '
        'This command sees neither placement.conf nor the number of hosts. '
        f'Check that there is {flavor_lint.describe_options(0)}.'
    )


def check_live_migrations(conf: cfg.ConfigOpts) -> Result:
    """Check that Nova does not wait for what never comes.

    The driver changes the default of the option.
    """
    conf.register_opts([_WAIT], group='compute')
    if not conf.compute.live_migration_wait_for_vif_plug:
        return success()
    return warning(
        '[compute]live_migration_wait_for_vif_plug is true: each live '
        'migration fails after [DEFAULT]vif_plugging_timeout. Remove it.'
    )


def sees_scheduler(conf: cfg.ConfigOpts) -> bool:
    """Return whether a configuration of Nova is that of nova-scheduler, too.

    :param conf: What this command has read. If it has the API database, it is
        that of nova-scheduler; the file of a compute node has none.
    """
    conf.register_opts([_DATABASE], group='api_database')
    return bool(conf.api_database.connection)


def check_scheduler_filter(conf: cfg.ConfigOpts) -> Result:
    """Check that servers at the same time get different devices.

    :param conf: See :func:`sees_scheduler`.
    """
    if not sees_scheduler(conf):
        return success(NO_SCHEDULER)
    conf.register_opts(_FILTERS, group='filter_scheduler')
    if _FILTER in conf.filter_scheduler.enabled_filters:
        return success()
    return warning(
        f'[filter_scheduler]enabled_filters lacks {_FILTER}: of several '
        'servers with devices that are created at the same time, all but one '
        'may fail with "No valid host was found" although devices are free. '
        'Add it at the end of the list, and set available_filters = '
        'nova_powervm.scheduler.filters.all_filters.'
    )


def check_scheduler_options(conf: cfg.ConfigOpts, nodes: int) -> Result:
    """Check that nova-scheduler sees all hosts, and chooses different ones.

    :param conf: The configuration of nova-scheduler.
    :param nodes: Number of compute nodes in the cloud.
    """
    conf.register_opts(_FILTERS, group='filter_scheduler')
    conf.register_opts([_LIMIT], group='scheduler')
    filters = conf.filter_scheduler
    limit = conf.scheduler.max_placement_results
    wanted = flavor_lint.describe_options(nodes)
    problems = []
    if limit < flavor_lint.FEWEST_OF_HOST * nodes:
        problems.append(
            f'[scheduler]max_placement_results = {limit} is less than '
            f'{flavor_lint.FEWEST_OF_HOST} for each of {nodes} compute nodes: '
            'some hosts are missing in the answers of Placement, or offer one '
            f'device each. If all have devices, set {wanted}.'
        )
    if (
        nodes >= _MANY_NODES
        and not filters.shuffle_best_same_weighed_hosts
        and filters.host_subset_size == 1
    ):
        problems.append(
            f'{nodes} compute nodes, and servers at the same time try them in '
            'the same order: set [filter_scheduler]'
            'shuffle_best_same_weighed_hosts = true.'
        )
    if problems:
        return warning(' '.join(problems))
    return success(
        f'Compute nodes: {nodes}. placement.conf is not visible here. If all '
        f'have devices, there should be {wanted}.'
    )


_T = TypeVar('_T')


class _Once(Generic[_T]):
    """A property that is read once, even if that raises an error."""

    def __init__(self, read: Callable[['Checks'], _T]) -> None:
        self._read = read

    def __get__(self, checks: 'Checks', _: type['Checks']) -> _T:
        """Return the value, or raise the error."""
        if self not in checks.known:
            try:
                checks.known[self] = self._read(checks)
            except errors.EXPECTED as error:
                checks.known[self] = error
        value: _T | Exception = checks.known[self]
        if isinstance(value, Exception):
            raise value
        return value


def _check(
    name: str, judge: Callable[['Checks'], Result]
) -> tuple[str, Callable[['Checks'], Result]]:
    """Return a check that reports an expected error as its result."""

    def run(checks: 'Checks') -> Result:
        try:
            return judge(checks)
        except errors.EXPECTED as error:
            first = checks.reported.setdefault(str(error), name)
            if first == name:
                return failure(error)
            return warning(
                f'Not checked: see the result of the check "{first}".'
            )

    return name, run


class Checks(upgradecheck.UpgradeCommands):
    """Checks that a host and its cloud are ready for this version.

    An error is reported by one check only. Other checks that depend on the
    same data are warnings that name this check.

    :param conf: The configuration, which is read after this call.
    """

    display_title = 'nova-powervm Upgrade Check Results'

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self.config = config.Config(conf, ())
        self.known: dict[object, Any] = {}
        #: Text of an error to the check that reports it.
        self.reported: dict[str, str] = {}

    @_Once
    def settings(self) -> options.Settings:
        """The ``[powervm]`` options."""
        return self.config.settings

    @_Once
    def policy(self) -> policies.Policy:
        """The content of the inventory file."""
        return load(self.config.inventory_file)

    @_Once
    def host(self) -> host_reader.HostReading:
        """A reading of the host, which is not waited for."""
        server, how = self.settings.server, '[powervm]rest_read_timeout'
        with host_reader.announce_wait(server, NAME, sys.stderr, how):
            return host_reader.read_server(server)

    @_Once
    def placement(self) -> placement_client.PlacementClient:
        """The client of Placement."""
        return placement_client.connect_placement(self.config.conf)

    @_Once
    def tree(self) -> placement_tree.Tree | None:
        """The providers of the compute node; None before there are any."""
        try:
            return self.placement.tree(self.config.nodename)
        except errors.NodeUnknown:
            return None

    def _options(self) -> Result:
        _ = self.settings
        return success()

    def _rest(self) -> Result:
        slots = len(self.host.system.io_slots)
        return success(
            f'{slots} slots at {self.host.source}. "nova-powervm-check" tells '
            'whether this host is as the driver assumes.'
        )

    def _release(self) -> Result:
        # Anybody can read the versions.
        _ = self.tree
        newest = self.placement.max_microversion()
        try:
            return check_placement_release(newest, self.policy)
        except errors.EXPECTED:
            return check_placement_release(newest, None)

    def _names(self) -> Result:
        providers = self.tree.slot_providers if self.tree else ()
        return check_provider_names(
            [provider.name for provider in providers],
            self.settings.provider_names,
        )

    def _candidates(self) -> Result:
        if self.tree is None:
            return success(
                f"Placement has no provider '{self.config.nodename}' yet. Run "
                'this command again after nova-compute has started.'
            )
        return check_candidate_limits(self.tree)

    def _scheduler_options(self) -> Result:
        conf = self.config.conf
        if not sees_scheduler(conf):
            return success(NO_SCHEDULER)
        return check_scheduler_options(conf, self.placement.count_nodes())

    _upgrade_checks: tuple[Any, ...] = (
        _check('Options', _options),
        _check('Inventory file', lambda c: check_inventory_file(c.policy)),
        _check('PowerVM REST API', _rest),
        _check('Owners of slots', lambda c: check_slot_ownership(c.host)),
        _check('Placement', _release),
        _check('Names of providers', _names),
        _check('Candidates for many devices', _candidates),
        _check(
            'Several servers at once',
            lambda c: check_scheduler_filter(c.config.conf),
        ),
        _check('Schedulers of a large cloud', _scheduler_options),
        _check(
            'Live migrations',
            lambda c: check_live_migrations(c.config.conf),
        ),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command ``nova-powervm-status``.

    :param argv: The arguments; those of the process by default.
    :returns: The exit code.
    """
    conf = config.declare_options()
    upgradecheck.register_cli_options(conf, Checks(conf))
    try:
        config.parse_config(
            conf,
            list(sys.argv[1:] if argv is None else argv),
            config.default_files(),
            config.default_dirs(),
            prog=NAME,
            version=config.describe_version(NAME),
        )
    except (cfg.Error, exception.ConfigurationError) as error:
        print(f'{NAME}: {error}', file=sys.stderr)
        return exit_codes.UNCHECKED
    # The library reads --json from here. Its main() has no --version.
    upgradecheck.CONF = conf
    return int(upgradecheck.run(conf))
