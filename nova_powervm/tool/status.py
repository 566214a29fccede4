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

"""Command ``nova-powervm-status``."""

import sys
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any
from typing import Generic
from typing import TypeVar

from oslo_config import cfg
from oslo_upgradecheck import upgradecheck

from nova_powervm import exception
from nova_powervm.conf import powervm as options
from nova_powervm.inventory_file import load
from nova_powervm.tool import upgrade_checks as rules
from nova_powervm.tool.inventory import config
from nova_powervm.tool.inventory import host_reader
from nova_powervm.tool.inventory import placement_client
from nova_powervm.tool.rules import placement_tree

NAME = 'nova-powervm-status'
#: Exit code if the checks could not be run.
UNEXPECTED = 255

_T = TypeVar('_T')


class _Once(Generic[_T]):
    """A property that is read once, even if that raises an error.

    :param read: Reads the value for the checks.
    """

    def __init__(self, read: Callable[['Checks'], _T]) -> None:
        self._read = read

    def __get__(self, checks: 'Checks', _: type['Checks']) -> _T:
        """Return the value, or raise the error."""
        if self not in checks.known:
            try:
                checks.known[self] = self._read(checks)
            except rules.EXPECTED as error:
                checks.known[self] = error
        value: _T | Exception = checks.known[self]
        if isinstance(value, Exception):
            raise value
        return value


def _check(
    name: str, judge: Callable[['Checks'], upgradecheck.Result]
) -> tuple[str, Callable[['Checks'], upgradecheck.Result]]:
    """Return a check that reports an expected error as its result."""

    def run(checks: 'Checks') -> upgradecheck.Result:
        try:
            return judge(checks)
        except rules.EXPECTED as error:
            first = checks.reported.setdefault(str(error), name)
            if first == name:
                return rules.failure(error)
            return rules.warning(
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

    settings = _Once[options.Settings](lambda self: self.config.settings)
    policy = _Once(lambda self: load(self.config.inventory_file))
    host = _Once[host_reader.HostReading](
        lambda self: rules.read_host(self.settings.server)
    )
    placement = _Once[placement_client.PlacementClient](
        lambda self: placement_client.connect_placement(self.config.conf)
    )
    tree = _Once[placement_tree.Tree | None](
        lambda self: rules.read_tree(self.placement, self.config.nodename)
    )

    def _options(self) -> upgradecheck.Result:
        _ = self.settings
        return rules.success()

    def _rest(self) -> upgradecheck.Result:
        slots = len(self.host.system.io_slots)
        return rules.success(f'{slots} slots at {self.host.source}')

    def _release(self) -> upgradecheck.Result:
        # Anybody can read the versions.
        _ = self.tree
        newest = self.placement.max_microversion()
        try:
            return rules.check_placement_release(newest, self.policy)
        except rules.EXPECTED:
            return rules.check_placement_release(newest, None)

    def _names(self) -> upgradecheck.Result:
        found = self.tree.slot_providers if self.tree else ()
        return rules.check_provider_names(
            [provider.name for provider in found],
            self.settings.provider_names,
        )

    def _candidates(self) -> upgradecheck.Result:
        if self.tree is None:
            return rules.success(
                f"Placement has no provider '{self.config.nodename}' yet. Run "
                'this command again after nova-compute has started.'
            )
        return rules.check_candidate_limits(self.tree)

    def _scheduler_options(self) -> upgradecheck.Result:
        conf = self.config.conf
        if not rules.sees_scheduler(conf):
            return rules.success(rules.NO_SCHEDULER)
        return rules.check_scheduler_options(
            conf, self.placement.count_nodes()
        )

    _upgrade_checks: tuple[Any, ...] = (
        _check('Options', _options),
        _check(
            'Inventory file', lambda c: rules.check_inventory_file(c.policy)
        ),
        _check('PowerVM REST API', _rest),
        _check(
            'Owners of slots', lambda c: rules.check_slot_ownership(c.host)
        ),
        _check('Placement', _release),
        _check('Names of providers', _names),
        _check('Candidates for many devices', _candidates),
        _check(
            'Several servers at once',
            lambda c: rules.check_scheduler_filter(c.config.conf),
        ),
        _check('Schedulers of a large cloud', _scheduler_options),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command ``nova-powervm-status``.

    :param argv: The arguments; those of the process by default.
    :returns: 0 if all checks passed, 1 for warnings, 2 for failures, 255 if
        the checks could not be run.
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
        return UNEXPECTED
    # The library reads --json from here. Its main() has no --version.
    upgradecheck.CONF = conf
    return int(upgradecheck.run(conf))
